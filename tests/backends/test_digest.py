"""Every entry of X counts in its digest, and nothing else does: not its order, its layout, its blocks or its device."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from drnmf.backends import entries
from drnmf.backends.open import open_blocks, open_data


def matrix(dtype=np.float64, zeros=True):
    X = np.random.default_rng(3).gamma(0.5, 1.0, (37, 11)) + 1e-3
    return np.where(zeros & (X < 0.4), 0, X).astype(dtype)


def forms(X):
    wide = np.zeros((2 * X.shape[0], 3 * X.shape[1]), X.dtype)
    wide[::2, 1::3] = X
    unsorted = sp.csr_array(X)
    row = slice(unsorted.indptr[4], unsorted.indptr[5])
    unsorted.indices[row], unsorted.data[row] = unsorted.indices[row][::-1].copy(), unsorted.data[row][::-1].copy()
    unsorted.has_sorted_indices = False
    stored = sp.coo_array(
        (np.append(X[X != 0], X.dtype.type(0)), np.append(np.nonzero(X), [[0], [0]], axis=1)), X.shape
    )
    return [
        X, np.asfortranarray(X), wide[::2, 1::3], X[::-1].copy()[::-1], sp.csr_array(X), sp.csc_array(X),
        sp.csr_matrix(X), unsorted, stored,
    ]  # fmt: skip


@pytest.mark.parametrize("zeros", [True, False])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_layout_does_not_matter(backend, dtype, zeros, monkeypatch):
    X = matrix(dtype, zeros)
    first = open_data(X, backend).digest()
    assert {open_data(form, backend).digest() for form in forms(X)} == {first}
    monkeypatch.setattr(entries, "BLOCK_BYTES", 200)
    assert {open_data(form, backend).digest() for form in forms(X)} == {first}


@pytest.mark.parametrize("form", [np.asarray, np.asfortranarray, sp.csr_array])
def test_every_entry_matters(form):
    X = matrix()
    seen = {open_data(form(X)).digest(), open_data(form(X.astype(np.float32))).digest()}
    for place in range(X.size):
        changed = X.copy()
        changed.flat[place] = np.nextafter(changed.flat[place], 9.0)
        seen.add(open_data(form(changed)).digest())
    assert len(seen) == X.size + 2


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_places_matter(form):
    X = matrix()
    others = [X, X[::-1], X[:, ::-1], X.T, X[:-1], np.pad(X, ((0, 1), (0, 0)))]
    moved = X.copy()
    i, j = (int(at[0]) for at in np.nonzero(X[:, :-1] * (X[:, 1:] == 0)))
    moved[i, j], moved[i, j + 1] = 0, moved[i, j]
    assert len({open_data(form(np.ascontiguousarray(other))).digest() for other in (*others, moved)}) == 7


@pytest.mark.parametrize("sparse", [False, True])
def test_blocks_of_a_dask_array_do_not_matter(sparse):
    dask, da = pytest.importorskip("dask"), pytest.importorskip("dask.array")
    pytest.importorskip("distributed")
    X = matrix()
    with dask.config.set(scheduler="threads"):
        for rows in (37, 10, 1):
            array = da.from_array(X, chunks=(rows, -1))
            array = array.map_blocks(sp.csr_array) if sparse else array
            assert open_blocks(array).digest() == open_data(X).digest()
            assert open_blocks(array[::-1]).digest() != open_data(X).digest()
