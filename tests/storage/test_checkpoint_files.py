"""The files of a kept fit: how they reach the disk, and what happens where they are not what was written."""

from __future__ import annotations

import logging
import pickle
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

import drnmf
from drnmf.storage.archive import read_archive, write_archive
from drnmf.storage.checkpoint import FORMAT, CheckpointError
from tests.keeping import dr, exactly, files, fitted, same, stop
from tests.kept_fits import matrix

pytestmark = pytest.mark.usefixtures("synced")


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])


def flip(path):
    """One bit of the largest array."""
    with np.load(path) as stored:
        content = max((stored[name] for name in stored.files), key=lambda array: array.nbytes).tobytes("A")
    whole = bytearray(path.read_bytes())
    whole[whole.index(content) + len(content) // 2] ^= 1
    path.write_bytes(whole)


def rewrite(path):
    """A sound .npz with one number changed and the checksum left alone."""
    with np.load(path) as stored:
        arrays = dict(stored)
    name = max((n for n in arrays if n != "__meta__"), key=lambda n: arrays[n].size)
    arrays[name] = arrays[name] * (1 + 1e-9)
    np.savez(path, **arrays)


def empty(path):
    path.write_bytes(b"")


def test_any_changed_bit_is_noticed_or_without_effect(tmp_path):
    path, rng = tmp_path / "a.npz", np.random.default_rng(0)
    arrays = {"a": np.arange(6.0).reshape(2, 3), "b": np.asfortranarray(np.ones((3, 2), np.float32)), "c": np.array(7)}
    write_archive(path, arrays, {"text": "é", "number": 0.1}, FORMAT)
    whole, noticed = path.read_bytes(), 0
    for bit in rng.choice(8 * len(whole), 400, replace=False):
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << (bit % 8)
        path.write_bytes(changed)
        try:
            found, meta = read_archive(path, FORMAT)
        except ValueError:
            noticed += 1
        else:
            assert meta["text"] == "é"
            for name, array in arrays.items():
                exactly(np.asarray(found[name]), array)
    assert noticed > 250


DAMAGE = [cut, flip, rewrite, empty]


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("count", [1, 2], ids=["the last", "both"])
def test_a_damaged_snapshot_is_passed_over(damage, count, tmp_path, caplog):
    X, model = matrix(), dr()
    stop(model, X, tmp_path, 20)
    for path in sorted(tmp_path.glob("state*"))[-count:]:
        damage(path)
    with caplog.at_level(logging.INFO, "drnmf"):
        same(fitted(model, X, tmp_path), fitted(dr(), X))
    assert sum(r.getMessage().startswith("Checkpoint ignored: ") for r in caplog.records) == count
    assert ("Run 2 is resumed after iteration 18." in caplog.text) == (count == 1)


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_run_is_run_again_and_all_after_it(damage, tmp_path, caplog):
    X, model = matrix(), dr()
    stop(model, X, tmp_path, 20)
    damage(tmp_path / "run-0000.npz")
    same(fitted(model, X, tmp_path), fitted(dr(), X))
    assert "run-0000.npz" in caplog.text
    assert "run-0001.npz: it does not follow the run before it" in caplog.text


@pytest.mark.parametrize("damage", DAMAGE)
def test_without_a_beginning_there_is_no_way_on(damage, tmp_path):
    X, model = matrix(), dr()
    stop(model, X, tmp_path, 20)
    damage(tmp_path / "begin.npz")
    kept = files(tmp_path)
    with pytest.raises(CheckpointError, match=r"beginning is damaged.*begin\.npz.*delete this one"):
        model.set_params(solver__callback=None).fit(X)
    assert files(tmp_path) == kept


def test_snapshots_of_another_fit_are_not_taken_for_ones_own(tmp_path, caplog):
    X, other = matrix(), dr(random_state=1)
    stop(dr(), X, tmp_path / "a", 20)
    stop(other, X, tmp_path / "b", 20)
    for path in (tmp_path / "a").glob("state*"):
        shutil.copy(path, tmp_path / "b")
    same(fitted(other, X, tmp_path / "b"), fitted(dr(random_state=1), X))
    assert "does not follow" in caplog.text


class Bomb:
    def __reduce__(self):
        return (Path.touch, (Path("exploded"),))


def stranger(path, as_pickle):
    """A file with a pickle where data belong."""
    if as_pickle:
        path.write_bytes(pickle.dumps(Bomb()))
        return
    array = np.empty(1, dtype=object)
    array[0] = Bomb()
    with zipfile.ZipFile(path) as whole:
        entries = {name: whole.read(name) for name in whole.namelist()}
    np.save(path.with_suffix(".npy"), array, allow_pickle=True)
    entries["a0.npy"] = path.with_suffix(".npy").read_bytes()
    path.with_suffix(".npy").unlink()
    with zipfile.ZipFile(path, "w") as whole:
        for name, content in entries.items():
            whole.writestr(name, content)


@pytest.mark.parametrize("as_pickle", [True, False], ids=["a pickle", "a pickle inside"])
def test_files_from_strangers_run_nothing(as_pickle, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, model, folder = matrix(), dr(), tmp_path / "kept"
    stop(model, X, folder, 20)
    for path in [*folder.glob("state*"), *folder.glob("run*")]:
        stranger(path, as_pickle)
    same(fitted(model, X, folder), fitted(dr(), X))
    stranger(folder / "begin.npz", as_pickle)
    with pytest.raises(CheckpointError, match="damaged"):
        model.set_params(solver__checkpoint=folder).fit(X)
    model.set_params(solver__checkpoint=None).fit(X).save("model.npz")
    stranger(tmp_path / "model.npz", as_pickle)
    if not as_pickle:
        with zipfile.ZipFile("model.npz", "a") as whole:
            assert "a0.npy" in whole.namelist()
    with pytest.raises(ValueError, match=r"model\.npz is not a readable drnmf model file"):
        drnmf.load("model.npz")
    assert not Path("exploded").exists()
    pickle.loads(pickle.dumps(Bomb()))  # it would have been heard
    assert Path("exploded").exists()


@pytest.mark.parametrize(
    "content",
    [
        {"type": "Popen", "fields": {"args": "touch exploded"}},
        {"type": "Momentum", "fields": {"F": 1.0, "nu": 1.0, "other": 2}},
        {"array": "missing"},
        {"code": "1"},
        [1, 2],
        {"tuple": 3},
        {"array": "a0", "tuple": []},
        7,
    ],
    ids=str,
)
def test_only_what_was_written_by_pack_is_read(content, tmp_path):
    X, model = matrix(), dr()
    stop(model, X, tmp_path, 20)
    for path in tmp_path.glob("state*"):
        write_archive(path, {}, {"content": content}, FORMAT)  # the checksum is right
    same(fitted(model, X, tmp_path), fitted(dr(), X))


def test_file_then_name_then_folder_reach_the_disk(synced, tmp_path):
    dr(max_iter=2, checkpoint=tmp_path, checkpoint_every=0).fit(matrix())
    files = 1 + 3 + 3  # the beginning, three runs, one snapshot in each: the last iteration is the run's end
    assert synced == files * ["file", "rename", "folder"]


def test_a_full_disk_ends_no_fit(tmp_path, caplog, monkeypatch):
    X, real = matrix(), drnmf.storage.checkpoint.write_archive

    def full(path, *content):
        if "begin" in path.name or "run-0001" in path.name:
            return real(path, *content)
        raise OSError("No space left on device")

    monkeypatch.setattr("drnmf.storage.checkpoint.write_archive", full)
    same(fitted(dr(checkpoint_every=0), X, tmp_path), fitted(dr(), X))
    assert "state-0002-00000029.npz could not be written (No space left on device)" in caplog.text
    monkeypatch.undo()
    same(fitted(dr(), X, tmp_path), fitted(dr(), X))


def test_other_files_in_the_folder_are_left_alone(tmp_path):
    for name in ("notes.txt", "run.npz", ".hidden", ".begin.npz.12.tmp"):
        (tmp_path / name).write_text("mine")
    dr(checkpoint=tmp_path, checkpoint_every=0).fit(matrix())
    assert {"notes.txt", "run.npz", ".hidden"} <= {path.name for path in tmp_path.iterdir()}
    assert not (tmp_path / ".begin.npz.12.tmp").exists()
