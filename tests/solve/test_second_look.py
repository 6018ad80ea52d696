"""Where a fit under beta = 2 stops, and the second start that is tried where the first leaves room."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import NMF

from drnmf import BetaNMF, Solver
from drnmf.solve import pipeline


def swimmers(seed, side=24, positions=4, count=200):
    """Pictures of a torso and four limbs, each in one of several positions, with noise: (count, side^2)."""
    rng, middle, length = np.random.default_rng(seed), side // 2, side // 4
    torso, along = np.zeros((side, side)), np.linspace(0, length, 4 * length)
    torso[middle - 5 : middle + 5, middle - 1 : middle + 1] = 1
    limbs = np.zeros((4, positions, side, side))
    for limb, (down, right) in enumerate([(-1, -1), (-1, 1), (1, -1), (1, 1)]):
        y, x = middle + (4 if down > 0 else -5), middle + (1 if right > 0 else -2)
        for position, angle in enumerate(np.linspace(0, np.pi / 2, positions)):
            rows, columns = y + down * along * np.sin(angle), x + right * along * np.cos(angle)
            limbs[limb, position, np.rint(rows).astype(int), np.rint(columns).astype(int)] = 1
    poses = limbs[np.arange(4)[:, None], rng.integers(positions, size=(4, count))].max(axis=0)
    return np.maximum(torso, poses).reshape(count, -1) * rng.gamma(4, 0.25, size=(count, side * side))


def tune(seed, notes, rate=8000, window=256, seconds=3):
    """Magnitudes of notes that are struck and fade: (window / 2 + 1, frames)."""
    rng, time = np.random.default_rng(seed), np.arange(rate * seconds) / rate
    signal = np.zeros(len(time))
    for pitch in rng.choice(24, notes, replace=False):
        for begin in rng.uniform(0, seconds - 0.5, rng.integers(1, 4)):
            struck = time >= begin
            fades = struck * np.exp(-(time - begin) * struck * rng.uniform(2, 6))
            harmonics = (
                np.sin(2 * np.pi * k * 110 * 2 ** (pitch / 12) * time + rng.uniform(0, 6)) / k for k in range(1, 6)
            )
            signal += rng.gamma(2.0) * fades * sum(harmonics)
    frames = np.lib.stride_tricks.sliding_window_view(signal + 1e-3 * rng.normal(size=len(time)), window)
    return np.abs(np.fft.rfft(frames[:: window // 2] * np.hamming(window), axis=1)).T


def ratio(X, rank):
    """Our loss over that of scikit-learn, defaults on both sides."""
    model = NMF(rank, random_state=0)
    W = model.fit_transform(X)
    return BetaNMF(rank, beta=2, random_state=0).fit(X).losses_[0] / (0.5 * np.sum((X - W @ model.components_) ** 2))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("seed", [1, 9, 15, 21, 23])
def test_pictures_of_parts_are_fitted_as_well_as_by_scikit_learn(seed):
    assert ratio(swimmers(seed), 20) <= 1.01


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("seed", "notes"), [(1, 5), (3, 7), (14, 6)])
def test_a_spectrogram_is_fitted_as_well_as_by_scikit_learn(seed, notes):
    assert ratio(tune(seed, notes), 8) <= 1.01


def fit(X, **options):
    return BetaNMF(20, beta=2, **{"random_state": 0} | options).fit(X)


def test_the_better_of_two_starts_is_kept_and_the_unit_of_X_has_no_say():
    X = swimmers(9)
    model, first, other = fit(X), fit(X, init="nndsvdar"), fit(X, init="random")
    assert other.losses_[0] < 0.9 * first.losses_[0]
    assert model.losses_[0] == pytest.approx(other.losses_[0], rel=0.01)
    for unit in (1e-7, 3e5):
        again = fit(unit * X)
        assert again.losses_[0] / unit**2 == pytest.approx(model.losses_[0], rel=1e-3)
        assert again.n_iter_ == model.n_iter_


def test_dense_sparse_and_single_precision_end_at_the_same_loss():
    for X, rank in ((swimmers(9), 20), (tune(3, 7), 8)):
        model = BetaNMF(rank, beta=2, random_state=0)
        loss = model.fit(X).losses_[0]
        assert model.fit(sp.csr_array(X)).losses_[0] == pytest.approx(loss, rel=1e-2)
        assert model.fit(X.astype(np.float32)).losses_[0] == pytest.approx(loss, rel=1e-2)


def test_a_second_start_is_tried_only_where_the_first_run_ended_by_itself_and_left_room(monkeypatch):
    looks = []

    def counted(*arguments):
        looks.append(1)
        return look(*arguments)

    look = pipeline.second_look
    monkeypatch.setattr(pipeline, "second_look", counted)
    X, rng = swimmers(9), np.random.default_rng(0)
    fit(X)
    assert len(looks) == 1
    noise = rng.gamma(1.0, size=(60, 40))  # no model of this rank is much better than another one
    BetaNMF(2, beta=2, random_state=0).fit(noise)
    some = {"W": rng.uniform(size=(200, 20)), "H": rng.uniform(size=(20, X.shape[1]))}
    BetaNMF(20, beta=2, init="custom").fit(X, **some)
    for options in (
        {"tol": 1e-3}, {"tol": 0, "max_iter": 15}, {"init": "nndsvdar"}, {"init": "random"}, {"n_init": 2},
        {"solver": Solver(callback=lambda progress: progress.iteration == 12)},
    ):  # fmt: skip
        fit(X, **options)
    with pytest.warns(Warning, match="not converged"):
        fit(X, max_iter=5)
    assert len(looks) == 1


def test_a_second_run_that_is_not_ahead_ends_early():
    X, seen = swimmers(1), []
    model = fit(X, solver=Solver(callback=lambda progress: seen.append(progress.iteration)))
    ends = [at for at, following in zip(seen, [*seen[1:], 0], strict=True) if following <= at]
    assert model.n_iter_ == ends[0]
    assert ends[1:] == [pipeline.SECOND_LOOK]


def test_a_checkpoint_changes_nothing(tmp_path):
    X = swimmers(9)
    kept_in = Solver(checkpoint=tmp_path / "fit")
    plain, kept, again = fit(X), fit(X, solver=kept_in), fit(X, solver=kept_in)
    for model in (kept, again):
        np.testing.assert_array_equal(model.components_, plain.components_)
        assert model.n_iter_ == plain.n_iter_
