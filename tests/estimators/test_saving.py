"""Model files: what was fitted comes back, and nothing that no fit gives."""

from __future__ import annotations

import json

import numpy as np
import pytest

from drnmf import DRNMF, BetaNMF, MultiObjectiveNMF, Solver, load
from drnmf.storage.archive import read_archive, write_archive

X = np.random.default_rng(0).uniform(0.1, 1, (12, 9))


@pytest.fixture
def path(tmp_path):
    DRNMF(2, betas=(0, 1), max_iter=5, tol=0, random_state=0).fit(X).save(tmp_path / "model.npz")
    return tmp_path / "model.npz"


def rewritten(path, change):
    """The file after `change(arrays, meta)`, with the right checksum."""
    arrays, meta = read_archive(path)
    arrays = {name: array.copy() for name, array in arrays.items()}
    del meta["sha256"], meta["format"]
    change(arrays, meta)
    write_archive(path, arrays, meta)
    return path


def test_single_losses_come_back(tmp_path, path):
    model = DRNMF(2, betas=(0, 1), max_iter=5, tol=0, random_state=0).fit(X)
    np.testing.assert_array_equal(load(path).single_losses_, model.single_losses_)
    for other in (
        BetaNMF(2, max_iter=5, tol=0),
        MultiObjectiveNMF(2, max_iter=5, tol=0, solver=Solver(references=(1, 1))),
    ):
        other.fit(X).save(tmp_path / "other.npz")
        assert load(tmp_path / "other.npz").single_losses_ is None


@pytest.mark.parametrize("checksum", [None, "0" * 64])
def test_a_file_without_its_checksum_is_refused(path, checksum):
    with np.load(path) as stored:
        arrays = dict(stored)
    meta = json.loads(arrays["__meta__"].tobytes())
    del meta["sha256"]
    if checksum is not None:
        meta["sha256"] = checksum
    np.savez(path, **arrays | {"__meta__": np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)})
    with pytest.raises(ValueError, match="checksum"):
        load(path)


CHANGES = {
    "NaN": lambda arrays, meta: arrays["components_"].__setitem__((0, 0), np.nan),
    "infinite": lambda arrays, meta: arrays["components_"].__setitem__((0, 0), np.inf),
    "negative": lambda arrays, meta: arrays["components_"].__setitem__((0, 0), -1.0),
    "shape": lambda arrays, meta: arrays.update(components_=arrays["components_"][:1]),
    "whole numbers": lambda arrays, meta: arrays.update(components_=np.ones((2, 9), dtype=np.int64)),
    "weights": lambda arrays, meta: arrays.update(weights_=np.array([np.nan, 1.0])),
    "references": lambda arrays, meta: arrays.update(references_=np.array([0.0, 1.0])),
    "losses": lambda arrays, meta: meta.update(omega=["1"]),
    "mean": lambda arrays, meta: meta.update(mean_="1"),
    "names": lambda arrays, meta: arrays.update(feature_names_in_=np.array(["a"])),
    "class": lambda arrays, meta: meta.update({"class": "Popen"}),
    "parameter": lambda arrays, meta: meta["params"].update(unheard=1),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_no_fit_gives_is_refused(path, change):
    with pytest.raises(ValueError, match="not a complete drnmf model file"):
        load(rewritten(path, CHANGES[change]))


def test_no_path_is_taken_from_a_file(path, tmp_path):
    """A file of a stranger must not be able to choose where the next fit writes or runs."""
    kept = {"solver": {"checkpoint": str(tmp_path / "chosen"), "callback": "print"}, "device": "cuda:7"}
    model = load(rewritten(path, lambda arrays, meta: meta["params"].update(kept)))
    assert model.solver.checkpoint is None
    assert model.solver.callback is None
    assert model.device is None
    model.fit(X)
    assert [file.name for file in tmp_path.iterdir()] == ["model.npz"]
