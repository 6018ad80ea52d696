"""A rule of the user's own, whose state is any nesting of containers, gives the same fit wherever factors live."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from drnmf import DRNMF, Solver
from drnmf.algorithms.updates.base import Parts, Rule, halve
from drnmf.numerics import Array, namespace
from drnmf.problem.device import Placement
from drnmf.storage.checkpoint import CheckpointError
from tests.backends.table import DEVICE, NO_TORCH
from tests.keeping import After, Stopped

pytestmark = pytest.mark.usefixtures("synced")
RANK, ITERATIONS = 3, 17


@dataclass(frozen=True)
class Memory:
    """What lies deepest: an array, and a tuple of an array and a number."""

    last: Array
    trail: tuple[Array, int]


@dataclass(frozen=True)
class Wandering(Rule):
    """Multiplicative steps pushed along by what the state remembers: wrong places in it give another fit."""

    push: float = 0.3

    def init(self, F: Array) -> dict[str, Any]:
        inner = {"memory": Memory(F, (0.5 * F, 0)), "name": "start", "nothing": None, "on": True}
        return {"zeta": (inner, [F, 2.0]), "alpha": 1}

    def step(self, F: Array, parts: Parts, state: dict[str, Any]) -> tuple[Array, dict[str, Any]]:
        inner, (older, factor) = state["zeta"]
        memory, stepped = inner["memory"], parts.multiplicative(F)
        xp = namespace(F)
        drift = xp.clip(stepped / memory.last, 0.5, factor) ** self.push
        drift = drift * xp.clip(older / memory.trail[0], 0.5, 2.0) ** 0.05
        moved = xp.clip(stepped * drift, parts.floor, None) if inner["on"] else stepped
        kept = replace(memory, last=stepped, trail=(memory.last, memory.trail[1] + 1))
        inner = inner | {"memory": kept, "name": f"step {kept.trail[1]}"}
        return moved, {"zeta": (inner, [memory.trail[0], factor]), "alpha": state["alpha"] + 1}

    def retry(self, F: Array, tried: Array, attempt: int, state: dict[str, Any]) -> tuple[Array, dict[str, Any]]:
        inner, rest = state["zeta"]
        return halve(F, tried), state | {"zeta": (inner | {"on": attempt % 2 == 0}, rest)}

    def restart(self, state: dict[str, Any]) -> dict[str, Any]:
        inner, rest = state["zeta"]
        return state | {"zeta": (inner | {"on": True}, rest)}


def matrix() -> np.ndarray:
    return np.random.default_rng(3).gamma(0.7, 1.0, (60, 21)) + 1e-2


class Place:
    """Where a fit runs: what X becomes there, and what is set up around it."""

    def __init__(self, name: str, monkeypatch: Any) -> None:
        self.name, self.monkeypatch, self.stack = name, monkeypatch, ExitStack()

    def __enter__(self) -> Any:
        if self.name == "torch":
            self.monkeypatch.setattr("drnmf.estimators.base.place", lambda X, device, p: Placement(DEVICE, p))
        if not self.name.startswith("dask"):
            return matrix()
        dask = pytest.importorskip("dask")
        distributed = pytest.importorskip("distributed")
        import dask.array as da

        if self.name == "dask threads":
            self.stack.enter_context(dask.config.set(scheduler="threads"))
        else:
            workers = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
            self.stack.enter_context(distributed.Client(self.stack.enter_context(workers)))
            self.stack.enter_context(dask.config.set({"drnmf.save-every": 2}))
        return da.from_array(matrix(), chunks=(17, -1))

    def __exit__(self, *error: Any) -> None:
        self.stack.close()


PLACES = [
    "numpy",
    "dask threads",
    "dask cluster",
    pytest.param("torch", marks=pytest.mark.skipif(NO_TORCH is not None, reason=NO_TORCH or "")),
]


def model(**options: Any) -> DRNMF:
    solver = Solver(update=Wandering(), **options)
    return DRNMF(RANK, betas=(0, 1), max_iter=ITERATIONS, tol=0, random_state=0, solver=solver)


def found(fit: DRNMF, W: Any) -> dict[str, np.ndarray]:
    return {"W": np.asarray(W), "H": np.asarray(fit.components_), "trace": fit.trace_.scaled_losses}


@pytest.fixture(scope="module")
def expected() -> dict[str, np.ndarray]:
    fit = model()
    return found(fit, fit.fit_transform(matrix()))


@pytest.mark.slow
@pytest.mark.parametrize("name", PLACES)
def test_same_fit_everywhere_and_resumed(name, expected, tmp_path, monkeypatch):
    with Place(name, monkeypatch) as X:
        fit = model()
        whole = found(fit, fit.fit_transform(X))
        for stopped_after in (9, 4):
            with pytest.raises(Stopped):
                model(checkpoint=tmp_path, checkpoint_every=0, callback=After(stopped_after)).fit(X)
        again = model(checkpoint=tmp_path)
        resumed = found(again, again.fit_transform(X))
    for key, values in expected.items():
        np.testing.assert_allclose(whole[key], values, rtol=1e-8, err_msg=key)
        np.testing.assert_array_equal(resumed[key], whole[key], err_msg=key)


def test_the_state_matters(expected):
    """Else the fits above would agree whatever became of it."""
    fit = DRNMF(
        RANK, betas=(0, 1), max_iter=ITERATIONS, tol=0, random_state=0, solver=Solver(update=Wandering(0.0))
    ).fit(matrix())
    assert not np.allclose(fit.trace_.scaled_losses, expected["trace"], rtol=1e-4)


@dataclass(frozen=True)
class Hoarding(Wandering):
    """Keeps what no file can hold."""

    def init(self, F: Array) -> Any:
        return super().init(F) | {"zeta": (super().init(F)["zeta"][0] | {"nothing": object()}, [F, 2.0])}


def test_a_state_that_no_file_can_hold_is_refused_at_once(tmp_path):
    solver = Solver(update=Hoarding(), checkpoint=tmp_path, references=(1.0, 1.0))
    with pytest.raises(CheckpointError, match="cannot be stored"):
        DRNMF(RANK, betas=(0, 1), max_iter=5, tol=0, random_state=0, solver=solver).fit(matrix())
