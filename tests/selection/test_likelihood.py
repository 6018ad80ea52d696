"""The parts of a score, against densities written out: variances, zeros, dispersion, sizes, heavy rows."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from drnmf.backends.open import open_data
from drnmf.losses.beta import FROBENIUS, IS, KL, Beta
from drnmf.losses.negative_binomial import NegativeBinomial
from drnmf.selection.counts import likely_size
from drnmf.selection.entries import Facts, facts_of
from drnmf.selection.held_out import Scores, Split, entry_levels, joined, too_few_to_hold_out, trimmed
from drnmf.selection.likelihood import CONSTANT, Candidate, half_log_sums
from drnmf.selection.matching import agreement
from drnmf.selection.slope import binned_slope
from drnmf.selection.stages.heavy import cap_factors, scaled_rows

COUNTS, POSITIVE = Facts(10, 4, 0.0, 1.0), Facts(10, 4, 0.0, None)


def test_a_fixed_dispersion_gives_the_density_of_the_normal_distribution(rng):
    x, mu, phi = rng.normal(5.0, 1.0, 40), np.full(40, 4.5), 0.7
    density = stats.norm.logpdf(x, mu, math.sqrt(phi)).sum()
    loss = FROBENIUS.terms(x, mu).sum()
    constant = 40 * (0.5 * math.log(2.0 * math.pi) + CONSTANT)
    assert Candidate(FROBENIUS, phi).criterion(loss, 40, 0.0) == pytest.approx(-density - constant)


def test_a_dispersion_that_is_profiled_out_is_the_best_one():
    best = Candidate(IS).criterion(3.0, 40, 2.0)
    assert best == pytest.approx(20 * math.log(3.0 / 40) + 2.0)
    assert best == pytest.approx(min(Candidate(IS, phi).criterion(3.0, 40, 2.0) for phi in np.linspace(0.1, 0.2, 1001)))


@pytest.mark.parametrize(
    ("loss", "variance"),
    [(IS, 9.0), (KL, 3.0), (Beta(1.5), 3.0**0.5), (FROBENIUS, 1.0), (NegativeBinomial(2.0), 3.0 + 9.0 / 2.0)],
)
def test_variances(loss, variance):
    assert Candidate(loss).half_log_variance(np.array([3.0])) == pytest.approx(0.5 * math.log(variance))


def test_only_a_fixed_variance_is_poisson():
    named = [Candidate(loss, phi).name for loss, phi in [(KL, 1.0), (KL, None), (FROBENIUS, 1.0)]]
    assert named == ["Poisson", "KL", "Fro"]


def test_zeros_of_counts_enter_as_a_sixth_and_others_not_at_all():
    X = np.array([[0.0, 4.0], [0.0, 2.0]])
    for form in (np.asarray, sp.csr_array):
        of_counts = half_log_sums(form(X), facts_of(X), [Candidate(KL), Candidate(IS)])
        assert of_counts == pytest.approx(np.array([0.5, 1.0]) * (math.log(8.0) + 2.0 * math.log(2.0 / 6.0)))
        others = half_log_sums(form(X), Facts(4, 2, 0.0, None), [Candidate(KL)])
        assert others == pytest.approx(0.5 * math.log(8.0))


def test_levels_of_entries():
    x = np.array([0.0, 4.0])
    assert entry_levels(Candidate(KL), math.e, x, POSITIVE) == pytest.approx(np.array([[0.0, 0.5], [0.0, math.log(2)]]))
    of_counts = entry_levels(Candidate(KL), math.e, x, COUNTS)
    assert of_counts == pytest.approx(np.array([[0.5, 0.5], [-0.5 * math.log(6), math.log(2)]]))


@pytest.mark.parametrize("size", [3.0, 40.0])
def test_the_size_of_counts_is_found_where_their_means_are_known(rng, size):
    W, H = rng.gamma(3.0, 10.0, (60, 1)), rng.gamma(3.0, 1.0, (1, 50))
    X = rng.poisson(W @ H * rng.gamma(size, 1.0 / size, (60, 50))).astype(float)
    found = likely_size(X, open_data(X), facts_of(X), SimpleNamespace(W=W, H=H))
    assert found == pytest.approx(size, rel=0.15)


def test_degrees_of_freedom_leave_the_dispersion():
    """phi = 2 D / (N - r (m + n - r)), without the zeros where those are a mass of their own."""
    X = np.arange(1.0, 31.0).reshape(5, 6)
    X[0, :3] = 0.0
    run = SimpleNamespace(losses=np.array([4.0]), H=np.ones((2, 6)))
    for facts, count in ((COUNTS, 30), (POSITIVE, 27)):
        split = Split(X, facts, mask=None)
        assert split.dispersion(open_data(X), Candidate(KL), run) == pytest.approx(8.0 / (count - 2 * 9))
        assert split.dispersion(open_data(X), Candidate(KL, 1.5), run) == 1.5
    full = SimpleNamespace(losses=np.array([4.0]), H=np.ones((5, 6)))
    assert Split(X, COUNTS, mask=None).dispersion(open_data(X), Candidate(KL), full) == pytest.approx(8.0 / 30)


def test_too_few_entries_hold_out_nothing():
    facts = Facts(600, 100, 0.0, None)
    assert too_few_to_hold_out(facts, (20, 30), 2, 0.1) == ()
    assert too_few_to_hold_out(facts, (20, 30), 2, 0.099)[0].startswith("X of 20 x 30")
    assert too_few_to_hold_out(facts, (20, 30), 10, 0.1) == ()  # 450 > 400
    assert "at rank 13" in too_few_to_hold_out(facts, (20, 30), 13, 0.1)[0]  # 450 < 481
    assert too_few_to_hold_out(Facts(600, 100, 0.0, 1.0), (20, 30), 13, 0.1) == ()  # 540: zeros count


def test_trimmed_means_and_their_errors(rng):
    values = rng.normal(size=20)
    mean, error = trimmed(values)
    ordered = np.sort(values)
    assert mean == pytest.approx(ordered[2:18].mean())
    winsorised = np.concatenate([[ordered[2]] * 2, ordered[2:18], [ordered[17]] * 2])
    assert error == pytest.approx(winsorised.std(ddof=1) / (0.8 * math.sqrt(20)))
    assert trimmed(np.array([3.0])) == (3.0, 0.0)


def test_scores_of_several_masks_add_up():
    one = Scores(np.array([1.0, 2.0]), np.array([3.0, 4.0]), 5.0, 6.0, np.array([7.0, 8.0]))
    both = joined([one, one])
    assert (both.half_log, both.effective) == (10.0, 12.0)
    for name in ("sums", "counts", "losses"):
        np.testing.assert_array_equal(getattr(both, name), 2.0 * getattr(one, name))


def test_slopes_of_residuals():
    fitted = np.geomspace(1.0, 1e3, 400)
    assert binned_slope(fitted[::-1], 7.0 * fitted[::-1] ** 2) == pytest.approx(2.0, abs=0.01)
    assert binned_slope(np.array([1.0, 2.0]), np.array([1.0, 8.0])) == pytest.approx(3.0)
    assert math.isnan(binned_slope(np.full(50, 2.0), np.arange(50.0)))
    assert math.isnan(binned_slope(np.ones(1), np.ones(1)))
    assert binned_slope(np.array([0.0, 1.0, 2.0]), np.array([5.0, 1.0, 4.0])) == pytest.approx(2.0)


def test_agreement_is_the_mean_cosine_of_matched_components():
    eye, turned = np.eye(2), np.array([[3.0, 4.0], [0.0, 2.0]])
    runs = [eye, 5.0 * eye[::-1], turned]
    assert agreement(runs[:2]) == pytest.approx(1.0)
    assert agreement(runs) == pytest.approx((1.0 + 0.8 + 0.8) / 3)


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
