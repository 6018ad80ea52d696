"""Archives: nothing is allocated on the word of a header, and the checksum is that of what was read."""

from __future__ import annotations

import io
import json
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from drnmf import load
from drnmf.matrices.files import read_matrix
from drnmf.storage.archive import read_archive, write_archive

LARGE = 1 << 26
META = np.frombuffer(json.dumps({"format": "drnmf-model-1", "sha256": "0" * 64}).encode(), dtype=np.uint8)


def peak_of_refusal(path: Path, message: str) -> int:
    """Bytes that `load` had allocated at most when it refused the file."""
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=message):
            load(path)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_small_file_is_not_inflated(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "m.npz", __meta__=META, components_=np.zeros(LARGE, np.uint8))
    assert (tmp_path / "m.npz").stat().st_size < LARGE / 500
    assert peak_of_refusal(tmp_path / "m.npz", "compressed, as drnmf never writes") < LARGE / 10


def test_a_header_is_not_believed(tmp_path: Path) -> None:
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": (LARGE,)})
    with zipfile.ZipFile(tmp_path / "m.npz", "w") as archive:
        for name, content in (("__meta__", META), ("components_", np.zeros(3))):
            whole = io.BytesIO()
            np.save(whole, content)
            archive.writestr(f"{name}.npy", head.getvalue() if name == "components_" else whole.getvalue())
    assert peak_of_refusal(tmp_path / "m.npz", r"components_.npy says float64 of shape \(67108864,\)") < LARGE / 10


def test_parts_that_lie_on_one_another_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "m.npz", __meta__=META, components_=np.zeros(10**5))
    with zipfile.ZipFile(tmp_path / "m.npz", "a") as archive:
        archive.filelist += [part for part in archive.filelist if "components" in part.filename] * 3
        archive.comment = b"so that the directory is written again"
    assert peak_of_refusal(tmp_path / "m.npz", "its arrays are larger than the file") < 10**6


def test_arrays_come_back_in_their_order_and_type(tmp_path: Path) -> None:
    arrays = {
        "a": np.arange(12.0).reshape(3, 4), "f": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "s": np.array(2.5),
        "u": np.array(["x", "yy"]), "n": np.empty((0, 3)), "b": np.array([True, False]),
    }  # fmt: skip
    checksum = write_archive(tmp_path / "a.npz", arrays, {"text": "é"})
    found, meta = read_archive(tmp_path / "a.npz")
    assert meta == {"format": "drnmf-model-1", "text": "é", "sha256": checksum}
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert (found[name].dtype, found[name].flags.f_contiguous) == (array.dtype, array.flags.f_contiguous)


def test_arrays_that_were_not_asked_for_are_not_read(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "x.npz", X=np.eye(3), y=np.zeros((LARGE // 8, 1)))
    tracemalloc.start()
    try:
        np.testing.assert_array_equal(read_matrix(tmp_path / "x.npz").X, np.eye(3))
        assert tracemalloc.get_traced_memory()[1] < LARGE / 10
    finally:
        tracemalloc.stop()
