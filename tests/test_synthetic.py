"""The recipe of section 5.1."""

from __future__ import annotations

import numpy as np
import pytest

from drnmf.algorithms.initialize import random_start
from drnmf.backends.open import open_data
from drnmf.synthetic import mixed_noise, synthetic, with_noise


def test_shapes_seed_and_noise_level() -> None:
    one, two = (synthetic((0, 1, 2), random_state=3) for _ in range(2))
    assert one.X.shape == (200, 200)
    assert (one.W.shape, one.H.shape) == ((200, 10), (10, 200))
    np.testing.assert_array_equal(one.X, two.X)
    clean = one.W @ one.H
    assert one.X.min() >= 0
    # The maximum with zero only takes noise away, and little of it.
    assert 0.19 < np.linalg.norm(one.X - clean) / np.linalg.norm(clean) <= 0.2 + 1e-12


def test_without_noise_it_is_the_product() -> None:
    data = synthetic((2,), shape=(20, 30), rank=3, noise=0, random_state=0)
    np.testing.assert_array_equal(data.X, data.W @ data.H)


def test_each_noise_is_the_one_its_loss_stands_for() -> None:
    def noise(beta: float) -> tuple[np.ndarray, np.ndarray]:
        data = synthetic((beta,), shape=(300, 300), noise=1e-3, random_state=0)
        clean = data.W @ data.H
        return clean, data.X - clean

    clean, multiplicative = noise(0)
    small, large = clean < np.median(clean), clean >= np.median(clean)
    assert multiplicative[large].std() > 1.2 * multiplicative[small].std()
    np.testing.assert_allclose((multiplicative / clean)[large].std(), (multiplicative / clean)[small].std(), rtol=0.02)
    clean, poisson = noise(1)
    assert poisson.min() > -1e-12
    np.testing.assert_allclose(np.mean(poisson < 1e-12), np.exp(-1), atol=0.01)
    clean, gaussian = noise(2)
    np.testing.assert_allclose(gaussian[large].std(), gaussian[small].std(), rtol=0.02)
    assert abs(gaussian.mean()) < 0.02 * gaussian.std()


@pytest.mark.parametrize("betas", [(0.0,), (1.0,), (0.0, 2.0)])
def test_noise_on_other_data_has_the_level_asked_for(betas: tuple[float, ...]) -> None:
    X = np.random.RandomState(0).uniform(5, 6, (50, 40))
    noise = mixed_noise(X, betas, np.random.RandomState(1))
    assert np.linalg.norm(with_noise(X, noise, 0.1) - X) == pytest.approx(0.1 * np.linalg.norm(X))
    assert (with_noise(X, noise, 5.0).min() == 0) == (noise.min() < 0)
    np.testing.assert_array_equal(with_noise(X, np.zeros_like(X), 0.1), X)


def test_a_fit_with_the_same_seed_does_not_start_from_the_truth() -> None:
    data = synthetic((2,), shape=(20, 20), rank=2, random_state=0)
    W, _ = random_start(open_data(data.X), 2, np.random.RandomState(0))
    assert np.abs(np.corrcoef(W.ravel(), data.W.ravel())[0, 1]) < 0.5


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match=r"no noise is known for 0\.5"):
        synthetic((0, 0.5))
    with pytest.raises(ValueError, match="rank"):
        synthetic((0,), rank=0)
    with pytest.raises(ValueError, match="noise"):
        synthetic((0,), noise=-1)
    with pytest.raises(ValueError, match="shape"):
        synthetic((0,), shape=(0, 3))
