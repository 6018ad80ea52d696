"""Parts of the engine on their own: sizes, folds, comparisons, slopes, heavy rows."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from drnmf.backends.observed import Entries
from drnmf.losses.beta import KL, Beta
from drnmf.problem.receive import Received
from drnmf.selection.choose import Tried, undecided
from drnmf.selection.entries import Facts, facts_of
from drnmf.selection.folds import Fold, predict, too_few_to_hold_out
from drnmf.selection.likelihood.grid import Grid
from drnmf.selection.likelihood.masses import GaussianNoise, PoissonNoise, noise_for
from drnmf.selection.likelihood.scores import BLEND, Scores, compare, corrected_size, drawn, joined, likely_size
from drnmf.selection.resampling import cap_factors, scaled_rows
from drnmf.selection.stages.residuals import binned_slope


@pytest.mark.parametrize("size", [3.0, 40.0])
def test_the_size_of_counts_is_found_where_their_means_are_known(rng, size):
    V = rng.gamma(3.0, 10.0, (60, 1)) @ rng.gamma(3.0, 1.0, (1, 50))
    for unit in (1.0, 0.5):
        X = unit * rng.poisson(V * rng.gamma(size, 1.0 / size, (60, 50))).astype(float)
        assert likely_size(X.ravel(), unit * V.ravel(), Grid(unit)) == pytest.approx(unit * size, rel=0.15)


def test_a_size_is_corrected_by_draws_that_are_fitted_again():
    assert corrected_size(3.0, (4.0, 4.5, 5.0)) == pytest.approx(1 / (2 / 3 - (1 / 4 + 1 / 4.5 + 1 / 5) / 3))
    assert corrected_size(3.0, 3 * [1.0]) == 3e5  # nothing is left of the overdispersion
    V = np.full((200, 100), 12.0)
    V[0, 0] = math.nan
    X = drawn(V, 6.0, 2.0, 0)
    assert math.isnan(X[0, 0])
    assert set(np.unique(np.remainder(X[1:], 2.0))) == {0.0}
    assert np.nanmean(X) == pytest.approx(12.0, rel=0.02)
    assert np.nanvar(X) == pytest.approx(4.0 * (6.0 + 6.0**2 / 3.0), rel=0.1)


def halved(mask):
    """A mask as folds take it: one where an entry is held out."""
    return SimpleNamespace(tile=lambda columns: mask[:, columns])


def test_scores_of_held_out_entries_by_hand(rng):
    X = rng.poisson(4.0, (12, 30)).astype(float)
    X[5], X[:, 7] = 0.0, 0.0
    W, H = rng.uniform(1.0, 2.0, (12, 2)), rng.uniform(1.0, 2.0, (2, 30))
    weights, hidden = rng.integers(0, 3, X.shape).astype(float), rng.random(X.shape) < 0.3
    fold = Fold(X, Grid(1.0), halved(hidden), Entries(weights))
    found = fold.score(PoissonNoise(), (W, H))
    train = ~hidden & (weights > 0)
    rows, columns = (np.where(train, X, 0.0).sum(axis=axis) for axis in (1, 0))
    counts = [np.maximum(train.sum(axis=axis), 1) for axis in (1, 0)]
    heights, widths = (np.where(X.sum(axis=axis) > 0, one + 1.0, 0.0) for axis, one in ((1, rows), (0, columns)))
    level = train.sum() * rows.sum() / (heights.sum() * widths.sum())  # so that what is predicted adds up
    base = np.outer(heights / counts[0], widths / counts[1]) * level
    mixed = (1 - BLEND) * stats.poisson.pmf(X, W @ H) + BLEND * stats.poisson.pmf(X, base)
    used = hidden & (X.sum(axis=1) > 0)[:, None] & (X.sum(axis=0) > 0)  # rows and columns of zeros have no say
    expected = np.where(used, weights * np.log(mixed), 0.0)
    np.testing.assert_allclose(found.rows, expected.sum(axis=1), rtol=1e-9)
    np.testing.assert_allclose(found.columns, expected.sum(axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.row_weights, np.where(used, weights, 0.0).sum(axis=1))
    loss = np.where(used, weights * KL.terms(np.maximum(X, 1e-300), W @ H), 0.0)
    np.testing.assert_allclose(fold.losses(KL, (W, H)), loss.sum(axis=0), rtol=1e-9)
    seen = fold.score(PoissonNoise(), (W, H), seen=True)
    assert seen.row_weights.sum() + found.row_weights.sum() == weights[X.sum(axis=1) > 0][:, X.sum(axis=0) > 0].sum()


@pytest.mark.parametrize("said", [1.0, 0.5])
def test_uncertainties_are_known_standard_deviations(rng, said):
    """Scores against the mixture written out; uncertainties that are too small are seen to be."""
    U = rng.uniform(0.5, 2.0, (40, 30))
    X = np.abs(6.0 + U * rng.normal(size=U.shape))
    W, H = np.ones((40, 1)), np.full((1, 30), 6.0)
    known = Fold(X, Grid(), None, Entries((said * U) ** -2.0), known=True)
    found, same = (known.score(noise_for(Beta(beta)), (W, H)) for beta in (1.0, 2.0))
    assert found.mean == same.mean
    assert found.row_weights.sum() == X.size
    assert math.isnan(found.parameter)
    assert found.factor == pytest.approx(1.0 / said, rel=0.05)
    rows, columns = X.sum(axis=1), X.sum(axis=0)
    least = rows.min() / 30
    heights, widths = rows + least, columns + least
    base = np.outer(heights / 30, widths / 40) * X.size * X.sum() / (heights.sum() * widths.sum())
    wider = said * U * math.sqrt(np.mean(((X - base) / (said * U)) ** 2))
    mixed = 0.99 * stats.norm.pdf(X, 6.0, found.factor * said * U) + 0.01 * stats.norm.pdf(X, base, wider)
    assert found.mean == pytest.approx(np.log(mixed).mean(), rel=2e-3)  # each half has the factor of the other
    far = known.score(noise_for(Beta(2.0)), (W, 1e3 * H)).mean
    assert far > np.log(0.01 * stats.norm.pdf(X, base, wider)).mean() - 1e-9  # no fit costs more than p_0 allows


def test_an_entry_is_as_uncertain_as_the_rest_of_its_row_leaves_it(rng):
    """Against the conditional distribution of a normal row, written out; and WH where the rest tells everything."""
    W, H, sd = rng.gamma(2.0, 1.0, (30, 2)), rng.gamma(1.0, 1.0, (2, 6)), rng.uniform(0.2, 1.0, (30, 6))
    P = sd**-2.0
    P[4, 1] = P[4, 3] = 0.0
    mean, variance = predict(W, H, [(slice(0, 2), P[:, :2]), (slice(2, 6), P[:, 2:])], np.array([4]), np.array([1]))
    seen, prior = P[4] > 0, np.diag(W.var(axis=0))
    h, told = H[:, seen], H[:, 1]
    gain = prior @ h @ np.linalg.inv(h.T @ prior @ h + np.diag(sd[4, seen] ** 2))
    w = W.mean(axis=0) + gain @ (h.T @ (W[4] - W.mean(axis=0)))
    assert mean[0] == pytest.approx(told @ w)
    assert variance[0] == pytest.approx(told @ (prior - gain @ h.T @ prior) @ told)
    exact, none = predict(W, H, [(slice(0, 6), 1e12 * P)], np.array([4]), np.array([1]))
    assert exact[0] == pytest.approx((W @ H)[4, 1])
    assert none[0] < 1e-9


def test_gaps_and_layouts_do_not_matter(rng):
    X = rng.poisson(2.0, (15, 20)).astype(float)
    factors = np.full((15, 1), 2.0), np.ones((1, 20))
    dense, sparse = (Fold.of(Received(form(X)), facts_of(X), 0.2, 3) for form in (np.asarray, sp.csr_array))
    assert dense.score(GaussianNoise(), factors).mean == sparse.score(GaussianNoise(), factors).mean
    gaps = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    found = Fold.of(Received(gaps), facts_of(gaps), 0.2, 3).score(PoissonNoise(), factors)
    assert 0 < found.row_weights.sum() < dense.score(PoissonNoise(), factors).row_weights.sum()


def test_of_many_entries_some_are_scored(monkeypatch, rng):
    X, factors = rng.poisson(2.0, (60, 80)).astype(float), (np.full((60, 1), 2.0), np.ones((1, 80)))
    monkeypatch.setattr("drnmf.selection.folds.SCORED", 1200)
    found = Fold.of(Received(X), facts_of(X), 0.0, 3).score(PoissonNoise(), factors)
    assert 900 < found.row_weights.sum() < 1500


def test_too_few_entries_hold_out_nothing():
    facts = Facts(500, 100)
    assert too_few_to_hold_out(facts, (20, 30), 2, 0.1) == ()
    assert too_few_to_hold_out(facts, (20, 30), 2, 0.099)[0].startswith("X of 20 x 30")
    assert too_few_to_hold_out(facts, (20, 30), 10, 0.1) == ()  # 450 > 400
    assert "at rank 13" in too_few_to_hold_out(facts, (20, 30), 13, 0.1)[0]  # 450 < 481


def test_errors_are_those_of_rows_or_of_columns_whichever_are_larger(rng):
    """Per entry, with rows and columns as the units that vary; those without entries do not count."""
    D, shape = rng.normal(0.3, 1.0, (6, 9)), (6, 9)
    D[:, 4] += 5.0
    flat = Scores(np.zeros(6), np.zeros(9), np.full(6, 9.0), np.full(9, 6.0))
    other = Scores(-D.sum(axis=1), -D.sum(axis=0), flat.row_weights, flat.column_weights)
    found = compare([other, flat])
    mean = D.mean()
    assert (found.best, found.differences[0]) == (1, pytest.approx(mean))
    by_columns = math.sqrt(9 / 8 * ((D.sum(axis=0) - 6 * mean) ** 2).sum()) / D.size
    assert found.errors[0] == pytest.approx(by_columns)
    turned = [Scores(one.columns, one.rows, one.column_weights, one.row_weights) for one in (other, flat)]
    assert compare(turned).errors[0] == pytest.approx(by_columns)
    more = [Scores(*(np.append(part, np.zeros(3)) for part in (s.rows, s.columns, s.row_weights, s.column_weights)))
            for s in (other, flat)]  # fmt: skip
    assert compare(more).errors[0] == pytest.approx(by_columns)
    assert compare([other, flat]).within == [bool(mean <= by_columns), True]
    assert shape == D.shape


def test_scores_of_several_masks_add_up():
    one = Scores(np.array([1.0, 2.0]), np.array([3.0]), np.array([3.0, 4.0]), np.array([7.0]), 2.0)
    both = joined([one, Scores(one.rows, one.columns, one.row_weights, one.column_weights, 8.0)])
    assert (both.mean, both.parameter) == (one.mean, pytest.approx(4.0))
    np.testing.assert_array_equal(both.row_weights, 2.0 * one.row_weights)


@pytest.mark.parametrize(("factor", "more"), [(1.0, True), (2.0, True), (math.nan, False)])
def test_ranks_that_uncertainties_do_not_tell_apart_are_judged_by_more_runs(factor, more):
    """Four and seven components of Baltimore's air differ by nine nats: single fits would decide by their seed."""
    rows, one = np.tile([0.4, -0.35], 50), np.full(100, 10.0)
    scores = [Scores(k * rows, np.full(50, k * rows.sum() / 50), one, np.full(50, 20.0), factor=factor) for k in (1, 2)]
    tried = [Tried(rank, seen) for rank, seen in zip((4, 7), scores, strict=True)]
    assert undecided(tried) is more
    assert not undecided(tried[:1])


def test_slopes_of_residuals():
    fitted, few = np.geomspace(1.0, 1e3, 400), np.array([1.0, 2.0])
    assert binned_slope((fitted * (1 + 7**0.5))[::-1], fitted[::-1]) == pytest.approx(2.0, abs=0.01)
    assert binned_slope(few + np.array([1.0, 8.0]) ** 0.5, few) == pytest.approx(3.0)
    assert math.isnan(binned_slope(2.0 + np.arange(50.0), np.full(50, 2.0)))
    assert math.isnan(binned_slope(np.full(1, 2.0), np.ones(1)))
    assert math.isnan(binned_slope(np.zeros(0), np.zeros(0)))
    assert binned_slope(np.array([5.0, 2.0, 4.0]), np.array([0.0, 1.0, 2.0])) == pytest.approx(2.0)


def test_entries_that_are_nothing_do_not_rule_the_slope_of_residuals():
    rng = np.random.default_rng(5)
    fitted = np.append(rng.gamma(0.7, 30.0, 4000), np.geomspace(1e-12, 1e-7, 1000))
    counts = rng.poisson(fitted).astype(float)
    assert binned_slope(counts, fitted) == pytest.approx(1.0, abs=0.1)
    assert binned_slope(fitted * rng.gamma(20.0, 0.05, fitted.size), fitted) == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_heavy_rows_are_scaled_to_ten_median_rows_and_counts_stay_counts(form):
    X = np.array([[1.0, 1.0], [0.0, 0.0], [2.0, 0.0], [33.0, 7.0]])
    factors = cap_factors(form(X))
    np.testing.assert_allclose(factors, [1.0, 1.0, 1.0, 0.5])
    assert cap_factors(form(X[:3])) is None
    scaled, other = scaled_rows(form(X), factors), scaled_rows(form(X + math.pi * (X > 0)), factors)
    scaled, other = (part.toarray() if sp.issparse(part) else part for part in (scaled, other))
    np.testing.assert_array_equal(scaled, [*X[:3], [16.0, 4.0]])
    np.testing.assert_allclose(other[3], (X[3] + math.pi) / 2)
    tenths = scaled_rows(form(0.1 * X), factors)
    np.testing.assert_allclose(tenths.toarray() if sp.issparse(tenths) else tenths, 0.1 * scaled)
