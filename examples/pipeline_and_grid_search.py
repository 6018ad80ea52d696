"""A step of a pipeline, its rank by cross-validation
==================================================

``DRNMF`` is a scikit-learn transformer: it goes into a pipeline, and ``GridSearchCV`` chooses its parameters by what
follows, here how well digits are told apart.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from drnmf import DRNMF

images, digits = load_digits(return_X_y=True)
images, digits = images[:300], digits[:300]

pipeline = make_pipeline(
    DRNMF(betas=(1, 2), init="nndsvdar", max_iter=50, tol=0, random_state=0),
    StandardScaler(),
    LogisticRegression(max_iter=500),
)
search = GridSearchCV(pipeline, {"drnmf__n_components": [4, 8, 16]}, cv=2)
search.fit(images, digits)

for rank, score in zip((4, 8, 16), search.cv_results_["mean_test_score"], strict=True):
    print(f"{rank:3d} components: {100 * score:.1f} % of held-out digits right")

# %%
# The components of the best rank, as images: strokes of digits.

model = search.best_estimator_["drnmf"]
figure, axes = plt.subplots(2, 8, figsize=(6.5, 1.9), layout="constrained")
for axis, component in zip(axes.flat, model.components_, strict=False):
    axis.imshow(component.reshape(8, 8), cmap="gray_r")
for axis in axes.flat:
    axis.set_axis_off()
plt.show()
