"""Files that appear whole or not at all."""

from __future__ import annotations

import signal
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drnmf.files import left_over, replacing, write_arrays, write_text


def test_a_block_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def fail() -> None:
        with replacing(path) as stream:
            stream.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_stop_while_arrays_are_written_is_no_other_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, plain = tmp_path / "a.npz", zipfile.ZipFile.open

    def stopped(self: zipfile.ZipFile, *args: Any, **options: Any) -> Any:
        handle = plain(self, *args, **options)
        signal.raise_signal(signal.SIGINT)  # nobody has the handle yet, so nobody closes it
        return handle

    monkeypatch.setattr(zipfile.ZipFile, "open", stopped)
    with pytest.raises(KeyboardInterrupt):
        write_arrays(path, {"a": np.ones(3)})
    assert list(tmp_path.iterdir()) == []


def test_the_file_is_not_there_before_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with replacing(path) as stream:
        stream.write(b"new\n")
        assert not path.exists()
        assert len(left_over(tmp_path, "a.txt")) == len(left_over(tmp_path, "*")) == 1
        assert left_over(tmp_path, "b.txt") == []
        with replacing(path) as other:  # of another process, which is done first
            other.write(b"theirs")
    assert path.read_bytes() == b"new\n"
    assert left_over(tmp_path, "*") == []


def test_text_that_utf8_cannot_hold_is_written_all_the_same(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "a\udc80\n")
    assert (tmp_path / "a.txt").read_bytes() == b"a?\n"
