"""X that is scaled as it is read gives the answers of X that was scaled before, to the last bit, on every backend."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.problems import ASKS, LAYOUTS, LOSS_SETS, SPARSE, answer, entries, factors, observed
from tests.backends.table import BACKENDS, cases

SCALES = {"float32": (4.0**3, 4.0**-50, 4.0**50), "float64": (4.0**-3, 4.0**-400, 4.0**400)}
"""The first leaves X in place in the compiled extension; the others are too far for products with X as it is."""

FEW = ("0", "2", "0 1 2", "0 0.5 1.5 3", "1 2 nb:30")
QUESTIONS = ("separate", "weighted curved", "separate observed")


@pytest.mark.parametrize(("backend", "losses", "dtype"), [case for case in cases() if case.values[1] in FEW])
def test_sweeps(backend, losses, dtype):
    row, shape = BACKENDS[backend], (41, 140, 7)
    slack = 16.0 * float(np.finfo(dtype).eps) if backend == "numpy" else 0.0  # some BLAS adds up by where arrays begin
    W, H = factors(*shape, dtype)
    for layout in row.layouts:
        X = entries(shape[:2], dtype, zeros=0.85 if layout in SPARSE else 0.1)
        wanted = row.open(LAYOUTS[layout](X))
        for scale in SCALES[str(np.dtype(dtype))]:
            data = row.open(LAYOUTS[layout](X / dtype.type(scale))).scaled(scale)
            assert (data.mean, data.scale, data.zeros) == (wanted.mean, scale, wanted.zeros)
            for question in (name for name in QUESTIONS if name in row.asks):
                ask = ASKS[question](LOSS_SETS[losses], observed(X.shape))
                _assert_same(answer(data, W, H, ask), answer(wanted, W, H, ask), slack)
            ask = ASKS["weighted curved"](LOSS_SETS[losses], None)
            _assert_same(*(answer(one.T, H.T, np.ascontiguousarray(W.T), ask) for one in (data, wanted)), slack)


def _assert_same(got, wanted, slack=0.0):
    np.testing.assert_allclose(got.losses, wanted.losses, rtol=slack, atol=0)
    for name in "NPQ":
        one, other = getattr(got, name), getattr(wanted, name)
        if one is not None and other is not None:
            np.testing.assert_allclose(one, other, rtol=slack, atol=0, err_msg=name)
        assert (one is None) == (other is None), name


@pytest.mark.parametrize(("backend", "losses", "dtype"), [case for case in cases() if case.values[1] == "0 1"])
def test_what_starts_and_checkpoints_see(backend, losses, dtype):
    row, layout = BACKENDS[backend], BACKENDS[backend].layouts[0]
    X, B = entries((41, 140), dtype, zeros=0.2), np.random.default_rng(2).random((140, 3)).astype(dtype)
    wanted = row.open(LAYOUTS[layout](X))
    for scale in SCALES[str(np.dtype(dtype))]:
        given = row.open(LAYOUTS[layout](X / dtype.type(scale)))
        data = given.scaled(scale)
        assert data.digest() == given.digest()
        np.testing.assert_array_equal(data.starts.column(5), wanted.starts.column(5))
        np.testing.assert_array_equal(data.starts.dot(B), wanted.starts.dot(B))
        np.testing.assert_array_equal(data.starts.squared_norms(), wanted.starts.squared_norms())


@pytest.mark.parametrize(("backend", "losses", "dtype"), [case for case in cases() if case.values[1] == "0 1"])
def test_weights(backend, losses, dtype):
    row, layout, M = BACKENDS[backend], BACKENDS[backend].layouts[0], observed((41, 140))
    X = entries((41, 140), dtype, zeros=0.2)
    (W, H), ask = factors(41, 140, 7, dtype), ASKS["separate"](LOSS_SETS["0 1 2"], None)
    wanted = row.open(LAYOUTS[layout](X)).weigh(M, None)
    for scale in SCALES[str(np.dtype(dtype))]:
        data = row.open(LAYOUTS[layout](X / dtype.type(scale))).weigh(M, None).scaled(scale)
        assert (data.mean, data.count, data.zeros) == (wanted.mean, wanted.count, wanted.zeros)
        _assert_same(answer(data, W, H, ask), answer(wanted, W, H, ask))
