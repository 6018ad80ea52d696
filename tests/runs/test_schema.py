"""Every file and every field that a command writes is named in the schema, and is read back by these names."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from drnmf.apps.audio import demo
from drnmf.cli import app
from drnmf.losses.beta import Beta
from drnmf.losses.negative_binomial import NegativeBinomial
from drnmf.runs import schema
from drnmf.runs.read import compared, files_of_run, model_file, read_run

FAST = ("--rank", "2", "--max-iter", "4", "--quiet", "--no-report")
COMMANDS = {
    "fit": ("fit", "X.csv", "--betas", "0,0.5", *FAST),
    "pareto": ("pareto", "X.csv", "--points", "2", *FAST),
    "separate": ("separate", "a.wav", "--group", "2", *FAST),
    "topics": ("topics", "texts", "--min-df", "1", "--max-df", "1", *FAST),
    "demo": ("demo", "--quiet", "--no-report"),
    "stream": ("stream", "X.csv", "--rank", "2", "--batch", "6", "--quiet", "--no-report"),
    "assign": ("assign", "X.csv", "--components", "known.csv"),
    "discover": ("discover", "X.csv", "--ranks", "2:3", "--runs", "2", "--max-iter", "4", "--quiet", "--no-report"),
}
FILES = {
    value for name, value in vars(schema).items() if name.isupper() and isinstance(value, str)
}  # the constants of the module


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """One run of every command."""
    wavfile = pytest.importorskip("scipy.io.wavfile")
    pytest.importorskip("soundfile")
    place = tmp_path_factory.mktemp("runs")
    rng = np.random.default_rng(0)
    header = ",".join("abcdefgh")
    np.savetxt(place / "X.csv", rng.gamma(2.0, size=(12, 8)), delimiter=",", header=header, comments="")
    known = "\n".join(f"{name},{i + 1},{8 - i}" for i, name in enumerate("abcdefgh"))
    (place / "known.csv").write_text(f"label,one,two\n{known}\n")
    wavfile.write(place / "a.wav", 8000, (rng.normal(size=8000) * 3000).astype(np.int16))
    (place / "texts").mkdir()
    for i, text in enumerate(["rain snow rain wind", "snow wind snow", "engine wheel brake", "wheel engine wheel"]):
        (place / "texts" / f"{i}.txt").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setattr(demo, "ITERATIONS", 3)
        patch.setattr(demo, "STARTS", 1)
        for name, words in COMMANDS.items():
            result = CliRunner().invoke(app, [*words, "--out", name])
            assert result.exit_code == 0, result.output
    return place


def fields(kind: type) -> set[str]:
    return set(kind.__annotations__)


@pytest.mark.parametrize("kind", schema.KINDS)
def test_what_is_written_is_in_the_schema(runs: Path, kind: str) -> None:
    summary = json.loads((runs / kind / schema.SUMMARY).read_text())
    assert set(summary) <= fields(schema.Summary)
    assert summary["kind"] == kind
    written = {path.relative_to(runs / kind).as_posix() for path in (runs / kind).rglob("*") if path.is_file()}
    assert set(summary["files"]) == written
    assert {name for name in written if name.endswith((".json", ".csv", ".npy", ".npz", ".txt"))} <= FILES
    for name, record in (
        ("audio", schema.Audio),
        ("topics", schema.Topics),
        ("demo", schema.Demo),
        ("discovery", schema.Discovered),
    ):
        assert set(summary.get(name, {})) <= fields(record)
    for sound in [*summary.get("audio", {}).get("components", []), *summary.get("audio", {}).get("groups", [])]:
        assert set(sound) <= fields(schema.Sound)
    for row in summary.get("demo", {}).get("rows", []):
        assert set(row) == fields(schema.DemoRow)
    if kind == "pareto":
        assert set(summary["dr"]) == fields(schema.Solution)


@pytest.mark.parametrize("kind", schema.KINDS)
def test_what_was_written_is_read(runs: Path, kind: str) -> None:
    run = read_run(runs / kind)
    assert run.kind == kind
    assert files_of_run(runs / kind) == {*run.summary["files"], schema.REPORT}
    if kind == "pareto":
        with (runs / kind / schema.FRONT).open() as stream:
            header = next(csv.reader(stream))
        keys = schema.loss_keys(header)
        assert keys == list(run.summary["references"])
        quantities = ("weight", "loss", "scaled_loss")
        assert {schema.column(name, key) for name in quantities for key in keys} < set(header)
        return
    if kind == "discover":
        assert run.trace is not None
        assert [loss.key for loss in run.omega] == list(run.summary["losses"])
        return
    if kind == "assign":  # of known components: there is no fit
        assert run.table(schema.CONTRIBUTIONS)
        return
    assert model_file(runs / kind).name == schema.MODEL
    if kind == "stream":  # rows go by once: no method beside it
        assert run.comparison is None
        assert run.trace is not None
        assert [loss.key for loss in run.omega] == list(run.summary["losses"])
        return
    assert run.comparison is not None
    assert set(run.comparison) == fields(schema.Comparison)
    assert all(set(method) <= fields(schema.Method) for method in run.comparison["methods"])
    assert run.trace is not None
    assert [loss.key for loss in run.omega] == run.comparison["losses"] == list(run.summary["losses"])
    found = [run.summary["scaled_losses"][loss.key] for loss in run.omega]
    assert np.isclose(run.trace.scaled_losses, found).all(axis=1).any()  # the best iteration need not be the last


def test_other_folders_are_no_runs(tmp_path: Path) -> None:
    assert files_of_run(tmp_path) is None
    for text in ("{", "[]", '{"kind": "fit"}', '{"kind": "other", "versions": {"drnmf": "1"}, "files": []}'):
        (tmp_path / schema.SUMMARY).write_text(text)
        assert files_of_run(tmp_path) is None
    with pytest.raises(FileNotFoundError, match=r"model\.npz does not exist"):
        model_file(tmp_path)


def strict(path: Path) -> Any:
    """The content of a JSON file that any reader takes: no NaN in it."""
    return json.loads(path.read_text(), parse_constant=lambda word: pytest.fail(f"{path.name} holds {word}"))


@pytest.mark.parametrize("command", ["fit", "pareto"])
def test_losses_of_another_family_go_by_their_keys(tmp_path: Path, command: str) -> None:
    pytest.importorskip("plotly")
    np.save(tmp_path / "X.npy", np.random.default_rng(0).poisson(4.0, (12, 8)).astype(float))
    words = [command, str(tmp_path / "X.npy"), "--betas", "1,nb:30", "--out", str(tmp_path / "run"), *FAST[:-1]]
    result = CliRunner().invoke(app, [*words, "--report"])
    assert result.exit_code == 0, result.output
    run, summary = read_run(tmp_path / "run"), strict(tmp_path / "run" / schema.SUMMARY)
    assert list(summary["references"]) == ["1", "nb:30"]
    assert summary["parameters"]["betas"] == [1.0, "nb:30.0"]
    header = (tmp_path / "run" / (schema.TRACE if command == "fit" else schema.FRONT)).read_text().partition("\n")[0]
    assert schema.loss_keys(header.split(",")) == ["1", "nb:30"]
    if command == "fit":
        assert run.omega == (Beta(1.0), NegativeBinomial(30))
        comparison = strict(tmp_path / "run" / schema.COMPARISON)
        assert compared(comparison) == run.omega
    page = (tmp_path / "run" / schema.REPORT).read_text(encoding="utf-8")
    assert f"best {NegativeBinomial(30).name} error" in page
