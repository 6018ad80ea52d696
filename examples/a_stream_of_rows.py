"""When X keeps growing
====================

Rows come day by day, and on day 12 a kind of them appears that was not there before. `partial_fit` follows; with
``grow=True`` the model gets a component more when rows that it has not seen ask for one.
"""

import matplotlib.pyplot as plt
import numpy as np

from drnmf import BetaNMF

rng = np.random.default_rng(0)
components = np.kron(np.eye(4), np.ones(10)) + 0.05
days = []
for day in range(24):
    W = rng.gamma(0.5, 1.0, (160, 4))
    if day < 12:
        W[:, 3] = 0.0
    days.append(rng.poisson(6 * W @ components).astype(float))

model = BetaNMF(3, beta=1, random_state=0)
counts, losses = [], []
for X in days:
    model.partial_fit(X, forget=1000, grow=True)
    counts.append(model.n_components_)
    losses.append(model.losses_[0] / model.rows_seen_)

print("components day by day:", counts)
for growth in model.growth_:
    print(f"after {growth.rows} rows: likelier by {growth.gain:.3f} +- {growth.error:.3f} an entry")
    print(f"the others stayed what they were: cosine {growth.cosine:.3f} at least")

# %%
# The state is part of the model: saved and loaded, it continues where it stopped.

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
left.plot(losses, marker="o", markersize=3)
left.axvline(12, color="grey", linestyle=":")
left.set(xlabel="day", ylabel="loss of recent rows, per row")
right.imshow(model.components_, aspect="auto", cmap="viridis")
right.set(xlabel="column", ylabel="component", yticks=range(model.n_components_))
plt.show()
