"""Damaged matrices and files: an error that says so, never a crash, a hang or a wrong number."""

from __future__ import annotations

import gzip
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from drnmf import DRNMF, BetaNMF, beta_divergence, discover, pareto_front
from drnmf.apps.text.counting import corpus_from_matrix
from drnmf.backends.entries import check_structure
from drnmf.matrices.files import read_matrix

SECONDS = 120

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="each case runs in a fork of this process")


def ending(work: Callable[[], object]) -> str:
    """How `work` ends in a process of its own: "done", "refused" (a ValueError), or what else became of it."""
    process = os.fork()
    if process == 0:
        signal.alarm(SECONDS)
        code = 3
        try:
            work()
            code = 0
        except ValueError:
            code = 1
        finally:
            os._exit(code)
    status = os.waitpid(process, 0)[1]
    return {0: "done", 256: "refused"}.get(status, f"signal {status & 127}, code {status >> 8}")


def matrix() -> sp.csr_array:
    return sp.csr_array(sp.random(9, 7, 0.4, random_state=np.random.RandomState(0)))


def damaged(form: str, what: str) -> sp.sparray:
    X = matrix().asformat(form)
    if form == "coo":
        (X.col if what == "column" else X.row)[3] = {"column": 7, "row": 9, "negative": -1}[what]
        return X
    if what in ("column", "row", "negative"):
        X.indices[3] = -1 if what == "negative" else 9
    elif what == "decreasing":
        X.indptr[2], X.indptr[3] = X.indptr[3] + 1, X.indptr[2]
    elif what == "too large":
        X.indptr[-1] += 1000
    elif what == "first":
        X.indptr[0] = 1
    else:
        X.indptr = X.indptr[:-1]
    return X


KINDS = [("coo", what) for what in ("column", "row", "negative")] + [
    (form, what)
    for form in ("csr", "csc", "bsr")
    for what in ("row" if form == "csc" else "column", "negative", "decreasing", "too large", "first", "short")
]


def fit(X):
    BetaNMF(2, max_iter=3).fit(X)


def transform(X):
    BetaNMF(2, max_iter=3, random_state=0).fit(matrix()).transform(X)


def front(X):
    pareto_front(DRNMF(2, betas=(1, 2), max_iter=3), X, weights=2)


def divergence(X):
    beta_divergence(X, np.ones((9, 7)), 1)


def topics(X):
    corpus_from_matrix(X, list("abcdefg"))


@forks
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", [fit, transform, front, divergence, topics])
@pytest.mark.parametrize(("form", "what"), KINDS)
def test_malformed_sparse_matrices_are_refused(form, what, way):
    assert ending(lambda: way(matrix().asformat(form))) == "done"
    assert ending(lambda: way(damaged(form, what))) == "refused"


def test_the_message_names_the_index():
    with pytest.raises(ValueError, match=r"column index 9 is not in 0 to 6\."):
        check_structure(damaged("csr", "column"))
    with pytest.raises(ValueError, match=r"indptr decreases after row 2\."):
        check_structure(damaged("csr", "decreasing"))
    with pytest.raises(ValueError, match=r"indptr leads from 0 to 10\d\d, and \d\d entries are stored"):
        check_structure(damaged("csc", "too large"))
    with pytest.raises(ValueError, match=r"indptr has 9 entries of type int.*10 integers are needed"):
        check_structure(damaged("csr", "short"))


@forks
@pytest.mark.parametrize(("form", "what"), KINDS)
def test_malformed_blocks_of_dask_arrays_are_refused(form, what):
    da = pytest.importorskip("dask.array")
    dask = pytest.importorskip("dask")
    if form == "bsr":
        pytest.skip("Dask concatenates no BSR blocks")

    def array(X):
        return da.from_delayed(dask.delayed(lambda: X)(), X.shape, X.dtype, meta=sp.csr_array((0, 0)))

    def fit_blocks(X):
        with dask.config.set(scheduler="synchronous"):
            DRNMF(2, max_iter=3, random_state=0).fit(array(X))

    def transform_blocks(X):
        with dask.config.set(scheduler="synchronous"):
            BetaNMF(2, max_iter=3, random_state=0).fit(matrix()).transform(array(X)).compute()

    for way in (fit_blocks, transform_blocks):
        assert ending(lambda way=way: way(damaged(form, what))) == "refused"


@forks
@pytest.mark.parametrize("form", ["csr", "csc", "bsr"])
@pytest.mark.parametrize("read", ["file", "folder"])
def test_malformed_matrices_in_npz_files_are_refused(form, read, tmp_path):
    X = matrix().asformat(form)
    sp.save_npz(tmp_path / "a.npz", X)
    stored = dict(np.load(tmp_path / "a.npz"))
    stored["indices"][3] = 10**6
    np.savez(tmp_path / "a.npz", **stored)
    if read == "file":
        assert ending(lambda: read_matrix(tmp_path / "a.npz")) == "refused"
        return
    pytest.importorskip("dask")
    from drnmf.matrices.rowblocks import open_matrix

    assert ending(lambda: open_matrix(tmp_path).X.compute(scheduler="synchronous")) == "refused"


MARKET = {
    "coordinate real": lambda path: scipy.io.mmwrite(path, matrix()),
    "coordinate pattern": lambda path: scipy.io.mmwrite(path, matrix(), field="pattern"),
    "coordinate symmetric": lambda path: scipy.io.mmwrite(path, matrix() @ matrix().T, symmetry="symmetric"),
    "array real": lambda path: scipy.io.mmwrite(path, matrix().toarray()),
    "array symmetric": lambda path: scipy.io.mmwrite(path, (matrix() @ matrix().T).toarray(), symmetry="symmetric"),
}


def reads_as(path: Path, expected: np.ndarray) -> None:
    found = read_matrix(path).X
    if not np.array_equal(found.toarray() if sp.issparse(found) else found, expected):
        raise RuntimeError("another matrix")


@pytest.mark.slow
@forks
@pytest.mark.parametrize("kind", MARKET)
def test_a_matrix_market_file_cut_anywhere_is_refused(kind, tmp_path):
    whole, cut = tmp_path / "whole.mtx", tmp_path / "cut.mtx"
    MARKET[kind](whole)
    held = read_matrix(whole).X
    expected, content = held.toarray() if sp.issparse(held) else held, whole.read_bytes()
    last = content.rstrip().rfind(b"\n") + 1  # a number of the last line may end anywhere and be a number
    for size in (*range(min(last, 200)), *range(200, last, 7)):  # of the entries, which are alike, some
        cut.write_bytes(content[:size])
        assert ending(lambda: read_matrix(cut)) == "refused", size
    for size in range(last, len(content) - 1):
        cut.write_bytes(content[:size])
        assert ending(lambda: read_matrix(cut)) in ("refused", "done"), size
    cut.write_bytes(content[:-1])
    assert ending(lambda: reads_as(cut, expected)) == "done"


@forks
def test_cut_and_damaged_compressed_matrix_market_files_are_refused(tmp_path):
    MARKET["coordinate real"](tmp_path / "a.mtx")
    content = (tmp_path / "a.mtx").read_bytes()
    path = tmp_path / "a.mtx.gz"
    path.write_bytes(gzip.compress(content))
    assert ending(lambda: reads_as(path, matrix().toarray())) == "done"
    for size in range(len(content) - 30, len(content) - 1):
        path.write_bytes(gzip.compress(content[:size] + b"\n"))
        assert ending(lambda: read_matrix(path)) in ("refused", "done"), size
    path.write_bytes(gzip.compress(content)[:-20])
    assert ending(lambda: read_matrix(path)) == "refused"


@forks
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"\n", b"\n1 2 3 4\n", "its line of sizes is not 3 whole numbers"),
        (b"9 7 25\n", b"9 7 26\n", "its header promises 26 entries, and 25 are there"),
        (b"9 7 25\n", b"9 7 99999999999\n", "its header promises 99999999999 entries"),
        (b"matrix coordinate real", b"matrix coordinate unreal", "coordinate unreal general, which is not known"),
        (b"%%MatrixMarket", b"%%MarketMatrix", "its first line is not"),
        (b"E-1\n", b"E-1\x00\n", r"it has the byte b'\\x00' among its numbers"),
        (b"E-1\n", b"E-1 7\n", "entry 1 has 4 numbers where 3 are needed"),
    ],
)
def test_matrix_market_files_that_say_one_thing_and_hold_another(old, new, message, tmp_path):
    path = tmp_path / "a.mtx"
    MARKET["coordinate real"](path)
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new, 1))
    assert ending(lambda: read_matrix(path)) == "refused"
    with pytest.raises(ValueError, match=message):
        read_matrix(path)


def heap_sizes(content: bytes) -> list[int]:
    """Where an HDF5 file keeps the sizes of its pieces of text: the chain of them is what damage makes endless."""
    place, found = content.index(b"GCOL") + 16, list[int]()
    while int.from_bytes(content[place : place + 2], "little"):
        found.append(place + 8)
        place += 16 + -(-int.from_bytes(content[place + 8 : place + 16], "little") // 8) * 8
    return found


@pytest.mark.slow
@forks
def test_damaged_h5ad_files_neither_hang_nor_crash(tmp_path, monkeypatch):
    anndata = pytest.importorskip("anndata")
    pytest.importorskip("dask")
    from drnmf.matrices.rowblocks import open_matrix

    path = tmp_path / "a.h5ad"
    anndata.AnnData(sp.csr_matrix(matrix())).write_h5ad(path)
    content, rng = path.read_bytes(), np.random.default_rng(0)

    def load():
        try:
            open_matrix(path).X.compute(scheduler="synchronous")
        except (OSError, RuntimeError, KeyError) as error:  # a block that cannot be read says so when it is read
            raise ValueError from error

    assert ending(load) == "done"
    monkeypatch.setattr("drnmf.matrices.damage.SECONDS", 3.0)
    for size in rng.permutation(heap_sizes(content))[:15]:
        broken = bytearray(content)
        broken[size] = int(rng.integers(16, 256))
        path.write_bytes(broken)
        assert ending(load) in ("refused", "done")
    for _ in range(15):
        broken = bytearray(content)
        for place in rng.integers(0, len(content), 10):
            broken[place] = int(rng.integers(0, 256))
        path.write_bytes(broken[: rng.integers(len(content) // 2, len(content) + 1)])
        assert ending(load) in ("refused", "done")


# Dask's pool of threads does not survive a fork, so this case runs in a fresh interpreter.
WRONG_INDEX = """
import sys
from pathlib import Path
from drnmf import BetaNMF
from drnmf.matrices.rowblocks import open_matrix
try:
    BetaNMF(2, max_iter=3).fit(open_matrix(Path(sys.argv[1])).X)
except ValueError as error:
    print("refused:", error)
"""


@pytest.mark.slow
def test_an_h5ad_file_with_a_wrong_index_is_refused(tmp_path):
    anndata = pytest.importorskip("anndata")
    h5py = pytest.importorskip("h5py")
    pytest.importorskip("dask")

    path = tmp_path / "a.h5ad"
    anndata.AnnData(sp.csr_matrix(matrix())).write_h5ad(path)
    with h5py.File(path, "r+") as stored:
        stored["X/indices"][3] = 10**6
    command = [sys.executable, "-c", WRONG_INDEX, str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    assert ended.stdout.startswith("refused: ")


@pytest.mark.parametrize("shape", [(4,), (2, 3, 4)])
def test_sparse_arrays_of_other_dimensions_are_refused(shape):
    try:
        X = sp.coo_array((np.ones(1), tuple(np.zeros((len(shape), 1), dtype=int))), shape=shape)
    except (TypeError, ValueError):
        pytest.skip("this SciPy has sparse arrays of two dimensions alone")
    model = BetaNMF(1).fit(np.ones((3, 4)))
    for refused in (model.fit, model.transform, model.score, discover):
        with pytest.raises(ValueError, match=re.escape(f"has shape {shape}: give a matrix of rows and columns")):
            refused(X)
