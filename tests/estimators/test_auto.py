"""Losses chosen by the data: BetaNMF(beta="auto"), DRNMF(betas="auto") and --betas auto."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.base import clone
from typer.testing import CliRunner

import drnmf
from drnmf import DRNMF, BetaNMF, Solver
from drnmf.cli import app
from drnmf.selection.entries import Facts
from drnmf.selection.noise import everything
from drnmf.synthetic import planted

RUN = {"max_iter": 200, "random_state": 0}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def X():
    return planted("gamma", 40, 50, rank=3)[0]


@pytest.mark.slow
def test_beta_auto_is_the_fit_of_the_beta_that_it_finds(X, tmp_path):
    model = BetaNMF(3, beta="auto", **RUN).fit(X)
    given = BetaNMF(3, beta=model.beta_, n_init=4, **RUN).fit(X)
    assert model.beta_ == model.noise_profile_.beta == 0.0
    np.testing.assert_array_equal(model.components_, given.components_)
    assert (model.beta, model.n_init) == ("auto", 1)
    assert any("relative error" in note for note in model.notes_)
    model.save(tmp_path / "model.npz")
    again = drnmf.load(tmp_path / "model.npz")
    assert again.beta_ == 0.0
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    assert again.score(X) == model.score(X)
    assert not hasattr(clone(model), "components_")


@pytest.mark.slow
def test_betas_auto_is_the_set_that_held_out_entries_cannot_tell_apart(X):
    model = DRNMF(3, betas="auto", **RUN).fit(X)
    interval = model.noise_profile_.interval
    assert 0.0 in interval
    assert max(interval) <= 0.5
    assert model.betas_.min() == min(interval)
    assert model.betas_.max() == max(interval)
    with pytest.raises(ValueError, match="references"):
        DRNMF(3, betas="auto", solver=Solver(references=(1.0,)), **RUN).fit(X)


@pytest.mark.slow
def test_where_nothing_is_excluded_beta_0_is_not_either_though_some_entries_are_zero():
    X, _ = planted("gamma", 30, 40, rank=4)
    some = X.copy()
    some[[0, 7], [1, 9]] = 0.0
    model = DRNMF(2, betas="auto", **RUN).fit(some)  # two components are missing: what is left is structure
    assert model.noise_profile_.structure > 0.5
    assert (model.betas_.min(), model.betas_.max()) == (0.0, 2.0)
    assert any("0.17 % of X is zero" in note for note in model.notes_)
    assert any("2 zero entries of X count as" in note for note in model.notes_)
    assert np.isfinite(model.transform(some[:1])).all()
    assert everything([0.1, 1.0, 2.0], Facts(1000, 11)) == ((0.1, 1.0, 2.0), ())


def test_the_size_of_a_negative_binomial_is_found_and_frozen(X):
    counts, _ = planted("negative binomial", 40, 50, rank=3)
    one = BetaNMF(3, beta="nb:auto", **RUN).fit(counts)
    (size,) = [loss.size for loss in one.omega_]
    assert 15 < size < 45
    given = BetaNMF(3, beta=drnmf.NegativeBinomial(size), **RUN).fit(counts)
    np.testing.assert_array_equal(one.components_, given.components_)
    unsized = drnmf.NegativeBinomial("auto")
    assert repr(unsized) == "NegativeBinomial(size='auto')"
    np.testing.assert_array_equal(BetaNMF(3, beta=unsized, **RUN).fit(counts).components_, one.components_)
    table = drnmf.noise_profile(drnmf.BetaNMF(3, **RUN), counts, betas=(1, unsized), held_out=0).table
    named = [row["name"] for row in table]
    assert named[:2] == ["KL", "Poisson"]
    assert float(named[2][3:-1]) == pytest.approx(size, rel=5e-3)  # from another start
    with pytest.raises(ValueError, match="does not hold counts"):
        drnmf.noise_profile(drnmf.BetaNMF(3, **RUN), X, betas=unsized)
    with pytest.raises(ValueError, match="name a size here"):
        drnmf.rank_profile(drnmf.BetaNMF(beta=unsized, random_state=0), counts, ranks=3)
    several = DRNMF(3, betas=(1, "nb:auto"), **RUN).fit(counts)
    assert several.loss_names_ == ["KL", f"NB({size:g})"]
    assert several.betas == (1, "nb:auto")
    with pytest.raises(ValueError, match="does not hold counts"):
        BetaNMF(3, beta="nb:auto", **RUN).fit(X)


@pytest.mark.slow
def test_the_command_line_takes_auto(X, tmp_path):
    np.save(tmp_path / "X.npy", X)
    given = [
        "fit",
        str(tmp_path / "X.npy"),
        "--rank",
        "3",
        "--betas",
        "auto",
        "--out",
        str(tmp_path / "out"),
        "--quiet",
    ]
    result = CliRunner().invoke(app, [*given, "--max-iter", "200", "--seed", "0"])
    assert result.exit_code == 0, result.output
    notes = json.loads((tmp_path / "out" / "summary.json").read_text())["notes"]
    assert any("variance grows like" in note for note in notes)
