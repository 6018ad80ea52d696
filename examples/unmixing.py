"""Fractions of materials in mixed spectra
=======================================

Every pixel of an image covers several materials, and its spectrum is their mixture: fractions that sum to one. Without
that constraint, and with materials that overlap, many factorizations fit alike. ``sum_to_one="W"`` makes the rows of W
fractions, ``Volume`` takes the components that span least, and a spectrum that is known stays as it is with ``fixed``.
"""

import matplotlib.pyplot as plt
import numpy as np

from drnmf import BetaNMF, Volume

rng = np.random.default_rng(0)
bands = np.linspace(0.4, 2.5, 80)  # micrometres
peaks = ((0.6, 0.25, 0.5), (1.0, 0.4, 0.9), (1.8, 0.5, 0.7))
spectra = np.array([0.1 + height * np.exp(-(((bands - at) / width) ** 2)) for at, width, height in peaks])
fractions = rng.dirichlet(np.full(3, 0.7), 500)
fractions = fractions[fractions.max(axis=1) < 0.9]  # no pixel is pure
X = np.maximum(fractions @ spectra + 0.005 * rng.normal(size=(len(fractions), bands.size)), 0.0)


def matched(W, H):
    """Put the components in the order of the true ones."""
    unit, true = (F / np.linalg.norm(F, axis=1, keepdims=True) for F in (H, spectra))
    order = [int(k) for k in (unit @ true.T).argmax(axis=0)]
    return W[:, order], H[order]


# %%
# The same model without constraints, with fractions, with the least volume, and with one spectrum known.

ways = {
    "no constraint": {},
    "sum to one": {"sum_to_one": "W"},
    "and least volume": {"sum_to_one": "W", "penalties": [Volume(0.003)]},
    "and one known": {"sum_to_one": "W", "penalties": [Volume(0.003)], "fixed": spectra[:1]},
}
found = {}
for name, given in ways.items():
    model = BetaNMF(3, beta=2, max_iter=1000, tol=1e-7, random_state=0, **given)
    W = model.fit_transform(X)
    W, H = matched(W, model.components_)
    share = W / W.sum(axis=1, keepdims=True)
    found[name] = H
    error = np.sqrt(np.mean((share - fractions) ** 2))
    print(f"{name:>17}: largest sum of a row {W.sum(axis=1).max():.3f}, error of the fractions {error:.3f}")

# %%
# What was mixed (grey) and what was found.

figure, axes = plt.subplots(1, len(ways), figsize=(12, 3), layout="constrained", sharey=True)
for axis, (name, H) in zip(axes, found.items(), strict=True):
    scale = 1.0 if name != "no constraint" else spectra.max() / H.max()
    axis.plot(bands, spectra.T, color="0.8", linewidth=4)
    axis.plot(bands, scale * H.T, linewidth=1.2)
    axis.set_title(name, fontsize=10)
    axis.set_xlabel("wavelength (micrometres)")
axes[0].set_ylabel("reflectance")
plt.show()
