"""Every noise is a probability: masses sum to one, known ones are known, and scores are bounded and comparable."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from drnmf.losses.beta import Beta
from drnmf.losses.negative_binomial import NegativeBinomial
from drnmf.selection.likelihood.grid import Grid, common_unit, grid_of
from drnmf.selection.likelihood.masses import (
    DispersedNoise,
    GaussianNoise,
    KnownNoise,
    NegativeBinomialNoise,
    PoissonNoise,
    noise_for,
)
from drnmf.selection.likelihood.scores import (
    BLEND,
    HeldEntries,
    Scores,
    base_means,
    compare,
    entry_scores,
    score,
    simplest,
)

BETAS = (0.0, 0.1, 0.5, 1.0, 1.25, 1.75, 2.5)


def total_of(noise, parameter, mu, grid, last):
    """Add the masses of all values of a grid, the means of other entries beside."""
    x = grid.unit * np.arange(last + 1.0)
    means = np.append(np.full(x.size, mu), [0.01 * mu, 30.0 * mu])  # so that Z is interpolated
    masses = noise.log_mass(np.append(x, [0.0, 0.0]), means, grid)(parameter)
    return float(np.exp(masses[:-2]).sum())


@settings(max_examples=60, deadline=None)
@given(
    beta=st.sampled_from(BETAS), unit=st.sampled_from((0.01, 1.0, 700.0)), mean=st.floats(0.2, 2000.0),
    width=st.floats(1.0, 60.0),
)  # fmt: skip
def test_masses_of_dispersed_noise_sum_to_one(beta, unit, mean, width):
    sd = min(width, 3.0 * mean) * unit
    mu, phi = mean * unit, max(sd, unit) ** 2 / (mean * unit) ** (2.0 - beta)
    last = int(min(mean + 60.0 * max(sd / unit, 1.0) * max(1.0, sd / mu), 300_000))
    assert total_of(DispersedNoise(beta), phi, mu, Grid(unit), last) == pytest.approx(1.0, abs=2e-6)


def test_at_the_least_dispersion_of_a_search_they_nearly_do():
    for beta in (0.1, 1.0, 1.75):
        for mean in (1.3, 20.4, 64.0, 500.0):
            low, high = DispersedNoise(beta).bounds(np.array([mean]), np.array([mean]), Grid(1.0))
            assert low < high
            assert total_of(DispersedNoise(beta), low, mean, Grid(1.0), 600) == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize("noise", [PoissonNoise(), NegativeBinomialNoise(), DispersedNoise(0.5), GaussianNoise()])
@pytest.mark.parametrize("mean", [0.5, 12.0, 19.5, 60.0])
def test_a_pile_at_the_top_is_the_upper_tail(noise, mean):
    grid = Grid(0.5, top=10.0)
    assert total_of(noise, 1.7, 0.5 * mean, grid, 20) == pytest.approx(1.0, abs=2e-6)


@pytest.mark.parametrize("unit", [1.0, 0.25])
def test_counts_are_those_of_scipy(rng, unit):
    mu = rng.gamma(0.5, 20.0, 400)
    k = rng.poisson(mu).astype(float)
    found = PoissonNoise().log_mass(unit * k, unit * mu, Grid(unit))(math.nan)
    np.testing.assert_allclose(found, stats.poisson.logpmf(k, mu), rtol=1e-9, atol=1e-9)
    for size in (0.3, 4.0, 1e4):
        found = NegativeBinomialNoise().log_mass(unit * k, unit * mu, Grid(unit))(unit * size)
        np.testing.assert_allclose(found, stats.nbinom.logpmf(k, size, size / (size + mu)), rtol=1e-7, atol=1e-7)
    near = NegativeBinomialNoise().log_mass(unit * k, unit * mu, Grid(unit))(unit * 1e12)
    np.testing.assert_allclose(near, stats.poisson.logpmf(k, mu), atol=1e-6)


def test_dispersed_kullback_leibler_is_nearly_poisson_where_phi_is_the_unit():
    k = np.arange(200.0)
    for mu in (0.1, 3.0, 80.0):
        means = np.full(k.size, mu)
        ours, exact = DispersedNoise(1.0).log_mass(k, means, Grid(1.0))(1.0), stats.poisson.logpmf(k, mu)
        assert float(np.abs(np.exp(ours) - np.exp(exact)).sum()) < 0.03


def test_a_rounded_gaussian_is_the_area_of_its_cell():
    x, mu = np.array([0.0, 2.0, 40.0]), np.array([-1.0, 3.0, 3.0])
    found = GaussianNoise().log_mass(x, mu, Grid(2.0))(1.5)
    edges = stats.norm.cdf([[1.0, 3.0], [1.0, 3.0]], [[-1.0], [3.0]], 1.5)
    assert found[:2] == pytest.approx(np.log([edges[0, 0], edges[1, 1] - edges[1, 0]]))
    assert found[2] == pytest.approx(stats.norm.logsf(39.0, 3.0, 1.5), rel=1e-6)
    known = KnownNoise(np.array([0.5, 1.0, 2.0])).log_mass(x, mu, Grid())
    for factor in (1.0, 3.0):
        assert known(factor) == pytest.approx(stats.norm.logpdf(x, mu, factor * np.array([0.5, 1.0, 2.0])))


def test_known_uncertainties_bound_what_an_entry_costs():
    """Sums of rows and columns are off by many sd: p_0 must be as wide, or a few entries rule every comparison."""
    rng = np.random.default_rng(0)
    base, sd = np.full(400, 10.0), np.full(400, 0.01)
    x = base + rng.normal(0.0, 1.0, 400)
    some = np.arange(400)
    held = HeldEntries(x, np.full(400, 1e3), base, np.ones(400), some, some, some % 2 == 0)
    worst = entry_scores(KnownNoise.of(sd, sd, x, base), held, Grid())[0]
    spread = math.log(math.sqrt(float(np.mean((x - base) ** 2))))
    assert -worst.mean() == pytest.approx(-math.log(BLEND) + 0.5 * math.log(2 * math.pi) + spread + 0.5, rel=1e-6)


@pytest.mark.parametrize("beta", [*BETAS[:-1], 2.0])
@pytest.mark.parametrize("width", [0.1, 0.8])
def test_without_a_grid_densities_and_the_mass_of_zero_sum_to_one(beta, width):
    mu, delta = 3.0, 0.8
    noise = noise_for(Beta(beta))
    parameter = width * mu if beta == 2.0 else width**2 * mu**beta
    x = np.append(np.geomspace(delta, 900.0, 200_001), 0.0)
    masses = np.exp(noise.log_mass(x, np.full(x.size, mu), Grid(delta=delta))(parameter))
    assert masses[-1] + integrate.simpson(masses[:-1] * x[:-1], x=np.log(x[:-1])) == pytest.approx(1.0, abs=1e-6)
    whole = noise.log_mass(x[:1], np.array([mu]), Grid())(parameter)
    assert whole[0] == pytest.approx(math.log(masses[0]))


def test_the_grid_of_x():
    rng = np.random.default_rng(0)
    counts = rng.poisson(3.0, 20_000).astype(float)
    for unit in (0.37, 1e-6, 1e-30, 1e30):
        assert grid_of(unit * counts).unit == pytest.approx(unit)
    off = counts.copy()
    off[7::2500] += 0.4321
    assert grid_of(off).unit == 1.0  # 99.9 % of the entries decide
    off[::100] += 0.1234 * rng.random(200)
    assert grid_of(off).unit is None
    decimals = np.round(rng.gamma(2.0, 5.0, 5000), 4).astype(np.float32).astype(float)
    assert grid_of(decimals).unit == pytest.approx(1e-4)
    smooth = rng.gamma(1.0, size=5000).astype(np.float32).astype(float)
    assert grid_of(smooth) == grid_of(1e-6 * smooth) == Grid()
    assert grid_of(np.append(smooth, 0.0)) == Grid(delta=float(smooth.min()))
    assert common_unit(np.empty(0)) == 0.0


def test_a_pile_is_seen_where_readings_were_clipped():
    rng = np.random.default_rng(0)
    readings = np.clip(np.rint(rng.normal(180.0, 50.0, 5000)), 0, 255)
    assert grid_of(readings) == Grid(1.0, top=255.0)
    assert grid_of(np.minimum(readings, 254.0) // 2) == Grid(1.0, top=127.0)
    assert grid_of(rng.poisson(40.0, 5000).astype(float)).top is None
    assert grid_of(rng.poisson(0.1, 5000).astype(float)).top is None


def base_of(x):
    """What row and column sums predict."""
    (m, n), sums = x.shape, (x.sum(axis=1), x.sum(axis=0))
    every = np.full(m, float(n)), np.full(n, float(m))
    return base_means(*sums, every, (sums[0] > 0, sums[1] > 0), 1.0)


@pytest.mark.parametrize("mean", [0.02, 3.0])
def test_what_row_and_column_sums_predict_adds_up(mean):
    """One count more in every row and column of a sparse table would be half as much again."""
    x = np.random.default_rng(0).poisson(mean, (90, 70)).astype(float)
    rows, columns = np.indices(x.shape)
    base = base_of(x)(rows, columns)
    used = np.outer(x.any(axis=1), x.any(axis=0))
    assert base[used].sum() == pytest.approx(x.sum())
    more = base_of(np.pad(x, ((0, 9), (0, 5))))(rows, columns)
    np.testing.assert_allclose(more[used], base[used], rtol=1e-12)


def held_entries(rng, mu, x):
    m, n = mu.shape
    rows, columns = (axis.ravel() for axis in np.indices((m, n)))
    base = base_of(x)
    return HeldEntries(
        x.ravel(), mu.ravel(), base(rows, columns), np.ones(m * n), rows, columns, rng.random(m * n) < 0.5
    )


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(3)
    mu = rng.gamma(1.0, 4.0, (40, 30))
    return held_entries(rng, mu, rng.poisson(mu).astype(float))


ALL = [PoissonNoise(), NegativeBinomialNoise(), GaussianNoise(), *(DispersedNoise(b) for b in (0.1, 0.5, 1.0, 1.5))]


@pytest.mark.parametrize("noise", ALL, ids=lambda noise: noise.name)
def test_scores_do_not_depend_on_the_unit_nor_on_rows_of_zeros(counts, noise):
    one = score(noise, counts, Grid(1.0), (40, 30))
    scaled = replace(counts, x=7.0 * counts.x, mu=7.0 * counts.mu, base=7.0 * counts.base)
    assert score(noise, scaled, Grid(7.0), (40, 30)).mean == pytest.approx(one.mean, abs=1e-4)
    more = score(noise, replace(counts, rows=counts.rows + 3), Grid(1.0), (60, 30))
    assert more.mean == pytest.approx(one.mean, abs=1e-12)
    assert compare([more, more]).errors.max() == 0.0
    turned = replace(counts, rows=counts.columns, columns=counts.rows)
    assert score(noise, turned, Grid(1.0), (30, 40)).mean == pytest.approx(one.mean, abs=1e-12)


@pytest.mark.parametrize("noise", ALL, ids=lambda noise: noise.name)
def test_scores_are_bounded(counts, noise):
    mad = replace(counts, mu=np.where(np.arange(counts.mu.size) % 9 == 0, 1e-12, counts.mu))
    scores, parameter = entry_scores(noise, mad, Grid(1.0))
    base = noise.log_mass(counts.x, counts.base, Grid(1.0))
    if noise.bounds(counts.x, counts.mu, Grid(1.0)) is None:
        assert (scores >= math.log(BLEND) + base(parameter) - 1e-9).all()
    assert np.isfinite(scores).all()
    assert scores.min() > math.log(BLEND) - 60.0


def test_the_parameter_of_one_half_scores_the_other(rng):
    mu = np.full((50, 40), 50.0)
    held = held_entries(
        rng, mu, np.rint(50.0 + np.where(rng.random(mu.shape) < 0.5, 30.0, 3.0) * rng.normal(size=mu.shape))
    )
    loud = np.abs(held.x - 50.0) > 9.0
    held = replace(held, half=loud)
    scores, _ = entry_scores(GaussianNoise(), held, Grid(1.0))
    ours, _ = entry_scores(GaussianNoise(), replace(held, half=np.arange(loud.size) % 2 == 0), Grid(1.0))
    assert scores.mean() < ours.mean() - 0.5  # neither half knows the width of the other


def test_weights_repeat_entries(counts):
    twice = replace(counts, weight=np.where(counts.columns < 10, 2.0, 1.0))
    some = counts.columns < 10
    both = HeldEntries(**{
        name: np.concatenate([getattr(counts, name), getattr(counts, name)[some]]) for name in vars(counts)
    })  # fmt: skip
    for noise in (PoissonNoise(), GaussianNoise()):
        assert score(noise, twice, Grid(1.0), (40, 30)).mean == pytest.approx(
            score(noise, both, Grid(1.0), (40, 30)).mean, abs=1e-4
        )


def test_the_right_noise_is_the_likeliest_and_ties_go_to_the_simpler(counts):
    noises = [PoissonNoise(), DispersedNoise(1.0), NegativeBinomialNoise(), DispersedNoise(0.5), GaussianNoise()]
    scores = [score(noise, counts, Grid(1.0), (40, 30)) for noise in noises]
    levels = [0, 1, 2, 2, 2]
    assert simplest(scores, levels) == 0
    flat = Scores(np.zeros(9), np.zeros(9), np.ones(9), np.ones(9))
    wild = np.array([1.0, -1.0, 1.2, -1.2, 1.1, -0.9, 1.0, -1.0, 0.3])
    near, clear = (replace(flat, rows=wild * size + 0.3, columns=wild * size + 0.3) for size in (1.0, 0.1))
    assert simplest([flat, near], [0, 1]) == 0
    assert simplest([flat, clear], [0, 1]) == 1


def test_overdispersed_counts_give_their_size(rng):
    mu = rng.gamma(1.0, 6.0, (60, 50))
    held = held_entries(rng, mu, rng.poisson(mu * rng.gamma(3.0, 1.0 / 3.0, mu.shape)).astype(float))
    found = {noise.name: score(noise, held, Grid(1.0), mu.shape) for noise in ALL}
    assert max(found, key=lambda name: found[name].mean) == "NB"
    assert found["NB"].parameter == pytest.approx(3.0, rel=0.25)
    assert isinstance(noise_for(NegativeBinomial(3.0)), NegativeBinomialNoise)
