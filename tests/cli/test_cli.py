"""The commands: what they write, what they refuse, and that a failure leaves nothing behind."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

import drnmf
from drnmf.apps.audio import demo as demo_command
from drnmf.cli import COMMANDS, app, results
from drnmf.loading import load

runner = CliRunner()
RNG = np.random.default_rng(0)
DATA = RNG.uniform(0.1, 1, (12, 4)) @ RNG.uniform(0.1, 1, (4, 9)) + 0.05 * RNG.uniform(size=(12, 9))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder with X.npy in it."""
    monkeypatch.chdir(tmp_path)
    np.save("X.npy", DATA)
    return tmp_path


def run(*arguments: str, code: int = 0) -> str:
    result = runner.invoke(app, list(arguments))
    assert result.exit_code == code, (result.output, result.exception)
    return result.output


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


FAST = ("--max-iter", "20", "--tol", "0", "--quiet")


def test_fit_writes_everything_the_estimator_found(here: Path) -> None:
    run("fit", "X.npy", "--rank", "3", "--betas", "0,1", "--seed", "4", *FAST)
    out = here / "X-drnmf"
    names = ["H.npy", "W.npy", "comparison.json", "model.npz", "report.html", "summary.json", "trace.csv"]
    assert files(out) == names
    expected = drnmf.DRNMF(3, betas=(0, 1), random_state=4, max_iter=20, tol=0)
    W = expected.fit_transform(DATA)
    np.testing.assert_array_equal(np.load(out / "W.npy"), W)
    np.testing.assert_array_equal(np.load(out / "H.npy"), expected.components_)
    np.testing.assert_array_equal(drnmf.load(out / "model.npz").components_, expected.components_)
    with open(out / "trace.csv", newline="") as stream:
        trace = list(csv.DictReader(stream))
    assert [int(row["iteration"]) for row in trace] == list(range(21))
    for b in (0, 1):
        assert [float(row[f"scaled_loss_{b}"]) for row in trace] == expected.trace_.scaled_losses[:, b].tolist()
        assert [float(row[f"weight_{b}"]) for row in trace] == expected.trace_.weights[:, b].tolist()
    summary = json.loads((out / "summary.json").read_text())
    assert summary["estimator"] == "DRNMF"
    assert summary["seed"] == 4
    assert summary["input"]["sha256"] == hashlib.sha256((here / "X.npy").read_bytes()).hexdigest()
    assert summary["input"]["shape"] == [12, 9]
    assert summary["versions"]["drnmf"] == drnmf.__version__
    assert set(summary["versions"]) == {"drnmf", "python", "numpy", "scipy", "scikit-learn"}
    for name in ("losses", "references", "scaled_losses", "weights"):
        assert list(summary[name].values()) == getattr(expected, f"{name}_").tolist()
    assert summary["parameters"]["max_iter"] == 20
    assert summary["reason"] == "max_iter"
    assert oct(out.stat().st_mode & 0o777) == "0o755"


def test_one_loss_several_losses_or_given_weights(here: Path) -> None:
    def estimator(*options: str) -> Any:
        run("fit", "X.npy", "--rank", "2", "--out", "run", "--overwrite", *options, *FAST)
        return drnmf.load(here / "run" / "model.npz")

    assert type(estimator("--betas", "0")).__name__ == "BetaNMF"
    assert type(estimator("--betas", "frobenius")).__name__ == "BetaNMF"
    assert type(estimator("--betas", "kullback-leibler,2")).__name__ == "DRNMF"
    fixed = estimator("--betas", "1,2", "--weights", "0.3,0.7")
    assert type(fixed).__name__ == "MultiObjectiveNMF"
    assert fixed.weights_.tolist() == [0.3, 0.7]
    assert estimator("--policy", "mirror", "--update", "monotone", "--init", "nndsvdar").solver.policy == "mirror"
    assert estimator("--dtype", "float32").components_.dtype == np.float32
    assert estimator("--n-init", "2").n_init == 2


def test_fit_reads_sparse_and_tables_with_names(here: Path) -> None:
    counts = sp.random(20, 8, density=0.5, random_state=0, format="csr")
    sp.save_npz("sparse.npz", counts)
    run("fit", "sparse.npz", "--rank", "2", *FAST)
    assert np.load("sparse-drnmf/W.npy").shape == (20, 2)
    names = [f"gene {j}" for j in range(9)]
    frame = pd.DataFrame(DATA, index=[f"cell {i}" for i in range(12)], columns=names)
    frame.to_csv("table.csv")
    run("fit", "table.csv", "--rank", "2", *FAST)
    stored = json.loads(Path("table-drnmf/names.json").read_text())
    assert stored == {"rows": frame.index.tolist(), "columns": names, "components": ["component_1", "component_2"]}
    assert drnmf.load("table-drnmf/model.npz").feature_names_in_.tolist() == names
    run("transform", "table-drnmf", "table.csv")
    assert np.load("table-W.npy").shape == (12, 2)
    frame[frame.columns[::-1]].to_csv("swapped.csv")
    assert "column 1 is 'gene 8'" in run("transform", "table-drnmf", "swapped.csv", code=1)
    assert not Path("swapped-W.npy").exists()


def test_transform_is_the_models(here: Path) -> None:
    run("fit", "X.npy", "--rank", "3", "--betas", "1", "--max-iter", "300", "--quiet")
    run("transform", "X-drnmf", "X.npy", "--out", "new/W.npy")
    np.testing.assert_array_equal(np.load("new/W.npy"), drnmf.load("X-drnmf/model.npz").transform(DATA))
    assert files(here / "new") == ["W.npy"]
    assert "exists" in run("transform", "X-drnmf", "X.npy", "--out", "new/W.npy", code=1)
    run("transform", "X-drnmf/model.npz", "X.npy", "--out", "new/W.npy", "--overwrite")
    np.save("narrow.npy", DATA[:, :4])
    assert "features" in run("transform", "X-drnmf", "narrow.npy", code=1)
    assert "does not exist" in run("transform", "nowhere", "X.npy", code=1)
    assert "input itself" in run("transform", "X-drnmf", "X.npy", "--out", "X.npy", "--overwrite", code=1)
    Path("X-drnmf/model.npz").write_bytes(b"PK broken")
    assert "not a readable drnmf model" in run("transform", "X-drnmf", "X.npy", code=1)
    assert not Path("X-W.npy").exists()
    assert not Path("narrow-W.npy").exists()


def test_pareto_writes_the_front_and_its_page(here: Path) -> None:
    output = run("pareto", "X.npy", "--rank", "2", "--betas", "0,1", "--points", "4", *FAST)
    assert files(here / "X-pareto") == ["front.csv", "report.html", "summary.json"]
    with open("X-pareto/front.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    front = drnmf.pareto_front(drnmf.DRNMF(2, betas=(0, 1), max_iter=20, tol=0, random_state=0), DATA, weights=4)
    assert [row["kind"] for row in rows] == ["front"] * 4 + ["dr"]
    assert [float(row["scaled_loss_1"]) for row in rows[:4]] == front.scaled_losses[:, 1].tolist()
    assert json.loads(Path("X-pareto/summary.json").read_text())["dr"]["losses"]["0"] == front.dr.losses[0]
    assert "4 points" in output


@pytest.mark.slow
def test_demo(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_command, "STARTS", 3)
    monkeypatch.setattr(demo_command, "ITERATIONS", 150)
    output = run("demo", "--out", "result", "--quiet")
    assert "DR-NMF" in output
    sounds = [f"component_{k}.wav" for k in range(1, 5)]
    tables = ["comparison.json", *sounds, "mixture", "model.npz", "report.html"]
    assert files(here / "result") == ["H.npy", "W.npy", *tables, "summary.json", "table.csv", "trace.csv"]
    table = pd.read_csv("result/table.csv")
    assert table["method"].tolist() == ["IS-NMF", "KL-NMF", "DR-NMF"] * 3
    assert table["noise"].unique().tolist() == ["clean", "poisson", "gamma"]
    for _, own in table.groupby("noise"):
        worst = own.set_index("method")[["scaled_IS", "scaled_KL"]].max(axis=1)
        assert worst.idxmin() == "DR-NMF"
        np.testing.assert_allclose(own.set_index("method").loc["KL-NMF", "scaled_KL"], 1)
    clean = table[table["noise"] == "clean"].set_index("method")
    assert set(clean["notes"].str.split().explode()) <= {"C", "D", "E", "click"}
    model = json.loads(Path("result/summary.json").read_text())
    np.testing.assert_allclose(model["scaled_losses"]["0"], clean.loc["DR-NMF", "scaled_IS"])
    run("demo", "--out", "result", "--quiet", code=1)
    run("demo", "--out", "result", "--quiet", "--overwrite")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--rank", "0"),
        ("--rank", "2.5"),
        ("--rank", "2", "--betas", "1,1"),
        ("--rank", "2", "--betas", "-1"),
        ("--rank", "2", "--betas", "one"),
        ("--rank", "2", "--betas", ""),
        ("--rank", "2", "--betas", "nan"),
        ("--rank", "2", "--update", "magic"),
        ("--rank", "2", "--policy", "magic"),
        ("--rank", "2", "--init", "custom"),
        ("--rank", "2", "--zeros", "keep"),
        ("--rank", "2", "--dtype", "int"),
        ("--rank", "2", "--max-iter", "0"),
        ("--rank", "2", "--tol", "-1"),
        ("--rank", "2", "--threads", "0"),
        ("--rank", "2", "--weights", "0.5,0.6"),
        ("--rank", "2", "--weights", "0.5,0.2,0.3"),
        ("--rank", "2", "--weights", "a,b"),
        ("--rank", "2", "--weights", "0.5,0.5", "--policy", "mirror"),
        ("--rank", "2", "--betas", "1", "--policy", "mirror"),
        ("--rank", "2", "--nonsense"),
    ],
    ids=" ".join,
)
def test_bad_usage_exits_with_2_and_writes_nothing(here: Path, arguments: tuple[str, ...]) -> None:
    run("fit", "X.npy", *arguments, code=2)
    assert files(here) == ["X.npy"]


def test_bad_usage_of_the_other_commands(here: Path) -> None:
    run("pareto", "X.npy", "--rank", "2", "--betas", "1", code=2)
    run("pareto", "X.npy", "--rank", "2", "--points", "1", code=2)
    run("pareto", "X.npy", "--rank", "2", "--method", "magic", code=2)
    run("transform", "X.npy", code=2)
    run("nonsense", code=2)
    assert files(here) == ["X.npy"]


def bad(kind: str) -> Path:
    path = Path("bad.npy")
    if kind == "truncated":
        path.write_bytes(Path("X.npy").read_bytes()[:-9])
    elif kind == "objects":
        np.save(path, np.array([[{}]]), allow_pickle=True)
    elif kind != "missing":
        value = {"negative": -1.0, "infinite": np.inf, "zero": 0.0}[kind]
        X = DATA.copy()
        X[3, 2] = value
        np.save(path, X)
    return path


@pytest.mark.parametrize("command", ["fit", "pareto"])
@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("missing", "does not exist"),
        ("truncated", "cut short"),
        ("objects", "objects"),
        ("negative", "the cell in row 4, column 3 is -1"),
        ("infinite", "the cell in row 4, column 3 is infinite"),
        ("zero", "X[3, 2]"),
    ],
)
def test_bad_data_exits_with_1_and_writes_nothing(here: Path, command: str, kind: str, message: str) -> None:
    path = bad(kind)
    before = files(here)
    output = run(command, str(path), "--rank", "2", "--betas", "0,1", "--out", "deep/er", *FAST, code=1)
    assert message in output.replace("\n", " ")
    assert "Traceback" not in output
    assert files(here) == before


def test_overwrite(here: Path) -> None:
    command = ("fit", "X.npy", "--rank", "2", "--out", "run", *FAST)
    run(*command)
    Path("run/mine.txt").write_text("kept")
    assert "--overwrite" in run(*command, code=1)
    assert Path("run/mine.txt").exists()
    run(*command, "--overwrite")
    assert Path("run/mine.txt").read_text() == "kept"
    assert files(here) == ["X.npy", "run"]
    Path("file").write_text("")
    assert "not a folder" in run("fit", "X.npy", "--rank", "2", "--out", "file", "--overwrite", code=1)


def test_overwrite_never_deletes_the_input_or_the_working_folder(here: Path) -> None:
    for out in (".", str(here.parent)):
        assert "would delete" in run("fit", "X.npy", "--rank", "2", "--out", out, "--overwrite", code=1)
    Path("data").mkdir()
    os.rename("X.npy", "data/X.npy")
    assert "would delete" in run("fit", "data/X.npy", "--rank", "2", "--out", "data", "--overwrite", code=1)
    assert files(here / "data") == ["X.npy"]


def test_a_failure_while_writing_keeps_the_old_results(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ("fit", "X.npy", "--rank", "2", "--out", "run", "--overwrite", *FAST)
    run(*command)
    old = Path("run/W.npy").read_bytes()

    def full(*arguments: Any, **options: Any) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr("drnmf.runs.write.write_summary", full)
    assert "No space left" in run(*command, "--seed", "5", code=1)
    assert files(here) == ["X.npy", "run"]
    assert Path("run/W.npy").read_bytes() == old


def test_output_folder_is_removed_on_any_error(here: Path) -> None:
    def interrupted() -> None:
        with results.Results(here / "run").writing() as folder:
            (folder / "half").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert files(here) == ["X.npy"]


def test_brackets_in_the_names_of_folders_are_no_markup(here: Path) -> None:
    assert "results in [red]" in run("fit", "X.npy", "--rank", "2", "--max-iter", "2", "--out", "[red]", "--no-report")


def test_several_matrices_need_a_name(here: Path) -> None:
    np.savez("two.npz", A=DATA, B=2 * DATA)
    assert "--variable A" in run("fit", "two.npz", "--rank", "2", *FAST, code=1).replace("\n", " ")
    run("fit", "two.npz", "--rank", "2", "--variable", "B", *FAST)
    assert json.loads(Path("two-drnmf/summary.json").read_text())["input"]["variable"] == "B"


def test_warnings_are_one_line_and_kept(here: Path) -> None:
    output = run("fit", "X.npy", "--rank", "2", "--max-iter", "3", "--quiet")
    assert "Warning: DRNMF has not converged" in output.replace("\n", " ")
    assert ".py:" not in output
    notes = json.loads(Path("X-drnmf/summary.json").read_text())["notes"]
    assert any("has not converged" in note for note in notes)


def shell(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from drnmf.cli import app; app()", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.slow
def test_as_a_real_process(here: Path) -> None:
    version = shell("--version", cwd=here)
    assert (version.returncode, version.stdout) == (0, f"drnmf {drnmf.__version__}\n")
    done = shell("fit", "X.npy", "--rank", "2", "--max-iter", "15", "--tol", "0", "--threads", "1", cwd=here)
    assert done.returncode == 0, done.stderr
    assert "X-drnmf" in done.stdout
    assert "15/15" in done.stderr  # progress goes to standard error
    again = shell("fit", "X.npy", "--rank", "2", cwd=here)
    assert again.returncode == 1
    assert again.stderr.startswith("Error:")
    assert shell("fit", "X.npy", cwd=here).returncode == 2


HEAVY = {"sklearn", "scipy", "matplotlib", "pandas", "rich.progress"}


@pytest.mark.parametrize(
    ("words", "unwanted"),
    [
        (["--help"], HEAVY | {"numpy", "drnmf.parameters", "drnmf.cli.options", "drnmf.cli.fit"}),
        (["--version"], HEAVY | {"numpy", "drnmf.parameters", "drnmf.cli.options", "drnmf.cli.fit"}),
        (["fit", "--help"], HEAVY | {"drnmf.cli.stream", "drnmf.estimators"}),
        (["separate", "--help"], HEAVY),
        (["reproduce", "--help"], HEAVY),
    ],
)
def test_help_answers_without_the_heavy_imports(here: Path, words: list[str], unwanted: set[str]) -> None:
    code = (
        f"import sys; from drnmf.cli import app\ntry: app({words})\nexcept SystemExit: pass\n"
        f"loaded = {unwanted} & set(sys.modules); assert not loaded, loaded"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_of_a_command_what_its_docstring_begins_with(name: str) -> None:
    assert load(COMMANDS[name].place).__doc__.splitlines()[0] == COMMANDS[name].line


def test_a_command_of_the_library_loads_no_app(here: Path) -> None:
    code = (
        "import sys; from drnmf.cli import app\ntry: app(['fit', '--help'])\nexcept SystemExit: pass\n"
        "assert not [name for name in sys.modules if name.startswith('drnmf.apps')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60)


@pytest.mark.slow
def test_interrupt_leaves_nothing_and_exits_with_130(here: Path) -> None:
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import drnmf.estimators.base, drnmf.matrices.files\n"
        "from drnmf.cli import app; print('ready', flush=True); app()"
    )
    np.save("big.npy", np.random.default_rng(0).uniform(0.1, 1, (300, 300)))
    arguments = ["fit", "big.npy", "--rank", "10", "--max-iter", "1000000", "--tol", "0", "--quiet"]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    output, error = process.communicate(timeout=60)
    assert process.returncode == 130, (output, error)
    assert "Interrupted; nothing was written." in error
    assert files(here) == ["X.npy", "big.npy"]
