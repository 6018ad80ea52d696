"""How many components?
=====================

Entries that the fit has not seen are predicted better with every component, until components begin to fit the noise.
"""

import matplotlib.pyplot as plt
import numpy as np

from drnmf import BetaNMF, rank_profile

rng = np.random.default_rng(0)
X = rng.poisson(rng.gamma(0.5, size=(40, 3)) @ rng.gamma(0.5, size=(3, 50)) * 100)

profile = rank_profile(BetaNMF(beta=1, n_init=1, max_iter=200, random_state=0), X, ranks=range(1, 7))
print("components:", profile.best)
print(*profile.notes, sep="\n")
for row in profile.table:
    print(f"rank {row['rank']}: {row['held_out']:.4f} worse than the best, standard error {row['standard_error']:.4f}")

# %%
# The smallest rank whose held-out score is within one standard error of the best is taken; AIC takes too many.

ranks = [row["rank"] for row in profile.table]
figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
axes[0].errorbar(
    ranks, [row["held_out"] for row in profile.table], [row["standard_error"] for row in profile.table], fmt="o-"
)
axes[0].set(xlabel="components", ylabel="worse than the best, per entry")
axes[0].axvline(profile.best, color="grey", lw=1)
for name in ("bic", "aic"):
    values = np.array([row[name] for row in profile.table])
    axes[1].plot(ranks, values - values.min(), "o-", label=name.upper())
axes[1].set(xlabel="components", ylabel="above the smallest", yscale="symlog")
axes[1].legend()
plt.show()
