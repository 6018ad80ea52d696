"""The study of losses and truth: plan, table and page."""

from __future__ import annotations

import numpy as np
import pytest

from drnmf.apps.paper import choice_study as study
from drnmf.apps.paper import runner
from drnmf.apps.paper.choice_problems import PROBLEMS, matched_angle, matched_cosine, unforeseen
from drnmf.apps.paper.fits import Options
from drnmf.apps.paper.runner import EXPERIMENTS, STUDIES
from drnmf.runs.read import read_table


@pytest.mark.slow
def test_the_study_is_resumed_and_written(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "PROBLEMS", PROBLEMS[1:2] + PROBLEMS[-1:])
    monkeypatch.setattr(study, "QUICK_ITERATIONS", 20)
    options, out = Options(tmp_path, seeds=1, quick=True), tmp_path / "out"
    runner.run([study.EXPERIMENT], options, out)
    runner.render([study.EXPERIMENT], out)
    rows = {row["method"]: float(row["distance"]) for row in read_table(out / "choice.csv")}
    assert rows["hindsight"] == min(rows[name] for name in study.SINGLE)
    assert all(0.0 <= value < 0.5 for value in rows.values())
    page = (out / "choice.md").read_text(encoding="utf-8")
    assert "| planted, poisson | 1 - cosine |" in page
    assert "Not in the data folder: signatures/SBS_set1.Realistic.sigs.csv." in page
    monkeypatch.setattr(study, "model_of", lambda *given: pytest.fail("computed again"))
    runner.run([study.EXPERIMENT], options, out)


def test_studies_are_not_part_of_the_paper():
    assert not STUDIES.keys() & EXPERIMENTS.keys()


def test_distances_do_not_depend_on_order_or_scale():
    W = np.random.default_rng(0).uniform(size=(20, 3))
    for distance in (matched_cosine, matched_angle):
        assert distance(3.0 * W[:, ::-1], W) == pytest.approx(0.0, abs=1e-6)
        assert distance(np.ones((20, 3)), W) > 0.05


def test_what_is_foreseen_is_judged_where_it_was_not_seen():
    W, H = np.ones((4, 1)), np.ones((1, 3))
    X, hidden = np.ones((4, 3)), np.zeros((4, 3), bool)
    X[0, 0], hidden[1] = 50.0, True
    assert unforeseen(W, H, X, hidden) == 0.0
    assert unforeseen(W, H, X) > 1.0
