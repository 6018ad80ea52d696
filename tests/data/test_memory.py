"""A sweep allocates next to nothing beside X and the factors."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_sweep_does_not_copy_x(order):
    code = f"""
        import resource, numpy as np
        from drnmf.data.base import wrap
        def peak():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        X = np.empty((4000, 8000), np.float32, order={order!r})
        X[...] = 1.5
        A, B = np.ones((10, 4000), np.float32), np.ones((10, 8000), np.float32)
        small = wrap(np.ones((300, 300), np.float32))
        small.sweep(A[:, :300].T, B[:, :300], (0.0, 1.0), np.eye(2))
        before = peak()
        data = wrap(X)
        data.sweep(A.T, B, (0.0, 1.0), np.eye(2))
        data.T.sweep(B.T, A, (0.0, 1.0), np.ones((1, 2)))
        print((peak() - before) / X.nbytes)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 0.05
