"""Where the commands run, how often they start and how long they may take."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from drnmf.cli import app
from drnmf.runs.read import read_table
from tests import flat

DATA = np.random.default_rng(0).gamma(2.0, size=(14, 9))
SHORT = ("--rank", "2", "--betas", "0,1", "--quiet", "--no-report", "--out", "run")
COMMANDS = {"fit": ("fit", "X.npy", *SHORT), "pareto": ("pareto", "X.npy", "--points", "3", *SHORT)}
BOTH = pytest.mark.parametrize("command", list(COMMANDS))


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("X.npy", DATA)


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, (result.output, result.exception)
    return result.output


def summary() -> dict[str, Any]:
    return json.loads(Path("run/summary.json").read_text())


@BOTH
def test_device_and_precision_reach_the_library(command: str) -> None:
    run(*COMMANDS[command], "--max-iter", "5", "--device", "cpu", "--precision", "tf32")
    parameters = summary()["parameters"]
    assert (parameters["device"], parameters["precision"]) == ("cpu", "tf32")


@BOTH
@pytest.mark.parametrize("device", ["cuda", "cuda:1", "cuda-blocks"])
def test_a_gpu_that_is_not_here_is_one_line(command: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    Path("X.npy").unlink()  # the GPU is looked for before X is read
    output = run(*COMMANDS[command], "--device", device, code=1)
    assert output == f"Error: --device {device} cannot be used: PyTorch is not installed: pip install 'drnmf[cuda]'.\n"
    assert not Path("run").exists()


@BOTH
def test_auto_without_a_gpu_is_the_cpu(
    command: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    run(*COMMANDS[command], "--max-iter", "5", "--device", "auto")
    assert caplog.messages[0].startswith("No GPU is used")
    assert summary()["parameters"]["device"] == "auto"


@BOTH
def test_unknown_devices_and_precisions_are_bad_usage(command: str) -> None:
    for device in ("gpu", "cuda:", "cuda:first", "cudax", "cuda:0 "):
        assert "is not one of auto, cpu, cuda" in run(*COMMANDS[command], "--device", device, code=2)
    assert "is not one of float32, tf32" in run(*COMMANDS[command], "--precision", "half", code=2)
    assert not Path("run").exists()


def test_blocks_of_rows_are_not_for_a_gpu() -> None:
    output = run(*COMMANDS["fit"], "--workers", "2", "--device", "auto", code=2)
    assert "blocks of rows" in output
    Path("blocks").mkdir()
    assert "blocks of rows" in run("fit", "blocks", *SHORT, "--device", "auto", code=2)


def test_every_point_of_a_front_keeps_the_best_of_its_starts() -> None:
    run(*COMMANDS["pareto"], "--max-iter", "20", "--tol", "0", "--n-init", "3")
    settings: dict[str, Any] = {"betas": (0, 1), "weights": 3, "max_iter": 20, "tol": 0, "random_state": 0}
    best = flat.pareto_front(DATA, 2, n_init=3, **settings)
    assert summary()["dr"]["losses"] == {"0": best.dr.losses[0], "1": best.dr.losses[1]}
    assert not np.array_equal(best.losses, flat.pareto_front(DATA, 2, **settings).losses)


@BOTH
def test_max_time_ends_what_has_iterations_left(command: str) -> None:
    run(*COMMANDS[command], "--max-iter", "300000", "--tol", "0", "--max-time", "0.05")
    assert summary()["parameters"]["max_time"] == 0.05
    if command == "fit":
        assert summary()["reason"] == "max_time"
    else:
        assert all(int(row["n_iter"]) < 300000 for row in read_table(Path("run/front.csv")))
    assert "max-time" in run(*COMMANDS[command], "--max-time", "0", code=2)
