"""Every experiment at small size: run, resume, render without the data, page."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from drnmf.apps.paper import fits, paper, runner
from drnmf.apps.paper.fits import Options
from drnmf.apps.paper.runner import EXPERIMENTS
from drnmf.cli import app
from drnmf.runs.read import read_table

pytestmark = pytest.mark.usefixtures("small")
ITERATIONS = 8


def missing(page: str) -> set[str]:
    """Name the data sets that a page says where to get."""
    rows = page.partition("where to get it |")[2].splitlines()[2:]
    return {name for row in rows if row.startswith("| ") for name in row.split(" | ")[0].removeprefix("| ").split(", ")}


def options(folder: Path, **changes: object) -> Options:
    return Options(**({"data": folder, "seeds": 2, "max_iter": ITERATIONS} | changes))  # type: ignore[arg-type]


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the units that were computed (and so written)."""
    names: list[str] = []
    write = fits.write

    def spy(path: Path, saved: fits.Saved) -> None:
        names.append(path.name)
        write(path, saved)

    monkeypatch.setattr(fits, "write", spy)
    return names


@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_run_resume_and_render(
    name: str, folder: Path, tmp_path: Path, computed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment, out = EXPERIMENTS[name], tmp_path / "out"
    runner.run([experiment], options(folder), out)
    first = list(computed)
    assert len(first) == len(set(first)) > 0
    runner.render([experiment], out)
    files = {f"{name}.csv", f"{name}.md", *(f"{name}.png" for name in experiment.figures)}
    assert all((out / file).stat().st_size > 0 for file in files)
    table, page = (out / f"{name}.csv").read_bytes(), (out / f"{name}.md").read_text()
    assert experiment.title in page
    # A second run has nothing to do; what was lost is computed again, and only that.
    runner.run([experiment], options(folder), out)
    assert computed == first
    lost = sorted((out / "units" / name).glob("*.npz"))[-1]
    lost.unlink()
    runner.run([experiment], options(folder), out)
    assert computed == [*first, lost.name]
    # Rendering needs no data and no fit.
    shutil.rmtree(folder)
    if name == "mary-figure":  # by far the slowest to paint, and painted once above
        monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda self, path, **kwargs: path.touch())
    for file in files:
        (out / file).unlink()
    runner.render([experiment], out)
    assert (out / f"{name}.csv").read_bytes() == table
    assert (out / f"{name}.md").read_text() == page
    assert len(computed) == len(first) + 1


@pytest.mark.usefixtures("unpainted")
@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_ours_adds_columns_and_keeps_the_others(name: str, folder: Path, tmp_path: Path, computed: list[str]) -> None:
    experiment, out = EXPERIMENTS[name], tmp_path / "out"
    runner.run([experiment], options(folder, seeds=1), out)
    runner.render([experiment], out)
    before, done = read_table(out / f"{name}.csv"), len(computed)
    runner.run([experiment], options(folder, seeds=1, ours=True), out)
    runner.render([experiment], out)
    added = computed[done:]
    assert added
    assert all("ours" in file for file in added)
    after = read_table(out / f"{name}.csv")
    if name.startswith("table"):
        assert [{k: v for k, v in row.items() if not k.startswith("ours_")} for row in after] == before
        assert all(row["ours_dr_kl_excess"] for row in after)
    else:
        assert [row for row in after if "ours" not in row.values()] == before
    assert "default" in (out / f"{name}.md").read_text()


@pytest.mark.usefixtures("unpainted")
def test_documents_table(folder: Path, tmp_path: Path) -> None:
    experiment = EXPERIMENTS["table-documents"]
    runner.run([experiment], options(folder), tmp_path / "out")
    runner.render([experiment], tmp_path / "out")
    rows = {row["dataset"]: row for row in read_table(tmp_path / "out" / "table-documents.csv")}
    measures = ["acc_kl", "acc_fro", "acc_dr", "fro_kl_excess", "dr_kl_excess", "kl_fro_excess", "dr_fro_excess"]
    assert list(rows["classic"]) == ["dataset", "rank", *measures, *(f"paper_{m}" for m in measures)]
    assert list(rows) == ["classic", "tr23", "tr11_cluto", "newsgroups3_politics", "average"]
    assert rows["classic"]["rank"] == "4"
    assert float(rows["classic"]["paper_acc_kl"]) == 83.66
    assert float(rows["tr11_cluto"]["paper_kl_fro_excess"]) == 97.27
    assert rows["newsgroups3_politics"]["paper_acc_kl"] == ""
    own = [float(rows[name]["acc_kl"]) for name in ("classic", "tr23")]
    assert float(rows["average"]["acc_kl"]) == pytest.approx(sum(own) / 2, rel=1e-4)  # own data sets only
    assert float(rows["classic"]["acc_kl"]) > 50
    page = (tmp_path / "out" / "table-documents.md").read_text()
    assert missing(page) == set(paper.DOCUMENTS) - {"classic", "tr23"}


@pytest.mark.usefixtures("unpainted")
def test_audio_table(folder: Path, tmp_path: Path) -> None:
    experiment = EXPERIMENTS["table-audio"]
    runner.run([experiment], options(folder), tmp_path / "out")
    runner.render([experiment], tmp_path / "out")
    rows = {row["dataset"]: row for row in read_table(tmp_path / "out" / "table-audio.csv")}
    pairs = [n for m in ("kl_is_excess", "dr_is_excess", "is_kl_excess", "dr_kl_excess") for n in (m, f"{m}_std")]
    assert list(rows["piano_Mary"]) == ["dataset", "m", "n", *pairs, *(f"paper_{n}" for n in pairs)]
    assert list(rows) == ["piano_Mary", "isse_bass_drum", "sisec_nodrums"]
    assert (rows["piano_Mary"]["m"], rows["piano_Mary"]["n"]) == ("129", "61")
    assert float(rows["isse_bass_drum"]["paper_dr_is_excess_std"]) == 3.01
    assert rows["sisec_nodrums"]["paper_kl_is_excess"] == ""
    assert float(rows["piano_Mary"]["kl_is_excess_std"]) > 0
    page = (tmp_path / "out" / "table-audio.md").read_text()
    assert "syntBassDrum" in missing(page)
    assert "the demo page of ISSE" in page
    assert "holiday.wav" in page


def test_an_empty_data_folder_gives_an_empty_table_and_a_list_of_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    experiments = [EXPERIMENTS[name] for name in ("table-documents", "table-audio", "mary-figure")]
    runner.run(experiments, options(tmp_path / "data"), tmp_path / "out")
    runner.render(experiments, tmp_path / "out")
    for name in ("table-documents", "table-audio", "mary-figure"):
        assert read_table(tmp_path / "out" / f"{name}.csv") == []
    page = (tmp_path / "out" / "reproduction.md").read_text()
    assert all(name in page for name in (*paper.DOCUMENTS, *paper.AUDIO))


def test_changed_data_is_computed_again(folder: Path, tmp_path: Path, computed: list[str]) -> None:
    experiment = EXPERIMENTS["table-audio"]
    runner.run([experiment], options(folder, seeds=1), tmp_path / "out")
    done = len(computed)
    (folder / "audio" / "piano_Mary.wav").write_bytes((folder / "audio" / "holiday.wav").read_bytes()[:-1] + b"\1")
    runner.run([experiment], options(folder, seeds=1), tmp_path / "out")
    assert all(name.startswith("piano_Mary") for name in computed[done:])
    assert len(computed) == done + 3


@pytest.mark.usefixtures("unpainted")
def test_the_command(folder: Path, tmp_path: Path) -> None:
    arguments = ["reproduce", "all", "--data", str(folder), "--seeds", "1", "--max-iter", "4", "--threads", "1"]
    result = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "out" / "reproduction.md").exists()
    for name in EXPERIMENTS:
        (tmp_path / "out" / f"{name}.csv").unlink()
    again = CliRunner().invoke(app, ["reproduce", "table-audio", "--render", "--out", str(tmp_path / "out")])
    assert again.exit_code == 0, again.output
    assert (tmp_path / "out" / "table-audio.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["all"], 1, "DRNMF_DATA"),
        (["table-tennis"], 2, "table-tennis"),
        (["table-audio", "--data", "nowhere"], 1, "nowhere is not a folder"),
        (["weights-figure", "--render"], 1, "run it first"),
    ],
)
def test_bad_calls_say_what_is_wrong(
    arguments: list[str], code: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DRNMF_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["reproduce", *arguments, "--out", "out"])
    assert result.exit_code == code
    assert message in result.output
    assert not (tmp_path / "out").exists()
