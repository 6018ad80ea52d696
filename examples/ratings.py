"""What to listen to next
======================

Who played what how often: sparse counts, most of them zero. The factors say which tastes there are, and what a listener
who has some of a taste has not heard yet. A fifth of the plays is held back to see whether it is found again.
"""

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp

from drnmf import DRNMF

rng = np.random.default_rng(0)
tastes = rng.dirichlet(np.full(150, 0.08), size=6)  # of 150 albums
listeners = rng.dirichlet(np.full(6, 0.3), size=400) * rng.gamma(2.0, 20.0, size=(400, 1))
plays = rng.poisson(listeners @ tastes)
held_back = (plays > 0) & (rng.random(plays.shape) < 0.2)
seen = sp.csr_array(np.where(held_back, 0, plays).astype(float))
print(f"{seen.nnz} counts of {np.prod(seen.shape)} are not zero, {held_back.sum()} were held back")

# %%
# Losses 1 and 2 never make a sparse X dense.

model = DRNMF(6, betas=(1, 2), max_iter=200, tol=0, random_state=0)
W = model.fit_transform(seen)
scores = W @ model.components_
scores[seen.toarray() > 0] = -np.inf  # only what is new to the listener

popular = np.tile(np.asarray(seen.sum(axis=0)).astype(float), (400, 1))
popular[seen.toarray() > 0] = -np.inf


def found(ranking, count):
    """Fraction of the plays held back that are among the first albums suggested."""
    first = np.argsort(-ranking, axis=1)[:, :count]
    return np.take_along_axis(held_back, first, axis=1).sum() / held_back.sum()


counts = (5, 10, 20, 40)
for count in counts:
    print(f"first {count:2d}: {found(scores, count):.0%} found again; by popularity alone {found(popular, count):.0%}")

# %%

figure, axis = plt.subplots(figsize=(5.5, 3.2), layout="constrained")
axis.plot(counts, [found(scores, count) for count in counts], "o-", label="DR-NMF")
axis.plot(counts, [found(popular, count) for count in counts], "o--", color="0.5", label="popularity")
axis.set(xlabel="albums suggested", ylabel="held-back plays found", ylim=(0, 1))
axis.legend()
plt.show()
