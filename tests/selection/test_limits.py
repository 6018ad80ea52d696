"""A discovery under a time limit, by a clock that only its runs move: what is used, what is missing, what is said."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest

import drnmf
from drnmf.selection.stages.run_pool import Study
from drnmf.selection.stages.schedule import Schedule
from drnmf.solve.encode import Encoder

X = np.random.default_rng(0).poisson(np.random.default_rng(1).gamma(0.4, 60.0, (60, 3)) @ np.full((3, 24), 1.0))
MODEL = {"beta": 1, "max_iter": 8, "tol": 0.0}
ASKED = {"ranks": range(2, 13), "n_runs": 10, "heavy": "keep", "level": None}  # intervals take what is left
OPENING = 0.5
"""Seconds that a run takes next to its iterations."""


def slow(patch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let every run take so many seconds for each of its components, of no real clock."""
    now, make, rows = [0.0], Study.run, Encoder.rows

    def run(self, rank, seed, max_time, callback, judges=False):
        made = make(self, rank, seed, None, callback, judges)
        taken = seconds * rank * (1.5 if judges else 1.0)
        early = max_time is not None and taken > max_time
        taken = max(max_time, 0.01) if early else taken
        now[0] += OPENING + taken
        trace = replace(made.trace, seconds=np.array([0.0, taken]))
        return replace(made, trace=trace, reason="max_time" if early else "tol")

    def encoded(self, data, first_row=0, first=None):
        if first is None:  # few components of few rows, from where they stand, cost next to nothing
            now[0] += 0.5 * seconds * self.components.shape[0] * self.max_iter / MODEL["max_iter"]
        return rows(self, data, first_row, first)

    patch.setattr(Encoder, "rows", encoded)
    patch.setattr(Study, "run", run)
    patch.setattr("drnmf.selection.discover.Schedule", partial(Schedule, clock=lambda: now[0]))


@pytest.mark.slow
@pytest.mark.parametrize(("seconds", "level"), [*product([0.1, 0.5, 0.7, 1.0, 2.0, 5.0], [None]), (5.0, 0.9)])
def test_the_limit_holds_and_is_used_while_work_remains(monkeypatch, seconds, level):
    slow(monkeypatch, seconds)
    found = drnmf.discover(X, drnmf.BetaNMF(max_time=240.0, **MODEL), **ASKED | {"level": level})
    assert found.seconds <= 1.1 * 240.0
    assert bool(found.missing) == (seconds >= 0.5)
    if found.missing:
        assert found.seconds >= 0.9 * 240.0


@pytest.mark.slow
def test_without_a_limit_nothing_is_missing(monkeypatch):
    slow(monkeypatch, 5.0)
    found = drnmf.discover(X, drnmf.BetaNMF(**MODEL), **ASKED)
    assert found.missing == ()
    assert all(stage["finished"] for stage in found.stages)


@pytest.mark.parametrize(("limit", "ended"), [(12.0, 0), (24.0, 2), (66.0, 6)])
def test_what_is_missing_is_said_first_and_few_runs_make_nothing_stable(monkeypatch, limit, ended):
    slow(monkeypatch, 5.0)
    found = drnmf.discover(X, drnmf.BetaNMF(max_time=limit, **MODEL), **ASKED | {"ranks": 2, "threshold": -1.0})
    assert sum(run.whole for run in found.runs) == ended
    first = f"Out of time: {ended} of the 10 runs of the consensus were finished"
    assert found.summary().startswith(first)
    assert f"To finish it, raise max_time, which was {limit:g} s. " in found.summary()
    assert found.notes[0] == f"{first}."
    assert found.stable.all() == found.stable.any() == (ended >= 4)
    assert ("Nothing is called stable on the word of fewer than 4 runs" in found.summary()) == (ended < 4)


def search_the_noise(limit):
    """The noise is read again at the rank that was found, and the time for it may be over by then."""
    return drnmf.discover(X, drnmf.DRNMF(betas="auto", max_time=limit, max_iter=8), **ASKED | {"ranks": range(2, 6)})


@pytest.mark.parametrize("limit", [1e-6, 6.0])
def test_a_limit_that_is_over_before_two_runs_ended_is_too_short(monkeypatch, limit):
    slow(monkeypatch, 2.0)
    with pytest.raises(ValueError, match=f"max_time={limit:g} seconds are too short: no two runs of rank"):
        search_the_noise(limit)


@pytest.mark.parametrize("limit", [12.0, 24.0, 40.0])
def test_noise_that_was_not_read_again_for_want_of_time_is_missing(monkeypatch, limit):
    slow(monkeypatch, 2.0)
    assert "the noise was not read again at the rank that was found" in search_the_noise(limit).missing


def test_fewer_than_four_runs_make_nothing_stable_though_no_more_were_asked_for():
    found = drnmf.discover(X, drnmf.BetaNMF(**MODEL), **ASKED | {"ranks": 2, "n_runs": 3, "threshold": -1.0})
    assert not found.stable.any()
    assert found.missing == ()
    assert found.summary().endswith("3 came to their end. Raise n_runs to 4 or more.")


def test_progress_counts_the_last_stage():
    told = []
    drnmf.discover(X, drnmf.BetaNMF(**MODEL, solver=drnmf.Solver(callback=told.append)), **ASKED | {"ranks": 2})
    assert [moment.stage for moment in told] == ["consensus"] * 10 + ["contributions"] * 3
    shares = [moment.share for moment in told]
    assert shares == sorted(shares)
    assert shares[9] < 1.0
    assert shares[-1] == pytest.approx(1.0)
