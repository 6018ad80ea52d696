"""One frame gives one matrix with the same labels, whichever format it was written in."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from drnmf.matrices.files import read_matrix
from drnmf.matrices.matrix import Matrix
from drnmf.report.profiles import dates_of

FORMATS = ("csv", "tsv", "csv.gz", "parquet", "feather", "xlsx")
LARGE = 2**53 + 2  # even: workbooks hold float64 alone


def write(frame: pd.DataFrame, path: Path) -> None:
    kind = path.name.partition(".")[2]
    if kind in ("parquet", "feather"):
        getattr(frame, f"to_{kind}")(path)
    elif kind == "xlsx":
        frame.to_excel(path, index=False)
    else:
        frame.to_csv(path, index=False, sep="\t" if kind == "tsv" else ",")


def read_all(frame: pd.DataFrame, folder: Path) -> dict[str, Matrix]:
    """Write a frame in every format, and read it back."""
    pytest.importorskip("pyarrow")
    pytest.importorskip("openpyxl")
    for kind in FORMATS:
        write(frame, folder / f"a.{kind}")
    return {kind: read_matrix(folder / f"a.{kind}") for kind in FORMATS}


def decimals(*texts: str | None) -> list[Any]:
    return [None if text is None else Decimal(text) for text in texts]


NUMBERS = {"a": [1.0, 2.5, 0.25, 3.0], "b": [0.0, 4.0, 1.0, 7.5]}
FRAMES: dict[str, dict[str, Any]] = {
    "numbers": NUMBERS,
    "labels": {"gene": ["x", "y", "z", "u"], **NUMBERS},
    "two columns of labels": {"kind": ["C>A", "C>A", "C>G", "C>T"], "context": ["ACA", "ACC", "ACA", "T"], **NUMBERS},
    "decimals first": {"amount": decimals("1.10", "2.25", "3.00", "0.125"), **NUMBERS},
    "nothing but decimals": {"amount": decimals("1.1", "2.2", "3.3", "0.1"), "tax": decimals("0.2", None, "1", "7")},
    "decimals behind labels": {"gene": ["x", "y", "z", "u"], "d": decimals("1.10", None, "3.00", "0.1"), **NUMBERS},
    "logical first": {"p": [True, False, True, True], **NUMBERS},
    "logical with gaps": {"p": [True, None, False, True], "gap": [None, 1.0, 2.0, 3.0], **NUMBERS},
    "logical behind labels": {"gene": ["x", "y", "z", "u"], "p": [True, False, True, True], **NUMBERS},
    "numbers as text": {"t": ["1.5", "2", "3e2", "-0.25"], **NUMBERS},
    "numbers as text with gaps": {"gene": ["x", "y", "z", "u"], "t": ["1.5", "NA", None, "4"], **NUMBERS},
    "no value first": {"nothing": [None] * 4, **NUMBERS},
    "no value last": {"gene": ["x", "y", "z", "u"], **NUMBERS, "nothing": [None] * 4},
    "no value, of a type": {"nothing": np.full(4, np.nan), "text": pd.array([None] * 4, "string"), **NUMBERS},
    "a row without values": {"a": [1.0, None, 3.0, 4.0], "b": [2.0, None, 5.0, 1.0]},
    "one column with a gap": {"a": [1.0, None, 3.0, 4.0]},
    "large whole numbers": {"n": [LARGE, 2, 3, 4], **NUMBERS},
    "large identifiers": {"id": [LARGE, LARGE + 2, LARGE + 4, 5], **NUMBERS},
    "identifiers": {"id": [7, 8, 9, 10], **NUMBERS},
    "labels among numbers": {"type": ["D", "D", "I", "I"], "size": ["1", "2", "5+", "6+"], **NUMBERS},
    "names with spaces": {" gene ": ["x ", " y", "z", "u"], " a": [1.0, 2.0, 3.0, 4.0]},
    "hours": {"date": pd.date_range("2020-01-01", periods=4, freq="12h"), **NUMBERS},
    "days": {"date": pd.date_range("2020-01-01", periods=4), **NUMBERS},
    "hours of a zone": {"date": [str(time) for time in pd.date_range("2020", periods=4, tz="UTC")], **NUMBERS},
    "categories": {"gene": pd.Categorical(["x", "y", "x", "z"]), "level": pd.Categorical([1, 2, 1, 3]), **NUMBERS},
}


LABELS = {
    "labels": 1, "two columns of labels": 2, "decimals behind labels": 1, "logical behind labels": 1,
    "numbers as text with gaps": 1, "no value last": 1, "large identifiers": 1, "identifiers": 1,
    "labels among numbers": 2, "names with spaces": 1, "hours": 1, "days": 1, "hours of a zone": 1, "categories": 1,
}  # fmt: skip
"""How many columns of a frame hold labels; none where it is not named."""


@pytest.mark.parametrize("case", FRAMES)
def test_every_format_gives_the_same(case: str, tmp_path: Path) -> None:
    frame = pd.DataFrame(FRAMES[case])
    read = read_all(frame, tmp_path)
    for kind, matrix in read.items():
        np.testing.assert_array_equal(matrix.X, read["csv"].X, err_msg=kind)
        assert (matrix.row_names, matrix.column_names) == (read["csv"].row_names, read["csv"].column_names), kind
        assert len(matrix.notes) == len(read["csv"].notes), kind
    assert read["csv"].X.shape == (len(frame), len(frame.columns) - LABELS.get(case, 0))


@pytest.mark.parametrize("kind", FORMATS)
def test_days_and_hours_are_named_alike(kind: str, tmp_path: Path) -> None:
    """Labels in one way of writing are known for dates, midnight among them."""
    hours, days = ("2020-01-01 00:00:00", "2020-01-02 12:00:00"), ("2020-01-01", "2020-01-04")
    for case, ends in (("hours", hours), ("days", days)):
        names = read_all(pd.DataFrame(FRAMES[case]), tmp_path)[kind].row_names
        assert names is not None
        assert (names[0], names[-1]) == ends
        assert dates_of(names) is not None


@pytest.mark.parametrize("kind", FORMATS)
def test_decimals_are_numbers(kind: str, tmp_path: Path) -> None:
    frame = pd.DataFrame(FRAMES["decimals first"])
    matrix = read_all(frame, tmp_path)[kind]
    np.testing.assert_array_equal(matrix.X, frame.astype(float))
    assert (matrix.row_names, matrix.column_names) == (None, ("amount", "a", "b"))


@pytest.mark.parametrize("kind", FORMATS)
def test_whole_numbers_that_are_rounded_are_remarked_on(kind: str, tmp_path: Path) -> None:
    note = f"column 'n' holds whole numbers above 2^53, such as {LARGE}: float64 rounds them."
    read = read_all(pd.DataFrame(FRAMES["large whole numbers"]), tmp_path)[kind]
    assert [text.partition(": ")[2] for text in read.notes] == [note]
    assert read.X[0, 0] == float(LARGE)
    read = read_all(pd.DataFrame({"n": [2**53 - 1, 2**40, 1, 2], "f": [1e300, 1.5, 2.5, 1]}), tmp_path)[kind]
    assert read.notes == ()
    labels = read_all(pd.DataFrame(FRAMES["large identifiers"]), tmp_path)[kind]
    assert labels.notes == ()
    assert labels.row_names == (str(LARGE), str(LARGE + 2), str(LARGE + 4), "5")


def test_true_and_false_above_numbers_are_names(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("FALSE,TRUE\n3,4\n5,6\n")
    read = read_matrix(path)
    assert read.column_names == ("FALSE", "TRUE")
    np.testing.assert_array_equal(read.X, [[3, 4], [5, 6]])
    path.write_text("TRUE,4\nFALSE,6\n")
    np.testing.assert_array_equal(read_matrix(path).X, [[1, 4], [0, 6]])


def test_rows_without_values_at_the_end_are_left_out_with_a_remark(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1.0, None, 3.0, None], "b": [2.0, None, 5.0, None]})
    for kind, matrix in read_all(frame, tmp_path).items():
        np.testing.assert_array_equal(matrix.X, frame[:3], err_msg=kind)
        assert "1 row at the end holds neither values nor labels, and is left out." in matrix.notes[-1], kind
