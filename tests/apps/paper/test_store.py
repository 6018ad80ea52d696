from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from drnmf.apps.paper.fits import Plan, Saved, Store, Unit, finished, read, write


def unit(name: str, calls: list[str], **settings: object) -> Unit:
    def compute(lookup: object) -> Saved:
        calls.append(name)
        return Saved({"name": name}, {"array": np.arange(3.0)})

    return Unit(name, settings, compute)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    write(tmp_path / "a.npz", Saved({"x": 1.5, "y": ["a"]}, {"array": np.eye(2)}))
    saved = read(tmp_path / "a.npz")
    assert saved.values == {"x": 1.5, "y": ["a"]}
    np.testing.assert_array_equal(saved.arrays["array"], np.eye(2))


def test_a_file_cut_short_is_not_finished(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    assert not finished(path)
    write(path, Saved({"x": 1}))
    assert finished(path)
    path.write_bytes(path.read_bytes()[:-20])
    assert not finished(path)


def test_finished_units_are_not_computed_again(tmp_path: Path) -> None:
    store, calls = Store(tmp_path / "out"), list[str]()
    store.open()
    list(store.run("x", Plan([unit("a", calls)], {})))
    list(store.run("x", Plan([unit("a", calls), unit("b", calls)], {})))
    assert calls == ["a", "b"]
    assert store.results("x")("b").values == {"name": "b"}


def test_other_settings_are_another_result(tmp_path: Path) -> None:
    store, calls = Store(tmp_path / "out"), list[str]()
    store.open()
    for iterations in (1, 2, 1):
        list(store.run("x", Plan([unit("a", calls, max_iter=iterations)], {})))
    assert calls == ["a", "a"]


def test_results_say_what_is_still_missing(tmp_path: Path) -> None:
    store, calls = Store(tmp_path / "out"), list[str]()
    with pytest.raises(FileNotFoundError, match="run it first"):
        store.results("x")
    store.open()
    plan = Plan([unit("a", calls), unit("b", calls)], {})
    list(store.run("x", plan))
    (tmp_path / "out" / "units" / "x" / plan.units[1].file).unlink()
    with pytest.raises(ValueError, match=r"1 of 2 results are missing.*first is b"):
        store.results("x")


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("do not touch")
    with pytest.raises(FileExistsError, match="not a reproduction folder"):
        Store(tmp_path).open()
    (tmp_path / "reproduction.json").write_text('{"format": "of tomorrow"}')
    with pytest.raises(ValueError, match="another version"):
        Store(tmp_path).open()


def test_left_overs_of_a_killed_run_are_swept_away(tmp_path: Path) -> None:
    store = Store(tmp_path / "out")
    store.open()
    (tmp_path / "out" / "units" / "x").mkdir(parents=True)
    scrap = tmp_path / "out" / "units" / "x" / ".a.npz.1.tmp"
    scrap.write_bytes(b"half")
    store.open()
    assert not scrap.exists()
