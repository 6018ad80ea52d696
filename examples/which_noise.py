"""Which loss does the noise ask for?
===================================

Counts that scatter more than Poisson's: their variance grows faster than their mean. The criterion of every beta, and
the squared residuals, say how fast.
"""

import matplotlib.pyplot as plt
import numpy as np

from drnmf import BetaNMF, noise_profile

rng = np.random.default_rng(0)
V = rng.gamma(0.5, size=(40, 3)) @ rng.gamma(0.5, size=(3, 50)) * 100
X = rng.negative_binomial(20, 20 / (20 + V))

profile = noise_profile(BetaNMF(3, max_iter=300, random_state=0), X)
print("beta:", profile.beta, "not told apart:", profile.interval, "best of all:", profile.best)
print(*profile.notes, sep="\n")

# %%
# On the left, how much less likely X is under each beta than under the best, by all entries and by entries that were
# left out. On the right, the check without a likelihood: the slope of the squared residuals is 2 - beta.

betas = [row for row in profile.table if row["name"] not in ("Poisson",) and np.isfinite(row["beta"])]
at = [row["beta"] for row in betas]
criterion = np.array([row["criterion"] for row in betas]) / X.size
held_out = np.array([row["held_out"] for row in betas])
figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
axes[0].plot(at, criterion - criterion.min(), "o-", label="all entries")
axes[0].errorbar(at, held_out - held_out.min(), [row["standard_error"] for row in betas], fmt="s--", label="left out")
axes[0].set(xlabel="beta", ylabel="less likely, per entry", ylim=(-0.05, 1.0))
axes[0].legend()

model = BetaNMF(3, beta=profile.beta, max_iter=300, random_state=0)
fitted = model.fit_transform(X) @ model.components_
groups = np.array_split(np.argsort(fitted, axis=None), 20)
means = [fitted.ravel()[group].mean() for group in groups]
squares = [((X - fitted) ** 2).ravel()[group].mean() for group in groups]
axes[1].loglog(means, squares, "o")
line = np.array(means) ** profile.slope
axes[1].loglog(means, line * np.exp(np.mean(np.log(squares)) - np.mean(np.log(line))), label=f"mu^{profile.slope:.2f}")
axes[1].set(xlabel="fitted value", ylabel="squared residual")
axes[1].legend()
plt.show()
