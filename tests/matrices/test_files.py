"""Files in: every format gives the same matrix, every bad file a clear error."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse as sp

from drnmf.matrices.files import Matrix, read_matrix

DENSE = np.array([[0.0, 1.5, 2.0], [3.0, 0.0, 0.25]])
SPARSE = sp.csr_array(DENSE)


def write(path: Path) -> Path:
    """DENSE in the format of the suffix."""
    name = path.name
    if name.endswith("sparse.npz"):
        sp.save_npz(path, SPARSE)
    elif name.endswith(".npz"):
        np.savez(path, X=DENSE)
    elif name.endswith(".npy"):
        np.save(path, DENSE)
    elif name.endswith(".mtx"):
        scipy.io.mmwrite(path, sp.coo_matrix(DENSE))
    elif name.endswith(".mtx.gz"):
        plain = write(path.with_suffix(""))
        path.write_bytes(gzip.compress(plain.read_bytes()))
    elif name.endswith("sparse.mat"):
        scipy.io.savemat(path, {"X": sp.csc_matrix(DENSE)})
    elif name.endswith(".mat"):
        scipy.io.savemat(path, {"X": DENSE})
    else:
        text = pd.DataFrame(DENSE).to_csv(sep="\t" if ".tsv" in name else ",", header=False, index=False)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


DENSE_FILES = ["a.npy", "a.npz", "a.mat", "a.csv", "a.tsv", "a.csv.gz", "a.tsv.gz", "A.CSV"]
SPARSE_FILES = ["a.sparse.npz", "a.mtx", "a.mtx.gz", "a.sparse.mat"]
FILES = DENSE_FILES + SPARSE_FILES


@pytest.mark.parametrize("name", FILES)
def test_every_format_gives_the_same_matrix(tmp_path: Path, name: str) -> None:
    read = read_matrix(write(tmp_path / name))
    dense = read.X.toarray() if sp.issparse(read.X) else read.X
    np.testing.assert_array_equal(dense, DENSE)
    assert sp.issparse(read.X) == (name in SPARSE_FILES)
    assert read.row_names is None
    assert read.column_names is None


@pytest.mark.parametrize("name", FILES)
def test_truncated_files_are_refused_with_their_name(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 2 // 3])
    if name.lower().endswith((".csv", ".tsv")):
        path.write_bytes(whole.rstrip()[:-5])  # half a last row
    with pytest.raises(ValueError, match=str(path.name)):
        read_matrix(path)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("content", [b"", b"\x00\xff\xfe garbage \x80" * 9], ids=["empty", "garbage"])
def test_files_without_content_are_refused(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match="empty" if not content else "cannot be read|not UTF-8|table|number"):
        read_matrix(path)


class Bomb:
    """Unpickling this writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.mat"])
def test_pickles_are_never_loaded(tmp_path: Path, name: str) -> None:
    path, trap = tmp_path / name, tmp_path / "trap"
    bomb = np.array([[Bomb(trap)]], dtype=object)
    if name == "a.npy":
        np.save(path, bomb)
    elif name == "a.npz":
        np.savez(path, X=bomb)
    else:
        path.write_bytes(pickle.dumps(bomb))
    with pytest.raises(ValueError, match=r"objects|no matrix|cannot be read"):
        read_matrix(path)
    assert not trap.exists()


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones(3), "two dimensions"),
        (np.ones((2, 2, 2, 2)), "two dimensions"),
        (np.ones((0, 3)), "empty matrix"),
        (np.ones((2, 2)) * 1j, "complex"),
        (np.array([["a", "b"]]), "not numbers"),
        (np.zeros((2, 2), dtype="datetime64[s]"), "not numbers"),
    ],
)
def test_arrays_that_are_no_matrix_of_numbers(tmp_path: Path, array: np.ndarray, message: str) -> None:
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(ValueError, match=message):
        read_matrix(tmp_path / "a.npy")


def test_missing_file_folder_and_unknown_suffix(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_matrix(tmp_path / "none.npy")
    with pytest.raises(IsADirectoryError, match="folder"):
        read_matrix(tmp_path)
    (tmp_path / "a.docx").write_bytes(b"x")
    with pytest.raises(ValueError, match=r"suffix that is not known.*\.npy"):
        read_matrix(tmp_path / "a.docx")


def test_damaged_sparse_indices_are_refused_before_anyone_reads_past_the_end(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "a.npz", format=np.array(b"csr"), shape=np.array([2, 3]), data=np.ones(2),
        indices=np.array([0, 99]), indptr=np.array([0, 1, 2]),
    )  # fmt: skip
    with pytest.raises(ValueError, match="damaged"):
        read_matrix(tmp_path / "a.npz")


@pytest.mark.parametrize("suffix", [".mat", ".npz"])
def test_which_variable(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"

    def save(**arrays: object) -> None:
        scipy.io.savemat(path, arrays) if suffix == ".mat" else np.savez(path, **arrays)

    save(X=DENSE, labels=np.ones((2, 1)))
    np.testing.assert_array_equal(read_matrix(path).X, DENSE)  # a vector beside a matrix does not count
    assert read_matrix(path, "labels").X.shape == (2, 1)
    save(X=DENSE, Y=2 * DENSE)
    with pytest.raises(ValueError, match=r"several matrices.*X 2x3, Y 2x3.*--variable X"):
        read_matrix(path)
    np.testing.assert_array_equal(read_matrix(path, "Y").X, 2 * DENSE)
    with pytest.raises(ValueError, match=r"no variable 'Z'.*X 2x3"):
        read_matrix(path, "Z")
    save(one=np.ones((1, 1)), X=DENSE)
    np.testing.assert_array_equal(read_matrix(path).X, DENSE)  # nor does a scalar, which MATLAB stores as 1 x 1
    save(a=DENSE, b=np.ones((30, 40)), c=np.ones((1, 1)), d=np.ones((1, 9)))
    with pytest.raises(ValueError, match=r"several matrices \(a 2x3, b 30x40\).*the largest, with --variable b"):
        read_matrix(path)
    save(one=np.ones((1, 1)))
    with pytest.raises(ValueError, match="no matrix"):
        read_matrix(path)
    save(name=np.array("text"))
    with pytest.raises(ValueError, match="no matrix"):
        read_matrix(path)
    with pytest.raises(ValueError, match="no array of numbers"):
        read_matrix(path, "name")


def test_variable_where_there_are_no_names(tmp_path: Path) -> None:
    for name in ("a.npy", "a.sparse.npz", "a.csv"):
        with pytest.raises(ValueError, match="without a name"):
            read_matrix(write(tmp_path / name), "X")


def test_matlab_v73_says_how_to_save(tmp_path: Path) -> None:
    header = b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM"
    (tmp_path / "a.mat").write_bytes(header + b"\x89HDF\r\n\x1a\n" + bytes(64))
    with pytest.raises(ValueError, match=r"v7\.3.*'-v7'"):
        read_matrix(tmp_path / "a.mat")


def test_matrix_is_frozen() -> None:
    with pytest.raises(AttributeError):
        Matrix(DENSE).X = DENSE  # type: ignore[misc]
