"""One field per parameter: constructor, docstring, checks, files and options all come from it."""

from __future__ import annotations

import inspect
from dataclasses import fields

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from typer.main import get_command

import drnmf
from drnmf import DRNMF, BetaNMF, MultiObjectiveNMF, Solver
from drnmf.cli import app
from drnmf.parameters.common import FOREIGN, MOVED, Parameters
from drnmf.parameters.fields import checked, parameters_of
from drnmf.parameters.solver import as_solver

ESTIMATORS = (BetaNMF, MultiObjectiveNMF, DRNMF)
OWNERS = (*ESTIMATORS, Solver)
X = np.random.default_rng(0).gamma(2.0, size=(12, 9)) + 0.1


@pytest.mark.parametrize("owner", OWNERS)
def test_every_field_says_what_it_is_and_stands_in_the_docstring(owner):
    known = parameters_of(owner)
    assert list(known) == [field.name for field in fields(owner)]
    assert len(known) <= 20
    for name, parameter in known.items():
        assert parameter.help.endswith(".")
        assert f"\n    {name} : {parameter.kind.text}" in owner.__doc__
    sections = [owner.__doc__.find(f"\n    {title}\n") for title in ("Parameters", "Attributes", "Examples")]
    assert [at for at in sections if at >= 0] == sorted(at for at in sections if at >= 0)


@pytest.mark.parametrize("owner", OWNERS)
def test_defaults_pass_their_own_checks(owner):
    made = owner()
    for name in parameters_of(owner):
        value = getattr(made, name)
        assert checked(made, name) == value


def test_functions_have_few_arguments_of_their_own():
    most = {"pareto_front": 10, "discover": 14, "rank_profile": 9, "noise_profile": 6}
    taken = set(parameters_of(Parameters)) | set(parameters_of(Solver))
    for name, count in most.items():
        own = list(inspect.signature(getattr(drnmf, name)).parameters)
        assert len(own) <= count
        assert not taken & set(own)


@pytest.mark.parametrize("command", ["fit", "pareto", "discover"])
def test_commands_have_the_options_of_the_model(command):
    options = {name: option for option in get_command(app).get_command(None, command).params for name in option.opts}
    for owner in (Parameters, Solver):
        for name, known in parameters_of(owner).items():
            if (command, name) == ("discover", "max_time"):  # which also takes minutes and hours
                continue
            if known.option in options and options[known.option].name == name:
                assert known.help.rstrip(".") in options[known.option].help
            else:
                assert known.option is None or command == "discover" or known.option == "--rank"
    experts = [option for option in options.values() if getattr(option, "rich_help_panel", None) == "Expert"]
    assert {option.name for option in experts} <= parameters_of(Solver).keys()
    assert "--update" in options


def test_a_setting_of_the_solver_says_where_it_is():
    with pytest.raises(TypeError, match=r"BetaNMF takes no update: write solver=Solver\(update=...\)"):
        BetaNMF(3, update="mu")
    with pytest.raises(TypeError, match="unheard"):
        BetaNMF(3, unheard=1)


@pytest.mark.parametrize(
    ("name", "here"),
    [
        ("beta_loss", "beta="),
        ("alpha_W", "penalties="),
        ("l1_ratio", "L2"),
        ("rank", "n_components="),
        ("nrun", "n_init="),
        ("regularization", "penalties="),
        ("n_factors", "n_components="),
        ("num_topics", "n_components="),
        ("chunksize", "partial_fit"),
        ("n_epochs", "max_iter="),
        ("forget_factor", "forget="),
    ],
)
@pytest.mark.parametrize("cls", [BetaNMF, DRNMF, MultiObjectiveNMF])
def test_a_parameter_of_another_package_names_ours(cls, name, here):
    with pytest.raises(TypeError, match=f"{cls.__name__} takes no {name}: .*{here}"):
        cls(**{name: 1})


def test_names_elsewhere_are_none_of_ours():
    assert not FOREIGN.keys() & (parameters_of(BetaNMF).keys() | parameters_of(DRNMF).keys() | MOVED.keys())


@pytest.mark.parametrize(("name", "here"), [("cd", "hals"), ("brunet", "mu")])
def test_a_rule_of_another_package_names_ours(name, here):
    with pytest.raises(ValueError, match=f"write solver={here!r}"):
        BetaNMF(1, solver=name).fit([[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(ValueError, match="Solver has no 'unheard'"):
        Solver().set_params(unheard=1)
    with pytest.raises(ValueError, match="solver=3 must be a drnmf"):
        BetaNMF(3, solver=3).fit(X)
    with pytest.raises(ValueError, match="policy='mirror' moves the weights of several losses"):
        BetaNMF(3, solver=Solver(policy="mirror")).fit(X)


def test_a_name_is_short_for_a_solver():
    common = {"max_iter": 20, "tol": 0, "random_state": 0}
    short, whole = (BetaNMF(2, solver=solver, **common).fit(X) for solver in ("mu", Solver(update="mu")))
    np.testing.assert_array_equal(short.components_, whole.components_)
    assert not np.array_equal(short.components_, BetaNMF(2, **common).fit(X).components_)


def test_settings_of_the_solver_are_searched_and_cloned():
    model = DRNMF(2, betas=(1, 2))
    assert model.get_params()["solver__policy"] == "auto"
    assert "solver__policy" not in model.get_params(deep=False)
    model.set_params(solver__policy="mirror", solver__inner_iter=2)
    assert (model.solver.policy, model.solver.inner_iter) == ("mirror", 2)
    assert DRNMF(2).get_params()["solver__policy"] == "auto"  # nothing is shared
    twin = clone(model)
    assert twin.solver is not model.solver
    assert repr(twin.solver) == "Solver(policy='mirror', inner_iter=2)"
    assert repr(BetaNMF(2)) == "BetaNMF(n_components=2)"
    grid = {"solver__update": ["mu", "newton"], "n_components": [1, 2]}
    search = GridSearchCV(BetaNMF(max_iter=15, tol=0, random_state=0), grid, cv=2).fit(X)
    assert as_solver(search.best_estimator_.solver).update == search.best_params_["solver__update"]


def test_a_saved_model_keeps_its_solver(tmp_path):
    solver = Solver(update="mu", inner_iter=2, normalize=False, callback=lambda progress: None)
    model = BetaNMF(2, max_iter=10, tol=0, random_state=0, solver=solver).fit(X)
    model.save(tmp_path / "model.npz")
    twin = drnmf.load(tmp_path / "model.npz")
    assert {**solver.get_params(), "callback": None} == twin.solver.get_params()
    assert twin.max_iter == 10


def test_two_doors_give_the_same_noise():
    counts = np.random.default_rng(1).poisson(20.0 * X)
    common = {"max_iter": 60, "random_state": 0}
    asked = drnmf.noise_profile(BetaNMF(2, beta=0.5, **common), counts, held_out=0)
    found = BetaNMF(2, beta="auto", **common).fit(counts).noise_profile_
    names = ("name", "loss", "criterion")
    assert [[row[name] for name in names] for row in asked.table] == [[row[n] for n in names] for row in found.table]


def test_a_model_is_asked_for_in_its_place():
    for call in (drnmf.noise_profile, drnmf.rank_profile, drnmf.pareto_front):
        with pytest.raises(TypeError, match=f"{call.__name__} takes a model"):
            call(X, X)
    with pytest.raises(ValueError, match="2 losses: ranks are compared under one"):
        drnmf.rank_profile(DRNMF(betas=(1, 2)), X, ranks=2)
    with pytest.raises(ValueError, match="discover takes no sum_to_one"):
        drnmf.discover(X, BetaNMF(sum_to_one="W"))
