"""Sources of air pollution
========================

Concentrations of chemical species, measured day by day at a station, are sums of a few sources: traffic, heating, sea
salt. Small concentrations have about the same relative error as large ones, plus a detection limit: noise between
that of Itakura-Saito and that of Frobenius. The fit covers every beta from 0 to 2.
"""

import matplotlib.pyplot as plt
import numpy as np

from drnmf import DRNMF, Interval

SPECIES = ("NO2", "CO", "black carbon", "benzene", "K", "levoglucosan", "Na", "Cl", "Mg", "sulfate")
PROFILES = np.array(
    [
        [40.0, 9.0, 6.0, 4.0, 0.2, 0.1, 0.2, 0.2, 0.1, 1.0],  # traffic
        [5.0, 6.0, 3.0, 1.0, 3.0, 5.0, 0.2, 0.5, 0.1, 1.0],  # wood
        [0.2, 0.2, 0.1, 0.1, 0.3, 0.1, 9.0, 14.0, 1.2, 2.5],  # sea
    ]
)
rng = np.random.default_rng(1)
days = np.arange(120)
season = 1 + np.cos(2 * np.pi * days / 120)  # wood is burnt at both ends of the record
activity = np.column_stack([rng.gamma(4, 0.25, 120), season * rng.gamma(3, 0.3, 120), rng.gamma(1, 0.8, 120)])
X = activity @ PROFILES * rng.gamma(30, 1 / 30, (120, 10)) + np.abs(0.05 * rng.normal(size=(120, 10))) + 0.01

# %%

model = DRNMF(3, betas=Interval(0, 2), max_iter=300, random_state=0)
W = model.fit_transform(X)
print("days x species:", X.shape)
print("losses that were fitted:", model.loss_names_)
print(f"every beta from 0 to 2 is at most {100 * (model.coverage_.bound - 1):.1f} % above its best")
for k, component in enumerate(model.components_):
    top = np.argsort(-component / PROFILES.sum(axis=0))[:3]
    print(f"component {k + 1}:", ", ".join(SPECIES[i] for i in top))

# %%
# When each source was active, and which fraction of every species it explains.

fraction = W.sum(axis=0)[:, None] * model.components_
figure, (above, below) = plt.subplots(2, 1, figsize=(7, 5), layout="constrained")
above.stackplot(days, (W * model.components_.sum(axis=1)).T, labels=[f"component {k}" for k in (1, 2, 3)])
above.set(xlabel="day", ylabel="concentration")
above.legend(loc="upper right")
bottom = np.zeros(10)
for part in fraction / fraction.sum(axis=0):
    below.bar(SPECIES, part, bottom=bottom)
    bottom += part
below.tick_params(axis="x", rotation=40)
below.set_ylabel("fraction")
plt.show()
