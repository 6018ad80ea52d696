"""Counts and intensities of the same samples
==========================================

Two tables with the same rows: counts, whose noise is Poisson's, and intensities a thousand times smaller, whose noise
is Gaussian. Each has its own loss and its own scale, and one W explains both.
"""

import matplotlib.pyplot as plt
import numpy as np

from drnmf import DRNMF, BetaNMF

# %%
# Four causes; the fourth hardly shows in the counts. Side by side the counts alone are heard.

rng = np.random.default_rng(3)
W = rng.gamma(0.5, size=(150, 4))
genes, proteins = rng.gamma(0.5, 3.0, (4, 80)), rng.gamma(0.5, size=(4, 12)) / 1000
genes[3] *= 0.02
tables = {"rna": rng.poisson(W @ genes) * 1.0, "protein": W @ proteins + 5e-5 * rng.uniform(size=(150, 12))}

joint = DRNMF(4, betas={"rna": 1, "protein": 2}, random_state=0).fit(tables)
beside = BetaNMF(4, beta=1, random_state=0).fit(np.hstack(list(tables.values())))

# %%
# Cosines of the causes with the components that are most like them, in the proteins.


def cosines(truth, found):
    """The largest cosine of every true component."""
    a, b = (F / np.linalg.norm(F, axis=1, keepdims=True) for F in (truth, found))
    return (a @ b.T).max(axis=1)


found = {"two tables": joint.table_components_["protein"], "side by side": beside.components_[:, 80:]}
figure, axis = plt.subplots(figsize=(5, 3), layout="constrained")
for shift, (name, H) in zip((-0.2, 0.2), found.items(), strict=True):
    like = cosines(proteins, H)
    print(f"{name}: {like.round(3)}")
    axis.bar(np.arange(4) + shift, like, 0.4, label=name)
axis.set(
    xticks=range(4), xticklabels=[f"cause {k + 1}" for k in range(4)], ylabel="cosine in the proteins", ylim=(0, 1.25)
)
axis.legend(loc="upper center", ncols=2)
plt.show()

# %%
# `transform` takes any of the tables: here samples of which the proteins alone were measured.

print(joint.transform({"protein": tables["protein"][:3]}).round(2))

# %%
# **Where it does not help.** Where every cause shows well in the larger table, that table settles W by itself, and side
# by side is as good:

genes[3] /= 0.02
counts = rng.poisson(W @ genes) * 1.0
both = {"rna": counts, "protein": tables["protein"]}
joint = DRNMF(4, betas={"rna": 1, "protein": 2}, random_state=0).fit(both)
beside = BetaNMF(4, beta=1, random_state=0).fit(np.hstack(list(both.values())))
for name, H in {"two tables": joint.table_components_["protein"], "side by side": beside.components_[:, 80:]}.items():
    print(f"{name}: {cosines(proteins, H).min():.3f}")

# %%
# Nor can it tell which table to trust: one that shares no cause with the other has the same say, and pulls W away from
# what the other one shows. Look at the largest of `scaled_losses_`, which is high then.
