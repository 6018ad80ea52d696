"""Runs in processes: made elsewhere where that can be, the same bits, and nothing is left behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from drnmf import BetaNMF, HeldOut, Solver
from drnmf.algorithms.loop import Call
from drnmf.algorithms.result import Interrupted
from drnmf.solve import processes, solve
from drnmf.solve.processes import workers
from drnmf.solve.runner import Shown, Stopping, Watching
from tests.losses.test_own_loss import Poisson

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="runs stay in their threads")

X = np.random.default_rng(0).gamma(1.0, size=(40, 30))


def left_over() -> list[str]:
    """Name the processes of runs that have not ended; joblib keeps some of its own between tests."""
    return [one.name for one in multiprocessing.active_children() if not one.name.startswith("Loky")]


@pytest.fixture
def places(monkeypatch):
    """Ids of the processes that runs were made in, of those whose results come to this one."""
    seen: list[int] = []
    make, receive = processes.minimise, processes.Worker.solve

    def made(call):
        return replace(make(call), notes=(f"made in {os.getpid()}",))

    def received(worker, call):
        result = receive(worker, call)
        seen.append(int(result.notes[0].split()[-1]))
        return replace(result, notes=())

    for module in (processes, solve):
        monkeypatch.setattr(module, "minimise", made)
    monkeypatch.setattr(processes.Worker, "solve", received)
    return seen


def fit(X=X, jobs=2, loss=1, callback=None, entry_weight=None, **settings):
    settings = {"n_init": 3, "max_iter": 40, "tol": 0, "random_state": 0} | settings
    model = BetaNMF(4, beta=loss, init="random", n_jobs=jobs, solver=Solver(callback=callback), **settings)
    return model.fit(X, entry_weight=entry_weight)


class Broken(Poisson):
    """A loss of a user that fails in any process but the first."""

    def terms(self, x, v):
        if multiprocessing.parent_process() is not None:
            raise ArithmeticError("a loss that fails")
        return super().terms(x, v)


INPUTS = {
    "C": X,
    "F": np.asfortranarray(X),
    "float32": X.astype(np.float32),
    "csr": sp.csr_array(X * (X > 1)),
    "gaps": np.where(X > 2, np.nan, X),
}


@pytest.mark.parametrize("kind", INPUTS)
def test_runs_are_made_elsewhere_with_the_same_bits(places, kind):
    here, there = (fit(INPUTS[kind], jobs) for jobs in (1, 2))
    np.testing.assert_array_equal(here.components_, there.components_)
    np.testing.assert_array_equal(here.trace_.losses, there.trace_.losses)
    assert len(places) == 3
    assert os.getpid() not in places
    assert len(set(places)) <= 2
    assert not left_over()


def test_runs_with_weights_are_made_elsewhere_with_the_same_bits(places):
    here, there = (fit(jobs=jobs, entry_weight=HeldOut(0.1, 0)) for jobs in (1, 2))
    np.testing.assert_array_equal(here.components_, there.components_)
    assert os.getpid() not in places


STAY = {
    "another layout": {"X": np.repeat(X, 2, axis=1)[:, ::2]},
    "a callback that may end a run": {"callback": lambda progress: None},
    "a loss that cannot be written": {"loss": type("Local", (Poisson,), {})()},
}


@pytest.mark.parametrize("why", STAY)
def test_runs_that_cannot_go_elsewhere_are_made_here(places, why):
    here, there = (fit(jobs=jobs, **STAY[why]) for jobs in (1, 2))
    np.testing.assert_array_equal(here.components_, there.components_)
    assert set(places) == {os.getpid()}


def test_large_data_stay_here(places, monkeypatch):
    monkeypatch.setattr(processes, "LARGEST_SENT", X.size - 1)
    fit()
    assert set(places) == {os.getpid()}


def test_a_loss_of_a_user_goes_elsewhere(places):
    np.testing.assert_array_equal(fit(jobs=1, loss=Poisson()).components_, fit(loss=Poisson()).components_)
    assert os.getpid() not in places


def test_an_error_comes_back():
    with pytest.raises(ArithmeticError, match="a loss that fails"):
        fit(loss=Broken())
    assert not left_over()


def long_call(**control) -> Call:
    """Make a run that would take an hour."""
    calls: list[Call] = []

    def keep(call):
        calls.append(call)
        raise InterruptedError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solve, "minimise", keep)
        with pytest.raises(InterruptedError):
            fit(jobs=1)
    return replace(calls[0], control=replace(calls[0].control, max_iter=10**7, **control))


@pytest.fixture
def _ctrl_c():
    """What a process in the background ignores."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_ctrl_c")
def test_an_event_ends_a_run_in_its_process_and_ctrl_c_does_not():
    stop = threading.Event()
    call = long_call(callback=Watching.of((Stopping(stop),), Watching().units))
    with workers(1) as (worker,):
        threading.Timer(0.2, os.kill, (worker.process.pid, signal.SIGINT)).start()  # as a terminal sends it to all
        threading.Timer(0.4, stop.set).start()
        assert worker.solve(call).reason == "callback"


def test_what_shows_a_run_sees_its_first_and_its_last_iteration():
    seen: list[int] = []
    watching = Watching.of((Shown(lambda progress: seen.append(progress.iteration)),), Watching().units)
    call = long_call()
    with workers(1) as (worker,):
        worker.solve(replace(call, control=replace(call.control, max_iter=500, callback=watching)))
    assert seen[0] == 1
    assert seen[-1] == 500
    assert len(seen) < 500


def test_a_process_that_is_killed_is_named():
    with workers(1) as (worker,):
        threading.Timer(0.2, worker.process.kill).start()
        with pytest.raises(RuntimeError, match="n_jobs=1"):
            worker.solve(long_call())


@pytest.mark.usefixtures("_ctrl_c")
def test_an_interrupt_ends_runs_elsewhere_and_leaves_the_best_so_far():
    threading.Timer(0.5, signal.pthread_kill, (threading.get_ident(), signal.SIGINT)).start()
    begun = time.perf_counter()
    with pytest.raises(Interrupted):
        fit(max_iter=10**7)
    assert time.perf_counter() - begun < 60
    assert not left_over()
