"""Parts of digits
===============

The best-known picture of NMF: images as sums of parts. Here they are under noise of two kinds at once, Poisson
and Gaussian, so that no single loss is the right one.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from drnmf import DRNMF, BetaNMF

clean = load_digits().data[:400] / 16
rng = np.random.default_rng(0)
noisy = rng.poisson(20 * clean) / 20 + np.abs(0.15 * rng.normal(size=clean.shape)) + 1e-3

# %%
# How far is each model from the clean images, which it never saw?

models = {
    "KL": BetaNMF(12, beta=1, max_iter=150, tol=0, random_state=0),
    "Frobenius": BetaNMF(12, beta=2, max_iter=150, tol=0, random_state=0),
    "DR-NMF": DRNMF(12, betas=(1, 2), max_iter=150, tol=0, random_state=0),
}
for name, model in models.items():
    V = model.fit_transform(noisy) @ model.components_
    print(f"{name:>10}: distance to the clean images {np.linalg.norm(V - clean) / np.linalg.norm(clean):.3f}")

# %%

figure, axes = plt.subplots(3, 12, figsize=(8, 2.4), layout="constrained")
for row, (name, model) in zip(axes, models.items(), strict=True):
    for axis, component in zip(row, model.components_, strict=True):
        axis.imshow(component.reshape(8, 8), cmap="gray_r")
        axis.set(xticks=[], yticks=[])
    row[0].set_ylabel(name, rotation=0, ha="right", va="center")
plt.show()
