"""Every door to one question asks the same function, by identity; and what the user says of counts is believed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from typer.testing import CliRunner

import drnmf
from drnmf import DRNMF, BetaNMF, Sparsity, discover, noise_profile, rank_profile
from drnmf.cli import app
from drnmf.losses.beta import KL
from drnmf.losses.names import as_losses
from drnmf.problem.weights import Reading
from drnmf.selection import alpha, folds
from drnmf.selection.resampling import POISSON
from drnmf.selection.stages.run_pool import Study
from drnmf.selection.stages.stages import Larger, Stages

QUICK = {"max_iter": 20, "tol": 1e-3, "random_state": 0}


def counts(seed: int = 0, m: int = 30, n: int = 20) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.poisson(rng.gamma(0.5, 1.0, (m, 2)) @ rng.gamma(0.5, 1.0, (2, n)) * 20.0).astype(float)


class Asked(Exception):
    """Raised where the engine is asked."""


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Who asked the engine, which answers nobody."""
    seen: list[object] = []

    def asked(*given: object) -> None:
        seen.append(given)
        raise Asked

    monkeypatch.setattr(Stages, "settle", asked)
    return seen


DOORS = {
    "rank_profile": lambda X: rank_profile(BetaNMF(beta=1), X, ranks=[2, 3]),
    "discover": lambda X: discover(X, BetaNMF(beta=1), ranks=[2, 3]),
    "one loss": lambda X: BetaNMF("auto", beta=1).fit(X),
    "several losses": lambda X: DRNMF("auto", betas=(1, 2)).fit(X),
    "loss and rank": lambda X: BetaNMF("auto", beta="auto").fit(X),
}


@pytest.mark.parametrize("door", DOORS)
def test_how_many_is_one_question(engine, door):
    with pytest.raises(Asked):
        DOORS[door](counts())


def test_how_many_on_the_command_line_is_the_same_question(engine, tmp_path: Path):
    np.save(tmp_path / "X.npy", counts())
    asked = ["fit", str(tmp_path / "X.npy"), "--rank", "auto", "--betas", "1", "--out", str(tmp_path / "out")]
    CliRunner().invoke(app, asked)
    assert len(engine) == 1
    text = tmp_path / "texts"
    text.mkdir()
    for i in range(6):
        (text / f"{i}.txt").write_text("ships sail the sea " * 3 if i % 2 else "bread needs flour and yeast " * 3)
    asked = ["topics", str(text), "--rank", "auto", "--min-df", "1", "--out", str(tmp_path / "topics")]
    CliRunner().invoke(app, asked)
    assert len(engine) == 2


def test_a_rank_on_the_command_line_is_a_number_or_auto(tmp_path: Path):
    np.save(tmp_path / "X.npy", counts())
    for wrong in ("0", "few", "2.5"):
        found = CliRunner().invoke(app, ["fit", str(tmp_path / "X.npy"), "--rank", wrong])
        assert found.exit_code == 2
        assert "is no rank" in found.output
    front = CliRunner().invoke(app, ["pareto", str(tmp_path / "X.npy"), "--rank", "auto", "--betas", "1,2"])
    assert front.exit_code == 2


def test_held_out_entries_are_scored_by_one_function(monkeypatch):
    def scored(*given: object) -> None:
        raise Asked

    monkeypatch.setattr(folds, "score", scored)
    fitted = BetaNMF(2, beta=1, **QUICK).fit(counts())
    search = GridSearchCV(BetaNMF(beta=1, **QUICK), {"n_components": [2]}, cv=2, error_score="raise")
    for door in (
        lambda: rank_profile(BetaNMF(beta=1, **QUICK), counts(), ranks=[2]),
        lambda: noise_profile(BetaNMF(2, **QUICK), counts()),
        lambda: fitted.score(counts()),
        lambda: search.fit(counts()),
    ):
        with pytest.raises(Asked):
            door()


@pytest.mark.slow
def test_alphas_have_one_rule(monkeypatch):
    def chosen(*given: object) -> None:
        raise Asked

    monkeypatch.setattr(alpha, "first_within", chosen)
    model = BetaNMF(2, beta=1, penalties=[Sparsity("auto", on="W")], **QUICK)
    for door in (lambda: model.fit(counts()), lambda: discover(counts(), model, ranks=[2], n_runs=2)):
        with pytest.raises(Asked):
            door()


@pytest.mark.slow
def test_the_rank_that_was_found_is_fitted():
    model = BetaNMF("auto", beta=1, **QUICK).fit(counts())
    assert model.n_components == "auto"
    assert model.n_components_ == model.rank_profile_.best == model.components_.shape[0] == 2
    assert any("rank 2" in note for note in model.notes_)
    for refused in (lambda: noise_profile(model, counts()), lambda: drnmf.pareto_front(DRNMF("auto"), counts())):
        with pytest.raises(ValueError, match="n_components"):
            refused()


@pytest.mark.slow
def test_X_and_its_transpose_have_one_answer():
    X = counts(m=24, n=40)
    found = [rank_profile(BetaNMF(beta=1, **QUICK), A, ranks=[1, 2, 3]) for A in (X, X.T)]
    assert found[0].best == found[1].best
    for one, other in zip(found[0].table, found[1].table, strict=True):
        assert one == pytest.approx(other, rel=1e-6)
    seen = [discover(A, BetaNMF(beta=1, **QUICK), ranks=[2, 3], n_runs=2).ranks for A in (X, X.T)]
    for one, other in zip(*seen, strict=True):
        assert one["held_out"] == pytest.approx(other["held_out"], rel=1e-6)
        assert one["mean_stability"] == pytest.approx(other["mean_stability"], rel=1e-6)


def test_counts_drawn_anew_are_those_of_the_transpose():
    """Runs that see them have a say in the rank, so that X and X' must see the same."""
    X = counts(m=40, n=24)
    model = BetaNMF(beta=1, **QUICK)
    upright, turned = (
        replace(Study.of(A, model, "discover", Reading()), losses=as_losses(1), resample=POISSON).run(2, 7, None, None)
        for A in (X, np.ascontiguousarray(X.T))
    )
    np.testing.assert_allclose(turned.short_side, upright.short_side, rtol=1e-9)
    assert turned.H.shape == (2, 40)
    assert turned.error == pytest.approx(upright.error, rel=1e-9)


@pytest.mark.slow
def test_heavy_rows_and_alphas_are_judged_on_X_though_ranks_are_on_its_transpose():
    """Capped rows and penalties belong to one side: what they are compared with must hold out the same entries."""
    X = counts(m=24, n=40)
    X[3] *= 40
    model = BetaNMF(beta=1, penalties=[Sparsity("auto", on="W")], **QUICK)
    found = discover(X, model, ranks=[1, 2], n_runs=2)
    assert any("rows weigh more than" in note for note in found.notes)
    assert len(found.penalty_path) == 1


@pytest.mark.slow
def test_what_is_said_of_counts_is_believed():
    X = counts(m=40)
    said = noise_profile(BetaNMF(2, **QUICK), X, betas="nb:auto")
    assert said.counts
    assert {row["name"].partition("(")[0] for row in said.table} == {"KL", "Poisson", "NB"}
    denied = rank_profile(BetaNMF(beta="auto", **QUICK), X, ranks=[2], counts=False).noise
    assert not denied.counts
    assert not any(row["name"].startswith(("Poisson", "NB")) for row in denied.table)
    with pytest.raises(ValueError, match="does not hold counts"):
        rank_profile(BetaNMF(beta="auto", **QUICK), np.sqrt(X + 0.5), ranks=[2], counts=True)


@pytest.mark.parametrize(
    ("beta", "counts_", "seen"),
    [(1, None, "poisson"), (1, False, "bootstrap"), (2, None, "bootstrap"), (2, True, "poisson")],
)
def test_runs_see_counts_drawn_again_where_X_holds_counts(beta, counts_, seen):
    found = discover(counts(), BetaNMF(beta=beta, **QUICK), ranks=2, n_runs=2, counts=counts_)
    assert found.resample == seen


def test_what_runs_draw_as_counts_is_called_counts():
    """Also where held-out entries ask for KL with a dispersion: whole numbers vary like their means."""
    found = discover(counts(), ranks=2, n_runs=4, level=None, model=BetaNMF(beta="auto", **QUICK))
    assert found.resample == POISSON
    unsaid = replace(found, losses=(KL,), noise=replace(found.noise, counts=False))
    assert unsaid.summary().endswith("under KL (counts).")
    readings = replace(unsaid, resample="bootstrap").summary()
    assert readings.endswith("under KL (error like the root of the mean).")


@pytest.mark.parametrize("runs", [4, 7])
def test_the_rank_of_a_discovery_is_that_of_the_profile_however_many_runs_there_are(runs, monkeypatch):
    """Also where runs of more components than predict best said how many there are."""
    larger = Larger(6, 5)
    monkeypatch.setattr(Stages, "_look_above", lambda self, *_: setattr(self, "larger", larger))
    profile = rank_profile(BetaNMF(beta=1, **QUICK), counts(), ranks=range(1, 4), n_masks=2)
    found = discover(counts(), BetaNMF(beta=1, **QUICK), ranks=range(1, 4), n_runs=runs, level=None)
    assert found.rank == profile.best == 5
    assert 0 < found.stable.sum() < 5


@pytest.mark.parametrize("unit", [0.1, 1000.0])
def test_counts_are_drawn_again_in_any_unit(unit, monkeypatch):
    """What says that it holds counts is drawn as counts: by 1000 X not only rows are drawn anew."""
    monkeypatch.setattr("drnmf.selection.noise.BETAS", (0.5, 1.0, 2.0))
    one, other = (discover(c * counts(), BetaNMF(beta="auto", **QUICK), ranks=2, n_runs=4) for c in (1.0, unit))
    assert one.noise.counts
    assert one.resample == other.resample == "poisson"
    np.testing.assert_allclose(other.stability, one.stability, atol=1e-3)
    with pytest.raises(ValueError, match="X holds other numbers"):
        discover(counts() + 0.5, BetaNMF(beta=1, **QUICK), ranks=2, n_runs=2, resample="poisson")


@pytest.mark.slow
def test_the_noise_says_whether_counts_are_drawn_again(monkeypatch):
    """Whole numbers of a mean of 400 with an error of a fifth are no counts, although they are on a grid."""
    rng = np.random.default_rng(0)
    X = np.rint(np.outer(rng.uniform(1, 2, 30), rng.uniform(1, 2, 20)) * 200 * rng.gamma(25, 1 / 25, (30, 20)))
    found = discover(X, BetaNMF(beta="auto", **QUICK), ranks=2, n_runs=2)
    assert found.noise is not None
    assert not found.noise.counts
    assert found.resample == "bootstrap"


@pytest.mark.slow
def test_a_loss_of_counts_that_was_found_draws_what_the_same_loss_draws_where_it_is_given():
    """A negative binomial of large means is no proof of counts, but rows drawn anew lose components of few rows."""
    rng = np.random.default_rng(1)
    V = rng.gamma(1.0, 1.0, (60, 2)) @ rng.gamma(1.0, 1.0, (2, 40)) * 50
    X = rng.negative_binomial(10, 10 / (10 + V)).astype(float)
    auto = discover(X, BetaNMF(beta="auto", **QUICK), ranks=2, n_runs=2, level=None)
    given = discover(X, BetaNMF(beta=auto.losses[0].key, **QUICK), ranks=2, n_runs=2, level=None)
    assert auto.losses[0].key.startswith("nb:")
    assert auto.noise is not None
    assert not auto.noise.counts
    assert auto.resample == given.resample == "poisson"
