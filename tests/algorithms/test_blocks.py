"""The loop with three blocks: a tensor that implements `Modes`, and nothing else, is fitted by every rule."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
import pytest

from drnmf.algorithms.certificates import certify
from drnmf.algorithms.loop import Call, Control, minimise, solve
from drnmf.algorithms.updates import RULES
from drnmf.algorithms.updates.minimax import Minimax
from drnmf.algorithms.weights import POLICIES, Fixed
from drnmf.backends.host.dense import HostSpace
from drnmf.backends.open import open_data
from drnmf.losses.beta import FROBENIUS, IS, KL, Beta
from drnmf.objective.objective import Objective

SHAPE, RANK = (7, 6, 5), 3


@dataclass(frozen=True, eq=False)
class Cube:
    """A dense tensor: for every block the matrix whose columns are that block's."""

    X: np.ndarray

    dtype, scale, shares_curvature, reuses = np.dtype(float), 1.0, True, False

    @property
    def data(self):
        return self.unfolded[0]

    @property
    def count(self):
        return self.X.size

    @property
    def zeros(self):
        return int((self.X == 0).sum())

    @property
    def names(self):
        return tuple(f"mode {k}" for k in range(self.X.ndim))

    @property
    def sizes(self):
        return self.X.shape

    @property
    def spaces(self):
        return (HostSpace(),) * self.X.ndim

    @property
    def mean(self):
        return float(self.X.mean())

    @cached_property
    def unfolded(self):
        return [open_data(np.moveaxis(self.X, k, -1).reshape(-1, self.X.shape[k])) for k in range(self.X.ndim)]

    def others(self, block, blocks):
        G = np.ones((len(blocks[0]), 1))
        for F in (F for k, F in enumerate(blocks) if k != block):
            G = (G[:, :, None] * F[:, None, :]).reshape(len(F), -1)
        return G

    def sweep(self, block, blocks, ask):
        return self.unfolded[block].sweep(self.others(block, blocks).T, blocks[block], replace(ask, used=None))

    def sum_others(self, block, function, blocks):
        return function(self.others(block, blocks))

    def descent(self, start):
        return None


def planted(seed=0):
    rng = np.random.default_rng(seed)
    X = np.einsum("ri,rj,rk->ijk", *(rng.gamma(0.7, size=(RANK, size)) for size in SHAPE))
    starts = tuple(rng.uniform(0.5, 1.5, size=(RANK, size)) for size in SHAPE)
    return Cube(X * rng.gamma(9.0, 1 / 9, size=SHAPE) + 0.01), starts


FIXED = Fixed()


def run(data, starts, omega, rule, policy=FIXED, **control):
    objective = Objective(omega, np.ones(len(omega)), data.mean)
    control = Control(**{"tol": 0, "max_iter": 60, **control})
    return minimise(Call(data, starts, objective, rule, policy, control)), objective


@pytest.mark.parametrize("rule", [*RULES.values(), Minimax()], ids=[*RULES, "minimax"])
@pytest.mark.parametrize("omega", [(KL,), (IS,), (FROBENIUS,), (Beta(0.5),), (KL, FROBENIUS)])
def test_no_rule_raises_what_it_lowers(rule, omega):
    data, starts = planted()
    if rule is RULES["hals"] and omega != (FROBENIUS,):
        pytest.skip("hals is for beta = 2 alone")
    result, objective = run(data, starts, omega, rule)
    values = [objective.maximum(row) if rule.facts.chooses else row.sum() for row in result.trace.losses]
    lowest = np.minimum.accumulate(values)
    assert values[-1] < 0.5 * values[0]
    if rule.certain(omega) or not rule.facts.best:
        np.testing.assert_allclose(values, lowest, rtol=1e-9)
    assert [F.shape for F in result.blocks] == [(RANK, size) for size in SHAPE]
    assert result.losses.sum() == pytest.approx(min(row.sum() for row in result.trace.losses), rel=0.05)


@pytest.mark.parametrize("beta", [1.0, 1.5, 2.0])
def test_multiplicative_steps_are_those_written_out(beta):
    data, starts = planted(1)
    result, _ = run(data, starts, (Beta(beta),), RULES["mu"], max_iter=12)
    blocks = list(starts)
    for _ in range(12):
        for k, letter in enumerate("ijk"):
            V = np.einsum("ri,rj,rk->ijk", *blocks)
            others = [(F, f"r{i}") for i, F in zip("ijk", blocks, strict=True) if i != letter]
            arrays, names = zip(*others, strict=True)
            N, P = (
                np.einsum(f"ijk,{','.join(names)}->r{letter}", Z, *arrays)
                for Z in (data.X * V ** (beta - 2), V ** (beta - 1))
            )
            blocks[k] = blocks[k] * N / P
    for F, expected in zip(result.blocks, blocks, strict=True):
        np.testing.assert_allclose(F, expected, rtol=1e-10)
    assert result.trace.sweeps.tolist() == [1 + 3 * row for row in range(13)]


@pytest.mark.parametrize("rule", ["auto", "mu", "extrapolated", "hals"])
def test_a_matrix_is_a_tensor_of_two_modes(rule):
    rng = np.random.default_rng(2)
    X, W, H = rng.gamma(2.0, size=(9, 8)), rng.uniform(1, 2, size=(9, 2)), rng.uniform(1, 2, size=(2, 8))
    data, omega = Cube(np.ascontiguousarray(X.T)), (FROBENIUS,) if rule == "hals" else (KL,)
    tensor, objective = run(data, (H, W.T), omega, RULES[rule])
    matrix = solve(open_data(X), W, H, objective, RULES[rule], FIXED, Control(tol=0, max_iter=60))
    for F, expected in zip(tensor.blocks, (matrix.H, matrix.W.T), strict=True):
        np.testing.assert_array_equal(F, expected)


@pytest.mark.parametrize("omega", [(Beta(3.0),), (Beta(-1.0),)])
def test_steps_that_are_looked_at_together_are_those_looked_at_one_by_one(omega, monkeypatch):
    data, starts = planted(5)
    one_by_one, _ = run(data, starts, omega, RULES["extrapolated"], POLICIES["auto"])
    monkeypatch.setattr(HostSpace, "deferred", True)
    together, _ = run(data, starts, omega, RULES["extrapolated"], POLICIES["auto"])
    np.testing.assert_array_equal(together.trace.losses, one_by_one.trace.losses)
    wasted = together.trace.sweeps[-1] - one_by_one.trace.sweeps[-1]
    assert wasted > 0  # what was begun behind a rejected step
    assert one_by_one.trace.sweeps[-1] > 1 + 3 * one_by_one.n_iter


@pytest.mark.parametrize("omega", [(KL,), (FROBENIUS,)])
def test_the_certificate_tells_how_far_a_tensor_is_from_stationary(omega):
    data, starts = planted(3)
    (start, objective), (end, _) = (run(data, starts, omega, RULES["auto"], max_iter=most) for most in (0, 400))
    far, near = (
        certify(data, result.blocks, objective, result.weights, result.losses).stationarity for result in (start, end)
    )
    assert near < 1e-3 * far


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_stopped_run_of_three_blocks_goes_on_as_if_it_had_not(policy):
    data, starts = planted(4)
    taken = []

    class Keeper:
        seconds = 0.0

        def recall(self, data, omega, *owners):
            return taken[19] if len(taken) > 19 else None

        def offer(self, snapshot):
            taken.append(replace(made := snapshot(), log=replace(made.log, **_copied(made.log))))

        def done(self, result):
            pass

    whole, resumed = (
        run(data, starts, (IS, KL), RULES["auto"], POLICIES[policy], keeper=Keeper(), max_iter=45)[0] for _ in range(2)
    )
    for F, expected in zip(resumed.blocks, whole.blocks, strict=True):
        np.testing.assert_array_equal(F, expected)
    np.testing.assert_array_equal(resumed.trace.losses, whole.trace.losses)


def _copied(log):
    return {field.name: list(getattr(log, field.name)) for field in fields(log)}
