"""Spoiled images
==============

Under beta = 2 an image that does not fit counts more than all others, because its error is squared. Under
`Rowwise(2, "sqrt")` and `Rowwise(2, "log")` rows count less the worse they fit; the maximum over both is taken here.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from drnmf import DRNMF, BetaNMF, Rowwise

# %%
# Photographs of 20 people, where the folder ``DRNMF_DATA`` has faces, and bright spots on a grid elsewhere. In every
# fourth image 40 % of the pixels are black or white.

rng = np.random.default_rng(0)
faces = Path(os.environ.get("DRNMF_DATA", "nowhere")) / "faces" / "olivetti32.npz"
if faces.is_file():
    known = np.load(faces)
    clean = known["X"][known["subject"] < 20] / float(known["X"].max())
else:
    place = np.arange(32)
    spots = [
        np.exp(-((place - i) ** 2)[:, None] / 18 - ((place - j) ** 2) / 18) for i in (6, 16, 26) for j in (6, 16, 26)
    ]
    clean = np.minimum(rng.gamma(0.5, size=(200, 9)) @ np.reshape(spots, (9, 1024)), 1.0)
images, spoiled = clean.copy(), np.arange(0, len(clean), 4)
hit = rng.uniform(size=(spoiled.size, 1024)) < 0.4
images[spoiled] = np.where(hit, rng.integers(0, 2, hit.shape), images[spoiled])

# %%
# How much an image counted is in `row_weights_`, 1 for an ordinary one.

forgiving = DRNMF(9, betas=(Rowwise(2, "sqrt"), Rowwise(2, "log")), max_iter=60, random_state=0)
usual = BetaNMF(9, beta=2, random_state=0)
models = {"Frobenius": usual.fit(images), "rows forgiven": forgiving.fit(images)}
ordinary = np.setdiff1d(np.arange(len(images)), spoiled)
counted = [float(np.median(forgiving.row_weights_[rows])) for rows in (spoiled, ordinary)]
print(f"a spoiled image counts {counted[0]:.2f}, another one {counted[1]:.2f} (medians)")

# %%
# Some spoiled images as they were, as they came, and as both models have them.

shown = spoiled[:4]
rows = {"clean": clean[shown], "spoiled": images[shown]}
rows |= {name: model.transform(images[shown]) @ model.components_ for name, model in models.items()}
figure, axes = plt.subplots(4, 4, figsize=(5, 5.4), layout="constrained")
for line, (name, pictures) in zip(axes, rows.items(), strict=True):
    for axis, picture in zip(line, pictures, strict=True):
        axis.imshow(picture.reshape(32, 32), cmap="gray", vmin=0, vmax=1)
        axis.set(xticks=[], yticks=[])
    line[0].set_ylabel(name)
plt.show()

# %%
# What the spoiled images do to the components is seen in the *clean* ones, which both models now encode:

for name, model in models.items():
    error = np.linalg.norm(clean[ordinary] - model.transform(clean[ordinary]) @ model.components_)
    print(f"{name}: error of the clean images {error / np.linalg.norm(clean[ordinary]):.3f}")

# %%
# **Where it does not help.** Weights of rows can forgive a whole image, and no single pixel: a spoiled image is still
# encoded badly, as above. A white block over a part of a few images hardly makes them odd, and on the faces nothing is
# gained over Frobenius (the table of ``drnmf reproduce parts``); where single entries are off, `Huber` is meant for
# them. Nor does it help where most images are spoiled, for then they are the ordinary ones; and an image that is the
# only one of its kind is forgiven too, with the component that only it has.
