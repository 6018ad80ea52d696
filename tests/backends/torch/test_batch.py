"""Runs made at once: each comes to what it comes to by itself, and none is disturbed by the others."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from drnmf import DRNMF, BetaNMF
from drnmf.algorithms.batch import kind_of, solve_batch
from drnmf.algorithms.loop import Call, Control, Run, minimise
from drnmf.algorithms.updates import GPU_RULES, RULES
from drnmf.algorithms.updates.steps import extrapolated_step
from drnmf.algorithms.weights import Fixed, FrankWolfe, Reactive
from drnmf.backends.base import Ask, Sweep
from drnmf.backends.modes import Matrix
from drnmf.backends.open import batch_of
from drnmf.backends.torch.dense import TorchDense
from drnmf.losses.names import as_losses
from drnmf.numerics import of_each_run
from drnmf.objective.objective import Objective
from drnmf.problem import device as placement
from drnmf.solve import solve
from tests.backends.problems import oracle
from tests.backends.table import DEVICE, FLOAT32, FUSED, GPU, KERNELS, assert_close

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
        made.append(Call(Matrix(one), (H, W.T), references, rule, policy, control))
    return made


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
    "extrapolated, restarted": ((0, 1), RULES["extrapolated"], FrankWolfe()),
    "mu, two losses": ((0, 1), RULES["mu"], FrankWolfe()),
    "mu, two losses, fixed": ((0, 1), RULES["mu"], Fixed((0.3, 0.7))),
}


@pytest.fixture
def _deferred(monkeypatch):
    """Sweeps that return before they are done, as on a GPU: a rejected step of H costs one of W.

    The steps are those of torch, where the kernel would be interpreted: whole runs take thousands of them.
    """
    monkeypatch.setattr("drnmf.backends.torch.dense.fused_available", lambda kind: GPU)
    monkeypatch.setattr("drnmf.backends.torch.space.TorchSpace.deferred", True)
    monkeypatch.setattr("drnmf.backends.torch.space.TorchSpace.numbers", lambda space, values: space.put(values))


@pytest.mark.usefixtures("_deferred")
@pytest.mark.parametrize(
    ("name", "common"), [*((name, False) for name in RUNS), ("default", True), ("default, Frobenius", True)]
)
def test_a_run_of_a_batch_is_the_run_alone(name, common, monkeypatch):
    """With different ends: the others go on without those that have ended."""
    if "restarted" in name:
        note = Run.note  # some runs, now and then
        monkeypatch.setattr(Run, "note", lambda run: note(run) or (run.iterations + int(run.log.watched[0])) % 7 == 0)
    omega, rule, policy = RUNS[name]
    shared = TorchDense.of(torch.as_tensor(matrix(), device=DEVICE))
    data = [shared if common else TorchDense.of(torch.as_tensor(matrix(seed), device=DEVICE)) for seed in range(4)]
    controls = [Control(max_iter=50, tol=tol) for tol in (0.0, 1e-2, 1e-3)] + [Control(max_iter=7, tol=0.0)]
    made = calls(omega, rule, policy, data, controls)
    assert len({kind_of(call) for call in made}) == 1
    assert kind_of(made[0]) is not None
    found, wanted = solve_batch(made), [minimise(call) for call in made]
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


@pytest.mark.skipif(not FUSED, reason="the Triton kernels need a CUDA GPU or TRITON_INTERPRET=1")
@pytest.mark.parametrize("omega", [(0.5,), (2, 1, 0)], ids=str)
@pytest.mark.parametrize("common", [True, False], ids=["one X", "an X for each"])
def test_kernels_sweep_all_runs(omega, common):
    """Against the oracle, both sides, weights of all runs or of each; X as it is stored is transposed for W."""
    shape, rank, runs, rng = (70, 21), 5, 2, np.random.default_rng(0)
    X = [matrix(0 if common else seed, shape).astype(np.float32) for seed in range(runs)]
    data = [TorchDense.of(torch.as_tensor(one, device=DEVICE), fused=True) for one in X]
    A, B = (rng.random((runs, rank, k)).astype(np.float32) + 0.1 for k in shape)
    batch = batch_of(data[:1] * runs if common else data, as_losses(omega))
    weights = rng.random((len(omega), runs))
    for parts in ("separate", weights[:, 0], weights):
        for side, other, own in ((batch, A, B), (batch.T, B, A)):
            put = [torch.as_tensor(F, device=DEVICE) for F in (other, own)]
            ask = Ask(as_losses(omega), parts)
            got = side.sweep(put[0].mT, put[1], ask)
            for i in range(runs):
                each = parts if isinstance(parts, str) or parts.ndim == 1 else parts[:, i]
                Y = X[i] if side is batch else X[i].T
                wanted = oracle(Y, other[i].T, own[i], replace(ask, parts=each), data[i].mean)
                one = Sweep(got.losses[i].cpu().numpy(), got.N[i].cpu().numpy(), got.P[i].cpu().numpy())
                assert_close(one, wanted, ask, FLOAT32, KERNELS[FLOAT32], f"run {i}")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_descent_of_all_runs_is_that_of_each(dtype):
    rng, shape = np.random.default_rng(0), (3, 5, 37)
    F, N, W = (rng.gamma(1.0, size=size).astype(dtype) for size in (shape, shape, (3, 9, 5)))
    W[1, :, 2] = 0.0  # vanished in one run alone
    F, N, gram, last = (torch.as_tensor(part, device=DEVICE) for part in (F, N, W.swapaxes(1, 2) @ W, 0.9 * F))
    floors, momentum = np.array([1e-9, 1e-3, 0.1]), np.array([0.0, 0.3, 0.6])
    found = extrapolated_step(F, N, gram, of_each_run(floors, F), 2, last, momentum)
    for i in range(3):
        wanted = extrapolated_step(F[i], N[i], gram[i], float(floors[i]), 2, last[i], float(momentum[i]))
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(one[i], other, rtol=1e-4 if dtype == np.float32 else 1e-12, atol=1e-6)


@pytest.mark.parametrize(
    ("rule", "keeper"),
    [(RULES["monotone"], None), (RULES["newton"], None), (RULES["mu"], object())],
    ids=["monotone", "newton", "kept"],
)
def test_what_cannot_be_in_a_batch(rule, keeper):
    data = [TorchDense.of(torch.as_tensor(matrix(), device=DEVICE))]
    (call,) = calls((1,), rule, Fixed(), data, [Control(keeper=keeper)])
    assert kind_of(call) is None


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


@pytest.fixture
def sizes(monkeypatch):
    """How many runs each batch had."""
    found = []
    whole = solve.solve_batch
    monkeypatch.setattr(solve, "solve_batch", lambda made: found.append(len(made)) or whole(made))
    return found


@pytest.mark.usefixtures("_on_torch")
def test_starts_are_made_at_once(sizes, monkeypatch):
    X, settings = matrix(), {"n_init": 5, "init": "random", "random_state": 0, "max_iter": 12, "tol": 0, "solver": "mu"}
    settings |= {"betas": (1, 2)}
    found = DRNMF(3, **settings).fit(X)
    assert sizes == [5, 5, 5]  # the references of two losses, and the fit
    monkeypatch.setattr("drnmf.solve.pipeline.batch_kind", lambda data: None)
    wanted = DRNMF(3, **settings).fit(X)
    assert sizes == [5, 5, 5]
    np.testing.assert_allclose(found.components_, wanted.components_, rtol=1e-6, atol=1e-9)


@pytest.mark.usefixtures("_on_torch")
def test_an_error_in_one_thread_ends_all():
    """Nobody waits for a task that never begins."""
    data = TorchDense.of(torch.as_tensor(matrix(), device=DEVICE))
    (call,) = calls((1,), RULES["mu"], Fixed(), [data], [Control(max_iter=3, tol=0.0)])

    def task(i):
        if i == 2:
            raise RuntimeError("no more")
        return solve.maker()(call)

    with pytest.raises(RuntimeError, match="no more"):
        solve.run_all([partial(task, i) for i in range(9)], 3, threading.Event(), batched=True)


@pytest.mark.skipif(not GPU, reason="needs a CUDA GPU")
def test_runs_on_a_gpu_are_batched(sizes):
    X = matrix().astype(np.float32)
    BetaNMF(3, beta=1, n_init=6, init="random", max_iter=40, tol=0, random_state=0, device="cuda").fit(X)
    assert sizes == [6]
