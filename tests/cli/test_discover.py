"""drnmf discover: its options, its files, and what it refuses."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from drnmf.cli import app
from drnmf.cli.discover import parse_ranks
from drnmf.cli.options import parse_seconds
from drnmf.losses.names import as_loss, noise_of
from drnmf.matrices.companions import read_known
from drnmf.matrices.matrix import spelt
from drnmf.selection.stages.run_pool import Study
from drnmf.selection.stages.runs import Run

TYPES = [f"{a}[{b}>{c}]{d}" for b, c in ("CA", "CG", "CT") for a in "ACGT" for d in "ACGT"][:24]
FAST = (
    "--runs",
    "4",
    "--ranks",
    "2:4",
    "--betas",
    "1",
    "--max-iter",
    "150",
    "--tol",
    "1e-4",
    "--level",
    "0",
    "--quiet",
)


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def run(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(word) for word in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result.output


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A catalog of mutation types (rows, in two columns of labels) in tumours, and the truth as COSMIC writes it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    rng = np.random.default_rng(0)
    H = np.repeat(np.eye(3), 8, axis=1) * rng.gamma(2.0, 1.0, 24) + 0.01
    X = rng.poisson(rng.gamma(0.4, 60.0, (40, 3)) @ H).T
    with open("catalog.csv", "w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["Mutation type", "Trinucleotide", *(f"tumour {j}" for j in range(40))])
        for name, row in zip(TYPES, X.tolist(), strict=True):
            writer.writerow([name[2:5], name[0] + name[2] + name[6], *row])
    with open("known.txt", "w") as stream:
        print("Type", "SBS1", "SBS2", "SBS3", sep="\t", file=stream)
        for name, row in reversed(list(zip(TYPES, H.T.tolist(), strict=True))):
            print(name, *row, sep="\t", file=stream)
    return tmp_path


@pytest.mark.slow
def test_penalties_are_named_in_the_summary(here: Path) -> None:
    asked = (*FAST, "--ranks", 3, "--penalty", "sparsity:auto:W,l2:0.01", "--no-report")
    run("discover", "catalog.csv", "--profiles", "rows", *asked)
    summary = json.loads((here / "catalog-discover" / "summary.json").read_text())
    assert summary["discovery"]["penalties"] == ["l2:0.01"]
    assert "penalty" in [stage["name"] for stage in summary["discovery"]["stages"]]
    assert any("No sparsity of the contributions is used" in note for note in summary["notes"])


@pytest.mark.slow
def test_a_catalog_gives_signatures(here: Path) -> None:
    said = run("discover", "catalog.csv", "--profiles", "rows", "--reference", "known.txt", *FAST, "--no-report")
    assert "3 stable components of 3, under KL (counts)." in said
    folder = here / "catalog-discover"
    components = table(folder / "components.csv")
    label, *names = list(components[0])
    assert (label, sorted(names)) == ("label", ["SBS1", "SBS2", "SBS3"])  # all are above 0.9
    assert [spelt(row["label"]) for row in components] == TYPES
    for name in names:
        assert sum(float(row[name]) for row in components) == pytest.approx(1.0)
    contributions = table(folder / "contributions.csv")
    assert list(contributions[0]) == ["label", *names, "unstable"]
    assert contributions[7]["label"] == "tumour 7"
    assert json.loads((folder / "names.json").read_text())["components"] == names
    stability = table(folder / "stability.csv")
    assert [row["component"] for row in stability] == names
    assert sorted(row["match"] for row in stability) == ["SBS1", "SBS2", "SBS3"]
    assert all(row["stable"] == "True" and float(row["similarity"]) > 0.9 for row in stability)
    assert [row["rank"] for row in table(folder / "ranks.csv")] == ["2", "3", "4"]
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["kind"] == "discover"
    assert summary["seed"] == 0
    assert summary["discovery"]["rank"] == summary["discovery"]["stable"] == 3
    assert summary["discovery"]["resample"] == "poisson"
    assert "Every run saw counts drawn anew with X as their mean." in summary["notes"]
    assert set(summary["files"]) == {path.name for path in folder.iterdir()}
    assert not (folder / "noise.csv").exists()  # the losses were given


def test_intervals_are_written_with_what_they_cover(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("plotly")
    monkeypatch.setattr("drnmf.selection.stages.sure.DRAWS", 40)
    monkeypatch.setattr("drnmf.selection.stages.sure.TRUTHS", 4)
    run("discover", "catalog.csv", "--profiles", "rows", *FAST, "--ranks", "3", "--level", "0.8")
    folder = here / "catalog-discover"
    for name, ends in (("components", "intervals"), ("contributions-dense", "contribution_intervals")):
        for row, limits in zip(table(folder / f"{name}.csv"), table(folder / f"{ends}.csv"), strict=True):
            for k in (1, 2, 3):
                low, high = (float(limits[f"component_{k}_{end}"]) for end in ("low", "high"))
                assert low <= float(row[f"component_{k}"]) <= high
    said = json.loads((folder / "summary.json").read_text())["discovery"]["intervals"]
    assert (said["level"], said["draws"], said["truths"], said["noise"]) == (0.8, 40, 4, "Poisson")
    assert said["widening"].keys() == said["coverage"].keys() == {"components", "contributions"}
    assert {(row["found_in"], row["runs"]) for row in table(folder / "stability.csv")} == {("4", "4")}
    page = (folder / "report.html").read_text()
    assert "nominal 80 %, covers in simulation" in page
    assert "found in 4 of 4 runs" in page


def test_without_intervals_none_are_written_and_the_page_says_so(here: Path) -> None:
    pytest.importorskip("plotly")
    run("discover", "catalog.csv", "--profiles", "rows", *FAST, "--ranks", "3")
    folder = here / "catalog-discover"
    assert not (folder / "intervals.csv").exists()
    assert json.loads((folder / "summary.json").read_text())["discovery"]["intervals"] is None
    assert "No intervals were found." in (folder / "report.html").read_text()


@pytest.mark.slow
def test_the_noise_is_written_and_columns_are_the_default(here: Path) -> None:
    run("discover", "catalog.csv", *FAST, "--betas", "auto", "--ranks", "3", "--transpose", "--no-report")
    folder = here / "catalog-discover"
    assert len(table(folder / "components.csv")) == 24
    assert {"name", "beta", "criterion"} <= set(table(folder / "noise.csv")[0])
    assert not (folder / "ranks.csv").exists()


@pytest.mark.slow
def test_the_page_answers_in_order(here: Path) -> None:
    pytest.importorskip("plotly")
    run("discover", "catalog.csv", "--profiles", "rows", "--reference", "known.txt", *FAST)
    page = (here / "catalog-discover" / "report.html").read_text()
    titles = ("How many components", "What noise", "The components", "Where they occur", "Where they do not fit")
    places = [page.index(f"<h2>{title}</h2>") for title in (*titles, "How it was made")]
    assert places == sorted(places)
    assert re.search(r"<h3>SBS1</h3>", page)


@pytest.mark.slow
def test_the_page_names_the_loss_that_was_fitted(here: Path) -> None:
    """Which need not be the one with the smallest criterion: ties go to the simpler."""
    pytest.importorskip("plotly")
    run(
        "discover",
        "catalog.csv",
        "--profiles",
        "rows",
        "--ranks",
        "2",
        "--runs",
        "2",
        "--max-iter",
        "60",
        "--level",
        "0",
        "--quiet",
    )
    page = (here / "catalog-discover" / "report.html").read_text()
    summary = json.loads((here / "catalog-discover" / "summary.json").read_text())
    (key,) = summary["losses"]
    assert f"{as_loss(key).name} ({noise_of(as_loss(key))}) is fitted" in page


def unfinished(said: str, folder: Path, first: str, cure: str) -> None:
    """What is missing, and what to do, comes first wherever a discovery is looked at."""
    assert said.startswith(first)
    assert cure in said
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["discovery"]["finding"].startswith(first)
    assert cure in summary["discovery"]["finding"]
    assert next(iter(summary["discovery"])) == "missing"
    assert summary["discovery"]["missing"]
    assert summary["discovery"]["stable"] == 0
    assert summary["notes"][0].startswith(first)
    assert all(row["stable"] == "False" for row in table(folder / "stability.csv"))
    page = (folder / "report.html").read_text()
    assert page.split('id="headline">')[1].startswith(first)


def test_a_discovery_out_of_time_says_so_first(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("plotly")
    make = Study.run
    monkeypatch.setattr(Study, "run", lambda *given: replace(make(*given), reason="max_time"))
    said = run("discover", "catalog.csv", "--profiles", "rows", *FAST, "--max-time", "1h")
    first = "Out of time: 0 of the 4 runs of the consensus were finished"
    unfinished(said, here / "catalog-discover", first, "To finish it, raise --max-time, which was 3600 s.")


def test_a_discovery_that_was_interrupted_says_so_first(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("plotly")
    make, made = Study.run, []

    def interrupted(*given: object) -> Run:
        made.append(given)
        if len(made) > 3:
            raise KeyboardInterrupt
        return make(*given)

    monkeypatch.setattr(Study, "run", interrupted)
    said = run("discover", "catalog.csv", "--profiles", "rows", *FAST, "--ranks", "3", code=130)
    first = "Interrupted: 3 of the 4 runs of the consensus were finished."
    unfinished(said, here / "catalog-discover", first, "To finish it, let it run to its end.")


@pytest.mark.slow
def test_a_discovery_is_resumed(here: Path) -> None:
    run("discover", "catalog.csv", "--profiles", "rows", *FAST, "--no-report", "--checkpoint", "kept", "--out", "one")
    made = sorted(path.name for path in (here / "kept").glob("rank*.npz"))
    (here / "kept" / made[0]).unlink()
    run("resume", "kept", "--out", "two", "--quiet")
    assert (here / "one/components.csv").read_bytes() == (here / "two/components.csv").read_bytes()
    assert sorted(path.name for path in (here / "kept").glob("rank*.npz")) == made


@pytest.mark.parametrize(
    ("options", "message", "code"),
    [
        (("--ranks", "5:2"), "names no ranks", 2),
        (("--ranks", "two"), "names no ranks", 2),
        (("--ranks", "2:90"), "at most 24", 1),
        (("--max-time", "soon"), "is no time", 2),
        (("--max-time", "0.0001s"), "too short: no two runs", 1),
        (("--profiles", "cells"), "--profiles", 2),
        (("--resample", "often"), "--resample", 2),
        (("--runs", "1"), "--runs", 2),
        (("--reference", "wrong.txt"), "lacks 24 of 24 labels: 'A[C>A]A'", 1),
        (("--reference", "nowhere.txt"), "does not exist", 1),
        (("--checkpoint", "catalog-discover/kept"), "--checkpoint", 2),
    ],
)
def test_bad_options_leave_nothing_behind(here: Path, options: tuple[str, ...], message: str, code: int) -> None:
    Path("wrong.txt").write_text("Type\tSBS1\nApple\t0.5\nPear\t0.5\n")
    before = sorted(path.name for path in here.iterdir())
    said = run("discover", "catalog.csv", "--profiles", "rows", *FAST, *options, code=code)
    assert message in " ".join(said.split())
    assert sorted(path.name for path in here.iterdir()) == before


def test_times_and_ranks() -> None:
    assert [parse_seconds(text) for text in ("90", "90s", "10m", "1.5h")] == [90.0, 90.0, 600.0, 5400.0]
    assert parse_ranks("2:5", 3) == [2, 3, 4, 5]
    assert parse_ranks("2:30", 4, asked=False) == [2, 3, 4]
    assert parse_ranks("3, 8", 9) == [3, 8]
    with pytest.raises(typer.BadParameter):
        parse_ranks("0:4", 9)


def test_a_reference_without_labels_must_have_as_many_rows(here: Path) -> None:
    np.save("known.npy", np.ones((24, 2)))
    found = read_known(Path("known.npy"), "--reference", tuple(TYPES), 24)
    assert found.components.shape == (2, 24)
    assert found.names == ["reference_1", "reference_2"]
    with pytest.raises(ValueError, match="has 24 rows, but a component of X has 5 entries"):
        read_known(Path("known.npy"), "--reference", None, 5)


def test_negative_cells_are_refused_clipped_or_left_out(here: Path) -> None:
    X = np.random.default_rng(0).gamma(0.4, 1.0, (20, 2)) @ np.random.default_rng(1).gamma(0.4, 1.0, (2, 8)) + 0.1
    X[3, 4] = -0.5
    lines = [",".join(["gene", *(f"s{j}" for j in range(8))])]
    lines += [",".join([f"g{i}", *map(str, row)]) for i, row in enumerate(X.tolist())]
    Path("x.csv").write_text("\n".join(lines) + "\n")
    options = (*FAST, "--ranks", "2:3", "--no-report")
    refused = run("discover", "x.csv", *options, code=1)
    assert "row 'g3', column 's4' is -0.5, and NMF needs values >= 0: pass --negatives clip" in refused
    for choice, done in (("clip", "were set to 0"), ("missing", "count as missing")):
        run("discover", "x.csv", *options, "--negatives", choice, "--out", choice)
        notes = json.loads(Path(choice, "summary.json").read_text())["notes"]
        assert f"1 negative entries of X {done} (--negatives {choice})." in notes
    assert "--negatives" in run("discover", "x.csv", *options, "--negatives", "drop", code=2)


def test_transform_does_not_advise_what_it_lacks(here: Path) -> None:
    Path("x.csv").write_text("gene,a,b\ng1,1,2\ng2,3,1\ng3,2,2\n")
    run("fit", "x.csv", "--rank", "1", "--max-iter", "3", "--tol", "0", "--quiet", "--no-report")
    Path("y.csv").write_text("gene,a,b\ng1,1,-2\n")
    said = run("transform", "x-drnmf", "y.csv", code=1)
    assert "row 'g1', column 'b' is -2, and NMF needs values >= 0: correct it, or use a model that was fitted" in said


def test_what_was_left_out_is_said_before_the_answer(here: Path) -> None:
    """In the terminal, in summary.json and on top of the page."""
    rng = np.random.default_rng(10)
    V = rng.gamma(1.0, size=(60, 3)) @ rng.gamma(1.0, size=(3, 40))
    X = np.clip(np.rint(V * 100.0 / V.mean() + 8.0 * rng.normal(size=V.shape)), 0.0, 255.0)
    np.savetxt("picture.csv", X, delimiter=",", fmt="%d")
    said = run("discover", "picture.csv", *FAST[:2], "--ranks", "3", "--betas", "2", *FAST[6:], "--out", "out")
    caution = re.match(r"[0-9]+ entries \([0-9.]+ %\) are at the largest value, 255", said)
    assert caution
    search = json.loads(Path("out/summary.json").read_text())["discovery"]
    assert search["cautions"][0].startswith(caution[0])
    assert said.startswith(f"{search['cautions'][0]} {search['finding']}")
    page = Path("out/report.html").read_text()
    assert page.index(caution[0]) < page.index("How many components")
