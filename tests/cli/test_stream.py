"""drnmf stream: every form of rows gives the same model, and a stream that was stopped goes on where it stood."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

from drnmf import load
from drnmf.cli import app, stream
from drnmf.matrices.batches import row_batches

BASE = ("--rank", "3", "--batch", "64", "--no-report", "--quiet")

KILLED = """
import os, signal, sys
import drnmf.cli.stream as stream
from drnmf.cli import app
from drnmf.estimators.models import BetaNMF

number, stream.SAVED, plain = sys.argv.pop(), -1.0, BetaNMF.partial_fit

def partial_fit(self, *values, **given):
    if getattr(self, "rows_seen_", 0) >= 200:
        os.kill(os.getpid(), getattr(signal, number))
    return plain(self, *values, **given)

BetaNMF.partial_fit = partial_fit
app()
"""


def table() -> Any:
    rng = np.random.default_rng(0)
    return rng.poisson(3.0 * rng.gamma(0.5, 1.0, (500, 3)) @ rng.gamma(0.5, 1.0, (3, 7))).astype(float)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the same rows in several forms."""
    monkeypatch.chdir(tmp_path)
    X = table()
    np.save("X.npy", X)
    lines = [",".join(map(str, row)) for row in X]
    Path("X.csv").write_text("id," + ",".join("abcdefg") + "\n" + "".join(f"r{i},{x}\n" for i, x in enumerate(lines)))
    Path("plain.csv").write_text("\n".join(lines) + "\n")
    Path("X.jsonl").write_text("".join(json.dumps(row.tolist()) + "\n" for row in X))
    Path("named.jsonl").write_text("".join(json.dumps(dict(zip("abcdefg", row, strict=True))) + "\n" for row in X))
    Path("blocks").mkdir()
    for i, first in enumerate(range(0, 500, 90)):
        np.save(f"blocks/{i:03d}.npy", X[first : first + 90])
    return tmp_path


def run(*options: str, **given: Any) -> Any:
    return CliRunner().invoke(app, ["stream", *options], **given)


def components(folder: str = "X-stream") -> Any:
    return np.load(Path(folder) / "H.npy")


@pytest.mark.parametrize("source", ["X.csv", "plain.csv", "X.jsonl", "named.jsonl", "blocks"])
def test_every_form_of_rows_gives_the_same_model(here: Path, source: str) -> None:
    if source == "blocks":
        pytest.importorskip("dask")
    pytest.importorskip("dask")
    for name, out in (("X.npy", "one"), (source, "two")):
        assert run(name, *BASE, "--out", out).exit_code == 0
    np.testing.assert_array_equal(components("two"), components("one"))


@pytest.mark.parametrize("source", ["X.csv", "X.jsonl"])
def test_standard_input_is_read_as_a_file_is(here: Path, source: str) -> None:
    assert run(source, *BASE, "--out", "one").exit_code == 0
    assert run("-", *BASE, "--out", "two", input=Path(source).read_text()).exit_code == 0
    np.testing.assert_array_equal(components("two"), components("one"))


def test_batches_have_the_rows_that_were_asked_for(here: Path) -> None:
    for source in ("X.csv", "X.jsonl", *(("blocks", "X.npy") if "dask" in sys.modules else ())):
        found = [batch.X for batch in row_batches(Path(source), 64)]
        assert [len(batch) for batch in found] == [64] * 7 + [52]
        np.testing.assert_array_equal(np.concatenate(found), table())
    sp.save_npz("X.npz", sp.csr_matrix(table()))
    assert [batch.X.shape[0] for batch in row_batches(Path("X.npz"), 300)] == [300, 200]


@pytest.mark.slow
@pytest.mark.parametrize("given", [("--betas", "1"), ("--betas", "1,2"), ("--grow",)], ids=str)
def test_a_stream_that_is_stopped_goes_on_bit_for_bit(
    here: Path, monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...]
) -> None:
    assert run("X.csv", *BASE, *given, "--out", "whole").exit_code == 0
    plain = stream.StreamProgress.take

    def take(self: Any, matrix: Any, model: Any) -> None:
        plain(self, matrix, model)
        if self.taken == 192:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(stream.StreamProgress, "take", take)
        stopped = run("X.csv", *BASE, *given, "--out", "part")
    assert stopped.exit_code == 130
    assert "--continue" in " ".join(stopped.output.split())
    assert json.loads(Path("part/summary.json").read_text())["stream"]["taken"] == 192
    assert run("X.csv", *BASE, *given, "--out", "part", "--continue").exit_code == 0
    np.testing.assert_array_equal(components("part"), components("whole"))
    assert json.loads(Path("part/summary.json").read_text())["stream"]["taken"] == 500


def test_every_pass_holds_out_the_same_rows(here: Path) -> None:
    assert run("X.npy", *BASE, "--grow", "--passes", "2").exit_code == 0
    np.testing.assert_array_equal(load("X-stream/model.npz").held_rows_.toarray(), table()[7::8])
    summary = json.loads(Path("X-stream/summary.json").read_text())["stream"]
    assert (summary["taken"], summary["turn"]) == (500, 1)


def test_a_stream_that_is_killed_goes_on_from_where_it_was_written(here: Path) -> None:
    assert run("X.csv", *BASE, "--out", "whole").exit_code == 0
    command = [sys.executable, "-c", KILLED, "stream", "X.csv", *BASE, "--out", "part", "SIGKILL"]
    ended = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert run("X.csv", *BASE, "--out", "part", "--continue").exit_code == 0
    np.testing.assert_array_equal(components("part"), components("whole"))


def test_rows_that_were_added_are_read_and_those_before_are_not(here: Path) -> None:
    lines = Path("X.jsonl").read_text().splitlines(keepends=True)
    Path("X.jsonl").write_text("".join(lines[:320]))
    assert run("X.jsonl", *BASE).exit_code == 0
    Path("X.jsonl").write_text("".join(lines))
    assert run("X.jsonl", *BASE, "--continue").exit_code == 0
    assert run("X.csv", *BASE, "--out", "whole").exit_code == 0
    np.testing.assert_array_equal(components(), components("whole"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1, 2]\n[1, 2, 3]\n", "line 2: 3 numbers"),
        ("[1, 2]\n[1, \n", "line 2"),
        ('{"a": 1}\n{"b": 2}\n', "names 'b'"),
        ("", "no rows"),
        ("[]\n", "line 1 holds no number"),
        ("[1, 2]\n[1, " + 400 * "9" + "]\n", "line 2 is no array or object of numbers"),
        (100_000 * "[", "line 1 is no array or object of numbers"),
        ('{"a": 1, "a": 2}\n', "a name stands there twice"),
        ("[1, 2]\n\udcff", "is not UTF-8 text"),
    ],
)
def test_lines_that_are_no_rows_are_named(here: Path, content: str, message: str) -> None:
    Path("bad.jsonl").write_text(content, errors="surrogateescape")
    ended = run("bad.jsonl", *BASE)
    assert ended.exit_code == 1
    assert message in " ".join(ended.output.split())


def test_the_model_serves_transform(here: Path) -> None:
    assert run("X.csv", *BASE).exit_code == 0
    assert CliRunner().invoke(app, ["transform", "X-stream", "X.csv", "--out", "W.npy"]).exit_code == 0
    assert np.load("W.npy").shape == (500, 3)
    assert run("X.csv", *BASE).exit_code == 1  # the folder is there


@pytest.mark.parametrize("name", ["X.csv", "X.jsonl"])
def test_a_cell_that_is_refused_is_named_as_in_the_file(here: Path, name: str) -> None:
    X = table()
    X[300, 2] = -1.0
    lines = [",".join(map(str, row)) for row in X]
    Path("X.csv").write_text("id," + ",".join("abcdefg") + "\n" + "".join(f"r{i},{x}\n" for i, x in enumerate(lines)))
    Path("X.jsonl").write_text("".join(json.dumps(row.tolist()) + "\n" for row in X))
    cell = {"X.csv": "row 'r300', column 'c'", "X.jsonl": "row 301, column 3"}[name]
    assert f"{name}: the cell in {cell} is -1" in run(name, *BASE, env={"COLUMNS": "300"}).output


@pytest.mark.parametrize("source", ["X.csv", "plain.csv"])
def test_rows_without_any_value_are_rows_wherever_a_batch_ends(here: Path, source: str) -> None:
    lines = Path(source).read_text().splitlines()
    start = len(lines) - 500
    for i in (*range(start + 60, start + 200), *range(start + 490, start + 500)):  # two batches of gaps, and an end
        lines[i] = "," * lines[start].count(",")
    Path(source).write_text("\n".join(lines) + "\n")
    X = table()[:490]
    X[60:200] = np.nan
    found = [batch.X for batch in row_batches(Path(source), 64)]
    assert [len(batch) for batch in found] == [64] * 7 + [42]
    np.testing.assert_array_equal(np.concatenate(found), X)


def test_rows_before_one_that_is_refused_are_not_lost(here: Path) -> None:
    assert run("X.csv", *BASE, "--out", "whole").exit_code == 0
    text = Path("X.csv").read_text()
    Path("X.csv").write_text(text.replace("r300,", "r300,-", 1))
    ended = run("X.csv", *BASE, "--out", "part")
    assert ended.exit_code == 1
    said = " ".join(ended.output.split())
    assert "row 'r300'" in said
    assert "The model of the 256 rows before is in part" in said
    Path("X.csv").write_text(text)
    assert run("X.csv", *BASE, "--out", "part", "--continue").exit_code == 0
    np.testing.assert_array_equal(components("part"), components("whole"))


def test_rows_that_cannot_be_read_again_are_not_asked_for_again(here: Path) -> None:
    text = Path("plain.csv").read_text()
    ended = run("-", *BASE, "--out", "part", input=text + "1,2,x,4,5,6,7\n")
    said = " ".join(ended.output.split())
    assert "standard input, line 501, column 3: 'x' is not a number" in said
    assert "The model of the 448 rows before is in part: correct the input, and continue with the rows after" in said
    rest = "".join(text.splitlines(keepends=True)[448:])
    assert run("-", *BASE, "--out", "part", "--continue", input=rest).exit_code == 0
    assert run("X.csv", *BASE, "--out", "whole").exit_code == 0
    np.testing.assert_array_equal(components("part"), components("whole"))


def test_a_stream_goes_on_only_as_what_it_is(here: Path) -> None:
    Path("five.csv").write_text("1,2,3,4,5\n2,3,4,5,6\n")
    missing = run("X.csv", *BASE, "--out", "part", "--continue").output
    assert "part does not exist: leave --continue out" in missing
    assert run("X.csv", *BASE, "--out", "part").exit_code == 0
    before = components("part")
    for options, message in (
        (("X.csv", *BASE, "--rank", "4"), "--rank is 4, but the stream in part has 3"),
        (("X.csv", *BASE, "--betas", "2"), "--betas is Fro, but the stream in part has KL"),
        (("five.csv", *BASE), "five.csv has 5 columns, but the rows before have 7"),
    ):
        assert message in run(*options, "--out", "part", "--continue", env={"COLUMNS": "300"}).output
    np.testing.assert_array_equal(components("part"), before)


def test_a_mark_and_blank_lines_before_the_first_row_are_none(here: Path) -> None:
    lines = ['{"a": 1.0, "b": 2.0}', '{"b": 1.0}', "[3.0, 4.0]"]
    Path("plain.jsonl").write_text("\n".join(lines))
    Path("marked.jsonl").write_text("\n\n" + "\n".join(lines), encoding="utf-8-sig")
    found = [list(row_batches(Path(name), 8)) for name in ("plain.jsonl", "marked.jsonl")]
    np.testing.assert_array_equal(found[0][0].X, found[1][0].X)
    assert found[1][0].column_names == ("a", "b")


def test_no_other_dtype_is_computed_in(here: Path) -> None:
    assert run("X.npy", *BASE, "--dtype", "int8").exit_code == 2  # which would cut off decimals


def test_standard_input_is_read_once(here: Path) -> None:
    ended = CliRunner().invoke(app, ["stream", "-", *BASE, "--passes", "2"], input="1,2\n3,4\n")
    assert ended.exit_code == 2
    assert "can be read once" in " ".join(ended.output.split())
