"""Components that few rows hold: groups of rows, merged, and asked for by held-out entries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import drnmf
from drnmf import BetaNMF
from drnmf.problem.weights import Reading
from drnmf.selection.asked import AskedOfGroup
from drnmf.selection.assignment.assign import opened
from drnmf.selection.matching import shares
from drnmf.selection.stages.groups import OVERALL, Asking, Merged, groups_of, merged, told_apart

FAST = {"ranks": range(2, 5), "n_runs": 4}


def model(**changes):
    return BetaNMF(beta=1, random_state=0, max_iter=150, tol=1e-4, **changes)


def planted(seed: int = 0):
    """Three groups of rows; two components are everywhere, one is in every row of the third group alone."""
    rng = np.random.default_rng(seed)
    H = rng.dirichlet(np.full(24, 0.2), 3)
    W = rng.gamma(0.8, 500.0, (90, 3))
    W[:60, 2] = 0.0
    return rng.poisson(W @ H), np.repeat(["liver", "lung", "skin"], 30), H


def source(name, components, stability=0.9):
    H = np.asarray(components, dtype=float)
    return Merged(H, np.full(len(H), stability), np.full(len(H), 4), np.zeros_like(H), ((name,),) * len(H))


@pytest.mark.slow
def test_components_of_groups_are_put_together():
    X, groups, H = planted()
    found = drnmf.discover(X, model(), groups=groups, **FAST)
    partners = drnmf.match(found.components, H, least=0.9)
    assert sorted(partners.index.tolist()) == [0, 1, 2]
    assert found.contributions.shape == (90, 3)
    assert len(found.sources) == found.rank
    rare = int(np.flatnonzero(partners.index == 2)[0])
    assert "skin" in found.sources[rare]
    assert "liver" not in found.sources[rare]
    assert (shares(found.contributions)[:60, rare] > 0.01).mean() < 0.1
    assert any("groups were searched" in note for note in found.notes)


def test_components_alike_are_one_and_their_median():
    base = np.array([[0.7, 0.3, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]])
    near = np.array([[0.6, 0.4, 0.0, 0.0]])
    found = merged([source("a", base), source("b", near)])
    assert found.sources == (("a", "b"), ("a",))
    assert np.allclose(found.components[0], [0.65, 0.35, 0.0, 0.0])
    turned = merged([source("b", near), source("a", base)])
    assert np.allclose(turned.components, found.components)


def test_groups_are_searched_under_the_losses_of_all_rows_and_in_fewer_runs(monkeypatch):
    from drnmf.selection import discover as searching

    X, groups, _ = planted()
    asked, made = [], searching._settings

    def noted(model, given, *others):
        asked.append(given)
        return made(model, given, *others)

    monkeypatch.setattr(searching, "_settings", noted)
    quick = BetaNMF(beta="auto", random_state=0, max_iter=20, tol=1e-2)
    drnmf.discover(X, quick, groups=groups, ranks=2, n_runs=10, level=None)
    overall, *parts = asked
    assert not isinstance(overall, AskedOfGroup)
    assert len(parts) == 3
    assert all(part.within == parts[0].within and part.within for part in parts)
    assert all(part.n_runs < overall.n_runs and part.groups is None for part in parts)


@pytest.mark.slow
def test_a_component_found_once_needs_the_word_of_held_out_entries():
    X, groups, H = planted()
    whole = drnmf.discover(X, model(), ranks=2, n_runs=4)
    asking = Asking(opened(X, "discover", Reading()), whole.encoder, groups_of(groups, 90))
    of_all = source(OVERALL, H[:2])
    everywhere = [source("liver", H[:2]), source("lung", H[:2])]
    real = asking.kept(*told_apart(of_all, [*everywhere, source("skin", H[2:])]))
    assert real.sources == ((OVERALL, "liver", "lung"), (OVERALL, "liver", "lung"), ("skin",))
    np.testing.assert_array_equal(real.components[:2], H[:2])
    mixture = source("skin", [H[0] + H[1]])
    for others in ([mixture], [source("liver", H[2:])], [mixture, replace(mixture, sources=(("lung",),))]):
        assert len(asking.kept(*told_apart(of_all, [*everywhere, *others])).sources) == 2


@pytest.mark.slow
def test_a_component_of_all_rows_that_no_group_has_needs_it_too():
    X, groups, H = planted()
    whole = drnmf.discover(X, model(), ranks=3, n_runs=4)
    rows = groups_of(groups, 90)
    asking = Asking(opened(X, "discover", Reading()), whole.encoder, {OVERALL: np.arange(90)} | rows)
    alone = source("liver", H[:2])
    assert len(asking.kept(*told_apart(source(OVERALL, H), [alone])).sources) == 3
    mixed = np.vstack([H, H[0] + H[1]])
    assert len(asking.kept(*told_apart(source(OVERALL, mixed), [source("skin", H)])).sources) == 3


def test_groups_that_are_no_groups_are_refused():
    X = planted()[0]
    with pytest.raises(ValueError, match="groups has 2 entries, but X has 90 rows"):
        drnmf.discover(X, groups=["a", "b"])
    with pytest.raises(ValueError, match="one group only"):
        drnmf.discover(X, groups=["a"] * 90)
    with pytest.raises(ValueError, match="HeldOut"):
        drnmf.discover(X, groups=["a", "b"] * 45, entry_weight=drnmf.HeldOut(0.1))


def test_small_groups_are_not_searched_alone_and_said():
    X, groups, _ = planted()
    groups = groups.astype(object)
    groups[:4] = "rare"
    found = drnmf.discover(X, model(), groups=groups, ranks=2, n_runs=4)
    assert any("fewer than 10 rows were not searched alone: rare" in note for note in found.notes)


@pytest.mark.slow
def test_discover_takes_losses_of_ones_own():
    from dataclasses import dataclass

    from drnmf.losses.beta import Beta

    @dataclass(frozen=True)
    class Mine:
        """Kullback-Leibler under another name, and of no family."""

        name: str = "mine"
        key: str = "mine"
        beta: float = float("nan")

        def scaled(self, factor):
            return self

    for member in dir(Beta):
        if not member.startswith("_") and member not in vars(Mine):
            setattr(Mine, member, property(lambda self, member=member: getattr(Beta(1.0), member)))
    X, _, H = planted()
    found = drnmf.discover(X, BetaNMF(beta=Mine(), random_state=0, max_iter=100, tol=1e-4), ranks=(3, 4), n_runs=4)
    assert found.losses[0].name == "mine"
    assert drnmf.match(H, found.components).similarity.min() > 0.95
    assert (found.contributions == 0).any()


@pytest.mark.slow
def test_discover_reads_what_a_sparse_x_does_not_store_as_it_is_told():
    import scipy.sparse as sp

    rng = np.random.default_rng(5)
    H = rng.dirichlet(np.full(20, 0.3), 2) + 0.02
    X = rng.poisson(rng.gamma(1.0, 200.0, (50, 2)) @ H) + 1.0
    stored = sp.csr_array(np.where(rng.random(X.shape) < 0.5, X, 0.0))
    asked = {"ranks": 2, "n_runs": 4}
    right, wrong = (
        drnmf.match(H, drnmf.discover(stored, model(unstored=how), **asked).components).similarity.mean()
        for how in ("missing", "zero")
    )
    assert right > 0.98 > wrong
