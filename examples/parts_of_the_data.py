"""Groups, spoiled images, tables
==============================

A plain fit minimises a sum over all entries: a large group outvotes a small one, a spoiled row counts more than a
good one, and of two tables side by side the one in larger numbers is heard. Here the largest of several objectives is
minimised instead, one for every group or table, or rows count less the worse they fit.
"""

import matplotlib.pyplot as plt
import numpy as np

from drnmf import DRNMF, BetaNMF, Rowwise

rng = np.random.default_rng(0)

# %%
# One model for all hospitals
# ---------------------------
# Hospital B has a fifth of the samples, and one cause that A does not have. With three components for four causes
# somebody must give way.

causes = rng.gamma(0.4, size=(4, 30))
large = rng.gamma(0.7, size=(200, 3)) @ causes[:3]
small = rng.gamma(0.7, size=(40, 4)) * [0.5, 0.5, 0.5, 0.6] @ causes
X = np.vstack([large, small]) + 0.05 * rng.uniform(size=(240, 30))
hospital = np.array(["A"] * 200 + ["B"] * 40)

fair = DRNMF(3, betas=(2,), max_iter=300, random_state=0)
fair.fit(X, groups=hospital)
plain = BetaNMF(3, beta=2, random_state=0)
V = plain.fit_transform(X) @ plain.components_
regrets = [part.value(0.5 * np.sum((X - V)[hospital == part.label] ** 2)) for part in fair.omega_]
for name, before, after in zip(fair.loss_names_, regrets, fair.scaled_losses_, strict=True):
    print(f"{name}: regret {before:.3f} under the plain fit, {after:.3f} under the fair one")

# %%
# The worse-off hospital gains and the other one pays: nothing is won for free. Where both share all causes, or where
# there are components enough for all, both fits are the same; and the regret of a group of a few samples is mostly
# noise.
#
# Spoiled images
# --------------
# Crosses of 8 x 8 pixels, every fourth with half of its pixels at random. Components of the plain fit show the noise.

shapes = np.zeros((4, 8, 8))
for k in range(4):
    shapes[k, 2 * k, :] = shapes[k, :, 2 * k] = 1.0
images = rng.gamma(0.5, size=(120, 4)) @ shapes.reshape(4, 64) + 0.05 * rng.uniform(size=(120, 64))
at = np.arange(0, 120, 4)
images[at] = np.where(rng.uniform(size=(30, 64)) < 0.5, rng.uniform(0, 3, size=(30, 64)), images[at])

robust = DRNMF(4, betas=(Rowwise(2, "sqrt"), Rowwise(2, "log")), max_iter=200, random_state=0).fit(images)
usual = BetaNMF(4, beta=2, random_state=0).fit(images)
good = np.delete(np.arange(120), at)
spoiled, others = (np.median(robust.row_weights_[rows]) for rows in (at, good))
print(f"a spoiled image counts {spoiled:.2f}, another one {others:.2f}")

figure, axes = plt.subplots(2, 4, figsize=(6, 3), layout="constrained")
for row, (name, model) in zip(axes, {"Frobenius": usual, "rows forgiven": robust}.items(), strict=True):
    for axis, component in zip(row, model.components_, strict=True):
        axis.imshow(component.reshape(8, 8), cmap="gray_r")
        axis.set(xticks=[], yticks=[])
    row[0].set_ylabel(name)
plt.show()

# %%
# It does not help where a block of the same pixels is covered in every image: then no row is the odd one out.
#
# Counts and intensities of the same samples
# ------------------------------------------
# Two tables of the same causes, the second one a thousand times smaller. The fourth cause hardly shows in the counts,
# and side by side the counts alone are heard.

W = rng.gamma(0.5, size=(150, 4))
genes, proteins = rng.gamma(0.5, 3.0, (4, 80)), rng.gamma(0.5, size=(4, 12)) / 1000
genes[3] *= 0.02
tables = {"rna": rng.poisson(W @ genes) * 1.0, "protein": W @ proteins + 5e-5 * rng.uniform(size=(150, 12))}

joint = DRNMF(4, betas={"rna": 1, "protein": 2}, max_iter=300, random_state=0).fit(tables)
beside = BetaNMF(4, beta=1, random_state=0).fit(np.hstack(list(tables.values())))


def likeness(truth, found):
    """The smallest over the true components of the largest cosine."""
    a, b = (F / np.linalg.norm(F, axis=1, keepdims=True) for F in (truth, found))
    return (a @ b.T).max(axis=1).min()


for name, H in {"tables": joint.table_components_["protein"], "side by side": beside.components_[:, 80:]}.items():
    print(f"{name}: the least of the cosines with the causes in the proteins is {likeness(proteins, H):.3f}")

# %%
# `transform` takes any of the tables.

print(joint.transform({"protein": tables["protein"][:3]}).round(2))
