"""Whatever goes wrong is one line with a hint, never a traceback; --debug shows where it arose."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from drnmf.cli import app

RNG = np.random.default_rng(0)
X = RNG.uniform(0.1, 1, (12, 9))
FAST = ("--rank", "2", "--max-iter", "4", "--tol", "0", "--quiet")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("X.npy", X)


def run(*arguments, code=1):
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "300"})
    assert result.exit_code == code, (result.output, result.exception)
    return " ".join(result.output.split())


def test_anything_unexpected_is_one_line_and_a_traceback_on_demand(monkeypatch):
    def broken(*arguments):
        return {}["missing"]

    monkeypatch.setattr("drnmf.matrices.files.read_matrix", broken)
    line = "Error: this was not expected (KeyError: 'missing')."
    assert run("fit", "X.npy", *FAST) == f"{line} Run drnmf --debug with the same command to see where."
    output = run("--debug", "fit", "X.npy", *FAST)
    assert "Traceback (most recent call last)" in output
    assert "in broken" in output
    assert output.endswith(line)


@pytest.mark.parametrize("betas", ["0,1", "1,2", "3", "0..2", "nb:30"])
@pytest.mark.parametrize("value", [1e308, 1.7e308])
def test_entries_whose_sum_is_infinite(betas, value):
    np.save("X.npy", np.full((12, 9), value))
    assert "their sum is not: divide X by its largest entry" in run("fit", "X.npy", "--betas", betas, *FAST)


@pytest.mark.parametrize("betas", ["1e10", "1,1e300", "0..1e300", "1000.5"])
def test_exponents_beyond_all_powers(betas):
    assert "such powers of X leave the range of float64" in run("fit", "X.npy", "--betas", betas, *FAST, code=2)


def damage(path, rng):
    content = bytearray(path.read_bytes())
    for place in rng.integers(len(content) // 4, len(content), 20):
        content[place] = int(rng.integers(256))
    path.write_bytes(content[: -len(content) // 8])


def test_damaged_chunks_of_zarr_name_their_rows():
    zarr = pytest.importorskip("zarr")
    zarr.save_array("x.zarr", X)
    chunk = next(path for path in sorted(Path("x.zarr").rglob("*")) if path.is_file() and "json" not in path.name)
    damage(chunk, np.random.default_rng(0))
    output = run("fit", "x.zarr", *FAST)
    assert output.startswith("Error: x.zarr, rows 1 to 12, cannot be read: it may be damaged or cut short")


def test_damaged_chunks_of_h5ad_name_their_rows():
    h5py = pytest.importorskip("h5py")
    anndata = pytest.importorskip("anndata")
    anndata.AnnData(np.round(np.tile(X, (50, 20)), 2)).write_h5ad("x.h5ad", compression="gzip")
    with h5py.File("x.h5ad") as stored:
        chunk = stored["X"].id.get_chunk_info(0)
    content = bytearray(Path("x.h5ad").read_bytes())
    content[chunk.byte_offset : chunk.byte_offset + chunk.size // 2] = bytes(chunk.size // 2)
    Path("x.h5ad").write_bytes(content)
    output = run("fit", "x.h5ad", *FAST)
    assert output.startswith("Error: x.h5ad, rows 1 to 600, cannot be read: it may be damaged or cut short")


@pytest.mark.parametrize("size", [3, 20, 100, 200])
def test_a_damaged_block_of_a_folder_is_named(size):
    Path("blocks").mkdir()
    np.save("blocks/a.npy", X)
    np.save("blocks/b.npy", X)
    Path("blocks/b.npy").write_bytes(Path("blocks/b.npy").read_bytes()[:size])
    assert "blocks/b.npy cannot be read" in run("fit", "blocks", *FAST)


@pytest.mark.parametrize("encoding", ["hex", "base64", "zip", "rot13", "idna"])
def test_codecs_that_are_no_encoding_of_text(encoding):
    Path("texts").mkdir()
    Path("texts/a.txt").write_text("some words")
    output = run("topics", "texts", "--rank", "1", "--encoding", encoding)
    assert f"--encoding {encoding} is not known as an encoding of text" in output


DEEP = "[" * 100_000


def test_deeply_nested_json():
    Path("texts.jsonl").write_text('{"text": "some words"}\n' + DEEP + "\n")
    assert "texts.jsonl, line 2: not JSON" in run("topics", "texts.jsonl", "--column", "text", "--rank", "1")
    run("fit", "X.npy", *FAST, "--out", "run", "--no-report", code=0)
    for name in ("summary.json", "comparison.json"):
        before = Path("run", name).read_text()
        Path("run", name).write_text('{"a":' + DEEP)
        assert f"run/{name} is damaged" in run("report", "run")
        Path("run", name).write_text(before)
    run("report", "run", code=0)


EDITS = {
    "summary.json": {
        "input": {"input": {"shape": ["x"]}},
        "parameters": {"parameters": 3},
        "seconds": {"seconds": "long"},
    },
    "comparison.json": {"methods": {"methods": [3]}, "losses": {"losses": [{}]}, "none": {"methods": []}},
}


@pytest.mark.parametrize(("name", "edit"), [(name, edit) for name, edits in EDITS.items() for edit in edits])
def test_reports_of_edited_runs(name, edit):
    run("fit", "X.npy", *FAST, "--out", "run", "--no-report", code=0)
    path = Path("run", name)
    path.write_text(json.dumps(json.loads(path.read_text()) | EDITS[name][edit]))
    output = run("report", "run")
    assert f"run/{name} is not as drnmf writes it: " in output or "run cannot be shown: its files do not fit" in output
    assert not Path("run/report.html").exists()


def test_transform_by_edited_runs():
    run("fit", "X.npy", *FAST, "--out", "run", "--no-report", code=0)
    content = Path("run/model.npz").read_bytes()
    for change in (content[:-40], content[:200] + b"x" * 50 + content[250:], b"", b"PK" + content):
        Path("run/model.npz").write_bytes(change)
        assert "model.npz is not" in run("transform", "run", "X.npy")
    assert not Path("X-W.npy").exists()
