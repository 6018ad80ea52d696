"""Materials in a hyperspectral image
==================================

A pixel of a hyperspectral image mixes the spectra of the materials it covers. Sensors add constant noise where the
signal is low and noise that grows with it where it is high, so neither the Frobenius loss nor KL is right everywhere.
"""

import matplotlib.pyplot as plt
import numpy as np

from drnmf import DRNMF

rng = np.random.default_rng(0)
bands = np.linspace(0.4, 2.5, 60)  # micrometres
peaks = ((0.55, 0.08, 0.3), (0.9, 0.25, 0.9), (1.7, 0.35, 0.7))
spectra = np.array([0.05 + height * np.exp(-(((bands - at) / width) ** 2)) for at, width, height in peaks])

y, x = np.mgrid[0:24, 0:32]
centres = ((6, 7), (16, 24), (20, 6))
maps = np.array([np.exp(-((y - a) ** 2 + (x - b) ** 2) / 90.0) for a, b in centres])
maps /= maps.sum(axis=0)
X = maps.reshape(3, -1).T @ spectra
X = np.maximum(rng.poisson(400 * X) / 400 + 0.01 * rng.normal(size=X.shape), 0.0)

# %%
# Rows are pixels, columns are bands: components are spectra, and W says how much of each is in a pixel.

model = DRNMF(3, betas=(1, 2), init="spa", max_iter=300, random_state=0)
W = model.fit_transform(X)
print("pixels x bands:", X.shape)
print("each loss above its best:", (100 * (model.scaled_losses_ - 1)).round(2), "%")
cosine = (model.components_ / np.linalg.norm(model.components_, axis=1)[:, None]) @ (
    spectra / np.linalg.norm(spectra, axis=1)[:, None]
).T
print("cosine to the true spectra:", cosine.max(axis=0).round(3))

# %%

figure, axes = plt.subplots(2, 3, figsize=(7.5, 4.2), layout="constrained")
for k, truth in enumerate(cosine.argmax(axis=1)):
    axes[0, k].imshow(W[:, k].reshape(24, 32), cmap="viridis")
    axes[0, k].set_axis_off()
    axes[1, k].plot(bands, spectra[truth] / spectra[truth].max(), "k--", lw=1, label="true")
    axes[1, k].plot(bands, model.components_[k] / model.components_[k].max(), color="tab:blue", label="found")
    axes[1, k].set(xlabel="micrometres", yticks=[])
axes[1, 0].legend()
plt.show()
