"""More than memory
================

X as a Dask array over a file on disk: blocks of rows are read when they are swept, and never all at once. The result is
the same as that of a fit in memory, to rounding; the same lines run on a cluster.
"""

import tempfile
from pathlib import Path

import dask
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

from drnmf import DRNMF
from drnmf.synthetic import synthetic

X = synthetic((0, 1), shape=(600, 80), rank=5, noise=0.1, random_state=0).X + 1e-3

with tempfile.TemporaryDirectory() as folder, dask.config.set(scheduler="synchronous"):
    da.from_array(X, chunks=(150, 80)).to_zarr(str(Path(folder) / "X.zarr"))
    stored = da.from_zarr(str(Path(folder) / "X.zarr"))
    print("stored in blocks of rows:", stored.chunks[0])
    common = {"betas": (0, 1), "max_iter": 20, "tol": 0, "random_state": 0}
    model = DRNMF(5, **common)
    W = model.fit_transform(stored)  # a Dask array too
    print("W is", type(W).__name__, "of shape", W.shape)
    W = W.compute()

in_memory = DRNMF(5, **common).fit(X)
same = np.allclose(model.components_, in_memory.components_, rtol=1e-6, atol=0)  # zeros are exact in both
print("the same components as in memory:", same)

# %%

figure, axis = plt.subplots(figsize=(5.5, 3), layout="constrained")
axis.semilogy(model.trace_.maximum - 1 + 1e-3, label="from disk")
axis.semilogy(in_memory.trace_.maximum - 1 + 1e-3, "--", label="in memory")
axis.set(xlabel="iteration", ylabel="largest loss above its best")
axis.legend()
plt.show()
