"""Runs made at once, in NumPy: each comes to what it comes to by itself."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from drnmf.algorithms import batch
from drnmf.algorithms.batch import kind_of, solve_batch
from drnmf.algorithms.loop import Call, Control, minimise
from drnmf.algorithms.updates import GPU_RULES, RULES
from drnmf.algorithms.updates.minimax import Minimax
from drnmf.algorithms.weights import Fixed, FrankWolfe, Reactive
from drnmf.backends.base import Data, Sweep
from drnmf.backends.host.dense import HOST, HostSpace
from drnmf.backends.modes import Matrix
from drnmf.backends.open import largest_batch, open_data
from drnmf.losses.names import as_losses
from drnmf.objective.objective import Objective


@dataclass(frozen=True)
class Stacked:
    """A batch that sweeps one run after another."""

    runs: list[Data]
    space = HOST

    @property
    def T(self):
        return Stacked([data.T for data in self.runs])

    def take(self, at):
        return Stacked([self.runs[i] for i in at])

    def stack(self, blocks):
        return np.stack(blocks)

    def sweep(self, W, H, ask):
        def own(value, i):
            return value[:, i] if np.ndim(value) == 2 else value

        asked = [replace(ask, parts=own(ask.parts, i), curvature=own(ask.curvature, i)) for i in range(len(W))]
        made = [data.sweep(W[i], H[i], asked[i]) for i, data in enumerate(self.runs)]
        parts = {name: [getattr(sweep, name) for sweep in made] for name in ("losses", "N", "P", "gram")}
        return Sweep(**{name: None if some[0] is None else np.stack(some) for name, some in parts.items()})


@pytest.fixture(autouse=True)
def _in_numpy(monkeypatch):
    monkeypatch.setenv("DRNMF_BACKEND", "numpy")  # steps of the array library, as elsewhere than on the host
    monkeypatch.setattr(batch, "batch_of", lambda data, omega: Stacked(list(data)))
    monkeypatch.setattr(batch, "batch_kind", lambda data: data.shape)


def matrix(shape=(14, 17)):
    rng = np.random.default_rng(0)
    X = rng.gamma(1.0, size=(shape[0], 3)) @ rng.gamma(1.0, size=(3, shape[1])) * rng.gamma(5.0, 0.2, shape)
    X[2, 3] = 0.0
    return X


def calls(omega, rule, policy, controls, rank=4):
    made = []
    for seed, control in enumerate(controls):
        rng, data = np.random.default_rng(seed), open_data((1.0 + seed) * matrix())
        W, H = (0.2 + rng.random(shape) for shape in ((14, rank), (rank, 17)))
        references = np.array([3.0, 20.0])[: len(omega)] * (1 + seed)
        objective = Objective(as_losses(omega), references, data.mean)
        made.append(Call(Matrix(data), (H, W.T), objective, rule, policy, control))
    return made


RUNS = {
    "mu": ((0.5,), RULES["mu"], Fixed()),
    "extrapolated": ((1,), RULES["extrapolated"], Fixed()),
    "extrapolated, falling back": ((3,), RULES["extrapolated"], Fixed()),
    "default": ((0.5,), GPU_RULES["auto"], Fixed()),
    "default, two losses": ((1, 2), GPU_RULES["auto"], Reactive()),
    "extrapolated, restarted": ((0, 1), RULES["extrapolated"], FrankWolfe()),
    "mu, two losses, fixed": ((0, 1), RULES["mu"], Fixed((0.3, 0.7))),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("deferred", [False, True])
def test_every_run_comes_to_what_it_comes_to_by_itself(name, deferred, monkeypatch):
    """The runs end at different iterations, for different reasons, and look several times an iteration or once."""
    monkeypatch.setattr(HostSpace, "deferred", deferred)
    controls = [Control(max_iter=most, tol=tol) for most, tol in ((12, 0.0), (30, 1e-2), (1, 1e-6))]
    for inner_iter in (1, 2):
        made = calls(*RUNS[name], [replace(control, inner_iter=inner_iter) for control in controls])
        for found, wanted in zip(solve_batch(made), map(minimise, made), strict=True):
            assert (found.reason, found.n_iter, found.converged) == (wanted.reason, wanted.n_iter, wanted.converged)
            np.testing.assert_allclose(found.trace.losses, wanted.trace.losses, rtol=1e-7)
            np.testing.assert_allclose(found.trace.weights, wanted.trace.weights, rtol=1e-7, atol=1e-12)
            # a rejected step of H costs the sweep that was begun behind it
            wasted = found.trace.sweeps - wanted.trace.sweeps
            assert 0 <= wasted.min() <= wasted.max() <= (0 if name == "mu" else inner_iter * found.n_iter)
            for ours, theirs in zip(found.blocks, wanted.blocks, strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7 * theirs.max())
                assert ours.base is None  # not a view of all runs


def test_a_run_that_fails_or_is_stopped_disturbs_no_other():
    def fails(progress):
        raise RuntimeError("of its callback")

    controls = [Control(max_iter=5, tol=0.0, callback=told) for told in (fails, lambda progress: True, None)]
    made = calls((1,), RULES["mu"], Fixed(), controls)
    H, W = made[2].starts
    broken = replace(made[2], starts=(H, np.full_like(W, np.inf)))
    first, second, third, fourth = solve_batch([*made, broken])
    assert isinstance(first, RuntimeError)
    assert (second.reason, second.n_iter) == ("callback", 1)
    assert (third.reason, third.n_iter) == ("max_iter", 5)
    np.testing.assert_allclose(third.losses, minimise(made[2]).losses)
    assert isinstance(fourth, ValueError)
    assert [type(one) for one in solve_batch([broken])] == [ValueError]


def test_what_can_be_made_at_once():
    (call,) = calls((1,), RULES["mu"], Fixed(), [Control()])
    assert kind_of(call) is not None
    assert kind_of(replace(call, control=Control(max_iter=3))) == kind_of(call)
    assert kind_of(replace(call, control=Control(inner_iter=3))) != kind_of(call)
    assert kind_of(replace(call, control=Control(keeper=object()))) is None
    assert kind_of(replace(call, rule=Minimax())) is None
    assert kind_of(replace(call, rule=RULES["newton"])) is None  # every column has a curvature of its own
    assert largest_batch(1 << 20) == 64
    assert largest_batch((1 << 20) + 1) == 1
    assert largest_batch(0) == 128
