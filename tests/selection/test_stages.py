"""Pieces of a discovery on their own: criteria, held-out scores by hand, time, residuals, notes, what is kept."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

import drnmf
from drnmf.algorithms.result import Trace
from drnmf.backends.observed import Outer
from drnmf.backends.open import open_data
from drnmf.losses.beta import IS, KL, Beta
from drnmf.losses.interval import Interval
from drnmf.losses.negative_binomial import NegativeBinomial
from drnmf.problem.problem import Problem
from drnmf.problem.receive import Received
from drnmf.selection import warm_starts
from drnmf.selection.choose import Candidate, Tried, candidates, describe, holds_counts, structured
from drnmf.selection.entries import Facts, facts_of, sample_shape
from drnmf.selection.folds import check_fraction, tiles
from drnmf.selection.likelihood.grid import Grid, common_unit
from drnmf.selection.likelihood.masses import NegativeBinomialNoise, PoissonNoise, noise_for
from drnmf.selection.likelihood.scores import Scores
from drnmf.selection.noise import BETAS, LEAST_BETA, losses_to_try
from drnmf.selection.resampling import redrawn, resampled
from drnmf.selection.stages.ranks import too_large, with_most_stable
from drnmf.selection.stages.residuals import FOR_W, LAST, contributions, residuals
from drnmf.selection.stages.run_pool import LARGE, rows_seen
from drnmf.selection.stages.runs import Run, Store
from drnmf.selection.stages.schedule import Moment, Schedule
from drnmf.selection.stages.stages import plan
from drnmf.selection.warm_starts import NEW_COMPONENT, fit_along, grown
from drnmf.solve.encode import Encoder
from drnmf.solve.runner import Runner


def test_criteria_count_their_parameters():
    """BIC: r m log n + r n log m - r^2 log min(m, n); AIC: 2 r (m + n - r)."""
    expected = 2 * 7.0 + 3 * 20 * math.log(30) + 3 * 30 * math.log(20) - 9 * math.log(20)
    tried = Tried(3, criterion=7.0, shape=(20, 30))
    assert tried.bic == pytest.approx(expected)
    assert tried.aic == pytest.approx(14.0 + 6 * 47)


def scored(level: float) -> Scores:
    return Scores(np.full(10, -level), np.full(10, -level), np.ones(10), np.ones(10))


def ends(*levels: float) -> bool:
    """Whether the next rank is too large after ranks with these losses."""
    return too_large([Tried(rank, scored(level)) for rank, level in enumerate(levels, 1)], len(levels) + 1)


def test_two_ranks_that_are_clearly_worse_end_the_search():
    assert ends(1.0, 2.0, 2.0)
    assert not ends(2.0, 2.0)
    assert not ends(1.0, 2.0)
    assert not ends(2.0, 2.0, 1.0)


def test_tiles_cover_all_columns(monkeypatch, rng):
    monkeypatch.setattr("drnmf.selection.folds._TILE", 50)
    X = rng.uniform(size=(20, 7))
    for form in (np.asarray, sp.csr_array):
        pieces = list(tiles(form(X)))
        assert [(c.start, c.stop) for c, _ in pieces] == [(0, 2), (2, 4), (4, 6), (6, 7)]
        np.testing.assert_array_equal(np.concatenate([tile for _, tile in pieces], axis=1), X)


def test_half_of_the_entries_at_most_are_held_out():
    assert [check_fraction(value) for value in (0, 0.5)] == [0.0, 0.5]
    for value in (0.51, -0.1):
        with pytest.raises(ValueError, match="held_out"):
            check_fraction(value)


def test_losses_to_try():
    zeros, none = Facts(9, 1), Facts(9, 0)
    assert [loss.beta for loss in losses_to_try(None, none)] == list(BETAS)
    assert losses_to_try(None, zeros)[0].beta == LEAST_BETA > 0
    spread = [loss.beta for loss in losses_to_try(Interval(1, 2), zeros)]
    np.testing.assert_allclose(spread, np.linspace(1, 2, len(BETAS)))
    assert [loss.beta for loss in losses_to_try((2, 0.5), zeros)] == [0.5, 2.0]
    with pytest.raises(ValueError, match="betas names NB"):
        losses_to_try(("nb:3", 1), none)


def test_what_is_said_of_the_noise():
    counts, others = Facts(10, 4, Grid(2.0)), Facts(10, 0)
    wide = Candidate(NegativeBinomialNoise(), NegativeBinomial(3.0))
    said = describe(counts, 0.5, 1.25, wide, True, 9.0)
    assert said[0] == "The variance grows like mu^1.5: between relative error and counts."
    assert said[1] == "X holds counts (multiples of 2): NB(3) is the likeliest noise."
    assert said[2] == "Squared residuals grow like mu^1.25."
    assert "NB(3) expects mu^1.75" not in said[-1]  # within a half
    assert "cannot be told from a relative error" in describe(counts, 0.5, 1.25, wide, False, 900.0)[1]
    flat = describe(others, 1.0, math.nan, Candidate(noise_for(KL), KL), False, 0.3)
    assert flat == ("The variance grows like mu^1: error like the root of the mean.",)  # not counts: nothing says so
    gamma = Candidate(noise_for(IS), IS)
    assert describe(others, 0.0, math.nan, gamma, False, 1.0) == ("The variance grows like mu^2: relative error.",)
    believed = describe(others, 0.0, 1.4, gamma, False, 1.0)[-1]
    assert "IS expects mu^2.00: held-out entries are believed" in believed
    assert structured(0.4, 3, False) == ()
    assert structured(0.4, 3, True)[0].startswith("40 % of what rank 3 leaves")


def test_counts_are_said_where_a_noise_of_counts_wins_at_few_units():
    plain, poisson, wide = candidates((KL,), True, 4.0)
    assert [one.name for one in (plain, poisson, wide)] == ["KL", "Poisson", "NB(4)"]
    assert [one.level for one in (plain, poisson, wide)] == [1, 0, 2]
    assert isinstance(poisson.noise, PoissonNoise)
    for candidate, unit, middle, expected in (
        (poisson, 1.0, 29.0, True), (poisson, 1.0, 31.0, False), (wide, 0.1, 29.0, False), (wide, None, 1.0, False),
        (plain, 1.0, 1.0, False),
    ):  # fmt: skip
        assert holds_counts(candidate, unit, middle) == expected


def test_units_of_counts_and_sizes_of_samples():
    assert common_unit(np.array([6.0, 10.0, 15.0])) == 1.0
    assert common_unit(np.array([6.0, 10.0])) == 2.0
    assert common_unit(np.array([1.0, 1e9 + 0.5])) == math.inf
    assert facts_of(np.array([[np.nan, 2.0], [0.0, 8.0]])) == Facts(3, 1, Grid(2.0))
    assert sample_shape((400, 500), 3) == (400, 500)
    assert sample_shape((401, 500), 3) == (401, 498)
    assert sample_shape((500, 401), 3) == (498, 401)
    assert sample_shape((5000, 5000), 60) == (600, 600)


def test_new_components_have_a_tenth_of_the_mean(rng):
    X = np.full((200, 300), 8.0)
    W, H = grown(open_data(X), (np.ones((200, 2)), np.ones((2, 300))), 5, np.random.RandomState(0))
    assert (W[:, :2] == 1).all()
    assert (H[:2] == 1).all()
    assert W.shape == (200, 5)
    assert (W[:, 2:] @ H[2:]).mean() == pytest.approx(NEW_COMPONENT * 8.0, rel=0.1)
    floored = grown(open_data(X), (np.zeros((200, 2)), np.ones((2, 300))), 2, np.random.RandomState(0))
    assert floored[0].min() > 0


@pytest.mark.parametrize("loss", [KL, IS, Beta(2.0)])
def test_residuals_are_means_along_both_sides(rng, loss):
    X, W, H = rng.gamma(1.0, 1.0, (7, 5)), rng.uniform(1, 2, (7, 2)), rng.uniform(1, 2, (2, 5))
    X[0, 0], X[3, 3] = 0.0, np.nan
    found = residuals(X, W, H, loss)
    V = W @ H
    seen = np.where(np.isnan(X), V, X)
    floor = np.finfo(float).eps * np.nanmean(X)
    terms = loss.terms(np.maximum(seen, floor) if loss == IS else seen, V)
    rough = 0.2 if loss == IS else 1e-9  # the floor is another there
    np.testing.assert_allclose(found.rows, terms.mean(axis=1), rtol=rough)
    np.testing.assert_allclose(found.columns, terms.mean(axis=0), rtol=rough)
    np.testing.assert_allclose(found.row_sums, seen.sum(axis=1))
    np.testing.assert_allclose(found.column_sums, seen.sum(axis=0))
    order = np.array_split(np.argsort(V.ravel(), kind="stable"), 20)
    np.testing.assert_allclose(found.levels, [V.ravel()[group].mean() for group in order])
    np.testing.assert_allclose(found.squares, [((seen - V) ** 2).ravel()[group].mean() for group in order])


def test_time_left_is_work_left_at_the_pace_of_fresh_work():
    now, told = [100.0], list[Moment]()
    schedule = Schedule({"noise": 10.0, "ranks": 20.0, "runs": 10.0}, None, told.append, lambda: now[0])
    schedule.advance("noise", 6.0, "kept", fresh=False)
    now[0] = 104.0
    schedule.advance("noise", 2.0, "KL")
    assert [moment.left for moment in told] == [0.0, pytest.approx(4.0 / 2.0 * 32.0)]
    assert told[-1].share == pytest.approx(8 / 40)
    assert (told[-1].number, told[-1].stages, told[-1].seconds) == (1, 3, 4.0)
    now[0] = 154.0
    schedule.advance("noise", 0.0, "a run that was stopped early")
    assert schedule.rate == pytest.approx(2.0)
    schedule.close("noise")
    schedule.expect("ranks", 5.0)
    assert (schedule.planned("noise"), schedule.planned("ranks")) == (8.0, 5.0)
    schedule.advance("ranks", 7.0, "more than planned")
    assert schedule.planned("ranks") == 7.0
    assert schedule.limit == math.inf
    assert schedule.allowance("ranks") is None


def test_a_stage_has_its_part_of_the_time_that_is_left():
    now, told = [0.0], list[Moment]()
    plan = {"noise": 10.0, "ranks": 20.0, "runs": 10.0, "contributions": 1.0}
    schedule = Schedule(plan, 80.0, told.append, lambda: now[0])
    assert schedule.allowance("noise") == pytest.approx(20.0)
    now[0] = 41.0
    schedule.advance("noise", 10.0, "all")
    assert told[-1].left == pytest.approx(39.0)  # 127 at the rate so far
    kept = 4.1  # what the contributions need at the rate so far
    assert schedule.allowance("ranks") == pytest.approx((39.0 - kept) * 2 / 3)
    assert schedule.allowance("runs") == pytest.approx(39.0 - kept)
    assert schedule.allowance("contributions") == 39.0
    now[0] = 90.0
    assert [schedule.allowance(name) for name in plan] == [0.0] * 4


def test_time_that_the_stages_to_come_do_not_need_is_for_this_one():
    now = [0.0]
    schedule = Schedule({"ranks": 100.0, "runs": 10.0, "contributions": 1.0}, 240.0, None, lambda: now[0])
    first = schedule.allowance("ranks")
    now[0] = 100.0
    schedule.advance("ranks", 100.0, "all that was planned, and more is to come")
    schedule.expect("ranks", 50.0)
    assert schedule.allowance("ranks") == pytest.approx(240.0 - 100.0 - 11.0)  # a second for a unit of work
    schedule.expect("runs", 1e6)
    assert schedule.allowance("ranks") == pytest.approx(first - 100.0)  # what it was promised


def slowly(at: list[float], seconds: float):
    """An encoder whose every step takes so long for a row."""

    def rows(self, data, first_row=0):
        at[0] += seconds * self.max_iter * data.shape[0]
        return np.ones((data.shape[0], self.components.shape[0]))

    return rows


@pytest.mark.parametrize(("limit", "cut"), [(None, 0), (1e6, 0), (40.0, 400), (1e-9, 400)])
def test_contributions_are_told_block_by_block_and_keep_within_the_time(monkeypatch, limit, cut):
    at, told, X = [0.0], list[Moment](), np.ones((400, 5))
    monkeypatch.setattr("drnmf.selection.stages.residuals.LEAST_ENTRIES", 10)
    monkeypatch.setattr(Encoder, "rows", slowly(at, 1e-3))
    encoder = Encoder(
        np.ones((2, 5)), SimpleNamespace(mean=1.0), np.ones(1), 500, 0.0, "raise", "discover", np.zeros(2)
    )
    schedule = Schedule({LAST: 7.0}, limit, told.append, lambda: at[0])
    W, stopped = contributions(encoder, Problem.opened(open_data(X), Received(X)), schedule)
    assert W.shape == (400, 2)
    assert stopped == cut
    assert len(told) == 20
    assert told[-1].share == pytest.approx(FOR_W)
    if limit == 40.0:
        assert 0.9 * FOR_W * limit <= at[0] <= limit
    assert at[0] >= 400 * 1e-3 * 500 or cut


def test_rows_of_which_nothing_is_observed_get_the_mean_of_the_others():
    X = np.random.default_rng(0).poisson(20.0, (6, 5)).astype(float)
    X[2] = np.nan
    found = drnmf.discover(X, drnmf.BetaNMF(beta=1, max_iter=5), ranks=2, n_runs=2, resample=None).dense
    np.testing.assert_allclose(found[2], np.delete(found, 2, axis=0).mean(axis=0), rtol=1e-5)


def test_drawn_counts_have_their_means_and_gaps_stay(rng):
    X = np.full((300, 40), 9.0)
    X[0, 0] = np.nan
    drawn = resampled(X, "poisson", 1)
    assert np.isnan(drawn[0, 0])
    assert np.nanmean(drawn) == pytest.approx(9.0, rel=0.02)
    assert np.nanvar(drawn) == pytest.approx(9.0, rel=0.05)
    rows = resampled(np.arange(50.0)[:, None], "bootstrap", 1)
    assert 20 < len(np.unique(rows)) < 45
    stored = resampled(sp.csr_array(X[1:]), "poisson", 3).toarray()
    np.testing.assert_array_equal(stored, resampled(X[1:], "poisson", 3))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_X_is_drawn_with_the_deviations_of_its_entries(form):
    X, U = np.full((300, 40), 9.0), np.repeat([0.5, 1.0, 9.0], 100)[:, None]
    weights = Outer(1.0 / U[:, 0] ** 2, np.r_[0.0, np.ones(39)])
    drawn = redrawn(form(X), weights, 1)
    drawn = drawn.toarray() if sp.issparse(drawn) else drawn
    assert (drawn[:, 0] == 9.0).all()  # without weight
    assert drawn.min() == 0.0
    for rows, deviation in ((slice(0, 100), 0.5), (slice(100, 200), 1.0)):
        assert drawn[rows, 1:].mean() == pytest.approx(9.0, abs=0.1)
        assert drawn[rows, 1:].std() == pytest.approx(deviation, rel=0.05)
    assert not np.array_equal(drawn, redrawn(X, weights, 2))
    assert redrawn(X, None, 1).std() == pytest.approx(1.0, rel=0.05)


def test_a_run_that_was_stopped_early_is_not_kept_and_scores_read_back(tmp_path):
    def run(reason: str) -> Run:
        trace = Trace(*(np.ones((2, 1)) for _ in range(3)), *(np.ones(2) for _ in range(3)))
        scores = Scores(np.arange(3.0), np.ones(2), np.ones(3), np.ones(2), 0.5)
        return Run(np.eye(2), (KL,), np.array([6.0]), np.array([2.0]), np.ones(1), trace, reason, scores)

    with Store(tmp_path, {"X": "a"}) as store:
        store.keep("early", run("max_time"))
        store.keep("whole", run("tol"))
        assert store.get("early") is None
        assert [store.has(name) for name in ("early", "whole", "never")] == [False, True, False]
    with Store(tmp_path, {"X": "a"}) as store:
        kept = store.get("whole")
    assert kept is not None
    assert (kept.reason, kept.omega, kept.error, kept.scores.parameter) == ("tol", (KL,), 3.0, 0.5)
    np.testing.assert_array_equal(kept.scores.rows, np.arange(3.0))
    with pytest.raises(ValueError, match="another X"), Store(tmp_path, {"X": "b"}):
        pass


def test_the_work_of_every_stage_is_planned_in_fits_times_rank():
    assert plan((4,), 30, noise=False, heavy=False) == {"consensus": 120.0, "contributions": 2.0}
    whole = plan((2, 4, 8), 30, noise=True, heavy=True)
    assert list(whole) == ["noise", "ranks", "heavy", "consensus", "contributions"]
    assert whole["ranks"] == 7 * whole["heavy"]  # three ranks of the ladder and four more, four runs each
    assert plan((4,), 30, noise=False, heavy=True)["heavy"] == 2 * whole["heavy"]
    assert plan((2, 4, 8), 1, noise=False, heavy=True)["heavy"] == whole["heavy"]


def test_rows_of_a_large_X_are_drawn(monkeypatch):
    assert LARGE == 2**20
    monkeypatch.setattr("drnmf.selection.stages.run_pool.LARGE", 2000)
    monkeypatch.setattr("drnmf.selection.stages.run_pool.LEAST_ROWS", 10)
    assert rows_seen(Received(np.ones((100, 20))), 0) == slice(None)
    rows = rows_seen(Received(np.ones((200, 20))), 0)
    assert len(np.unique(rows)) == 100
    assert (np.diff(rows) > 0).all()
    assert len(rows_seen(Received(np.ones((4, 2000))), 0)) == 4
    sparse = Received(sp.csr_array(np.eye(100, 200)))
    assert rows_seen(sparse, 0, (KL,)) == slice(None)
    assert len(rows_seen(sparse, 0, (IS,))) == 10


def test_fits_go_from_the_middle_outwards_each_from_its_neighbour(monkeypatch):
    """The beta of each fit stands for its factors."""
    begun: list[tuple[float, float | None]] = []

    def noted(problem, runner, loss, starts):
        begun.append((loss.beta, starts[0][0] if starts else None))
        return [SimpleNamespace(W=loss.beta, H=loss.beta)]

    monkeypatch.setattr(warm_starts, "fit_all", noted)
    monkeypatch.setattr(warm_starts, "fit_best", lambda *given: noted(*given)[0])
    omega = tuple(Beta(beta) for beta in (0.0, 0.5, 1.25, 2.0, 3.0))
    runs = fit_along(None, Runner.of("auto", "auto"), omega, [])
    assert begun == [(1.25, None), (2.0, 1.25), (3.0, 2.0), (0.5, 1.25), (0.0, 0.5)]
    assert [run.W for run in runs] == [0.0, 0.5, 1.25, 2.0, 3.0]


def test_more_components_must_not_spoil_those_that_predict_best():
    """Stabilities of a set of rank 5 that was called 6, and of a catalogue whose larger rank finds more."""
    five = {5: np.ones(5), 6: np.array([0.64, 0.95, 0.99, 1.0, 1.0, 1.0]), 7: np.array([-0.11, 0.09, *5 * [0.97]])}
    assert with_most_stable(five, 5, 0.6, 7) == 5
    rare = {17: np.append(np.full(16, 0.965), 0.64), 24: np.concatenate([np.full(5, 0.1), np.full(19, 0.96)])}
    assert with_most_stable(rare, 17, 0.6, 24) == 24
    assert with_most_stable(rare, 17, 0.6, 18) == 24
    assert with_most_stable(rare, 17, 0.6, 17) == 17  # 18 components predict clearly worse, and 17 are stable there
    fewer = {4: np.full(4, 0.95), 5: np.array([0.9, 0.9, 0.9, 0.3, 0.2])}
    assert with_most_stable(fewer, 5, 0.6, 5) == 4
    small = {4: [1.0, 0.98, 0.98, 0.79], 5: [1.0, 0.93, 0.81, 0.54, 0.04], 7: [1.0, 0.9, 0.73, 0.69, 0.78, 0.71, -0.12]}
    assert with_most_stable({rank: np.array(one) for rank, one in small.items()}, 5, 0.6, 5) == 4  # 6 of 7 are stable
    assert with_most_stable({}, 5, 0.6, 5) == 5
