"""Signatures in counts
====================

Catalogues of mutations, or any counts of types in samples, are mixtures of a few *signatures*: distributions over the
types. Real counts vary more between samples than Poisson counts would. Here the truth is known: is it found?
"""

import matplotlib.pyplot as plt
import numpy as np

from drnmf import DRNMF, BetaNMF, NegativeBinomial

rng = np.random.default_rng(0)
signatures = rng.dirichlet(np.full(48, 0.15), size=4)  # four distributions over 48 types
exposures = rng.gamma(0.8, 400.0, size=(120, 4))  # how much of each a sample has
mean = exposures @ signatures
counts = rng.negative_binomial(30, 30 / (30 + mean)).astype(float)  # variance: mean + mean^2 / 30


def likeness(H):
    """Cosine of each true signature with the component that is closest to it."""
    H = H / np.linalg.norm(H, axis=1, keepdims=True)
    return (signatures / np.linalg.norm(signatures, axis=1, keepdims=True) @ H.T).max(axis=1)


# %%
# Poisson counts (KL), counts with more variance (negative binomial), and DR-NMF for both at once.

common = {"max_iter": 200, "random_state": 0}
models = {
    "KL": BetaNMF(4, beta=1, **common),
    "negative binomial": BetaNMF(4, beta=NegativeBinomial(30), **common),
    "both": DRNMF(4, betas=(1, NegativeBinomial(30)), **common),
}
for name, model in models.items():
    model.fit(counts)
    print(f"{name:>17}: cosine to the true signatures {likeness(model.components_).round(3)}")

# %%

H = models["both"].components_
order = np.argmax(signatures @ H.T, axis=1)
figure, axes = plt.subplots(4, 1, figsize=(7, 5), sharex=True, layout="constrained")
for axis, truth, k in zip(axes, signatures, order, strict=True):
    axis.bar(range(48), H[k] / H[k].sum(), color="tab:blue")
    axis.plot(truth, "k_", ms=5, label="true")
    axis.spines[["top", "right"]].set_visible(False)
axes[0].legend()
axes[-1].set_xlabel("type")
plt.show()
