"""References are the best found: what a run beats is improved, nothing is printed below them, and starts serve that."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_wine

from drnmf import DRNMF, BetaNMF, MultiObjectiveNMF, pareto_front
from drnmf.algorithms.initialize import nndsvdar_start, random_start
from drnmf.algorithms.loop import Control, solve
from drnmf.algorithms.updates import as_rule
from drnmf.algorithms.weights import as_policy
from drnmf.backends.base import in_unit, losses_of
from drnmf.backends.open import open_data
from drnmf.losses.names import as_losses
from drnmf.objective.objective import Objective
from drnmf.problem.problem import Problem
from drnmf.solve.references import compute_references, run_improving
from drnmf.solve.runner import Budget, Runner

WINE = load_wine().data
BETAS = (1, 2)


def poor_start(rank=5, seed=1):
    """A start from which fits of raw wine end in a poor local minimum."""
    data = open_data(WINE)
    return random_start(data, rank, np.random.RandomState(seed))


@pytest.mark.parametrize("estimator", [DRNMF, MultiObjectiveNMF])
def test_no_loss_met_in_a_fit_is_below_its_reference(estimator):
    W, H = poor_start()
    model = estimator(5, betas=BETAS, init="custom", max_iter=300).fit(WINE, W=W, H=H)
    assert (model.references_ <= model.trace_.losses.min(axis=0)).all()
    assert (model.references_ <= model.single_losses_.min(axis=0)).all()
    assert (model.scaled_losses_ >= 1.0).all()


def test_the_trace_keeps_the_losses_themselves():
    model = DRNMF(4, betas=BETAS, max_iter=50, tol=0, random_state=0).fit(WINE)
    assert model.trace_.losses.shape == (51, 2)
    np.testing.assert_array_equal(model.trace_.losses / model.references_, model.trace_.scaled_losses)
    assert any((row == model.losses_).all() for row in model.trace_.losses)
    expected = model.trace_.scaled_losses.max(axis=1) - (model.trace_.weights * model.trace_.scaled_losses).sum(axis=1)
    np.testing.assert_allclose(model.trace_.gap, expected, atol=1e-12)


def test_a_run_ends_where_it_beats_a_reference():
    data, omega = open_data(WINE), as_losses(BETAS)
    W, H = nndsvdar_start(data, 5, np.random.RandomState(0))
    high = 2.0 * losses_of(data, W, H, omega)
    run = solve(data, W, H, Objective(omega, high, data.mean), as_rule("auto"), as_policy("auto"), Control(margin=0.01))
    assert run.reason == "reference"
    assert run.n_iter == 0
    np.testing.assert_array_equal(run.losses, losses_of(data, run.W, run.H, omega))


def test_a_beaten_reference_is_improved_and_the_run_continues(monkeypatch):
    """Reference fits that end after one step are beaten by every run: what they leave must not stay the scale."""
    from drnmf.solve import pipeline

    honest = pipeline.compute_references

    def careless(problem, starts, runner):
        found = honest(problem, starts, runner)
        return type(found)(10.0 * found.values, found.solutions, found.losses, found.floors, found.notes)

    good = DRNMF(4, betas=BETAS, max_iter=300, random_state=0).fit(WINE)
    monkeypatch.setattr(pipeline, "compute_references", careless)
    model = DRNMF(4, betas=BETAS, max_iter=300, random_state=0).fit(WINE)
    assert (model.references_ <= 1.02 * good.references_).all()
    assert model.n_iter_ <= 300
    assert len(model.trace_.losses) == model.n_iter_ + 1
    assert (np.diff(model.trace_.sweeps) > 0).all()
    assert (np.diff(model.trace_.seconds) >= 0).all()
    paper = DRNMF(4, betas=BETAS, max_iter=300, random_state=0, solver="mu").fit(WINE)
    assert (paper.scaled_losses_ < 0.5).all()  # "mu" keeps the references it was given


def test_a_paused_run_goes_on_with_the_weights_it_had():
    """References and run pause, then go on: in the trace of the whole run lambda never begins again."""
    model = DRNMF(4, betas=BETAS, random_state=0).fit(WINE)
    moves = np.abs(np.diff(model.trace_.weights, axis=0)).max(axis=1)
    assert abs(model.trace_.weights[-1] - 0.5).max() > 0.1
    assert not (abs(model.trace_.weights[20:] - 0.5).max(axis=1) == 0).any()
    assert np.isfinite(moves).all()
    data, omega = open_data(WINE), as_losses(BETAS)
    W, H = nndsvdar_start(data, 4, np.random.RandomState(0))
    how = Objective(omega, model.references_, data.mean), as_rule("mu"), as_policy("frank-wolfe")
    whole = solve(data, W, H, *how, Control(max_iter=12, tol=0))
    first = solve(data, W, H, *how, Control(max_iter=5, tol=0))
    second = solve(data, first.W, first.H, *how, Control(max_iter=7, tol=0, weight_state=first.weight_state))
    np.testing.assert_array_equal(first.then(second).trace.weights, whole.trace.weights)


def test_rough_references_go_on_to_their_level():
    omega = as_losses(BETAS)
    problem = Problem.opened(in_unit(open_data(WINE))).asked(4, omega)
    starts = [random_start(problem.data, 4, np.random.RandomState(0))]
    runner = replace(Runner.of("auto", "auto"), budget=Budget(Control(), 9))
    fine, rough = (compute_references(problem, starts, how) for how in (runner, runner.roughly()))
    assert rough.rough
    assert sum(run.n_iter for run in rough.solutions) < sum(run.n_iter for run in fine.solutions)
    level = run_improving(problem, starts, rough, runner)[1]
    assert not level.rough
    assert (level.values <= 1.003 * fine.values).all()
    exactly = replace(runner, budget=Budget(Control(tol=0), 9))
    assert exactly.roughly() is exactly  # tol=0 asks for so many iterations, without a pause


def test_a_fit_alone_that_is_ahead_of_every_run_is_where_one_more_begins():
    """Seen on wine: from a poor start DR-NMF ended at 3.9 times the references, and the fit of beta = 2 had 1.6."""
    for seed in range(3):
        W, H = poor_start(seed=seed)
        model = DRNMF(5, betas=BETAS, init="custom", max_iter=300).fit(WINE, W=W, H=H)
        alone = (model.single_losses_ / model.references_).max(axis=1).min()
        assert model.reconstruction_err_ <= alone


@pytest.mark.parametrize("method", ["weighted", "tchebycheff"])
def test_the_best_of_a_front_is_the_best(method):
    W, H = poor_start()
    front = pareto_front(DRNMF(5, betas=BETAS, init="custom", max_iter=200), WINE, weights=4, W=W, H=H, method=method)
    everything = np.vstack([front.scaled_losses, front.dr.scaled_losses])
    assert (everything >= 1.0).all()
    assert not front.dominated[[0, -1]].any()
    np.testing.assert_allclose(np.diag(front.scaled_losses[[-1, 0]]), 1.0, rtol=1e-6)
    assert front.dr.scaled_losses.max() <= 1.02 * front.scaled_losses.max(axis=1).min()


def test_an_interval_has_nothing_below_its_references():
    model = DRNMF(3, betas="0..2", max_iter=300, random_state=0).fit(WINE)
    assert (model.scaled_losses_ >= 1.0).all()
    assert (model.coverage_.scaled_losses >= 1.0).all()


def exact_rank():
    """scikit-learn's case of test_nmf_true_reconstruction: 15 x 10, exact rank 5."""
    rng = np.random.RandomState(42)
    W, H = np.zeros((15, 5)), np.zeros((5, 10))
    W[range(5), range(5)] = np.abs(rng.randn(15))[:5]
    H[np.arange(10) % 5, range(10)] = np.abs(rng.randn(5))[np.arange(10) % 5]
    return W @ H


@pytest.mark.parametrize("seed", range(3))
def test_the_default_start_finds_an_exact_factorization(seed):
    model = BetaNMF(5, beta=1, max_iter=1000, random_state=seed).fit(exact_rank())
    assert model.reconstruction_err_ < 0.1


def test_the_default_start_is_nndsvd_first_and_random_after_that():
    one = BetaNMF(5, beta=2, max_iter=5, tol=0, random_state=0).fit(WINE)
    same = BetaNMF(5, beta=2, max_iter=5, tol=0, random_state=0, init="nndsvdar").fit(WINE)
    np.testing.assert_array_equal(one.components_, same.components_)
    wide = BetaNMF(15, beta=2, max_iter=5, tol=0, random_state=0).fit(WINE)  # more components than columns
    random = BetaNMF(15, beta=2, max_iter=5, tol=0, random_state=0, init="random").fit(WINE)
    np.testing.assert_array_equal(wide.components_, random.components_)


@pytest.mark.slow
@pytest.mark.parametrize("beta", [1, 2])
def test_default_fits_of_raw_tables_end_where_they_stand_still(beta):
    """With max_iter=1000 from a random start wine under beta = 2 ended 7.3 times above a longer run."""
    model = BetaNMF(5, beta=beta, random_state=0).fit(WINE)
    longer = BetaNMF(5, beta=beta, random_state=0, tol=0, max_iter=min(20 * model.n_iter_, 8000)).fit(WINE)
    assert model.converged_
    assert model.reconstruction_err_ <= 1.01 * longer.reconstruction_err_


def test_the_warning_says_what_helps():
    with pytest.warns(Warning, match=r"fell by .* % in the last tenth.*raise max_iter, or tol.*[Ff]ewer components"):
        BetaNMF(5, beta=2, max_iter=20, random_state=0).fit(WINE)


@pytest.mark.parametrize(
    ("update", "beta", "rank", "tol", "expected"),
    [
        ("auto", 1, 5, 3e-5, 1e-4),
        ("auto", 1, 5, 1e-3, 1e-3),  # the user's own, if that is larger
        ("auto", 1, 5, 0.0, 0.0),
        ("auto", 2, 5, 3e-5, 3e-5),  # coordinate descent
        ("auto", 1, 30, 3e-5, 3e-5),  # one curvature for all
        ("newton", 1, 5, 1e-6, 1e-6),
    ],
)
def test_references_stop_earlier_where_whole_iterations_are_extrapolated(update, beta, rank, tol, expected):
    (loss,) = as_losses(beta)
    runner = replace(Runner.of(update, "auto"), budget=Budget(Control(tol=tol), 1)).alone(level=True)
    problem = Problem.opened(in_unit(open_data(WINE))).asked(rank, (loss,))
    assert runner.control(problem).tol == expected
