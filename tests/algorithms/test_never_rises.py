"""No step of any rule raises the objective: the weighted scaled sum under the lambda of that step, with penalties."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from drnmf import DRNMF, L1, L2, BetaNMF, Solver, Sparsity, Volume
from drnmf.algorithms import iteration
from drnmf.algorithms.updates.base import Rule
from drnmf.algorithms.updates.constrained import OneSide
from drnmf.algorithms.updates.hals import HALS
from drnmf.algorithms.updates.minimax import Minimax
from drnmf.algorithms.updates.monotone import Extrapolated, Monotone, Multiplicative
from drnmf.algorithms.updates.newton import Guarded, Newton
from drnmf.numerics import rise_tolerance

pytestmark = pytest.mark.filterwarnings("ignore:Only beta = 1 and 2 can use the sparsity")

ROWS, COLUMNS, RANK = 11, 9, 3
DELAY = 12  # a Newton rule that begins early: a run of thirty iterations has second-order steps in it

RULES: dict[str, tuple[str | Rule, type]] = {
    "mu": ("mu", Multiplicative),
    "monotone": ("monotone", Monotone),
    "extrapolated": ("extrapolated", Extrapolated),
    "newton": (Newton(delay=DELAY), Newton),
    "shared": (Newton(delay=DELAY, largest_rank=0), Newton),
    "auto": ("auto", Newton),
    "hals": ("hals", HALS),
    "minimax": ("mu", Minimax),
}
"""Name -> what `update` is, and the rule that takes the steps ("auto" has another one for beta = 2 alone)."""

LOSSES: dict[str, tuple[Any, ...]] = {
    "0": (0,), "1": (1,), "2": (2,), "0.5": (0.5,), "3": (3,), "nb": ("nb:5",), "0 1": (0, 1), "1 2": (1, 2),
    "0 1.5 2": (0, 1.5, 2),
}  # fmt: skip
LAYOUTS = ("dense", "gaps", "weights", "sparse", "stored")
CONSTRAINTS = ("free", "fixed", "fixed_W", "sums W", "sums H", "fixed sums W", "fixed_W sums H")
PENALISED = ("free", "fixed", "sums W")
PENALTIES = {"none": None, "L1 L2": [L1(0.05, on="W"), L2(0.02, on="H")], "shapes": [Sparsity(0.05), Volume(0.02)]}


@cache
def truth() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    W, H = rng.dirichlet(np.full(RANK, 0.7), ROWS), rng.gamma(1.0, 1.0, (RANK, COLUMNS)) + 0.05
    return (W @ H) * rng.gamma(8.0, 1.0 / 8.0, (ROWS, COLUMNS)), W, H


@cache
def laid_out(layout: str, dtype: str) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """X, parameters of the model, and those of `fit`."""
    X, rng = truth()[0].astype(dtype), np.random.default_rng(1)
    hidden = rng.random(X.shape) < 0.25
    if layout == "gaps":
        return np.where(hidden, np.nan, X), {}, {}
    if layout == "weights":
        return X, {}, {"entry_weight": rng.uniform(0.0, 2.0, X.shape) * ~hidden}
    if layout == "sparse":
        return sp.csr_array(rng.poisson(3.0 * X) * ~hidden).astype(dtype), {"zeros": "floor"}, {}
    if layout == "stored":
        return sp.csr_array(X * ~hidden), {"unstored": "missing"}, {}
    return X, {}, {}


def constrained(constraint: str) -> dict[str, Any]:
    _, W, H = truth()
    given: dict[str, Any] = {"sum_to_one": constraint[-1]} if "sums" in constraint else {}
    if constraint.startswith("fixed_W"):
        return given | {"solver__fixed_W": W[:, :1]}
    return given | {"fixed": H[:1]} if constraint.startswith("fixed") else given


@pytest.fixture
def steps(monkeypatch):
    """The rules whose steps were taken, without what stands around them, and the states after them."""
    taken: list[tuple[Rule, Any]] = []
    step = iteration._Half.step

    def watched(half, *given):
        tried = step(half, *given)
        rule = half.task.rules[half.block]
        while isinstance(rule, OneSide):
            rule = rule.rule
        taken.append((rule, tried.state))
        return tried

    monkeypatch.setattr(iteration._Half, "step", watched)
    return taken


def fitted(rule: str, losses: str, constraint: str, layout: str, dtype: str, penalties: str, policy: str) -> DRNMF:
    X, given, weights = laid_out(layout, dtype)
    betas = LOSSES[losses]
    solver = Solver(update=RULES[rule][0], policy=policy, references=np.linspace(3.0, 2.0, len(betas)))
    given |= {"max_iter": 36 if rule == "auto" else 30, "tol": 0, "init": "random", "random_state": 0}
    model = DRNMF(RANK, betas=betas, penalties=PENALTIES[penalties], solver=solver, **given)
    model.set_params(**constrained(constraint))
    return model.fit(X, **weights)


def check(model: DRNMF, dtype: str, largest: bool) -> None:
    trace = model.trace_
    before, after = trace.scaled_losses[:-1], trace.scaled_losses[1:]
    if largest:
        values = before.max(axis=1), after.max(axis=1)
    else:  # the weights of a row are those of the step that follows it
        values = ((trace.weights[:-1] * part).sum(axis=1) for part in (before, after))
    low, high = (value + trace.penalty[k : k - 1 or None] for k, value in enumerate(values))
    assert len(low) >= 30
    worst = float(((high - low) / low).max())
    assert worst <= 2 * rise_tolerance(dtype), f"the objective rises by {worst:.2g}"  # two steps in a row of the trace


def turns(*axes: str) -> int:
    """A number that changes with every one of some names: dtypes and penalties take turns over the combinations."""
    where = (RULES, LOSSES, LAYOUTS, CONSTRAINTS)
    return sum(list(names).index(name) for names, name in zip(where, axes, strict=True))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("losses", LOSSES)
@pytest.mark.parametrize("rule", RULES)
def test_no_step_raises_the_objective(rule, losses, layout, steps):
    """Over all rules, losses and layouts under every constraint: 2,240 fits of thirty iterations and more."""
    if rule == "hals" and losses != "2":
        with pytest.raises(ValueError, match="update='hals' minimises beta = 2 alone"):
            fitted(rule, losses, "free", layout, "float64", "none", "fixed")
        return
    expected = HALS if (rule, losses) == ("auto", "2") else RULES[rule][1]
    for constraint in CONSTRAINTS:
        turn = turns(rule, losses, layout, constraint)
        dtype = ("float64", "float32")[turn % 2]
        penalties = list(PENALTIES)[turn // 2 % 3] if constraint in PENALISED else "none"
        steps.clear()
        model = fitted(rule, losses, constraint, layout, dtype, penalties, "minimax" if rule == "minimax" else "fixed")
        check(model, dtype, rule == "minimax")
        assert {type(taken) for taken, _ in steps} == {expected}
        if expected is Newton and not (rule == "shared" and "nb" in losses):  # one curvature for all asks for betas
            second = any(isinstance(state, Guarded) for _, state in steps)
            assert second or losses == "2", "no step of second order was taken"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("policy", ["frank-wolfe", "subgradient", "mirror", "reactive", "auto"])
def test_no_step_raises_the_objective_of_its_lambda(policy, layout):
    rules = ("mu", "monotone", "extrapolated", "newton", "auto", "shared")
    for turn, constraint in enumerate(CONSTRAINTS, start=LAYOUTS.index(layout)):
        dtype = ("float64", "float32")[turn % 2]
        model = fitted(rules[turn % 6], "0 1.5 2", constraint, layout, dtype, "none", policy)
        check(model, dtype, False)


@pytest.mark.parametrize("losses", LOSSES)
@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "minimax"])
def test_what_an_exact_fit_still_moves_by_is_rounding_and_nobody_looks_for_less(rule, losses):
    """Rounded factors move a loss D by u sqrt(2 D S), S the sum of x^beta: far above u D where the fit is exact."""
    if rule == "hals" and losses != "2":
        return
    rng, betas, count = np.random.default_rng(2), LOSSES[losses], 150
    X = np.outer(rng.gamma(2.0, 1.0, 12), rng.gamma(2.0, 1.0, 10))
    solver = Solver(update=RULES[rule][0], policy="fixed", references=np.ones(len(betas)))
    for dtype in ("float64", "float32"):
        model = DRNMF(1, betas=betas, solver=solver, max_iter=count, tol=0, init="random", random_state=0)
        trace = model.fit(X.astype(dtype)).trace_
        values = (trace.weights * trace.losses).sum(axis=1)
        size, unit = max((X ** (1 if beta == "nb:5" else beta)).sum() for beta in betas), float(np.finfo(dtype).eps)
        allowed = rise_tolerance(dtype) * values + unit * np.sqrt(2 * values * size) + unit**2 * size
        assert values[-1] < 1e-3 * unit * size, "the fit is not exact"
        assert (np.diff(values) <= 2 * allowed[:-1]).all()
        assert trace.sweeps[-1] <= 4 * count + 1, "steps are taken back for rounding"


@pytest.mark.parametrize("sums", [None, "W", "H"])
@pytest.mark.parametrize("layout", ["dense", "sparse", "stored"])
def test_rows_and_columns_of_zeros_raise_nothing_either(layout, sums):
    """Seeded fits, noisy and exact. The loss of a sparse X is a difference of norms, also in float32."""
    rules = ("auto", "hals", "mu", "monotone", "extrapolated", "newton")
    for seed in range(12):
        rng, dtype = np.random.default_rng(seed), ("float32", "float64")[seed % 2]
        X = rng.gamma(0.5, size=(14, 3)) @ rng.gamma(0.5, size=(3, 9)) * rng.gamma(20.0, 0.05, (14, 9)) ** (seed % 3)
        X *= rng.random(X.shape) < (1.0, 0.4)[seed // 2 % 2]
        X[seed % 14], X[:, seed % 9] = 0.0, 0.0
        given = X.astype(dtype) if layout == "dense" else sp.csr_array(X.astype(dtype))
        model = BetaNMF(3, beta=2, sum_to_one=sums, max_iter=40, tol=0, init="random", random_state=seed)
        model.set_params(solver=Solver(update=rules[seed % 6]), unstored="missing" if layout == "stored" else "zero")
        values, unit, size = model.fit(given).trace_.losses[:, 0], float(np.finfo(dtype).eps), float((X**2).sum())
        allowed = rise_tolerance(dtype) * values + unit * np.sqrt(2 * values * size) + unit**2 * size
        assert np.isfinite(values).all()
        assert (np.diff(values) <= 2 * allowed[:-1]).all()


@pytest.mark.parametrize("rule", ["auto", "hals", "newton", "extrapolated", "monotone"])
def test_the_loss_of_a_sparse_matrix_in_float32_does_not_rise_by_the_rounding_of_its_norm(rule):
    """A fit that leaves half a percent of sum x^2, whose float32 is known to 1e-7 of that: 1e-5 of the loss."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.gamma(0.5, size=(60, 3)) @ rng.gamma(0.5, size=(3, 40)) * rng.gamma(200, 1 / 200, (60, 40))
        model = BetaNMF(3, beta=2, max_iter=100, tol=0, init="random", random_state=seed, solver=rule)
        values = model.fit(sp.csr_array((X * (rng.random(X.shape) < 0.98)).astype("f4"))).trace_.losses[:, 0]
        assert values[-1] < 0.02 * (X**2).sum()
        assert (np.diff(values) <= rise_tolerance("float32") * values[:-1]).all()
