"""One factor for all hospitals
=============================

A plain fit minimises a sum over all samples, so the largest hospital has most votes. `fit(X, groups=labels)` minimises
the largest regret instead: how far each group is above what it would reach alone.
"""

import matplotlib.pyplot as plt
import numpy as np

from drnmf import DRNMF, BetaNMF

# %%
# Three hospitals with 300, 60 and 30 samples. They share two causes, and each has one of its own; with four components
# for five causes somebody must give way.

rng = np.random.default_rng(0)
causes = rng.gamma(0.4, size=(5, 40))
samples, parts = {"A": 300, "B": 60, "C": 30}, []
for own, size in zip((2, 3, 4), samples.values(), strict=True):
    parts.append(rng.gamma(0.7, size=(size, 3)) @ causes[[0, 1, own]])
X = np.vstack(parts) + 0.05 * rng.uniform(size=(390, 40))
hospital = np.repeat(list(samples), list(samples.values()))

fair = DRNMF(4, betas=(2,), random_state=0).fit(X, groups=hospital)
plain = BetaNMF(4, beta=2, random_state=0)
V = plain.fit_transform(X) @ plain.components_

# %%
# Each objective knows its scale, so that the plain fit can be asked the same question.

before = [part.value(0.5 * np.sum((X - V)[hospital == part.label] ** 2)) for part in fair.omega_]
for name, one, other in zip(fair.loss_names_, before, fair.scaled_losses_, strict=True):
    print(f"{name}: regret {one:.3f} under the plain fit, {other:.3f} under the fair one")

figure, axis = plt.subplots(figsize=(5, 3), layout="constrained")
at = np.arange(3)
axis.bar(at - 0.2, before, 0.4, label="plain fit")
axis.bar(at + 0.2, fair.scaled_losses_, 0.4, label="largest regret minimised")
axis.set(xticks=at, xticklabels=[f"{name}, {size} samples" for name, size in samples.items()], ylabel="regret")
axis.legend()
plt.show()

# %%
# `weights_` says who decides where the fit ended: a hospital that is better off than the worst has next to none.

print({part.label: round(float(weight), 2) for part, weight in zip(fair.omega_, fair.weights_, strict=True)})

# %%
# **Where it does not help.** Nothing is won for free: what the worst-off hospital gains, the others pay, and the error
# over all samples rises. Where components are enough for all causes, or hospitals share them all, both fits are the
# same:

enough = DRNMF(5, betas=(2,), random_state=0).fit(X, groups=hospital)
print(f"largest regret with five components: {enough.scaled_losses_.max():.3f}")

# %%
# And the regret of a group of a handful of samples is mostly their noise, to which the largest of several regrets then
# bends the factor of everybody: join such groups, or leave them out of the labels of the fit and `transform` them.
