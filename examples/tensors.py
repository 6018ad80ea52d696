"""
Counts over week, hour and place
================================

A tensor of counts, day x hour x place, made of three habits. `CP` finds them under the loss of counts, with a fifth of
the entries missing, and imputes what is missing.
"""

import matplotlib.pyplot as plt
import numpy as np

from drnmf import CP

# %%
# Each habit has a profile over days, one over hours and one over places.
rng = np.random.default_rng(0)
hours = np.arange(24)
of_hours = np.stack([np.exp(-0.5 * ((hours - at) / 1.8) ** 2) for at in (8, 13, 21)], axis=1)
of_days = np.stack([np.r_[np.ones(5), 0.1, 0.1], np.ones(7), np.r_[0.3 * np.ones(4), 1, 1.5, 0.8]], axis=1)
of_places = rng.gamma(0.5, 1.0, (40, 3))
truth = np.einsum("dr,hr,pr->dhp", np.tile(of_days, (4, 1)), of_hours, of_places) * 8
X = rng.poisson(truth).astype(float)
hidden = rng.random(X.shape) < 0.2
X[hidden] = np.nan

# %%
# Three components, the best of four starts. Factors of all modes but the first sum to one.
model = CP(3, betas=1, n_init=4, random_state=0)
days = model.fit_transform(X)
error = np.abs(model.inverse_transform(days) - truth)[hidden].mean() / truth[hidden].mean()
print("entries:", X.size, "of which missing:", int(hidden.sum()))
print(f"mean error of the missing entries: {100 * error:.1f} % of their mean")

# %%
# The profiles that were found, over hours and over the first two weeks.
peaks = sorted(model.factors_[1].argmax(axis=0).tolist())
print("hours at which the habits are strongest:", *peaks)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
left.plot(hours, model.factors_[1])
left.set(xlabel="hour", ylabel="share")
right.plot(days[:14])
right.set(xlabel="day", ylabel="counts")
plt.show()
