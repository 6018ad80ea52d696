"""Progress: lines where there is no terminal, bars that fit and that do not end in success after Ctrl-C."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest
from rich.console import Console

from drnmf import DRNMF, Solver
from drnmf.algorithms.result import Progress
from drnmf.estimators.comparison import compare
from drnmf.estimators.pareto import pareto_front
from drnmf.losses.names import as_losses
from drnmf.solve import progress as shown

X = np.random.default_rng(0).gamma(2.0, 1.0, (15, 12))
LINE = re.compile(
    r"run (\d+) of (\d+), (.+): iteration (\d+)/30, (.+), \d+:\d\d spent, (at most \d+:\d\d left|done|stopped)"
)


def at(iteration: int, betas: tuple[float, ...] = (0, 1, 2)) -> Progress:
    p = len(betas)
    return Progress(iteration, np.ones(p), np.full(p, 1.2345), np.full(p, 1 / p), 0.0, 100, as_losses(betas))


def lines(captured: pytest.CaptureFixture[str]) -> list[tuple[str, ...]]:
    found = []
    for line in captured.readouterr().err.splitlines():
        matched = LINE.fullmatch(line)
        assert matched is not None, line
        found.append(matched.groups())
    return found


def test_a_fit_without_a_terminal_tells_of_every_run(monkeypatch, capsys):
    monkeypatch.setattr(shown, "EVERY", 0.0)
    DRNMF(3, betas=(0, 1), max_iter=30, tol=0, n_init=2, verbose=1, random_state=0).fit(X)
    said = lines(capsys)
    assert [line[0] for line in said[:-1]] == [str(run) for run in range(1, 7) for _ in range(30)]
    assert {line[1] for line in said} == {"6"}
    assert [line[2] for line in said[::60]] == ["IS alone", "KL alone", "DRNMF", "DRNMF"]
    assert re.fullmatch(r"IS [\d.]+", said[0][4])
    assert re.fullmatch(r"IS [\d.]+ \(0\.\d\d\)  KL [\d.]+ \(0\.\d\d\)", said[-1][4])
    assert said[-1][3:6:2] == ("30", "done")


def test_lines_come_every_so_often_and_once_at_the_end(monkeypatch, capsys):
    DRNMF(3, betas=(0, 1), max_iter=30, tol=0, verbose=1, random_state=0).fit(X)
    assert [line[5] for line in lines(capsys)] == ["done"]
    now = iter(range(10_000))
    monkeypatch.setattr(shown.time, "perf_counter", lambda: float(next(now)))
    monkeypatch.setattr(shown, "EVERY", 10.0)
    console = Console(file=io.StringIO(), width=80)
    with shown.ProgressLines(console, str, 1) as told:
        advance = told.hook("KL alone")
        for iteration in range(1, 101):
            advance(at(iteration, (1,)))
    assert 5 < len(console.file.getvalue().splitlines()) < 40


@pytest.mark.parametrize("what", ["front", "comparison"])
def test_all_runs_of_a_front_and_of_a_comparison_count(monkeypatch, capsys, what):
    monkeypatch.setattr(shown, "EVERY", 0.0)
    if what == "front":
        pareto_front(DRNMF(3, betas=(0, 1), max_iter=30, tol=0, random_state=0, verbose=1), X, weights=3)
    else:
        compare(DRNMF(3, betas=(0, 1), max_iter=30, tol=0, random_state=0, verbose=1), X)
    said = lines(capsys)
    runs = int(said[0][1])
    assert runs == (6 if what == "front" else 3)
    assert int(said[-1][0]) <= runs
    assert said[-1][5] == "done"


def test_an_interrupted_fit_says_so(monkeypatch, capsys):
    def stop(progress: Progress) -> None:
        if progress.iteration == 9:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        DRNMF(3, betas=(0, 1), max_iter=30, tol=0, verbose=1, random_state=0, solver=Solver(callback=stop)).fit(X)
    (line,) = lines(capsys)
    assert line[3:6:2] == ("9", "stopped")


def test_time_left_is_over_all_runs(monkeypatch):
    now = 0.0
    monkeypatch.setattr(shown.time, "perf_counter", lambda: now)
    clock = shown.Clock(runs=3)
    now = 1.0
    first = clock.begin(0)
    now = 11.0
    assert clock.left(at(10), first) == pytest.approx(90 + 2 * 100)  # a second an iteration, two more runs of 100
    second = clock.begin(0)  # the first took 10 s
    now = 16.0
    assert clock.left(at(50), second) == pytest.approx(5 + 10)
    third = clock.begin(40)  # resumed after 40 iterations
    now = 18.0
    assert clock.left(at(50), third) == pytest.approx(0.2 * 50)


def test_time_left_where_runs_are_side_by_side(monkeypatch):
    now = 0.0
    monkeypatch.setattr(shown.time, "perf_counter", lambda: now)
    clock = shown.Clock(runs=6, jobs=2)
    first, second = clock.begin(0), clock.begin(0)
    now = 10.0
    assert clock.left(at(10), first) == pytest.approx(90 + 4 * 50)  # four more runs of 100 s, two at a time
    assert clock.left(at(20), second) == pytest.approx(40 + 4 * 25)
    now = 50.0
    third = clock.begin(0)  # one of the two took 50 s
    now = 60.0
    assert clock.left(at(50), third) == pytest.approx(10 + 3 * 50)


def test_time_left_is_no_more_than_max_time(monkeypatch, capsys):
    monkeypatch.setattr(shown, "EVERY", 0.0)
    slow = DRNMF(3, betas=(0, 1), max_iter=10**8, tol=0, max_time=0.3, verbose=1, random_state=0)
    slow.fit(X)
    left = re.findall(r"at most (\S+) left", capsys.readouterr().err)
    assert set(left) == {"0:00"}


def bars(width: int, stage: str, betas: tuple[float, ...], error: bool = False) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    try:
        with shown.ProgressBar(console, str) as bar:
            advance = bar.hook(stage)
            for iteration in range(1, 38):
                advance(at(iteration, betas))
            if error:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", console.file.getvalue())
    return plain.replace("\r", "\n").rstrip().splitlines()[-1]


@pytest.mark.parametrize("stage", ["DRNMF", "beta 0.5 alone", "(0.333, 0.333, 0.333)"])
@pytest.mark.parametrize("betas", [(1,), (0, 1), (0, 1, 2), (0, 0.5, 1, 1.5, 2, 3)])
def test_bars_survive_80_columns(stage, betas):
    last = bars(80, stage, betas)
    assert "…" not in last
    assert stage in last
    assert "37/37" in last
    assert "1.23" in last or "KL 1" in last
    assert len(last) <= 80


def test_a_bar_that_was_stopped_is_not_full():
    assert "37/37" in bars(100, "DRNMF", (0, 1))
    stopped = bars(100, "DRNMF", (0, 1), error=True)
    assert "37/100" in stopped
    assert "stopped" in stopped
