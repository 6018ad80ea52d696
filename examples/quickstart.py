"""One matrix, three losses at once
================================

What each single-loss NMF gives up under the other losses, and what DR-NMF does.
"""

import matplotlib.pyplot as plt

from drnmf import DRNMF, BetaNMF, beta_divergence
from drnmf.synthetic import synthetic

BETAS = (0, 1, 2)  # Itakura-Saito, Kullback-Leibler, Frobenius

# A rank-8 matrix under multiplicative, Poisson and Gaussian noise together: no single loss is the right one.
X = synthetic(BETAS, shape=(80, 60), rank=8, random_state=0).X
common = {"zeros": "floor", "max_iter": 300, "tol": 0, "random_state": 0}

robust = DRNMF(8, betas=BETAS, **common)
W = robust.fit_transform(X)
print(f"DR-NMF: X {X.shape} = W {W.shape} @ H {robust.components_.shape}, weights {robust.weights_.round(2)}")


def row(name, losses):
    """How far each loss is above the best that NMF for that loss alone reaches from the same start."""
    cells = [
        f"{loss_name} {round(100 * (loss / best - 1), 2) + 0.0:6.2f}"
        for loss_name, loss, best in zip(robust.loss_names_, losses, robust.references_, strict=True)
    ]
    return f"{name:>4}-NMF   " + "   ".join(cells)


# %%
# NMF for one loss is the best under that loss and may be far off under the others.

excess = {}
print("percent above the best of each loss")
for beta in BETAS:
    single = BetaNMF(8, beta=beta, **common)
    V = single.fit_transform(X) @ single.components_
    excess[single.loss_names_[0]] = [beta_divergence(X, V, b) for b in BETAS]
excess["DR"] = robust.losses_
for name, losses in excess.items():
    print(row(name, losses))

# %%

figure, axis = plt.subplots(figsize=(6, 3.5), layout="constrained")
for k, (name, losses) in enumerate(excess.items()):
    places = [b + 0.2 * (k - 1.5) for b in range(len(BETAS))]
    axis.bar(places, 100 * (losses / robust.references_ - 1), 0.18, label=f"{name}-NMF")
axis.set(xticks=range(len(BETAS)), xticklabels=robust.loss_names_, ylabel="% above the best")
axis.legend()
plt.show()
