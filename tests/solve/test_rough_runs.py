"""Runs that pause see X in single precision; what is told of them, and where they go on, is in that of X."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from drnmf import DRNMF, Solver
from drnmf.algorithms.result import Interrupted, Progress
from drnmf.backends.base import losses_of
from drnmf.backends.open import in_single, open_data
from drnmf.losses.names import as_losses
from drnmf.numerics import Vector

X = np.random.default_rng(0).gamma(1.0, size=(40, 30))


def seen_by(model: DRNMF, data: Vector) -> set[str]:
    """Fit, and name the dtypes in which the callback saw the components."""
    seen: set[str] = set()
    look = Solver(callback=lambda progress: seen.add(str(progress.components().dtype)))
    model.set_params(solver=look).fit(data)
    return seen


def test_runs_begin_in_single_precision_and_end_in_that_of_x() -> None:
    model = DRNMF(4, betas=(0, 1), init="random", random_state=0)
    assert seen_by(model, X) == {"float32", "float64"}
    assert model.components_.dtype == np.float64
    assert seen_by(DRNMF(4, betas=(0, 1), init="random", tol=0, max_iter=5), X) == {"float64"}


def test_a_run_that_ends_while_it_is_rough_tells_the_losses_at_its_factors() -> None:
    solver = Solver(callback=lambda progress: progress.iteration == 5)
    model = DRNMF(4, betas=(0, 1), init="random", random_state=0, solver=solver)
    W = model.fit_transform(X)
    at = losses_of(open_data(X), W, model.components_, as_losses((0, 1)))
    assert model.n_iter_ == 5
    np.testing.assert_allclose(model.losses_, at, rtol=1e-12)


def test_an_interrupt_hands_out_the_precision_of_x() -> None:
    def interrupt(progress: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(Interrupted) as stopped:
        DRNMF(4, betas=(0, 1), init="random", random_state=0, solver=Solver(callback=interrupt)).fit(X)
    result = stopped.value.result
    assert result.W.dtype == result.H.dtype == np.float64
    np.testing.assert_allclose(result.losses, losses_of(open_data(X), result.W, result.H, result.omega), rtol=1e-12)


def test_what_single_precision_holds() -> None:
    def single(values: object) -> object:
        return in_single(open_data(values))  # type: ignore[arg-type]

    wide = X.copy()
    wide[0, 0] = 1e-14
    with_zeros = np.where(X > 1.0, X, 0.0)
    assert single(X) is not None
    assert single(with_zeros) is not None
    assert single(wide) is None
    assert single(X.astype(np.float32)) is None
    assert single(sp.csr_array(with_zeros)) is None
