"""Fitting a dense X of one GiB allocates next to nothing beside X and the factors."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

GIB = 2**30


def _available() -> int:
    """Bytes that can be had without swapping; 0 where the system does not say."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_fit_does_not_copy_x(order):
    """Beyond X and the factors: less than 5% of X, seen by the system (peak) and by tracemalloc."""
    rows = 16384 if _available() > 3 * GIB else 2048
    code = f"""
        import resource, tracemalloc, numpy as np
        from drnmf import DRNMF
        def peak():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        def fit(X):
            return DRNMF(4, betas=(0, 1), references=(1.0, 1.0), update="mu", tol=0, max_iter=1, random_state=0).fit(X)
        X = np.empty(({rows}, 16384), np.float32, order={order!r})
        X[...] = np.linspace(1.0, 2.0, 16384, dtype=np.float32)
        fit(np.ones((300, 300), np.float32))
        before = peak()
        tracemalloc.start()
        model = fit(X)
        print((peak() - before) / X.nbytes, tracemalloc.get_traced_memory()[1] / X.nbytes)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    seen, traced = map(float, done.stdout.split())
    assert seen < 0.05
    assert traced < 0.05
