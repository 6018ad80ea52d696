"""Instruction sets: each agrees with the oracle; DRNMF_ISA pins one; the vector functions keep their stated error."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

_core = pytest.importorskip("drnmf._core", reason="the compiled extension was not built")

# Largest error in units in the last place, as docs/performance.md states it.
ULPS = {"log": 2.0, "exp": 2.0}
RANGES = {
    ("log", "float32"): (1e-37, 1e37),
    ("log", "float64"): (1e-300, 1e300),
    ("exp", "float32"): (-85.0, 85.0),
    ("exp", "float64"): (-700.0, 700.0),
}


def points(name: str, dtype: str) -> np.ndarray:
    low, high = RANGES[name, dtype]
    rng = np.random.default_rng(0)
    if name == "exp":
        return np.concatenate([rng.uniform(low, high, 200_000), rng.uniform(-1, 1, 100_000)]).astype(dtype)
    wide = np.exp(rng.uniform(np.log(low), np.log(high), 200_000))
    return np.concatenate([wide, rng.uniform(0.5, 2.0, 200_000), 1 + rng.uniform(-1e-3, 1e-3, 100_000)]).astype(dtype)


def ulp_error(name: str, dtype: str) -> float:
    """Largest error of the core's function, in ulps of the exact value (long double)."""
    x = points(name, dtype)
    out = np.empty_like(x)
    getattr(_core, f"vector_{name}")(x, out)
    exact = getattr(np, name)(x.astype(np.longdouble))
    ulp = np.spacing(np.abs(exact).astype(dtype)).astype(np.longdouble)
    return float(np.max(np.abs(out - exact) / ulp))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["log", "exp"])
def test_vector_functions(name, dtype):
    assert ulp_error(name, dtype) < ULPS[name]


def test_log_of_zero_is_finite():
    for dtype in ("float32", "float64"):
        out = np.empty(3, dtype)
        _core.vector_log(np.zeros(3, dtype), out)
        assert np.isfinite(out).all()


def _python(*args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **environment}
    return subprocess.run([sys.executable, *args], env=env, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("isa", _core.supported_instruction_sets())
def test_every_instruction_set_conforms(isa):
    """The same tables, in a process pinned to one instruction set."""
    if isa == _core.instruction_set():
        pytest.skip("this is the set the other tests run on")
    here = os.path.dirname(__file__)
    select = "oracle and native or test_vector or same_bits and 300"
    tests = [os.path.join(here, name) for name in ("test_conformance.py", "test_isa.py", "test_threads.py")]
    done = _python("-m", "pytest", "-q", "-x", "-k", select, "-p", "no:cacheprovider", *tests, DRNMF_ISA=isa)
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.parametrize("value", ["avx1024", "AVX2"])
def test_unknown_instruction_set_is_refused(value):
    code = "import numpy as np; from drnmf.backends.open import open_data; open_data(np.ones((2, 2)))"
    done = _python("-c", code, DRNMF_ISA=value)
    assert done.returncode != 0
    assert f"DRNMF_ISA={value}" in done.stderr
    assert "baseline" in done.stderr
