"""Tables: header, labels, delimiters and decimal marks are found, and every bad table has its message."""

from __future__ import annotations

import csv
import gzip
from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from drnmf.matrices.cells import MISSING
from drnmf.matrices.companions import check_weights
from drnmf.matrices.files import read_matrix
from drnmf.matrices.matrix import Labels, Layout, Matrix, check_cells

DENSE = [[0, 1.5], [3, 0]]
FRAME = pd.DataFrame(
    {"kind": ["C>A", "C>A", "C>G"], "context": ["ACA", "ACC", "ACA"], "s1": [1.0, 2.5, 3.0], "s2": [0.0, 4.0, 0.25]}
)


def table(folder: Path, text: str, name: str = "a.csv", encoding: str = "utf-8") -> Path:
    (folder / name).write_text(text, encoding=encoding, newline="")
    return folder / name


TABLES = {
    "bare": ("0,1.5\n3,0\n", None, None),
    "header": ("a,b\n0,1.5\n3,0\n", None, ("a", "b")),
    "header and names": ("gene,a,b\nx,0,1.5\ny,3,0\n", ("x", "y"), ("a", "b")),
    "names alone": ("x,0,1.5\ny,3,0\n", ("x", "y"), None),
    "several labels alone": ("x,u,0,1.5\ny,v,3,0\n", ("x u", "y v"), None),
    "several labels": ("k,l,a,b\nx,u,0,1.5\ny,v,3,0\n", ("x u", "y v"), ("a", "b")),
    "pandas": (",a,b\n0,0,1.5\n1,3,0\n", ("0", "1"), ("a", "b")),
    "pandas with numbers for names": (",0,1\n0,0,1.5\n1,3,0\n", ("0", "1"), ("0", "1")),
    "R": ("a,b\nx,0,1.5\ny,3,0\n", ("x", "y"), ("a", "b")),
    "numeric id": ("id,a,b\n7,0,1.5\n8,3,0\n", ("7", "8"), ("a", "b")),
    "numeric dates": ("Date,a,b\n20050601,0,1.5\n20050602,3,0\n", ("20050601", "20050602"), ("a", "b")),
    "quotes, spaces, blank lines, windows, BOM": (
        '\ufeff"gene, name","a b", b\r\n\r\n"x,1", 0 ,1.5\r\ny,3,0\r\n,,\r\n', ("x,1", "y"), ("a b", "b"),
    ),
    "names that Python takes for numbers": ("s,a,b\n1_1,0,1.5\n1_2,3,0\n", ("1_1", "1_2"), ("a", "b")),
    "semicolons": ("gene;a;b\nx;0;1.5\ny;3;0\n", ("x", "y"), ("a", "b")),
    "decimal commas": ("gene;a;b\nx;0;1,5\ny;3;0\n", ("x", "y"), ("a", "b")),
    "decimal commas without a header": ("0;1,5\n3;0\n", None, None),
    "quoted decimal commas": ('a,b\n0,"1,5"\n3,0\n', None, ("a", "b")),
    "tabs": ("gene\ta\tb\nx\t0\t1.5\ny\t3\t0\n", ("x", "y"), ("a", "b")),
    "spaces": ("gene  a b\nx   0 1.5\ny   3 0\n", ("x", "y"), ("a", "b")),
    "bars": ("gene|a|b\nx|0|1.5\ny|3|0\n", ("x", "y"), ("a", "b")),
    "commas in names": ("gene\ta\tb\nx, 1\t0\t1.5\ny, 2\t3\t0\n", ("x, 1", "y, 2"), ("a", "b")),
}  # fmt: skip


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".txt"])
@pytest.mark.parametrize("case", TABLES)
def test_header_labels_and_delimiter_are_found_whatever_the_suffix(tmp_path: Path, case: str, suffix: str) -> None:
    text, rows, columns = TABLES[case]
    read = read_matrix(table(tmp_path, text, f"a{suffix}"))
    np.testing.assert_array_equal(read.X, DENSE)
    assert (read.row_names, read.column_names) == (rows, columns)
    packed = tmp_path / f"a{suffix}.gz"
    packed.write_bytes(gzip.compress((tmp_path / f"a{suffix}").read_bytes()))
    np.testing.assert_array_equal(read_matrix(packed).X, read.X)


def test_one_column_and_one_row(tmp_path: Path) -> None:
    np.testing.assert_array_equal(read_matrix(table(tmp_path, "1\n2.5\n")).X, [[1], [2.5]])
    np.testing.assert_array_equal(read_matrix(table(tmp_path, "1,2.5\n")).X, [[1, 2.5]])
    np.testing.assert_array_equal(read_matrix(table(tmp_path, "a\n1\n2.5\n")).X, [[1], [2.5]])


def test_labels_of_numbers_and_text(tmp_path: Path) -> None:
    """Sizes of 1, 2, ..., 5+ behind a column of text are labels, though most of them are numbers."""
    sizes = ["1", "2", "3", "4", "5+"] * 40
    text = "type,size,context,a\n" + "".join(f"DEL,{s},{i % 7 or '6+'},{i}\n" for i, s in enumerate(sizes))
    read = read_matrix(table(tmp_path, text))
    assert read.rows is not None
    assert read.rows.titles == ("type", "size", "context")
    assert read.row_names is not None
    assert read.row_names[:5] == ("DEL 1 6+", "DEL 2 1", "DEL 3 2", "DEL 4 3", "DEL 5+ 4")
    np.testing.assert_array_equal(read.X[:, 0], np.arange(200))


def test_the_layout_may_be_named(tmp_path: Path) -> None:
    years = table(tmp_path, "when;a;b\n2001;1;2\n2002;3;4\n")
    assert read_matrix(years).X.shape == (2, 3)
    named = read_matrix(years, layout=Layout(labels=1, delimiter="semicolon"))
    assert named.row_names == ("2001", "2002")
    np.testing.assert_array_equal(named.X, [[1, 2], [3, 4]])
    turned = read_matrix(years, layout=Layout(labels=1, transpose=True))
    np.testing.assert_array_equal(turned.X, [[1, 3], [2, 4]])
    assert (turned.row_names, turned.column_names) == (("a", "b"), ("2001", "2002"))
    with pytest.raises(ValueError, match=r"line 2, column 1 \('gene'\): 'x' is not a number.*--labels 1"):
        read_matrix(table(tmp_path, "gene,a\nx,1\ny,2\n"), layout=Layout(labels=0))
    with pytest.raises(ValueError, match="only 2 columns"):
        read_matrix(table(tmp_path, "gene,a\nx,1\ny,2\n"), layout=Layout(labels=5))


def test_the_layout_is_refused_where_a_file_has_none(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", DENSE)
    for layout, message in (
        (Layout(delimiter=";"), "--delimiter"), (Layout(sheet="x"), "--sheet"), (Layout(labels=1), "--labels"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            read_matrix(tmp_path / "a.npy", layout=layout)
    assert read_matrix(tmp_path / "a.npy", layout=Layout(transpose=True)).X.tolist() == [[0, 3], [1.5, 0]]
    with pytest.raises(ValueError, match="'ab' is not a delimiter"):
        read_matrix(table(tmp_path, "1,2\n"), layout=Layout(delimiter="ab"))


BAD = {
    "ragged": ("1,2\n3\n4,5\n", "line 2: 1 cells where the rows above have 2. Check the delimiter"),
    "ragged later": ("a,b\n1,2\n3,4\n5,6,7\n", "line 4: 3 cells where the rows above have 2"),
    "text among numbers": ("1,2\n3,x\n", "line 2, column 2: 'x' is not a number. Every column after the labels"),
    "text in a named column": ("g,a,b\nx,1,2\ny,3,4\nz,5,oops\n", "line 4, column 3 ('b'): 'oops' is not a number"),
    "one text in the first column of numbers": (
        "g,a,b\nx,1,2\ny,oops,4\nz,5,6\nu,7,8\n", "line 3, column 2 ('a'): 'oops' is not a number. Correct the cell, "
        "or pass --labels 2",
    ),
    "an underscore": ("a,b\n1,4_5\n2,3\n", "line 2, column 2 ('b'): '4_5' is not a number. Write numbers without an"),
    "thousands": ('a,b\n1.5,"1,234,567"\n2,3\n', "'1,234,567' is not a number. Write numbers without separators"),
    "two decimal marks": ("a;b\n1.5;2\n1;2,5\n", "'2,5' is not a number. Other numbers have a decimal point"),
    "two decimal marks, comma first": ("a;b\n0,5;2\n1;2.5\n", "'2.5' is not a number. Numbers above have a decimal"),
    "thousands or decimals": ("a;b\n1,234;2\n7;8\n", "'1,234' may be 1.234 or 1234, and no other number tells"),
    "only text": ("a,b\nx,y\n", "no column of numbers: in line 2, 'x' is not a number"),
    "only a header": ("a,b\n", "line 1 is a header ('a' is not a number), and no line follows it"),
    "only text, further down": ("\n\na,b\n\nx,y\n", "in line 5, 'x' is not a number"),
    "only blanks": (" \n\n", "no rows"),
    "a longer header": ("a,b,c,d\n1,2\n", "the header has 4 cells, but line 2 has 2"),
    "two headers": ("a,b\nkg,m\n1,2\n3,4\n", "two header rows: line 2 holds text ('kg') above numbers"),
    "columns of one name": ("g,a,b,a\nx,1,2,3\ny,4,5,6\n", "columns 2 and 4 are both named 'a'"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_tables_name_the_place(tmp_path: Path, case: str) -> None:
    text, message = BAD[case]
    with pytest.raises(ValueError, match=r"a\.csv") as caught:
        read_matrix(table(tmp_path, text))
    assert message in str(caught.value)


def test_encodings(tmp_path: Path) -> None:
    text = "gène;a\nx;1\ny;2\n"
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        read = read_matrix(table(tmp_path, text, encoding=encoding))
        assert read.rows is not None
        assert read.rows.titles == ("gène",)
    with pytest.raises(ValueError, match=r"not UTF-8 text .*at byte 1.*save it as UTF-8"):
        read_matrix(table(tmp_path, text, encoding="latin-1"))


@pytest.mark.parametrize("cell", [*sorted(MISSING), "NA", "NaN", "Null"])
def test_missing_cells_are_nan_and_not_refused(tmp_path: Path, cell: str) -> None:
    path = table(tmp_path, f"gene,a,b\nx,1,2\ny,{cell},4\nz,5,6\n")
    read = read_matrix(path)
    assert np.isnan(read.X).tolist() == [[False, False], [True, False], [False, False]]
    check_cells(read, path)


def test_cells_that_nmf_cannot_take_are_refused_by_name(tmp_path: Path) -> None:
    names = Labels.of(["u", "v"])
    for value, message in ((-1.0, "row 'v', column 2 is -1, and NMF needs"), (np.inf, "row 'v', column 2 is infinite")):
        with pytest.raises(ValueError, match=message):
            check_cells(Matrix(np.array([[1.0, 2.0], [3.0, value]]), names), tmp_path)
    check_cells(Matrix(np.array([[1.0, 2.0], [np.nan, -1.0]]), names), tmp_path, negatives="clip")
    check_cells(Matrix(np.array([[1.0, 2.0]]), names), tmp_path)


def test_a_table_beside_another_has_its_names_in_its_order(tmp_path: Path) -> None:
    X, there = Matrix(np.ones((2, 3)), Labels.of("uv"), Labels.of("abc")), Path("X.csv")
    check_weights(Matrix(np.ones((2, 3)), Labels.of("uv"), Labels.of("abc")), X, tmp_path, there)
    check_weights(Matrix(np.ones((1, 3)), Labels.of("z"), Labels.of("abc")), X, tmp_path, there)
    check_weights(Matrix(np.ones((2, 1))), X, tmp_path, there)
    for rows, columns, message in (
        ("uw", "abc", r"row 2 is 'w', but X\.csv has 'v' there: give the same rows to both"),
        ("vu", "abc", r"row 1 is 'v', but X\.csv has 'u' there: put its rows in the order of X\.csv"),
        ("uv", "acb", r"column 2 is 'c', but X\.csv has 'b' there: put its columns"),
        ("uv", "ab", r"has 2 rows and 2 columns, and X\.csv has 2 and 3"),
    ):
        table = Matrix(np.ones((len(rows), len(columns))), Labels.of(rows), Labels.of(columns))
        with pytest.raises(ValueError, match=message):
            check_weights(table, X, tmp_path, there)


def test_rows_of_one_name_are_kept_with_a_remark(tmp_path: Path) -> None:
    read = read_matrix(table(tmp_path, "kind,a\nx,1\nx,2\ny,3\n"))
    assert read.X.tolist() == [[1], [2], [3]]
    assert read.notes == (f"{tmp_path / 'a.csv'}: several rows are named 'x'; they are kept as different rows.",)


def test_numbers_are_those_of_python(tmp_path: Path, rng: np.random.Generator) -> None:
    """Every digit counts, in rows that are read at once and in those with a missing cell, which are read by cell."""
    X = np.exp(rng.normal(0, 40, (60, 7)))
    with open(tmp_path / "a.csv", "w", newline="") as stream:
        csv.writer(stream).writerows([[*row, "" if i % 2 else 1] for i, row in enumerate(X.tolist())])
    np.testing.assert_array_equal(read_matrix(tmp_path / "a.csv").X[:, :7], X)


@pytest.mark.parametrize("kind", ["parquet", "feather", "xlsx"])
@pytest.mark.parametrize("index", [False, True])
def test_files_with_typed_cells(tmp_path: Path, kind: str, index: bool) -> None:
    pytest.importorskip("openpyxl" if kind == "xlsx" else "pyarrow")
    frame = FRAME.set_index(["kind", "context"]) if index else FRAME
    path = tmp_path / f"a.{kind}"
    if kind == "xlsx":
        frame.to_excel(path, index=index, merge_cells=False)
    elif kind == "parquet":
        frame.to_parquet(path)
    elif index:
        pytest.skip("pandas writes no index into Feather files")
    else:
        frame.to_feather(path)
    read = read_matrix(path)
    np.testing.assert_array_equal(read.X, FRAME[["s1", "s2"]])
    assert read.column_names == ("s1", "s2")
    assert read.row_names == ("C>A ACA", "C>A ACC", "C>G ACA")
    assert read.rows is not None
    assert read.rows.titles == ("kind", "context")


def test_parquet_without_labels_with_gaps_and_with_text_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "a.parquet"
    pd.DataFrame({"a": [1, 2], "b": [0.5, None]}, dtype="float32").to_parquet(path)
    read = read_matrix(path)
    assert read.rows is None
    assert read.X.dtype == np.float32
    assert np.isnan(read.X).tolist() == [[False, False], [False, True]]
    pd.DataFrame({"year": [2001, 2002], "a": [1, 2]}, index=["x", "y"]).to_parquet(path)
    assert read_matrix(path).row_names == ("x", "y")
    assert read_matrix(path, layout=Layout(labels=2)).row_names == ("x 2001", "y 2002")
    pd.DataFrame({"a": [1, 2], "kind": ["x", "y"]}).to_parquet(path)
    with pytest.raises(ValueError, match=r"row 1, column 2 \('kind'\): 'x' is not a number. Every column"):
        read_matrix(path)
    path.write_bytes(b"PAR1 and nothing else")
    with pytest.raises(ValueError, match="cannot be read: it may be damaged"):
        read_matrix(path)


def test_sheets_dates_and_cells_that_were_only_formatted(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "notes"
    book.active.append(["nothing", "here"])
    sheet = book.create_sheet("data")
    for row in (["day", "a", "b"], [datetime(2005, 6, 1), 1, 0.1], [datetime(2005, 6, 2, 6), None, 4], [None] * 3):
        sheet.append(row)
    sheet["F2"].number_format = "0.00"
    book.save(tmp_path / "a.xlsx")
    read = read_matrix(tmp_path / "a.xlsx", layout=Layout(sheet="data"))
    assert (read.row_names, read.column_names) == (("2005-06-01 00:00:00", "2005-06-02 06:00:00"), ("a", "b"))
    np.testing.assert_array_equal(read.X, [[1, 0.1], [np.nan, 4]])
    with pytest.raises(ValueError, match="no sheet 'x': it has 'notes', 'data'"):
        read_matrix(tmp_path / "a.xlsx", layout=Layout(sheet="x"))
    with pytest.raises(ValueError, match="sheet 'notes' has no column of numbers"):
        read_matrix(tmp_path / "a.xlsx")
    book.move_sheet("data", -1)
    book.save(tmp_path / "a.xlsx")
    assert "has 2 sheets; the first, 'data', was read" in read_matrix(tmp_path / "a.xlsx").notes[0]


def test_optional_libraries_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, module in (("a.parquet", "pyarrow.parquet"), ("a.feather", "pyarrow.feather"), ("a.xlsx", "openpyxl")):
        (tmp_path / name).write_bytes(b"x")
        monkeypatch.setitem(__import__("sys").modules, module, None)
        with pytest.raises(ImportError, match=rf"{module} is needed.*pip install 'drnmf\[tables\]'"):
            read_matrix(tmp_path / name)
