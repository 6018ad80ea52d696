"""Every backend against the float64 oracle: same losses, parts and curvature, whatever the layout, dtype and rank."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.problems import (
    ASKS,
    AT_LARGE_RANK,
    LAYOUTS,
    LOSS_SETS,
    OTHER_SIDE,
    SPARSE,
    answer,
    entries,
    factors,
    observed,
    oracle,
)
from tests.backends.table import BACKENDS, assert_close, cases


@pytest.mark.parametrize(("backend", "losses", "dtype"), cases())
def test_every_backend_answers_like_the_oracle(backend, losses, dtype):
    row, omega = BACKENDS[backend], LOSS_SETS[losses]
    for shape in row.shapes:
        for sparse in sorted({layout in SPARSE for layout in row.layouts}):
            X = entries(shape[:2], dtype, zeros=0.85 if sparse else 0.1)
            layouts = [layout for layout in row.layouts if (layout in SPARSE) == sparse]
            _check(row, {layout: row.open(LAYOUTS[layout](X)) for layout in layouts}, X, shape, omega, dtype)


def _check(row, datas, X, shape, omega, dtype):
    """Several layouts of one X against one answer of the oracle; the other side in one layout."""
    (W, H), M, first = factors(*shape, dtype), observed(X.shape), next(iter(datas.values()))
    bound, large = row.bounds[dtype], shape[2] > 32
    for question in [name for name in (AT_LARGE_RANK if large else ASKS) if name in row.asks]:
        ask = ASKS[question](omega, M)
        wanted = oracle(X, W, H, ask, first.mean)
        for layout, data in datas.items():
            assert_close(answer(data, W, H, ask), wanted, ask, dtype, bound, f"{question}, {shape}, {layout}")
    flipped = np.ascontiguousarray(W.T)
    for question in [name for name in OTHER_SIDE if name in row.asks]:
        ask = ASKS[question](omega, M.T)
        wanted = oracle(X.T, H.T, flipped, ask, first.mean)
        got = answer(first.T, H.T, flipped, ask)
        assert_close(got, wanted, ask, dtype, bound, f"{question}, {shape}, transposed")


def test_the_table_has_every_backend_of_the_package():
    """Dense and sparse on the host, blocks of Dask, and every Data of torch stand in the table."""
    from drnmf.backends.host import BACKENDS as HOST

    assert set(HOST) | {"dask", "torch", "torch sparse", "torch streamed"} <= set(BACKENDS)
