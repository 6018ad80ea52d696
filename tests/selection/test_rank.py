"""The number of components of planted data is found, whatever the scale, the order of rows and columns, and n_jobs."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from drnmf import BetaNMF, rank_profile
from drnmf.selection.consensus import come_again
from drnmf.selection.entries import one_component, twins_of
from drnmf.selection.rank import check_ranks
from drnmf.selection.stages.stages import Stages
from drnmf.synthetic import planted

QUICK = {"max_iter": 200, "n_init": 1, "random_state": 0}


@pytest.fixture(scope="module")
def X():
    return planted("poisson", 40, 50, seed=1, rank=3)[0]


@pytest.fixture(scope="module")
def profile(X):
    return rank_profile(BetaNMF(beta=1, **QUICK), X, ranks=6)


def test_the_rank_is_found_by_every_judge(profile):
    assert profile.best == 3
    assert min(profile.table, key=lambda row: row["bic"])["rank"] == 3
    stability = {row["rank"]: row["stability"] for row in profile.table}
    assert stability[3] > 0.99
    assert stability[3] > stability[5]


@pytest.mark.slow
def test_order_and_scale_do_not_change_the_rank(X):
    rng = np.random.default_rng(0)
    mixed = X[rng.permutation(40)][:, rng.permutation(50)]
    assert [rank_profile(BetaNMF(beta=1, **QUICK), A, ranks=range(2, 5)).best for A in (mixed, 1000 * X, X.T)] == [
        3,
        3,
        3,
    ]


@pytest.mark.slow
def test_seeds_give_the_same_numbers_for_every_number_of_jobs(X):
    one, two = (rank_profile(BetaNMF(beta=1, n_jobs=jobs, **QUICK), X, ranks=range(2, 4)) for jobs in (1, 2))
    for a, b in zip(one.table, two.table, strict=True):
        assert a == pytest.approx(b, nan_ok=True, rel=0, abs=0)


@pytest.mark.slow
def test_the_loss_is_chosen_too():
    X, truth = planted("gamma", 40, 50, seed=2, rank=3)
    found = rank_profile(BetaNMF(beta="auto", **QUICK), X, ranks=range(2, 5))
    assert found.best == 3
    assert abs(found.noise.beta - truth) <= 0.25
    assert any("relative error" in note for note in found.notes)


@pytest.mark.slow
def test_entries_without_weight_do_not_count_and_uncertainties_do(X):
    hidden = np.random.default_rng(0).random(X.shape) < 0.1
    given = {"beta": 1, **QUICK}
    gaps = rank_profile(BetaNMF(**given), np.where(hidden, np.nan, X), ranks=range(2, 5))
    weights = np.where(hidden, 0.0, 1.0)
    same = rank_profile(BetaNMF(**given), np.where(hidden, 1e6, X), ranks=range(2, 5), entry_weight=weights)
    assert gaps.best == same.best == 3
    np.testing.assert_allclose(*([row["held_out"] for row in found.table] for found in (gaps, same)), atol=2e-3)
    # noise of the size that the uncertainties say: unweighted, the loud rows hide the third component
    rng = np.random.default_rng(3)
    V = rng.gamma(0.5, size=(40, 3)) @ rng.gamma(0.5, size=(3, 50))
    U = np.where(np.arange(40)[:, None] < 10, 20.0, 0.02) * np.ones_like(V)
    loud = np.maximum(V + U * rng.normal(size=V.shape), 0.0)
    found = rank_profile(BetaNMF(beta=2, **QUICK), loud, ranks=range(1, 5), uncertainty=U)
    assert found.best == 3
    assert rank_profile(BetaNMF(beta=2, **QUICK), loud, ranks=range(1, 5)).best != 3


def test_uncertainties_of_one_are_uncertainties(X):
    """Weights of one are kept as none, and stay one over the squares of known standard deviations."""
    X = np.sqrt(X)
    ones, nearly = (
        rank_profile(BetaNMF(beta=2, **QUICK), X, ranks=range(2, 4), uncertainty=np.full(X.shape, sd))
        for sd in (1.0, 1.0 + 1e-9)
    )
    for a, b in zip(ones.table, nearly.table, strict=True):
        assert a == pytest.approx(b, rel=1e-4, abs=1e-6)


def test_small_data_fall_back_on_bic():
    found = rank_profile(BetaNMF(beta=1, **QUICK), planted("poisson", 8, 9, rank=2)[0], ranks=3)
    assert any("too few entries" in note for note in found.notes)
    assert found.best in (1, 2, 3)
    one_row = rank_profile(BetaNMF(beta=1, **QUICK), np.array([[3.0, 4.0, 5.0]]), ranks=4)
    assert one_row.best == 1


def test_bad_ranks_are_refused():
    assert check_ranks(3, (5, 2)) == (1, 2)
    assert check_ranks((4, 2), (5, 9)) == (2, 4)
    for ranks, words in (((1, 6), "at most 5"), (range(5, 2), "smallest first"), (0, ">= 1"), ((2.5,), "integer")):
        with pytest.raises(ValueError, match=words):
            check_ranks(ranks, (5, 9))
    for value in (-0.1, 0.6):
        with pytest.raises(ValueError, match="held_out"):
            rank_profile(BetaNMF(beta="auto", random_state=0), np.ones((5, 5)), ranks=2, held_out=value)


def test_an_empty_component_does_not_come_again():
    W, H = np.ones((6, 3)), np.eye(3, 8)
    assert come_again([(W, H), (W, H)]).min() > 0.4
    empty = H * np.array([[1.0], [1.0], [1e-9]])
    assert come_again([(W, empty), (W, empty)])[0] == 0.0
    assert come_again([(W, H)]).size == 0


def test_parts_without_noise_are_counted():
    """A swimmer: zeros and ones, exactly of rank 4. More components predict as well, and are empty."""
    rng = np.random.default_rng(5)
    H = np.zeros((4, 24))
    for row in H:
        row[rng.choice(24, 6, replace=False)] = 1.0
    X = (rng.random((40, 4)) < 0.4) @ H
    assert rank_profile(BetaNMF(beta=1, **QUICK), X, ranks=range(2, 7)).best == 4


def test_parts_whose_pixels_are_equal_are_counted():
    """Nothing would predict the pixels of a part if all of them lost the same entries."""
    rng = np.random.default_rng(5)
    X = (rng.random((60, 4)) < 0.5) @ np.repeat(np.eye(4), 7, axis=1)
    assert rank_profile(BetaNMF(beta=1, **QUICK), X, ranks=range(1, 7)).best == 4


@pytest.mark.slow
@pytest.mark.parametrize("form", ["zeros", "turned", "unit", "range"])
def test_what_says_nothing_changes_nothing(X, form, monkeypatch):
    """Rows and columns of zeros, the unit, the orientation, and a larger range of ranks."""
    monkeypatch.setattr("drnmf.selection.noise.BETAS", (0.5, 1.0, 2.0))
    monkeypatch.setattr("drnmf.selection.noise.MASKS", 2)
    other = {"zeros": np.pad(X, ((0, 9), (0, 7))), "turned": X.T, "unit": 0.1 * X, "range": X}[form]
    found = rank_profile(BetaNMF(beta="auto", **QUICK), other, ranks=range(2, 8 if form == "range" else 5), n_masks=2)
    assert (found.best, found.noise.best) == (3, 1.0)


FORMS = [np.asarray, sp.csr_array, sp.csc_array]


@pytest.mark.parametrize("form", FORMS)
def test_what_has_no_components_is_refused(form):
    with pytest.raises(ValueError, match="all zeros: it has no components"):
        rank_profile(BetaNMF(beta="auto", random_state=0), form(np.zeros((20, 15))), ranks=3)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("betas", [1, "auto"])
def test_rows_that_are_multiples_of_one_another_have_one_component(form, betas):
    for X in (np.full((50, 40), 3.0), np.outer(np.arange(1.0, 31.0), np.arange(2.0, 22.0))):
        found = rank_profile(BetaNMF(beta=betas, random_state=0), form(X), ranks=4)
        assert found.best == 1
        assert any(note.startswith("X has one component only") for note in found.notes)
    assert rank_profile(BetaNMF(beta=1, random_state=0), form(X), ranks=[2, 3]).best == 2


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("turned", [False, True])
def test_rows_that_occur_again_do_not_predict_one_another(form, turned):
    """Counts of three components, every row (or column) three times."""
    rng = np.random.default_rng(0)
    H = np.repeat(np.eye(3), 8, axis=1) * rng.gamma(2.0, 1.0, 24) + 0.3
    X = np.tile(rng.poisson(rng.gamma(0.4, 6.0, (20, 3)) @ H), (3, 1)).astype(float)
    assert rank_profile(BetaNMF(beta=1, random_state=0), form(X.T if turned else X), ranks=range(1, 8)).best == 3


@pytest.mark.parametrize("form", FORMS)
def test_twins_are_found_whatever_the_layout(form):
    X = np.array([[1.0, 0.0, 2.0, 1.0], [0.0, 0.0, 0.0, 0.0], [1.0, 0.0, 2.0, 1.0], [0.0, 0.0, 0.0, 0.0]])
    rows, columns = twins_of(form(X))
    assert rows.tolist() == [0, 1, 0, 3]  # rows of zeros predict nothing
    assert columns.tolist() == [0, 1, 2, 0]
    assert twins_of(form(np.arange(6.0).reshape(2, 3))) == (None, None)
    assert not one_component(form(X[:1] + np.eye(4)))


def _of_single_species(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Make a table with uncertainties, six sources, four of which are one column each and traces of the others."""
    rng = np.random.default_rng([17, seed])
    H = rng.gamma(0.4, size=(6, 12))
    for k in range(4):
        H[k] = 0.003 * rng.random(12)
        H[k, k] = 1.0
        H[4:, k] *= 0.2
    V = rng.lognormal(size=(200, 6)) @ (H / H.sum(axis=1, keepdims=True))
    U = 0.1 * V + 0.05 * V.mean(axis=0)
    return np.maximum(V + U * rng.normal(size=V.shape), 0.0), U


@pytest.mark.parametrize("part", [1.0, 0.4])
def test_more_runs_judge_where_uncertainties_leave_several_ranks(part, monkeypatch):
    """What the fits of a few masks happen to predict differs by as much as these ranks do."""
    rng, asked, judged = np.random.default_rng(0), [], Stages._judged

    def seen(self, pool, rank, runs):
        asked.append(len(runs))
        return judged(self, pool, rank, runs)

    monkeypatch.setattr(Stages, "_judged", seen)
    V = rng.gamma(0.5, size=(40, 3)) @ rng.gamma(0.5, size=(3, 15))
    U = 0.5 * V + 0.3 * V.mean()
    X = np.maximum(V + U * rng.normal(size=V.shape), 0.0)
    found = rank_profile(BetaNMF(beta=2, **QUICK), X, ranks=(2, 3), n_masks=2, uncertainty=part * U)
    assert asked == [2, 2, 8, 8]
    assert any("scatter" in note for note in found.notes) == (part < 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_sources_that_one_column_tells_are_found(seed):
    """Where its entry is held out nothing in the row tells the source: as WH such entries are predicted too badly."""
    X, U = _of_single_species(seed)
    model = BetaNMF(beta=2, random_state=seed)
    assert rank_profile(model, X, ranks=range(2, 9), uncertainty=U).best == 6
    if seed:
        assert rank_profile(model, (1e-6 * X).T, ranks=range(2, 9), uncertainty=(1e-6 * U).T).best == 6


@pytest.mark.parametrize("seed", [2, 3])
@pytest.mark.parametrize("turned", [False, True])
def test_halves_of_components_that_come_again_are_not_counted(seed, turned):
    """Of few rows and many columns four components come again in counts drawn anew, and predict worse than three."""
    rng = np.random.default_rng(seed)
    V = rng.gamma(0.5, size=(12, 3)) @ rng.gamma(0.5, size=(3, 1000))
    X = rng.poisson(8.0 * V / V.mean()).astype(np.float64)
    X = X[:, X.sum(axis=0) > 0]
    found = rank_profile(BetaNMF(beta=1, random_state=seed), X.T if turned else X, ranks=range(1, 6))
    assert found.best == 3
