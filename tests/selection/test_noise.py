"""The noise of planted data is found, whatever the scale, the order of rows and columns, and the number of jobs."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from drnmf import BetaNMF, Interval, NegativeBinomial, noise_profile, rank_profile
from drnmf.backends.observed import Entries, Stored
from drnmf.losses.names import as_losses
from drnmf.problem.receive import Received
from drnmf.selection.choose import candidates, no_wider_than_poisson
from drnmf.selection.entries import facts_of, sampled, without_cut_off
from drnmf.selection.likelihood.grid import common_unit
from drnmf.synthetic import planted
from tests import flat

NOISES = ("gaussian", "poisson", "gamma", "negative binomial")


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_the_noise_is_found_at_any_scale(noise, scale):
    X, truth = planted(noise)
    profile = noise_profile(BetaNMF(5, random_state=0), scale * X, held_out=0)
    assert abs(profile.beta - truth) <= 0.25
    assert abs(profile.slope - (2.0 - truth)) < 0.35


def test_residuals_of_counts_with_empty_corners_grow_like_counts():
    rng = np.random.default_rng(3)
    W, H = (rng.gamma(0.7, size=shape) * (rng.random(shape) < 0.6) for shape in ((60, 3), (3, 40)))
    profile = noise_profile(BetaNMF(3, random_state=0), rng.poisson(20.0 * W @ H))
    assert (profile.best, profile.slope) == (1.0, pytest.approx(1.0, abs=0.2))
    assert not any("believed" in note for note in profile.notes)


@pytest.mark.slow
def test_overdispersed_counts_are_negative_binomial_and_poisson_ones_are_poisson():
    X, _ = planted("negative binomial")
    best = noise_profile(BetaNMF(5, random_state=0), X, held_out=0).best
    assert isinstance(best, NegativeBinomial)
    assert 15 < best.size < 45
    scaled = noise_profile(BetaNMF(5, random_state=0), 8.0 * X, held_out=0).best
    assert scaled.size == pytest.approx(8.0 * best.size, rel=1e-3)
    assert noise_profile(BetaNMF(5, random_state=0), planted("poisson")[0], held_out=0).best == 1.0


@pytest.mark.slow
def test_order_of_rows_and_columns_and_layout_do_not_matter():
    X, _ = planted("poisson")
    rng = np.random.default_rng(1)
    mixed = X[rng.permutation(60)][:, rng.permutation(80)]
    with pytest.warns(UserWarning, match="dense tiles"):
        sparse = noise_profile(BetaNMF(5, random_state=0), sp.csr_array(X), held_out=0)
    assert (
        {noise_profile(BetaNMF(5, random_state=0), A, held_out=0).beta for A in (X, mixed, X.T)}
        == {sparse.beta}
        == {1.0}
    )


@pytest.mark.slow
def test_jobs_do_not_change_a_bit():
    X, _ = planted("gamma")
    one, two = (noise_profile(BetaNMF(5, random_state=0, n_init=2, n_jobs=jobs), X).table for jobs in (1, 2))
    assert one == two
    assert all(np.isfinite(row["held_out"]) for row in one)


@pytest.mark.slow
def test_held_out_entries_agree_with_the_criterion():
    profile = noise_profile(BetaNMF(5, random_state=0), planted("poisson")[0])
    assert profile.beta in profile.interval
    assert max(abs(beta - 1.0) for beta in profile.interval) <= 0.25
    errors = {row["beta"]: row["standard_error"] for row in profile.table if row["name"] != "Poisson"}
    assert errors[2.0] > 0


def test_notes_say_what_the_noise_is():
    notes = " ".join(noise_profile(BetaNMF(5, random_state=0), planted("negative binomial")[0], held_out=0).notes)
    assert "mu^1.5: between relative error and counts" in notes
    assert "counts" in notes


FEW, BETAS = {"max_iter": 200, "tol": 1e-4, "random_state": 0}, (0.5, 1.0, 1.5, 2.0, "nb:auto")


def low_rank(seed: int, mean: float, shape: tuple[int, int] = (100, 80)) -> np.ndarray:
    """Means of rank 3."""
    rng = np.random.default_rng(seed)
    V = rng.gamma(0.5, size=(shape[0], 3)) @ rng.gamma(0.5, size=(3, shape[1]))
    return mean * V / V.mean()


@pytest.mark.parametrize("mean", [0.03, 0.1, 1.0])
def test_sparse_counts_are_poisson(mean):
    X = np.random.default_rng(4).poisson(low_rank(4, mean)).astype(float)
    profile = noise_profile(BetaNMF(3, **FEW), X, betas=BETAS)
    assert (profile.best, profile.beta, profile.counts) == (1.0, 1.0, True)
    assert 1.0 in profile.interval


def test_sums_of_few_units_are_not_taken_for_means():
    """Rows hold four units: their sums, and one unit more for each, were so far off that beta = 1.5 was taken."""
    rng = np.random.default_rng([7, 120])
    m, n, r = int(rng.integers(60, 220)), int(rng.integers(50, 160)), int(rng.integers(2, 6))
    V = rng.gamma(0.5, size=(m, r)) @ rng.gamma(0.5, size=(r, n))
    profile = noise_profile(BetaNMF(r, random_state=0), rng.poisson(0.03 * V / V.mean()).astype(float))
    assert (profile.best, profile.counts) == (1.0, True)


def test_the_size_of_sparse_counts_is_found():
    rng = np.random.default_rng(5)
    V = low_rank(5, 0.5, (150, 100))
    X = rng.poisson(V * rng.gamma(2.0, 0.5, V.shape)).astype(float)
    (row,) = (row for row in noise_profile(BetaNMF(3, **FEW), X, betas=BETAS).table if row["name"].startswith("NB"))
    assert 2.0 / 1.5 < float(row["name"][3:-1]) < 2.0 * 1.5


@pytest.mark.slow
def test_pictures_in_8_bits_are_gaussian():
    rng = np.random.default_rng(6)
    V = rng.random((60, 3)) @ (rng.random((3, 70)) * (rng.random((3, 70)) < 0.6))
    X = np.clip(np.rint(200.0 * V / V.max() + 25.0 * rng.normal(size=V.shape)), 0, 255)
    assert 0.02 < (X == 0).mean() < 0.3
    profile = noise_profile(BetaNMF(3, **FEW), X, betas=BETAS)
    assert (profile.best, profile.counts) == (2.0, False)


@pytest.mark.slow
def test_rows_and_columns_of_zeros_have_no_say():
    X = np.random.default_rng(7).poisson(low_rank(7, 6.0, (40, 50))).astype(float)
    plain, padded = (noise_profile(BetaNMF(3, **FEW), A, betas=BETAS) for A in (X, np.pad(X, ((0, 20), (0, 15)))))
    assert plain.best == padded.best == 1.0


def test_exact_data_have_no_noise():
    rng = np.random.default_rng(0)
    low_rank = rng.gamma(1.0, size=(9, 2)) @ rng.gamma(1.0, size=(2, 8))
    for X in (np.ones((6, 7)), np.zeros((6, 7)), np.array([[1.0, 2.5, 4.0, 7.3]]), low_rank):
        given = {"betas": (1, 2), "held_out": 0, "init": "random", "random_state": 0, "tol": 0}
        given["max_iter"] = 400 if X is low_rank else 50
        profile = flat.noise_profile(X, min(2, len(X)), **given)
        assert profile.best == 1.0
        assert any("no noise" in note for note in profile.notes)


def test_betas_may_be_given():
    X, _ = planted("poisson", 30, 40)
    rows = noise_profile(BetaNMF(3, random_state=0), X, betas=Interval(0.5, 1.5), held_out=0).table
    assert [row["beta"] for row in rows] == np.linspace(0.5, 1.5, 9).tolist()
    with pytest.raises(ValueError, match=">= 0"):
        noise_profile(BetaNMF(3), X, betas=(-1, 1))
    with pytest.raises(ValueError, match="0 <= low < high"):
        noise_profile(BetaNMF(3), X, betas="2..0")
    with pytest.raises(ValueError, match="betas=None adds the models of counts"):
        noise_profile(BetaNMF(3), X, betas=(NegativeBinomial(3), 1))
    with pytest.raises(ValueError, match="zeros"):
        noise_profile(BetaNMF(3), X, betas=(0, 1))


GIVEN = {"betas": (0.5, 1.0, 1.5), "max_iter": 200, "random_state": 0}


@pytest.mark.slow
def test_what_weighs_nothing_has_no_say_and_the_unit_of_weights_none():
    X = planted("poisson", 30, 40, rank=3)[0] + 1.0
    hidden = np.random.default_rng(0).random(X.shape) < 0.1
    gaps = flat.noise_profile(np.where(hidden, np.nan, X), 3, **GIVEN)
    weights = np.where(hidden, 0.0, 1.0)
    same = flat.noise_profile(np.where(hidden, 1e6, X), 3, **GIVEN, entry_weight=weights)
    stored = flat.noise_profile(sp.csr_array(np.where(hidden, 0.0, X)), 3, unstored="missing", **GIVEN)
    other_unit = flat.noise_profile(X, 3, **GIVEN, entry_weight=1000.0 * weights)
    for row, *others in zip(gaps.table, same.table, stored.table, other_unit.table, strict=True):
        for key in ("criterion", "held_out"):
            values = [other[key] - other_table[1][key] for other, other_table in zip(
                (row, *others), (gaps.table, same.table, stored.table, other_unit.table), strict=True
            )]  # fmt: skip
            np.testing.assert_allclose(values, values[0], rtol=2e-3, atol=2e-3)


def test_weights_are_variances_so_that_they_can_change_the_answer():
    X, _ = planted("gamma", 30, 40, rank=3)
    plain = noise_profile(BetaNMF(3, random_state=0), X, held_out=0, betas=(0, 1, 2))
    known = noise_profile(BetaNMF(3, random_state=0), X, held_out=0, betas=(0, 1, 2), uncertainty=0.2 * X)
    assert plain.beta == 0.0
    assert known.beta == 2.0


@pytest.mark.slow
def test_of_a_large_matrix_some_rows_and_columns_are_looked_at():
    X, _ = planted("gamma", 150, 2000, rank=2)
    given = {"betas": (0, 1), "held_out": 0, "max_iter": 60, "random_state": 0}
    profile = flat.noise_profile(X, 2, **given)
    assert profile.beta == 0.0
    assert profile.solutions["IS"][1].shape == (2, 1333)
    assert any("150 of 150 rows and 1333 of 2000 columns" in note for note in profile.notes)
    assert flat.noise_profile(X.T, 2, **given).solutions["IS"][0].shape == (1333, 2)
    assert flat.noise_profile(X[:, :1300], 2, **given).solutions["IS"][1].shape == (2, 1300)


def test_sparse_and_weighted_matrices_are_sampled_alike():
    X, M = np.arange(600_000.0).reshape(600, 1000), np.arange(600_000.0).reshape(600, 1000) % 7
    given = Received(X, Entries(M))
    dense, sparse = sampled(given, 3, 1), sampled(Received(sp.csr_array(X), Stored(sp.csr_array(M))), 3, 1)
    assert dense.X.shape == (447, 447)
    np.testing.assert_array_equal(dense.X, sparse.X.toarray())
    whole = slice(0, 447)
    np.testing.assert_array_equal(dense.observed.tile(whole), dense.X % 7)
    np.testing.assert_array_equal(sparse.observed.tile(whole), dense.X % 7)
    assert not np.array_equal(sampled(given, 3, 2).X, dense.X)


@pytest.mark.slow
def test_structure_that_is_left_is_not_taken_for_noise():
    X, _ = planted("gamma", 30, 40, rank=4)
    full, less = (flat.noise_profile(X, rank, **GIVEN) for rank in (4, 2))
    assert full.structure < 0
    assert full.interval == (0.5,)
    assert less.structure > 0.5
    assert less.interval == (0.5, 1.0, 1.5)
    assert any("structure" in note for note in less.notes)
    assert np.isnan(flat.noise_profile(X, 2, **GIVEN, held_out=0).structure)


def test_facts_of_entries():
    X = np.array([[0.0, 0.3], [0.9, 1.2]])
    facts = facts_of(X)
    assert (facts.count, facts.zeros) == (4, 1)
    assert facts.unit == pytest.approx(0.3)
    assert facts_of(sp.csr_array(X)) == facts
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        assert common_unit(rng.gamma(1.0, size=1000).astype(dtype).astype(np.float64)) == np.inf
        counts = rng.poisson(300.0, size=1000).astype(dtype)
        assert common_unit(counts.astype(np.float64)) == 1.0
    assert common_unit(rng.poisson(300.0, size=1000) * 0.37) == pytest.approx(0.37)


def test_a_negative_binomial_that_is_no_wider_than_poisson_is_poisson():
    """Held-out counts vary with what a fit predicts badly; the size that draws leave of it is as good as none."""
    listed = candidates(as_losses((0.5, 1)), True, 99030.0)
    last = len(listed) - 1
    poisson = no_wider_than_poisson(listed, last, 0.3)
    assert (listed[poisson].counts, listed[poisson].loss.beta) == (True, 1.0)
    sized = candidates(as_losses((0.5, 1)), True, 5.0)
    assert no_wider_than_poisson(sized, last, 0.3) == last
    assert no_wider_than_poisson(listed, 0, 0.3) == 0


@pytest.mark.parametrize("spikes", [True, False])
@pytest.mark.parametrize("noise", ["poisson", "gamma"])
def test_a_few_entries_far_from_the_fit_are_said_to_be(noise, spikes):
    """One spike in a hundred makes the noise wider by far, and nothing but a note would say why."""
    X, _ = planted(noise, 120, 60, 0, rank=4)
    rng = np.random.default_rng(0)
    hit = rng.random(X.shape) < 0.01
    X[hit] += spikes * rng.integers(500, 2000, hit.sum())
    notes = " ".join(noise_profile(BetaNMF(4, random_state=0), X).notes)
    assert ("A few entries lie far from the fit" in notes) == spikes


def overexposed(mean: float) -> np.ndarray:
    rng = np.random.default_rng(10)
    V = rng.gamma(1.0, size=(120, 4)) @ rng.gamma(1.0, size=(4, 100))
    return np.clip(np.rint(V * mean / V.mean() + 8.0 * rng.normal(size=V.shape)), 0.0, 255.0)


def test_readings_that_were_cut_off_are_left_out():
    """One in a hundred at the top of 8 bits made the noise of a Gaussian one grow like the root of the mean."""
    X = overexposed(60.0)
    before = X.copy()
    profile = noise_profile(BetaNMF(4, **FEW), X, betas=BETAS)
    assert profile.best == 2.0
    assert profile.notes[0].startswith("78 entries (0.65 %) are at the largest value, 255")
    np.testing.assert_array_equal(X, before)
    weighed = noise_profile(BetaNMF(4, **FEW), X, betas=BETAS, entry_weight=np.ones(X.shape))
    assert not any("cut off" in note for note in weighed.notes)
    assert weighed.best < 2.0


def test_components_of_an_overexposed_picture_are_counted():
    """Four in a hundred at the top made eight components of four, most of which came again."""
    found = rank_profile(BetaNMF(beta=2, random_state=0), overexposed(100.0), ranks=range(2, 10))
    assert found.best == 4
    assert sum("cut off" in note for note in found.notes) == 1


@pytest.mark.parametrize("form", ["shares", "white", "sparse", "counts", "readings"])
def test_a_largest_value_that_is_right_is_kept(form):
    rng = np.random.default_rng(0)
    X = overexposed(60.0)
    if form == "shares":  # many rocks are one mineral alone
        X = np.rint(100.0 * rng.dirichlet(np.full(4, 0.1), 300))
        X[:, 0] += 100.0 - X.sum(axis=1)
    elif form == "white":
        X[rng.random(X.shape) < 0.5] = 255.0
    elif form == "counts":
        X = rng.poisson(rng.gamma(0.5, 20.0, X.shape)).astype(float)
    elif form == "readings":
        X = np.minimum(X + rng.random(X.shape), 200.0)
    received = Received(sp.csr_array(X) if form == "sparse" else X)
    assert without_cut_off(received) is received
