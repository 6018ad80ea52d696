"""Large sparse data stays sparse, and beta = 2 stores no curvature by column: peak memory of a fresh process."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.peak import SOURCE

SCRIPT = """
import json
{source}
import numpy as np, scipy.sparse as sp
from drnmf import DRNMF
rng = np.random.default_rng(0)
rows, columns = rng.integers(0, 200_000, 2_000_000), rng.integers(0, 100_000, 2_000_000)
X = sp.csr_matrix((rng.integers(1, 5, 2_000_000).astype(float), (rows, columns)), shape=(200_000, 100_000))
model = DRNMF(10, betas=(1, 2), init="{init}", tol=0, max_iter=2, random_state=0).fit(X)
model.transform(X[:1000])
print(json.dumps({{"peak": peak_memory(), "losses": model.scaled_losses_.tolist()}}))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "init"), [("numpy", "random"), ("native", "random"), ("native", "spa")])
def test_two_million_entries_of_a_200000_by_100000_matrix_fit_in_a_gibibyte(backend, init, monkeypatch):
    if backend == "native":
        pytest.importorskip("drnmf._core", reason="the compiled core was not built")
    monkeypatch.setenv("DRNMF_BACKEND", backend)
    script = SCRIPT.format(init=init, source=SOURCE)
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    answer = json.loads(run.stdout)
    assert answer["peak"] < 2**30
    assert all(loss > 0 for loss in answer["losses"])


FROBENIUS = """
import json
{source}
import numpy as np
from drnmf import BetaNMF
X = np.random.default_rng(0).random({shape})
def fit(X, rank):
    return BetaNMF(rank, beta=2, init="random", random_state=0, tol=0, max_iter=8).fit(X)
fit(X[:100, :100].copy(), 5)
before = peak_memory()
fit(X, 100)
print(json.dumps((peak_memory() - before) / (8 * 100 * sum(X.shape))))
"""


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(60, 20_000), (20_000, 120)], ids=str)
def test_frobenius_at_100_components_takes_four_times_the_factors(shape, monkeypatch):
    """The block, the point before its extrapolation and N: the curvature of every column would be fifty times that."""
    pytest.importorskip("drnmf._core", reason="the compiled core was not built")
    monkeypatch.setenv("DRNMF_BACKEND", "native")
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FROBENIUS.format(source=SOURCE, shape=shape)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(run.stdout) < 4.0
