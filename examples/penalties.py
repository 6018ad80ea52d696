"""What penalties do
=================

Three smooth curves that overlap, each active in a few samples, under counting noise, and a model with one component
more than there are. Without penalties the fourth component takes a share of the others; each penalty mends something
else.
"""

import matplotlib.pyplot as plt
import numpy as np

from drnmf import BetaNMF, Smooth, Sparsity, Volume

rng = np.random.default_rng(0)
place = np.linspace(0, 1, 80)
curves = np.array([np.exp(-(((place - at) / width) ** 2)) for at, width in ((0.25, 0.12), (0.5, 0.18), (0.72, 0.1))])
amounts = rng.gamma(2.0, 6.0, (60, 3)) * (rng.random((60, 3)) < 0.5)
X = rng.poisson(amounts @ curves + 0.1).astype(float)

# %%
# The same start every time; what differs is the penalty. Alpha is relative to the loss of a constant model, so that it
# does not depend on the units of X.

given = {
    "no penalty": None,
    "Sparsity(0.02, on='W')": [Sparsity(0.02, on="W")],
    "Smooth(0.3)": [Smooth(0.3)],
    "Volume('auto')": [Volume("auto")],
}
models = {name: BetaNMF(4, beta=1, penalties=p, max_iter=300, tol=1e-5, random_state=0) for name, p in given.items()}
factors = {name: model.fit_transform(X) for name, model in models.items()}
for name, model in models.items():
    zeros = 100 * np.mean(factors[name] / factors[name].max() < 1e-3)
    loss, penalty = model.reconstruction_err_, model.penalty_
    print(f"{name:22s} loss {loss:7.1f}   penalty {penalty:6.1f}   zeros of W {zeros:3.0f} %")

# %%
# Every component is drawn with the height that it has in the data on average.

figure, axes = plt.subplots(1, 4, figsize=(11, 2.6), sharey=True, layout="constrained")
for axis, (name, model) in zip(axes, models.items(), strict=True):
    axis.plot(place, (amounts.mean(axis=0)[:, None] * curves).T, color="0.8", lw=4)
    axis.plot(place, (factors[name].mean(axis=0)[:, None] * model.components_).T, lw=1.2)
    axis.set(title=name, xlabel="place")
axes[0].set_ylabel("mean contribution")
plt.show()
