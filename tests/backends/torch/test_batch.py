"""Runs made at once: each comes to what it comes to by itself, and none is disturbed by the others."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from drnmf import DRNMF, BetaNMF, ConsensusNMF
from drnmf.algorithms.batch import Call, solve_batch
from drnmf.algorithms.loop import Control, solve
from drnmf.algorithms.updates.table import GPU_RULES, RULES
from drnmf.algorithms.weights import Fixed, FrankWolfe, Reactive
from drnmf.backends.torch.dense import TorchDense
from drnmf.fit import side_by_side
from drnmf.inputs import device as placement
from drnmf.losses.names import as_losses
from drnmf.objective.objective import Objective
from tests.backends.table import DEVICE, GPU

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def matrix(seed=0, shape=(14, 17)):
    rng = np.random.default_rng(seed)
    X = rng.gamma(1.0, size=(shape[0], 3)) @ rng.gamma(1.0, size=(3, shape[1])) * rng.gamma(5.0, 0.2, shape)
    X[2, 3] = 0.0
    return X


def calls(omega, rule, policy, data, controls, rank=4):
    objective = Objective(as_losses(omega), np.array([3.0, 20.0])[: len(omega)], data[0].mean)
    made = []
    for seed, (one, control) in enumerate(zip(data, controls, strict=True)):
        rng = np.random.default_rng(seed)
        W, H = (0.2 + rng.random(shape) for shape in ((one.shape[0], rank), (rank, one.shape[1])))
        references = replace(objective, references=objective.references * (1 + seed))
        made.append(Call(one, W, H, references, rule, policy, control))
    return made


def alone(call):
    return solve(call.data, call.W, call.H, call.objective, call.rule, call.policy, call.control)


def assert_same(found, wanted):
    assert (found.reason, found.n_iter, found.converged) == (wanted.reason, wanted.n_iter, wanted.converged)
    np.testing.assert_allclose(found.trace.losses, wanted.trace.losses, rtol=1e-8)
    np.testing.assert_allclose(found.trace.weights, wanted.trace.weights, rtol=1e-8, atol=1e-12)
    for name in "WH":
        of = [np.asarray(getattr(run, name).cpu()) for run in (found, wanted)]
        np.testing.assert_allclose(*of, rtol=1e-5, atol=1e-8 * of[1].max())


RUNS = {
    "mu": ((0.5,), RULES["mu"], Fixed()),
    "extrapolated": ((1,), RULES["extrapolated"], Fixed()),
    "extrapolated, falling back": ((3,), RULES["extrapolated"], Fixed()),
    "default": ((0.5,), GPU_RULES["auto"], Fixed()),
    "default, Frobenius": ((2,), GPU_RULES["auto"], Fixed()),
    "default, two losses": ((1, 2), GPU_RULES["auto"], Reactive()),
    "mu, two losses": ((0, 1), RULES["mu"], FrankWolfe()),
    "mu, two losses, fixed": ((0, 1), RULES["mu"], Fixed((0.3, 0.7))),
}


@pytest.fixture
def _deferred(monkeypatch):
    """Sweeps that return before they are done, as on a GPU: a rejected step of H costs one of W."""
    monkeypatch.setattr("drnmf.backends.torch.space.TorchSpace.deferred", True)
    monkeypatch.setattr("drnmf.backends.torch.space.TorchSpace.numbers", lambda space, values: space.put(values))


@pytest.mark.usefixtures("_deferred")
@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("common", [True, False], ids=["one X", "an X for each"])
def test_a_run_of_a_batch_is_the_run_alone(name, common):
    """With different ends: the others go on without those that have ended."""
    omega, rule, policy = RUNS[name]
    shared = TorchDense.of(torch.as_tensor(matrix(), device=DEVICE))
    data = [shared if common else TorchDense.of(torch.as_tensor(matrix(seed), device=DEVICE)) for seed in range(4)]
    controls = [Control(max_iter=50, tol=tol) for tol in (0.0, 1e-2, 1e-3)] + [Control(max_iter=7, tol=0.0)]
    made = calls(omega, rule, policy, data, controls)
    assert len({call.kind for call in made}) == 1
    assert made[0].kind is not None
    found, wanted = solve_batch(made), [alone(call) for call in made]
    assert len({run.n_iter for run in wanted}) > 1
    for one, other in zip(found, wanted, strict=True):
        assert_same(one, other)
    # a point that is the plain step already may be looked at once more
    assert all(abs(int(a.trace.sweeps[-1]) - int(b.trace.sweeps[-1])) <= 2 for a, b in zip(found, wanted, strict=True))


def test_steps_that_rise_are_among_what_is_compared():
    omega, rule, policy = RUNS["extrapolated, falling back"]
    data = [TorchDense.of(torch.as_tensor(matrix(), device=DEVICE))] * 4
    made = calls(omega, rule, policy, data, [Control(max_iter=50, tol=0.0)] * 4)
    assert len({int(run.trace.sweeps[-1]) for run in solve_batch(made)}) > 1


@pytest.mark.parametrize(
    ("rule", "keeper"), [(RULES["monotone"], None), (RULES["newton"], None), (RULES["mu"], object())], ids=str
)
def test_what_cannot_be_in_a_batch(rule, keeper):
    data = [TorchDense.of(torch.as_tensor(matrix(), device=DEVICE))]
    (call,) = calls((1,), rule, Fixed(), data, [Control(keeper=keeper)])
    assert call.kind is None


def test_a_run_that_fails_leaves_the_others_alone():
    data = [TorchDense.of(torch.as_tensor(matrix(), device=DEVICE))] * 3

    def fail(progress):
        raise RuntimeError("no more")

    stops = Control(max_iter=9, tol=0.0, callback=lambda progress: progress.iteration == 4)
    controls = [Control(max_iter=9, tol=0.0), Control(max_iter=9, callback=fail), stops]
    first, second, third = solve_batch(calls((1,), RULES["mu"], Fixed(), data, controls))
    assert isinstance(second, RuntimeError)
    assert (first.reason, first.n_iter) == ("max_iter", 9)
    assert (third.reason, third.n_iter) == ("callback", 4)


@pytest.fixture
def _on_torch(monkeypatch, _deferred):
    """Every fit on torch and in batches, also where there is no GPU."""
    monkeypatch.setattr(
        "drnmf.estimators.base.place", lambda X, device, precision: placement.Placement(DEVICE, precision)
    )
    monkeypatch.setattr("drnmf.estimators.consensus.runs_at_once", lambda X, device: 8)


@pytest.fixture
def sizes(monkeypatch):
    """How many runs each batch had."""
    found = []
    whole = side_by_side.solve_batch
    monkeypatch.setattr(side_by_side, "solve_batch", lambda made: found.append(len(made)) or whole(made))
    return found


@pytest.mark.usefixtures("_on_torch")
def test_starts_are_made_at_once(sizes, monkeypatch):
    X, settings = matrix(), {"n_init": 5, "init": "random", "random_state": 0, "max_iter": 12, "tol": 0, "update": "mu"}
    settings |= {"betas": (1, 2)}
    found = DRNMF(3, **settings).fit(X)
    assert sizes == [5, 5, 5]  # the references of two losses, and the fit
    monkeypatch.setattr("drnmf.fit.road.batchable", lambda data: False)
    wanted = DRNMF(3, **settings).fit(X)
    assert sizes == [5, 5, 5]
    np.testing.assert_allclose(found.components_, wanted.components_, rtol=1e-6, atol=1e-9)


@pytest.mark.usefixtures("_on_torch")
def test_runs_of_a_consensus_are_made_at_once(sizes):
    model = BetaNMF(3, beta=1, max_iter=12, tol=0, update="mu")
    ConsensusNMF(model, n_runs=11, random_state=0, resample="poisson").fit(np.round(10 * matrix()))
    assert sizes[0] == 8  # so many at a time
    assert sum(sizes) >= 8 + 2


@pytest.mark.usefixtures("_on_torch")
def test_an_error_in_one_thread_ends_all():
    """Nobody waits for a task that never begins."""
    data = TorchDense.of(torch.as_tensor(matrix(), device=DEVICE))
    (call,) = calls((1,), RULES["mu"], Fixed(), [data], [Control(max_iter=3, tol=0.0)])

    def task(i):
        if i == 2:
            raise RuntimeError("no more")
        return side_by_side.solve(*(getattr(call, name) for name in NAMES))

    with pytest.raises(RuntimeError, match="no more"):
        side_by_side.run_all([partial(task, i) for i in range(9)], 3, threading.Event(), batched=True)


NAMES = ("data", "W", "H", "objective", "rule", "policy", "control")


@pytest.mark.skipif(not GPU, reason="needs a CUDA GPU")
def test_runs_on_a_gpu_are_batched(sizes):
    X = matrix().astype(np.float32)
    BetaNMF(3, beta=1, n_init=6, init="random", max_iter=40, tol=0, random_state=0, device="cuda").fit(X)
    assert sizes == [6]
