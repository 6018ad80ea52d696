"""Runs side by side: the same bits, and an end to all of them when one ends badly."""

from __future__ import annotations

import _thread
import signal
import threading

import numpy as np
import pytest

from drnmf import DRNMF, BetaNMF, Solver, pareto_front
from drnmf.algorithms.result import Interrupted
from drnmf.backends.core import native_core
from drnmf.losses.interval import Interval

X = np.random.default_rng(0).gamma(1.0, size=(40, 30))


def fitted(n_jobs, **arguments):
    return DRNMF(4, n_init=3, max_iter=60, tol=0, random_state=0, n_jobs=n_jobs, **arguments).fit(X)


@pytest.mark.parametrize("betas", [(0, 1, 2), Interval(0, 1)])
@pytest.mark.parametrize("n_jobs", [2, 5, -1])
def test_the_same_bits_for_any_number_of_jobs(betas, n_jobs):
    one, many = fitted(1, betas=betas), fitted(n_jobs, betas=betas)
    np.testing.assert_array_equal(one.components_, many.components_)
    np.testing.assert_array_equal(one.trace_.scaled_losses, many.trace_.scaled_losses)
    np.testing.assert_array_equal(one.references_, many.references_)


@pytest.mark.parametrize("method", ["weighted", "tchebycheff"])
def test_a_front_has_the_same_bits(method):
    def front(n_jobs):
        return pareto_front(
            DRNMF(3, betas=(0, 1), max_iter=40, tol=0, random_state=0, n_jobs=n_jobs), X, weights=5, method=method
        )

    one, many = front(1), front(3)
    np.testing.assert_array_equal(one.losses, many.losses)
    np.testing.assert_array_equal(one.dr.losses, many.dr.losses)


def test_runs_are_in_threads_of_their_own_one_callback_at_a_time():
    seen, inside = set(), threading.Lock()

    def callback(progress):
        assert inside.acquire(blocking=False)
        seen.add(threading.get_ident())
        inside.release()

    BetaNMF(4, beta=1, n_init=4, max_iter=30, tol=0, random_state=0, n_jobs=2, solver=Solver(callback=callback)).fit(X)
    assert threading.get_ident() not in seen
    assert 1 <= len(seen) <= 2


def test_one_failure_ends_every_run():
    calls = []

    def callback(progress):
        calls.append(progress.iteration)
        if len(calls) == 10:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        BetaNMF(
            4, beta=1, n_init=4, max_iter=20_000, tol=0, random_state=0, n_jobs=2, solver=Solver(callback=callback)
        ).fit(X)


def test_an_interrupt_ends_every_run():
    """Ctrl-C reaches the thread that waits."""
    pressed = []

    def callback(progress):
        if progress.iteration == 5 and not pressed:
            pressed.append(True)
            _thread.interrupt_main()

    model = BetaNMF(
        4, beta=1, n_init=4, max_iter=20_000, tol=0, random_state=0, n_jobs=2, solver=Solver(callback=callback)
    )
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background ignores it
    try:
        with pytest.raises(KeyboardInterrupt) as caught:
            model.fit(X)
    finally:
        signal.signal(signal.SIGINT, before)
    assert isinstance(caught.value, Interrupted)
    assert np.isfinite(model.components_).all()


def test_the_number_of_threads_comes_back():
    core = native_core()
    if core is None:
        pytest.skip("the compiled extension is not in use")
    before = core.get_num_threads()
    fitted(2, betas=(0, 1))
    assert core.get_num_threads() == before


@pytest.mark.parametrize("n_jobs", [0, 1.5, "two", True])
def test_a_wrong_number_of_jobs_is_refused(n_jobs):
    with pytest.raises(ValueError, match="n_jobs"):
        fitted(n_jobs, betas=(0, 1))
