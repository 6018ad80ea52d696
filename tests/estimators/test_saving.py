"""Model files: what was fitted comes back, and nothing that no fit gives."""

from __future__ import annotations

import json

import numpy as np
import pytest

from drnmf import DRNMF, BetaNMF, Interval, MultiObjectiveNMF, Solver, load
from drnmf.storage.archive import read_archive, write_archive
from drnmf.trees import flatten

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
    "penalties": lambda arrays, meta: meta["penalties"]["setting"].__setitem__(3, [[]]),
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
    kept = {"solver.": {"checkpoint": str(tmp_path / "chosen"), "callback": "print"}, "device": "cuda:7"}
    model = load(rewritten(path, lambda arrays, meta: meta["params"].update(kept)))
    assert model.solver.checkpoint is None
    assert model.solver.callback is None
    assert model.device is None
    model.fit(X)
    assert [file.name for file in tmp_path.iterdir()] == ["model.npz"]


COUNTS = np.random.default_rng(1).poisson(np.random.default_rng(2).gamma(0.5, 40, (14, 9))) + 1.0
KEPT = {
    "tuple": DRNMF(2, betas=(0, 1), penalties=("l1:0.1",)),
    "list": DRNMF(2, betas=[0, 1]),
    "interval": DRNMF(2, betas=Interval(0, 1, knots=2, grid=9)),
    "arrays": MultiObjectiveNMF(2, betas=(1, 2), weights=np.array([0.25, 0.75]), fixed=COUNTS[:1]),
    "beta by the data": BetaNMF(2, beta="auto"),
    "size by the data": BetaNMF(2, beta="nb:auto"),
    "losses by the data": DRNMF(2, betas="auto"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", KEPT)
def test_all_that_a_model_holds_comes_back(tmp_path, case):
    model = KEPT[case].set_params(max_iter=8, random_state=0).fit(COUNTS)
    model.save(tmp_path / "model.npz")
    back = load(tmp_path / "model.npz")
    kept = {name: value for name, value in vars(model).items() if name != "shares_"}  # of the rows of that fit
    assert vars(back).keys() == kept.keys()
    for name, value in kept.items():
        (leaves, structure), (found, same) = flatten(value), flatten(getattr(back, name))
        assert same == structure, name
        for leaf, other in zip(leaves, found, strict=True):
            assert type(other) is type(leaf), name
            np.testing.assert_array_equal(other, leaf, err_msg=name)


def test_an_object_that_is_no_data_is_left_out_with_a_warning(tmp_path):
    model = BetaNMF(2, max_iter=5, tol=0, random_state=0).fit(X)
    model.random_state = np.random.RandomState(0)
    with pytest.warns(UserWarning, match="random_state is an object and is not stored"):
        model.save(tmp_path / "model.npz")
    assert load(tmp_path / "model.npz").random_state is None
