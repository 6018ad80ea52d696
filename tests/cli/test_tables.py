"""Tables through the commands: names in every output, on tables that people have."""

from __future__ import annotations

import csv
import json
import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import drnmf
from drnmf.cli import app

DATA = Path(os.environ.get("DRNMF_DATA", Path(__file__).parents[3] / "shared" / "data"))
FILES = [path for folder in ("signatures", "air") for path in sorted((DATA / folder).glob("*.*"))]
FAST = ("--rank", "3", "--max-iter", "5", "--tol", "0", "--quiet")
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    RNG.gamma(1.0, 1.0, (12, 3)) @ RNG.gamma(1.0, 1.0, (3, 9)) + 0.5,
    index=pd.MultiIndex.from_tuples([("C>A" if i < 6 else "C>G", f"A{i}A") for i in range(12)], names=["type", "site"]),
    columns=[f"tumour {j}" for j in range(9)],
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(word) for word in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return re.sub(r"\s+", " ", result.output)


def rows_of(path: Path) -> list[list[str]]:
    with open(path, newline="", encoding="utf-8") as stream:
        return list(csv.reader(stream))


def check_names(out: Path, labels: list[list[str]], columns: list[str]) -> None:
    """Names are in W.csv, H.csv, names.json, the model and the page; the numbers are those of the arrays."""
    W, H = np.load(out / "W.npy"), np.load(out / "H.npy")
    components = [f"component_{k + 1}" for k in range(W.shape[1])]
    for name, factor, along in (("W.csv", W, [" ".join(row) for row in labels]), ("H.csv", H.T, columns)):
        head, *body = rows_of(out / name)
        assert head == ["label", *components]
        assert [row[0] for row in body] == along
        np.testing.assert_array_equal(np.array([row[1:] for row in body], dtype=factor.dtype), factor)
    stored = json.loads((out / "names.json").read_text(encoding="utf-8"))
    assert stored["rows"] == [" ".join(row) for row in labels]
    assert stored["columns"] == columns
    assert drnmf.load(out / "model.npz").feature_names_in_.tolist() == columns
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "The components" in page
    best = columns[int(H[0].argmax())]
    assert best.replace(">", "&gt;") in page or best.replace(">", "\\u003e") in page  # in a list, or under a bar


@pytest.mark.skipif(not FILES, reason=f"no tables under {DATA}: name their folder in DRNMF_DATA")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_real_tables_are_fitted_as_they_are(here: Path, path: Path) -> None:
    pytest.importorskip("plotly")
    mark = "\t" if path.suffix in (".txt", ".tsv") else ","
    count = {"indel_set1.Realistic.catalog.csv": 4, "indel_set1.Realistic.sigs.csv": 4}.get(path.name)
    count = count or (2 if re.search(r"SBS_set1.*(catalog|sigs)", path.name) else 1)
    texts = dict.fromkeys(range(count), str)
    expected = pd.read_csv(path, sep=mark, dtype=texts, keep_default_na=False, na_values=[""]).dropna(how="all")
    run("fit", path, "--out", "out", *FAST)
    labels = expected.iloc[:, :count].to_numpy().tolist()
    check_names(here / "out", labels, expected.columns[count:].tolist())
    assert json.loads(Path("out/summary.json").read_text())["input"]["shape"] == [
        len(expected), expected.shape[1] - count,
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["parquet", "xlsx", "semicolon.csv", "tsv.gz"])
def test_every_kind_of_table_gives_the_same_run(here: Path, kind: str) -> None:
    path = here / f"table.{kind}"
    if kind == "parquet":
        pytest.importorskip("pyarrow")
        FRAME.to_parquet(path)
    elif kind == "xlsx":
        pytest.importorskip("openpyxl")
        FRAME.to_excel(path, merge_cells=False)
    else:
        FRAME.to_csv(path, sep=";" if "semicolon" in kind else "\t", decimal="," if "semicolon" in kind else ".")
    run("fit", path, "--out", "out", *FAST)
    check_names(here / "out", [list(row) for row in FRAME.index], FRAME.columns.tolist())
    W = drnmf.DRNMF(3, max_iter=5, tol=0, random_state=0).fit_transform(FRAME.to_numpy())
    np.testing.assert_allclose(np.load("out/W.npy"), W, rtol=1e-9)


def test_transposed(here: Path) -> None:
    FRAME.to_csv("table.csv")
    run("fit", "table.csv", "--transpose", "--out", "out", *FAST)
    names = [" ".join(row) for row in FRAME.index]
    check_names(here / "out", [[name] for name in FRAME.columns], names)
    stored = json.loads(Path("out/names.json").read_text())
    assert [column["title"] for column in stored["column_labels"]] == ["type", "site"]


def test_what_the_options_say_is_taken(here: Path) -> None:
    pd.DataFrame({"when": range(2001, 2013), "a": range(12), "b": range(1, 13)}).to_csv("t.txt", sep=";", index=False)
    run("fit", "t.txt", "--out", "three", *FAST)
    assert np.load("three/H.npy").shape[1] == 3
    run("fit", "t.txt", "--labels", 1, "--delimiter", ";", "--out", "two", "--rank", 2, *FAST[2:])
    assert np.load("two/H.npy").shape[1] == 2
    assert rows_of(here / "two" / "W.csv")[1][0] == "2001"
    assert "'ab' is not a delimiter" in run("fit", "t.txt", "--delimiter", "ab", *FAST, code=2)
    assert "leave --sheet" in run("fit", "t.txt", "--sheet", "x", "--out", "no", *FAST, code=1)
    assert not Path("no").exists()


def test_a_cell_that_cannot_be_used_is_named(here: Path) -> None:
    frame = FRAME.copy()
    frame.iloc[4, 2] = -1
    frame.to_csv("table.csv")
    assert "row 'C>A A4A', column 'tumour 2' is -1" in run("pareto", "table.csv", "--out", "out", *FAST, code=1)
    Path("table.csv").write_text(Path("table.csv").read_text().replace("-1.0", "4_5"))
    assert "'4_5' is not a number" in run("fit", "table.csv", "--out", "out", *FAST, code=1)
    assert not Path("out").exists()


def test_a_remark_on_a_table_is_said_and_kept(here: Path) -> None:
    FRAME.droplevel("site").to_csv("table.csv")
    said = run("fit", "table.csv", "--out", "out", *FAST)
    assert "several rows are named 'C>A'" in said
    assert "several rows are named 'C>A'" in json.loads(Path("out/summary.json").read_text())["notes"][0]
