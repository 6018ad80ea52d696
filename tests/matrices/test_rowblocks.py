"""Matrices read in blocks of rows, and the command line on them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import numpy as np
import pytest
import scipy.sparse as sp

dask = pytest.importorskip("dask")
pytest.importorskip("distributed")
import dask.array as da  # noqa: E402

from drnmf import BetaNMF  # noqa: E402
from drnmf.matrices import rowblocks  # noqa: E402
from drnmf.matrices.rowblocks import block_rows, open_matrix, save_rows  # noqa: E402


@pytest.fixture
def X():
    return np.random.default_rng(5).gamma(0.5, 1.0, (120, 20)) + 1e-3


@pytest.fixture
def S(X):
    return sp.csr_matrix(np.where(X > 0.5, X, 0))


def store(kind, folder, X, S):
    """X or S written as `kind`; the path, and what should be read."""
    if kind == ".zarr":
        da.from_array(X, chunks=(16, -1)).to_zarr(str(folder / "x.zarr"))
        return folder / "x.zarr", X
    if kind == ".npy":
        np.save(folder / "x.npy", X)
        return folder / "x.npy", X
    if kind in ("dense folder", "sparse folder"):
        path = folder / "blocks"
        path.mkdir()
        for i in range(3):
            rows = slice(40 * i, 40 * i + 40)
            if kind == "dense folder":
                np.save(path / f"{i}.npy", X[rows])
            else:
                sp.save_npz(path / f"{i}.npz", S[rows])
        return path, X if kind == "dense folder" else S
    anndata = pytest.importorskip("anndata")
    held = S if "sparse" in kind else X
    record = anndata.AnnData(held)
    record.var_names = [f"gene{j}" for j in range(X.shape[1])]
    if kind.endswith("h5ad"):
        record.write_h5ad(folder / "x.h5ad")
        return folder / "x.h5ad", held
    record.write_zarr(str(folder / "x.zarr"))
    return folder / "x.zarr", held


KINDS = [".zarr", ".npy", "dense folder", "sparse folder", "sparse h5ad", "dense h5ad", "sparse anndata zarr"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_store_gives_the_fit_of_the_matrix(kind, tmp_path, X, S, monkeypatch):
    monkeypatch.setattr(rowblocks, "BLOCK_BYTES", 32 * 20 * 8)
    path, expected = store(kind, tmp_path, X, S)
    matrix = open_matrix(path)
    assert matrix.X.shape == X.shape
    assert matrix.X.numblocks[0] > 1
    assert matrix.column_names is None or matrix.column_names[:2] == ("gene0", "gene1")
    assert (matrix.column_names is not None) == ("h5ad" in kind or "anndata" in kind)
    settings = {"random_state": 0, "max_iter": 15, "tol": 0}
    local = BetaNMF(3, **settings).fit(expected)
    for share in (0.4, 1e-12):  # in memory, and out of core
        with dask.config.set({"drnmf.memory-fraction": share}):
            model = BetaNMF(3, **settings)
            W = model.fit_transform(matrix.X)
        np.testing.assert_allclose(model.components_, local.components_, rtol=1e-9)
    save_rows(tmp_path / "W.npy", W)
    np.testing.assert_array_equal(np.load(tmp_path / "W.npy"), W.compute())


def test_blocks_are_cut_to_size_and_number():
    assert block_rows(1, 1000, 1 << 20, 8) == 8
    assert block_rows(1, 1000, 1 << 20, 8, multiple=3) == 6
    assert block_rows(10, 100, 20, 8) == 10
    assert block_rows(10, 100, 20, 8, multiple=32) == 32


def test_zarr_chunks_of_columns_are_read_as_whole_rows(tmp_path, X):
    da.from_array(X, chunks=(16, 7)).to_zarr(str(tmp_path / "x.zarr"))
    assert open_matrix(tmp_path / "x.zarr", blocks=4).X.chunks == ((16,) * 7 + (8,), (20,))


def test_stores_that_cannot_be_used_are_refused(tmp_path, X, S):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        open_matrix(tmp_path / "x.zarr")
    with pytest.raises(ValueError, match="no row blocks"):
        open_matrix(tmp_path)
    np.save(tmp_path / "a.npy", X)
    np.save(tmp_path / "b.npy", X[:, :5])
    with pytest.raises(ValueError, match=r"b\.npy has 5 columns, but a\.npy has 20"):
        open_matrix(tmp_path)
    (tmp_path / "b.npy").unlink()
    np.savez(tmp_path / "c.npz", X=X)
    with pytest.raises(ValueError, match=r"c\.npz is no SciPy sparse matrix"):
        open_matrix(tmp_path)
    group = pytest.importorskip("zarr").open_group(str(tmp_path / "many.zarr"), mode="w")
    group["a"], group["b"] = X, X
    with pytest.raises(ValueError, match=r"\['a', 'b'\].*--variable"):
        open_matrix(tmp_path / "many.zarr")
    assert open_matrix(tmp_path / "many.zarr", "b").X.shape == X.shape
    anndata = pytest.importorskip("anndata")
    anndata.AnnData(sp.csc_matrix(S)).write_h5ad(tmp_path / "x.h5ad")
    with pytest.raises(ValueError, match="by columns"):
        open_matrix(tmp_path / "x.h5ad")


def command(folder, *arguments):
    call = [sys.executable, "-c", "from drnmf.cli import app; app()", *arguments]
    wide = os.environ | {"COLUMNS": "200"}
    return subprocess.run(call, cwd=folder, capture_output=True, text=True, timeout=300, env=wide)


@pytest.mark.slow
def test_the_command_line_on_workers_and_out_of_core(tmp_path, X):
    store(".zarr", tmp_path, X, None)
    fit = ("fit", "x.zarr", "--rank", "3", "--betas", "0,1", "--max-iter", "15", "--tol", "0")
    done = command(tmp_path, *fit, "--workers", "2", "--out", "two")
    assert done.returncode == 0, done.stderr
    assert "2 workers" in done.stderr
    assert "MB moved" in done.stderr
    here = command(tmp_path, *fit, "--quiet", "--out", "here")
    assert here.returncode == 0, here.stderr
    two, one = np.load(tmp_path / "two" / "W.npy"), np.load(tmp_path / "here" / "W.npy")
    np.testing.assert_allclose(two, one, rtol=1e-8)
    summary = json.loads((tmp_path / "two" / "summary.json").read_text())
    assert summary["input"]["shape"] == [120, 20]


@pytest.mark.slow
def test_workers_and_a_scheduler_are_not_both_given(tmp_path, X):
    np.save(tmp_path / "x.npy", X)
    done = command(tmp_path, "fit", "x.npy", "--rank", "2", "--workers", "2", "--scheduler", "tcp://127.0.0.1:1")
    assert done.returncode == 2
    assert "one of the two" in done.stderr


@pytest.mark.slow
def test_a_driver_that_was_killed_is_resumed(tmp_path, X):
    """SIGKILL of the process that drives the workers; `drnmf resume` ends with the bits of an undisturbed fit."""
    store(".zarr", tmp_path, X, None)
    fit = (
        "fit",
        "x.zarr",
        "--rank",
        "3",
        "--betas",
        "0,1",
        "--max-iter",
        "20",
        "--tol",
        "0",
        "--workers",
        "2",
        "--quiet",
    )
    whole = command(tmp_path, *fit, "--out", "whole")
    assert whole.returncode == 0, whole.stderr
    call = [sys.executable, "-c", "from drnmf.cli import app; app()", *fit, "--out", "killed"]
    process = subprocess.Popen(
        [*call, "--checkpoint", "kept", "--checkpoint-every", "0"], cwd=tmp_path, stderr=subprocess.DEVNULL
    )
    kept = tmp_path / "kept"
    deadline = time.monotonic() + 200
    while not list(kept.glob("state-0000-*.npz")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    process.wait()
    assert not (tmp_path / "killed").exists()
    done = command(tmp_path, "resume", "kept", "--quiet")
    assert done.returncode == 0, done.stderr
    for name in ("W.npy", "H.npy"):
        one, other = np.load(tmp_path / "whole" / name), np.load(tmp_path / "killed" / name)
        np.testing.assert_array_equal(one, other)
