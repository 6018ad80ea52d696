"""What a fit allocates: next to nothing beside X and the factors, and not anew in every sweep."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from drnmf.backends.base import Ask
from drnmf.backends.open import open_data
from drnmf.losses.beta import Beta
from tests.peak import SOURCE

pytest.importorskip("drnmf._core", reason="the compiled extension was not built")

GIB = 2**30


def _available() -> int:
    """Bytes that can be had without swapping; 0 where the system does not say."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def _printed(code: str, **environment: str) -> str:
    env = {**os.environ, **environment}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_fit_does_not_copy_x(order):
    """Beyond X and the factors: less than 5% of X, seen by the system (peak) and by tracemalloc."""
    rows = 16384 if _available() > 3 * GIB else 2048
    code = f"""
        import tracemalloc, numpy as np
        from drnmf import DRNMF, Solver
        def fit(X):
            solver = Solver(references=(1.0, 1.0), update="mu")
            return DRNMF(4, betas=(0, 1), tol=0, max_iter=1, random_state=0, solver=solver).fit(X)
        X = np.empty(({rows}, 16384), np.float32, order={order!r})
        X[...] = np.linspace(1.0, 2.0, 16384, dtype=np.float32)
        fit(np.ones((300, 300), np.float32))
        before = peak_memory()
        tracemalloc.start()
        model = fit(X)
        print((peak_memory() - before) / X.nbytes, tracemalloc.get_traced_memory()[1] / X.nbytes)
    """
    seen, traced = map(float, _printed(SOURCE + textwrap.dedent(code)).split())
    assert seen < 0.05
    assert traced < 0.05


@pytest.mark.skipif(sys.platform != "linux", reason="counts page faults under glibc's settings")
@pytest.mark.parametrize("sparse", [False, True])
def test_sweeps_use_the_memory_of_the_sweep_before(sparse):
    """Under an allocator that gives everything back at once, as in Dask's workers, packed factors would be faults."""
    code = f"""
        import resource, numpy as np, scipy.sparse as sp
        from drnmf.backends.base import Ask
        from drnmf.backends.open import open_data
        from drnmf.losses.beta import FROBENIUS, KL
        rows, columns, rank = 100_000, 40, 16
        X = np.ones((rows, columns))
        data = open_data(sp.csr_array(X) if {sparse} else X, "native")
        W, H = np.ones((rows, rank), order="F"), np.ones((rank, columns))
        def faults(sweeps):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            for _ in range(sweeps):
                data.sweep(W, H, Ask((KL, FROBENIUS)))
            return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
        faults(2)
        print(faults(10) / 10 / (W.nbytes / resource.getpagesize()))
    """
    share = float(_printed(textwrap.dedent(code), MALLOC_TRIM_THRESHOLD_="65536", OMP_NUM_THREADS="1"))
    assert share < 0.1


def test_an_answer_is_written_into_an_earlier_one_that_is_given():
    rng, one = np.random.default_rng(0), np.ones(1)
    data, (A, B), (C, D) = open_data(rng.random((30, 50))), *((rng.random((4, 30)), rng.random((4, 50))) for _ in "12")
    for beta in (2.0, 0.5):
        ask = Ask((Beta(beta),), one, curvature=one)
        earlier, expected = data.sweep(A.T, B, ask), data.sweep(C.T, D, ask)
        found = data.sweep(C.T, D, replace(ask, into=earlier))
        assert found.N is earlier.N
        assert np.array_equal(found.N, expected.N)
        assert found.losses is not earlier.losses
        if beta != 2.0:
            assert found.Q is earlier.Q
            assert np.array_equal(found.Q, expected.Q)


@pytest.mark.parametrize("rank", [3, 8])
@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_a_sweep_that_works_in_an_answer_of_no_more_use_has_the_same_bits(layout, rank):
    rng = np.random.default_rng(0)
    X = rng.poisson(0.7, size=(150, 70)).astype(float)
    data = open_data(X if layout == "dense" else sp.csr_matrix(X))
    W, H = rng.random((rank, 150)).T, rng.random((rank, 70))
    ask = Ask((Beta(2.0),), curvature=np.ones(1))
    expected, used = data.sweep(W, H, ask), data.T.sweep(H.T, W.T, ask)
    before = used.N.copy()
    found = data.sweep(W, H, replace(ask, used=used))
    assert np.array_equal(found.N, expected.N)
    assert np.array_equal(found.losses, expected.losses)
    assert layout == "sparse" or not np.array_equal(used.N, before)
