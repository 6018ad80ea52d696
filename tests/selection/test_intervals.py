"""Error bars: what is drawn, what intervals cover, and what is said of them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from drnmf import DRNMF, BetaNMF, NegativeBinomial, Sparsity, intervals
from drnmf.backends.observed import Entries, Stored
from drnmf.losses.beta import FROBENIUS, IS, KL, Beta
from drnmf.problem.receive import Received
from drnmf.selection.intervals import bars
from drnmf.selection.intervals.bars import HalfWidths, widening
from drnmf.selection.intervals.scatter import Scatter, entries_of, like, scatter_of
from drnmf.selection.likelihood.grid import Grid
from drnmf.selection.matching import assign, cosine, shares
from tests.flat import discover

QUICK = {"draws": 40, "truths": 4}


def factors(seed: int = 0, m: int = 30, n: int = 12, r: int = 2, mean: float = 40.0) -> tuple[np.ndarray, np.ndarray]:
    """Factors with a third of zeros, and components that sum to one."""
    rng = np.random.default_rng(seed)
    W, H = (rng.gamma(1.0, size=shape) * (rng.random(shape) > 0.35) for shape in ((m, r), (r, n)))
    W[np.arange(m), np.arange(m) % r] += 0.3
    H[np.arange(n) % r, np.arange(n)] += 0.3
    H = shares(H)
    return W * mean / (W @ H).mean(), H


def counts(seed: int = 0, **shape: int) -> np.ndarray:
    W, H = factors(seed, **shape)
    return np.random.default_rng(seed + 100).poisson(W @ H).astype(float)


def covered(found: bars.Intervals, W: np.ndarray, H: np.ndarray) -> np.ndarray:
    """Whether entries above 1 % are covered, of both factors."""
    order = assign(cosine(H, found.components.estimate))
    pairs = ((H, found.components.reordered(order, 0)), (W, found.contributions.reordered(order, 1)))
    inside = [((b.lower <= F) & (b.upper >= F))[0.01 * F.sum(axis=1, keepdims=True) < F] for F, b in pairs]
    return np.concatenate(inside)


@pytest.mark.parametrize(
    "scatter",
    [
        Scatter(KL, Grid(1.0), counts=True),
        Scatter(KL, Grid(2.0), phi=2.0, counts=True),
        Scatter(KL, Grid(1.0), phi=3.0, counts=True),
        Scatter(KL, Grid(1.0), phi=0.4, counts=True),
        Scatter(NegativeBinomial(4.0), Grid(1.0), counts=True),
        Scatter(IS, Grid(), phi=0.1),
        Scatter(Beta(0.5), Grid(), phi=0.3),
        Scatter(FROBENIUS, Grid(), phi=4.0),
        Scatter(FROBENIUS, Grid(), sd=np.full((200, 200), 3.0)),
        Scatter(FROBENIUS, Grid(), phi=9.0, precision=np.full((200, 200), 9.0)),
    ],
)
def test_draws_have_the_mean_and_the_variance_of_the_noise_and_lie_on_its_grid(scatter):
    V = np.full((200, 200), 20.0)
    drawn = scatter.draw(V, (0, 1))
    assert drawn.mean() == pytest.approx(20.0, rel=0.01)
    assert drawn.var() == pytest.approx(scatter.variance(V).mean(), rel=0.05)
    assert (drawn >= 0).all()
    if scatter.grid.unit is not None:
        np.testing.assert_array_equal(drawn % scatter.grid.unit, 0.0)
    np.testing.assert_array_equal(drawn, scatter.draw(V, (0, 1)))


def test_readings_below_zero_are_drawn_where_X_has_some_and_cut_off_elsewhere():
    V = np.full((50, 50), 0.1)
    assert Scatter(FROBENIUS, Grid(), phi=1.0).draw(V, (0,)).min() == 0.0
    assert Scatter(FROBENIUS, Grid(), phi=1.0, signed=True).draw(V, (0,)).min() < -1.0
    assert Scatter(FROBENIUS, Grid(1.0, top=2.0), phi=9.0).draw(V, (0,)).max() == 2.0


def test_gaps_stay_gaps():
    X = counts()
    X[::3, ::4] = np.nan
    drawn = np.full(X.shape, 7.0)
    np.testing.assert_array_equal(np.isnan(like(Received(X), drawn)), np.isnan(X))
    S = sp.csr_array(np.where(np.isnan(X), 0.0, X))
    again = like(Received(S, Stored.of(S)), drawn)
    np.testing.assert_array_equal(again.indices, S.indices)
    assert set(again.data) == {7.0}
    assert (entries_of(Received(X))[1] == np.isfinite(X)).all()


def test_counts_are_Poisson_unless_their_variance_says_otherwise():
    W, H = factors(m=60, n=20)
    rng, model, few = np.random.default_rng(0), BetaNMF(2, beta=1, random_state=0), {"draws": 40, "truths": 0}
    plain = rng.poisson(W @ H)
    wide = rng.poisson(W @ H * rng.gamma(2.0, 0.5, (60, 20)))
    found = [intervals(model.fit(X), X, **few) for X in (plain, wide)]
    assert found[0].noise == "Poisson"
    assert found[1].noise.startswith("variance")
    widths = [float((one.components.upper - one.components.lower).mean()) for one in found]
    assert widths[1] > 1.5 * widths[0]


def test_the_dispersion_is_corrected_for_what_the_fit_has_taken_of_the_noise():
    """With 84 free numbers for 360 entries a fit leaves three quarters of the variance."""
    W, H = factors(seed=1)
    noise = np.random.default_rng(1).normal(0.0, 5.0, (30, 12))
    X = np.maximum(W @ H + 30.0 + noise, 0.0)
    model = BetaNMF(3, beta=2, random_state=0, tol=1e-7).fit(X)
    left = float(((X - model.transform(X) @ model.components_) ** 2).mean())
    phi = float(intervals(model, X, draws=40, truths=0).noise.split()[1])
    assert left < 0.85 * noise.var()
    assert phi == pytest.approx(noise.var(), rel=0.1)


@pytest.mark.parametrize("precise", [True, False])
def test_weights_are_precisions_where_the_residuals_say_so(precise):
    rng, V = np.random.default_rng(0), np.full((80, 30), 50.0)
    w = np.exp(rng.normal(size=(80, 1)))
    X = V + rng.normal(size=V.shape) * (w**-0.5 if precise else 1.0)
    found = scatter_of(Received(X, Entries(np.broadcast_to(w, V.shape))), (FROBENIUS,), V, known=False)
    assert (found.precision is not None) == precise
    assert found.phi == pytest.approx(1.0, rel=0.1)


def test_of_several_losses_that_is_drawn_whose_variance_the_residuals_have():
    rng, V = np.random.default_rng(0), np.outer(np.linspace(1, 60, 80), np.linspace(1, 5, 30))
    X = V * rng.gamma(20.0, 0.05, V.shape)
    assert scatter_of(Received(X), (FROBENIUS, KL, IS), V, known=False).loss == IS


def test_an_interval_with_the_factor_that_it_needs_ends_at_the_truth():
    rng = np.random.default_rng(0)
    draws, truth, estimate = (rng.gamma(2.0, size=shape) for shape in ((60, 50), 50, 50))
    half = HalfWidths.of(estimate, draws, 0.9)
    for needed, goal, k in zip(half.needed(truth), truth, range(50), strict=True):
        low, high = half.ends(float(needed) * (1 + 1e-9))[:, k]
        assert low <= goal <= high
        if needed > 0:
            low, high = half.ends(0.99 * float(needed))[:, k]
            assert not low <= goal <= high
    wide = HalfWidths.of(estimate, draws, 0.99)
    assert (wide.above > 1.5 * half.above).all()


def test_the_factor_is_that_of_the_level_and_coverage_is_judged_by_other_truths():
    rng = np.random.default_rng(0)
    needed = [np.abs(rng.normal(size=400)) for _ in range(8)]
    found = widening(needed, 0.9)
    assert found.factor == pytest.approx(1.645, abs=0.1)
    assert found.coverage == pytest.approx(0.9, abs=0.02)
    assert found.coverage != np.mean(np.concatenate(needed) <= found.factor)


def test_the_middle_lies_beyond_a_biased_estimate():
    """Draws of an estimate that is too small are smaller still: the truth is above it."""
    rng = np.random.default_rng(0)
    estimate = np.full(20, 1.8**2)
    half = HalfWidths.of(estimate, (1.6 + 0.05 * rng.normal(size=(200, 20))) ** 2, 0.9)
    low, high = half.ends(1.0)
    assert (low <= estimate).all()
    assert (high > 1.9**2).all()


@pytest.mark.slow
def test_nearly_all_large_entries_are_covered():
    """The mean over matrices; `benchmarks/interval_coverage.py` measures it."""
    shares_covered = []
    for seed in range(4):
        W, H = factors(seed)
        X = np.random.default_rng(seed).poisson(W @ H)
        found = intervals(BetaNMF(2, beta=1, random_state=0).fit(X), X, **QUICK)
        shares_covered.append(covered(found, W, H).mean())
        assert 0.8 <= found.components.coverage <= 1.0
    assert 0.8 <= np.mean(shares_covered) <= 0.98


def test_intervals_hold_the_estimate_and_grow_with_the_level_and_the_uncertainties():
    X = counts() + 5.0
    model, U = BetaNMF(2, beta=2, random_state=0), np.full(X.shape, 1.0)
    sizes = []
    for part, level in ((1.0, 0.5), (1.0, 0.95), (5.0, 0.95)):
        found = intervals(model.fit(X, uncertainty=part * U), X, level=level, uncertainty=part * U, **QUICK)
        assert found.noise == "normal, by its uncertainties"
        for side in (found.components, found.contributions):
            assert (side.lower <= side.estimate).all()
            assert (side.estimate <= side.upper).all()
            assert (side.lower >= 0).all()
        sizes.append(float((found.components.upper - found.components.lower).mean()))
    assert 2 * sizes[0] < sizes[1] < sizes[2] / 2


@pytest.mark.slow
def test_neither_jobs_nor_the_unit_nor_the_layout_of_X_matter():
    X = counts()
    plain = intervals(BetaNMF(2, beta=1, random_state=0).fit(X), X, **QUICK)
    many = intervals(BetaNMF(2, beta=1, random_state=0, n_jobs=2).fit(X), X, **QUICK)
    np.testing.assert_array_equal(many.components.upper, plain.components.upper)
    scaled = intervals(BetaNMF(2, beta=1, random_state=0).fit(1024 * X), 1024 * X, **QUICK)
    np.testing.assert_allclose(scaled.contributions.upper, 1024 * plain.contributions.upper, rtol=1e-6)
    sparse = intervals(BetaNMF(2, beta=1, random_state=0).fit(X), sp.csr_array(X), **QUICK)
    np.testing.assert_allclose(sparse.components.upper, plain.components.upper, rtol=0.05, atol=1e-3)


@pytest.mark.parametrize(
    "model",
    [
        BetaNMF(2, beta=1, penalties=[Sparsity(0.01, on="W")], random_state=0),
        BetaNMF(2, beta=1, sum_to_one="W", random_state=0),
        DRNMF(2, betas=(1, 2), random_state=0),
        BetaNMF(2, beta=0.5, random_state=0),
    ],
)
def test_every_kind_of_model_has_intervals(model):
    X = counts() + 1.0
    X[2, 3] = np.nan
    found = intervals(model.fit(X), X, draws=40, truths=0)
    assert found.found_in.tolist() == [40, 40]
    assert np.isfinite(found.contributions.upper).all()
    assert (found.components.upper > found.components.lower).any()


def test_what_is_wrong_is_said():
    X = counts()
    model = BetaNMF(2, beta=1, random_state=0).fit(X)
    with pytest.raises(ValueError, match="between 0 and 1"):
        intervals(model, X, level=1.5)
    with pytest.raises(ValueError, match="draws"):
        intervals(model, X, draws=3)
    with pytest.raises(TypeError, match="takes a model"):
        intervals(X, model)


def test_a_discovery_says_what_its_intervals_cover_and_how_often_components_were_found(monkeypatch):
    monkeypatch.setattr("drnmf.selection.stages.sure.DRAWS", 40)
    monkeypatch.setattr("drnmf.selection.stages.sure.TRUTHS", 4)
    X = counts(m=40, n=15)
    found = discover(X, 1, ranks=2, n_runs=4, level=0.8)
    sure = found.intervals
    assert (sure.level, sure.draws, sure.truths) == (0.8, 40, 4)
    np.testing.assert_array_equal(sure.components.estimate, found.components)
    np.testing.assert_allclose(sure.contributions.estimate, found.contributions)
    assert (sure.components.lower <= found.components).all()
    assert (found.components <= sure.components.upper).all()
    assert found.found_in.tolist() == [4, 4]
    said = [
        note for note in found.notes if note.startswith("Intervals: nominal 80 %, covers in simulation: components")
    ]
    assert len(said) == 1
    assert [stage["name"] for stage in found.stages] == ["consensus", "intervals", "contributions"]


def test_a_discovery_without_time_or_stable_components_has_no_intervals_and_says_why(monkeypatch):
    monkeypatch.setattr("drnmf.selection.stages.sure.error_bars", lambda *given: None)
    found = discover(counts(), 1, ranks=2, n_runs=4, level=0.9)
    assert found.intervals is None
    assert found.missing == ("no intervals were found",)
    noise = np.random.default_rng(0).poisson(30.0, (30, 12))
    found = discover(noise, 1, ranks=4, n_runs=4, threshold=0.999, level=0.9)
    assert found.intervals is None
    assert "No intervals: no component is stable." in found.notes


def test_fewer_draws_are_said(monkeypatch):
    monkeypatch.setattr("drnmf.selection.intervals.bars.LARGE_WORK", 1)
    monkeypatch.setattr("drnmf.selection.intervals.bars.LEAST_FITS", 60)
    found = discover(counts(), 1, ranks=2, n_runs=4, level=0.9)
    assert (found.intervals.draws, found.intervals.truths) == (60, 0)
    assert any("60 of 200" in note for note in found.notes)
    assert any("was not simulated" in note for note in found.notes)
