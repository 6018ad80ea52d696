"""Which sounds are in this recording?
===================================

A tune is made here, taken apart, and compared with the truth::

    python examples/separate_a_tune.py [FOLDER]      (needs drnmf[audio,plot])
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import soundfile as sf

from drnmf import DRNMF
from drnmf.apps.audio import separate
from drnmf.apps.audio.evaluation import measure
from drnmf.apps.audio.separation import match_components
from drnmf.apps.audio.study import synthesise_tune

folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None  # where to leave the sources, to listen to

# %%
# E D C D E E E: three notes and the click of the hammer, so four components.
tune = synthesise_tune(seed=0)
model = DRNMF(4, betas=(0, 1), n_init=6, max_iter=100, tol=1e-5, random_state=0)
result = separate(tune.mixture, model, rate=tune.rate, window=512, hop=256)
print("sum of the sources = mixture:", bool(np.allclose(result.sources.sum(axis=0), tune.mixture)))

# How good is the model under each loss, against the best that each loss reaches alone?
for method in result.comparison.methods:
    excess = 100 * (method.scaled - 1)
    print(f"{method.name}: {excess[0]:6.1f} % above the best IS error, {excess[1]:6.1f} % above the best KL error")

# Which component is which source? Here the truth is known, so each joins the source it resembles most.
likeness = np.abs(np.corrcoef(np.abs(result.sources), np.abs(tune.sources))[:4, 4:])
order = [members[0] for members in match_components(likeness)]
found = measure(tune.sources, result.sources[order])
for name, sdr in zip(tune.names, found.sdr, strict=True):
    print(f"{name:>6}: SDR {sdr:5.1f} dB")

for name, k in zip(tune.names, order, strict=True) if folder else ():
    folder.mkdir(exist_ok=True)
    sf.write(folder / f"{name}.wav", result.sources[k], tune.rate, subtype="FLOAT")

# %%
# The activations: who plays when.
times = result.transform.times(tune.mixture.size)
figure, axes = plt.subplots(4, 1, sharex=True, figsize=(7, 4.2), layout="constrained")
for axis, name, k in zip(axes, tune.names, order, strict=True):
    axis.fill_between(times, result.H[k] / result.H[k].max(), color="#1f6fb2", alpha=0.8, lw=0)
    axis.set(ylabel=name, yticks=[], ylim=(0, 1.05), xlim=(0, tune.mixture.size / tune.rate))
    axis.spines[["top", "right", "left"]].set_visible(False)
axis.set_xlabel("seconds")
if folder:
    figure.savefig(folder / "activations.png", dpi=120)
    print(f"sources and activations.png are in {folder}")
plt.show()
