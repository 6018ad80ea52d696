"""From X to components one can trust: what is found, again, in pieces, in time, or not at all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import drnmf
from drnmf.backends.observed import Ones
from drnmf.backends.open import open_data as plain
from drnmf.losses.beta import KL
from drnmf.problem.receive import Received
from drnmf.selection.alpha import sparsity_path
from drnmf.selection.choose import Tried, best_rank
from drnmf.selection.entries import Caution
from drnmf.selection.likelihood.scores import Scores
from drnmf.selection.noise import NoiseProfile, read_noise
from drnmf.selection.rank import check_ranks
from drnmf.selection.stages.ranks import COARSE, LADDER, capped_is_better, ladder, rows_of, to_try
from drnmf.selection.stages.residuals import residuals
from drnmf.selection.stages.run_pool import RunPool, Study, rows_seen
from drnmf.selection.stages.runs import Run
from drnmf.selection.stages.schedule import Schedule
from tests.flat import discover

FAST = {"ranks": range(2, 6), "betas": 1, "n_runs": 4, "max_iter": 200, "tol": 1e-4}

SPARSE = ["sparsity:auto:W"]


def counts(seed: int = 0, m: int = 60, n: int = 24, r: int = 3) -> np.ndarray:
    """Poisson counts of r components that hardly overlap."""
    rng = np.random.default_rng(seed)
    H = np.repeat(np.eye(r), n // r, axis=1) * rng.gamma(2.0, 1.0, n) + 0.01
    return rng.poisson(rng.gamma(0.4, 60.0, (m, r)) @ H).astype(float)


@pytest.fixture(scope="module")
def found() -> drnmf.selection.asked.SearchResult:
    return discover(counts(), **FAST)


def same(one, other) -> bool:
    return np.array_equal(one.components, other.components) and np.array_equal(one.stability, other.stability)


def test_cautions_come_before_the_answer(found):
    doubted = replace(found, notes=("Plain.", Caution("The rank is uncertain.")))
    assert doubted.cautions == ("The rank is uncertain.",)
    assert doubted.summary() == f"The rank is uncertain. {found.summary()}"
    assert doubted.headline() == found.headline() == found.summary()


def test_the_planted_components_are_found(found):
    assert found.rank == 3
    assert found.stable.all()
    assert found.summary() == "3 stable components of 3, under KL (counts)."
    assert repr(found) == f"<Discovery: {found.summary()}>"  # what a notebook shows, and not all arrays
    truth = np.repeat(np.eye(3), 8, axis=1)
    assert sorted(drnmf.match(found.components, truth).index.tolist()) == [0, 1, 2]
    np.testing.assert_allclose(found.components.sum(axis=1), 1.0)
    assert found.contributions.sum() == pytest.approx(counts().sum(), rel=1e-3)
    assert (np.diff(found.sizes) <= 0).all()
    assert found.intervals is None
    assert found.found_in.tolist() == [4, 4, 4]
    assert [row["rank"] for row in found.ranks] == [2, 3, 4, 5]  # the ladder ends after two that are clearly worse
    assert len(found.runs) == 4


@pytest.mark.slow
def test_the_noise_is_read_off_the_data():
    found = discover(counts(), **FAST | {"betas": "auto", "ranks": 3})
    assert found.noise is not None
    assert found.losses[0].beta == pytest.approx(1.0, abs=0.3)
    assert not any("too few entries" in note for note in found.notes)
    assert found.ranks == []
    assert [stage["name"] for stage in found.stages] == ["noise", "consensus", "contributions"]


@pytest.mark.parametrize(("interval", "loss"), [((1.0, 1.25), "KL"), ((1.25, 1.5), "beta 1.25"), ((1.25, 2.0), "Fro")])
def test_a_sparse_X_has_a_loss_that_uses_it_where_the_noise_allows(monkeypatch, interval, loss):
    profile = NoiseProfile(1.25, 1.25, interval, [], 0.75)
    monkeypatch.setattr("drnmf.selection.stages.stages.read_noise", lambda *given, **settings: profile)
    settings = FAST | {"betas": "auto", "ranks": 3, "n_runs": 2, "max_iter": 5}
    found = discover(sp.csr_array(counts()), **settings)
    assert [one.name for one in found.losses] == [loss]
    assert any("uses the sparsity of X" in note for note in found.notes) == (loss != "beta 1.25")
    assert discover(counts(), **settings).losses[0].name == "beta 1.25"


@pytest.mark.slow
def test_bits_depend_on_the_seed_but_not_on_jobs(found):
    assert same(discover(counts(), **FAST, n_jobs=3), found)
    assert not same(discover(counts(), **FAST, random_state=1), found)


@pytest.mark.slow
def test_a_discovery_that_was_stopped_is_resumed_with_the_same_bits(found, tmp_path):
    told: list[str] = []

    def fail(moment):
        told.append(moment.stage)
        if len(told) == 7:
            raise RuntimeError("power failure")

    with pytest.raises(RuntimeError, match="power failure"):
        discover(counts(), **FAST, checkpoint=tmp_path, callback=fail)
    kept = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("rank*.npz")}
    assert len(kept) == 7
    assert same(discover(counts(), **FAST, checkpoint=tmp_path), found)
    assert all((tmp_path / name).stat().st_mtime_ns == written for name, written in kept.items())
    with pytest.raises(ValueError, match="keeps a discovery of another X"):
        discover(counts(1), **FAST, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="keeps a discovery of random_state=0, not 5"):
        discover(counts(), **FAST, checkpoint=tmp_path, random_state=5)


@pytest.mark.parametrize("jobs", [None, 2])
def test_ctrl_c_keeps_what_the_runs_so_far_agree_on(jobs):
    def interrupt(moment):
        if moment.stage == "consensus" and "run 3" in moment.detail:
            raise KeyboardInterrupt

    found = discover(counts(), **FAST | {"ranks": 3, "n_runs": 12}, callback=interrupt, n_jobs=jobs)
    assert found.interrupted
    assert 2 <= len(found.runs) < 12
    assert found.notes[0].startswith("Interrupted: ")
    assert found.summary().startswith(f"Interrupted: {len(found.runs)} of the 12 runs of the consensus were finished. ")
    assert "let it run to its end" in found.summary()
    assert found.stable.any() == (len(found.runs) >= 4)
    assert not found.stages[-2]["finished"]


def test_ctrl_c_before_two_runs_is_a_keyboard_interrupt():
    def interrupt(moment):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        discover(counts(), **FAST, callback=interrupt)


def test_pure_noise_gives_nothing_to_trust():
    X = np.random.default_rng(0).poisson(30.0, (70, 30)).astype(float)
    found = discover(X, **FAST | {"ranks": (4, 6), "threshold": 0.7})
    assert not found.stable.any()
    assert found.summary().startswith("Found nothing to trust")
    assert "nothing to trust" in found.notes[-1]


def test_exactly_separable_data_are_found_exactly():
    rng = np.random.default_rng(0)
    H = np.repeat(np.eye(3), 4, axis=1) * rng.uniform(1, 2, 12)
    X = (
        np.vstack([np.repeat(np.eye(3), 8, axis=0), rng.dirichlet(np.ones(3), 12)]) @ H
    )  # rows of one component, mixtures
    found = discover(X, **FAST | {"ranks": 3, "betas": 2, "resample": None, "tol": 1e-9, "max_iter": 2000})
    np.testing.assert_allclose(found.stability, 1.0, atol=1e-4)


def test_scale_and_order_change_nothing_but_themselves(found):
    X = counts()
    order = np.random.default_rng(0).permutation(X.shape[1])
    scaled = discover(X * 8, **FAST | {"resample": None, "ranks": 3})
    plain = discover(X, **FAST | {"resample": None, "ranks": 3})
    np.testing.assert_allclose(scaled.components, plain.components, atol=1e-6)
    np.testing.assert_allclose(scaled.contributions.sum(), 8 * plain.contributions.sum(), rtol=1e-6)
    moved = discover(X[:, order], **FAST | {"resample": None, "ranks": 3})
    partners = drnmf.match(moved.components, plain.components[:, order])
    assert (partners.similarity > 0.999).all()


def test_sparse_input_and_several_losses():
    found = discover(sp.csr_array(counts()), **FAST | {"ranks": 3, "betas": (1, 2)})
    assert [loss.name for loss in found.losses] == ["KL", "Fro"]
    assert found.stable.sum() == 3


def test_heavy_rows_are_capped_while_components_are_sought():
    X = counts()
    X[0] *= 1000
    found = discover(X, **FAST | {"ranks": 3, "heavy": "cap"})
    assert found.contributions[0].sum() == pytest.approx(X[0].sum(), rel=0.05)
    assert found.stable.all()


def test_held_out_entries_choose_whether_heavy_rows_are_capped(found):
    X = counts()
    X[0] *= 1000
    auto, keep, cap = (discover(X, **FAST | {"ranks": 3, "heavy": how}) for how in ("auto", "keep", "cap"))
    assert [stage["name"] for stage in auto.stages] == ["heavy", "consensus", "contributions"]
    (note,) = (note for note in auto.notes if "weigh more than 10 times" in note)
    assert same(auto, cap if "scaled down" in note else keep)
    assert not same(keep, cap)
    assert "heavy" not in [stage["name"] for stage in found.stages]  # no row of it is heavy


@pytest.mark.parametrize(("capped", "better"), [(0.5, True), (0.95, False), (1.5, False)])
def test_a_cap_must_predict_better_by_more_than_a_standard_error(found, capped, better):
    def runs(sums: np.ndarray) -> list[Run]:
        return [replace(found.runs[0], scores=scored(sums))] * 2

    kept = np.tile([0.5, 1.5], 25)  # a mean of 1, with a standard error of 0.07
    assert capped_is_better(runs(kept), runs(np.full(50, capped))) == better


def test_missing_entries_and_weights():
    X = counts()
    X[3, 5] = X[7, 1] = np.nan
    missing = discover(X, **FAST | {"ranks": 3})
    assert missing.stable.sum() == 3
    assert np.isfinite(missing.contributions).all()
    U = np.sqrt(counts() + 1.0)
    weighted = discover(counts(), **FAST | {"ranks": 3, "betas": "auto"}, uncertainty=U)
    assert [loss.name for loss in weighted.losses] == ["Fro"]
    assert weighted.noise is None
    with pytest.raises(ValueError, match="which have weights here"):
        discover(counts(), **FAST, uncertainty=U, resample="bootstrap")


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_with_uncertainties_every_run_sees_X_drawn_by_them(form):
    """Components of the runs differ by the uncertainties; X itself gives every run the same."""
    X, widths = counts() + 0.5, []
    for part in (0.01, 0.3):
        found = discover(form(X), **FAST | {"ranks": 3, "tol": 1e-6, "max_iter": 2000}, uncertainty=part * X)
        assert found.resample == "uncertainty"
        assert "Every run saw X drawn anew by its uncertainties." in found.notes
        assert "uncertainties as given" in found.summary()
        widths.append(float(found.spread.mean()))
    assert widths[1] > 3 * widths[0] > 0
    same = discover(form(X), **FAST | {"ranks": 3, "resample": None}, uncertainty=X)
    assert same.resample is None
    assert any("nothing of the noise" in note for note in same.notes)
    with pytest.raises(ValueError, match="give uncertainty"):
        discover(form(X), **FAST, resample="uncertainty")


@pytest.mark.slow
@pytest.mark.parametrize("hidden", [False, True])
def test_held_out_entries_judge_ranks_of_weighted_data_as_of_others(found, hidden):
    """A common weight changes nothing, and entries without weight may be anything."""
    X, weights = counts(), np.full((60, 24), 2.0)
    if hidden:
        weights[::7, ::5] = 0.0
        X[::7, ::5] = 1e4
    weighted = discover(X, **FAST, entry_weight=weights)
    other = discover(counts(), **FAST, entry_weight=weights) if hidden else found
    given, plain = ([row["held_out"] for row in one.ranks] for one in (weighted, other))
    assert weighted.rank == 3
    assert weighted.ranks[1]["within"]
    np.testing.assert_allclose(given, plain, rtol=1e-6 if hidden else 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"betas": "auto"}, {"resample": "bootstrap"}])
def test_a_discovery_opens_X_once(monkeypatch, settings):
    """Noise, masks, redrawn X and contributions are made from it."""
    opened = []
    monkeypatch.setattr("drnmf.problem.device.open_data", lambda *given, **named: opened.append(1) or plain(*given))
    monkeypatch.setattr("drnmf.backends.open.open_data", lambda *given, **named: opened.append(1))
    discover(counts(), **FAST | {"ranks": (2, 3), "n_runs": 2, "max_iter": 5} | settings)
    assert len(opened) == 1


def overlapping() -> np.ndarray:
    """Counts of three profiles that overlap, each in about half of the rows."""
    rng = np.random.default_rng(3)
    W = rng.gamma(1.0, 40.0, (60, 3)) * (rng.random((60, 3)) < 0.5)
    return rng.poisson(W @ (rng.dirichlet(np.full(20, 0.7), 3) + 0.02)).astype(float)


@pytest.mark.slow
def test_contributions_are_sparse_where_held_out_entries_ask_for_it():
    X, settings = overlapping(), FAST | {"ranks": (3, 4), "tol": 1e-5, "max_iter": 1000, "random_state": 1}
    found = discover(X, **settings | {"penalties": SPARSE})
    (path,) = found.penalty_path
    assert found.penalties == (f"sparsity:{path.alpha}:W",)
    assert path.values[path.alphas == 0] > path.limit >= path.values[path.alphas == path.alpha]
    names = ["ranks", "penalty", "finer ranks", "consensus", "contributions"]
    assert [stage["name"] for stage in found.stages] == names
    assert found.rank == 3
    model = drnmf.BetaNMF(3, beta=1, max_iter=5000, tol=1e-9, fixed=found.components)
    unpenalised = model.fit_transform(X)
    assert _zeros(found.dense) >= _zeros(unpenalised)
    assert found.dense.sum() < 0.99 * unpenalised.sum()
    given = discover(X, **settings | {"ranks": 3, "penalties": [drnmf.Sparsity(path.alpha, on="W")]})
    assert same(given, found)
    np.testing.assert_array_equal(given.contributions, found.contributions)
    W = model.set_params(penalties=given.penalties).fit_transform(X)
    np.testing.assert_allclose(found.dense, W, atol=5e-3 * W.max())


def _zeros(W) -> float:
    return float((1e-3 * W.max() > W).mean())


@pytest.mark.slow
def test_no_penalty_is_used_where_nothing_is_predicted_better_by_it():
    plain, again = (discover(counts(), **FAST | {"penalties": how, "random_state": 1}) for how in (None, SPARSE))
    assert same(again, plain)
    assert again.penalties == ()
    assert again.penalty_path[0].alpha == 0
    assert any("No sparsity of the contributions is used" in note for note in again.notes)


def test_a_volume_is_chosen_by_the_loss_of_fit():
    found = discover(counts(), **FAST | {"ranks": 3, "penalties": "volume:auto", "n_runs": 2, "max_iter": 60})
    (path,) = found.penalty_path
    assert found.penalties == (f"volume:{path.alpha!r}",)
    assert path.values[path.alphas == path.alpha] <= path.limit < path.values[path.alphas > path.alpha].min()


def test_the_smallest_alpha_that_predicts_as_well_as_the_best_is_chosen():
    term, asked = drnmf.Sparsity("auto", on="W"), []
    noise = np.random.default_rng(0).normal(0.0, 0.01, (6, 50))

    def scores(alpha: float) -> Scores:
        asked.append(alpha)
        level = {0.0: 1.0, 0.001: 0.5, 0.003: 0.001, 0.01: 0.0, 0.03: 3.0}[alpha]
        sums = level + noise[len(asked)]
        return scored(sums)

    assert sparsity_path(term, scores).alpha == 0.003
    assert asked[-1] == 0.03  # clearly worse: no larger one is tried
    asked.clear()
    assert sparsity_path(term, lambda alpha: scores(alpha) if alpha < 0.001 else None) is None


def test_names_come_from_the_reference():
    truth = np.repeat(np.eye(3), 8, axis=1)
    found = discover(counts(), **FAST | {"ranks": 3}, reference=dict(zip("abc", truth, strict=True)))
    assert sorted(found.matching.names) == ["a", "b", "c"]
    assert (found.matching.similarity > 0.7).all()


@pytest.mark.parametrize(
    ("X", "settings", "message"),
    [
        (counts(), {"ranks": range(2, 40)}, "ranks holds 39, but X of 60 x 24 has at most 24"),
        (counts(), {"ranks": []}, "names no rank"),
        (counts(), {"ranks": 0}, "ranks=0 must be an integer >= 1"),
        (counts()[:1], {}, "at least 2 rows and 2 columns"),
        (np.zeros((6, 5)), {"ranks": 2}, "all zeros: it has no components"),
        (counts(), {"n_runs": 1}, "n_runs=1 must be an integer >= 2"),
        (counts(), {"max_time": 1e-4}, "too short: no two runs of rank 2 ended"),
        (counts(), {"heavy": "drop"}, "heavy='drop' is not known"),
        (counts(), {"resample": "jackknife"}, "resample='jackknife' is not known"),
        (counts(), {"reference": np.ones((2, 5))}, "24 entries and the reference 5"),
        (counts() - 5, {}, "negative"),
    ],
)
def test_what_cannot_be_discovered_is_refused(X, settings, message):
    with pytest.raises(ValueError, match=f"(?i){message}"):
        discover(X, **FAST | settings)


@pytest.mark.slow
def test_constant_and_exactly_low_rank_data_come_to_an_end():
    constant = discover(np.full((12, 8), 3.0), **FAST | {"ranks": (2, 3)})
    assert constant.rank in (2, 3)
    rng = np.random.default_rng(0)
    exact = rng.gamma(0.5, 1.0, (20, 2)) @ rng.gamma(0.5, 1.0, (2, 12))
    assert np.isfinite(discover(exact, **FAST | {"betas": "auto", "ranks": (2, 3)}).stability).all()


@pytest.mark.parametrize(("ranks", "rank"), [(None, 1), (range(1, 4), 1), ((2, 3), 2)])
def test_a_constant_matrix_has_one_component(ranks, rank):
    found = discover(np.full((12, 8), 3.0), **FAST | {"ranks": ranks})
    assert found.rank == rank
    assert found.notes[0].startswith("X has one component only")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_rows_that_occur_again_do_not_predict_one_another(seed):
    rng = np.random.default_rng(seed)
    H = np.repeat(np.eye(3), 8, axis=1) * rng.gamma(2.0, 1.0, 24) + 0.3
    X = np.tile(rng.poisson(rng.gamma(0.4, 6.0, (20, 3)) @ H), (3, 1)).astype(float)
    dense, sparse = (discover(form(X), **FAST | {"ranks": range(1, 6)}) for form in (np.asarray, sp.csr_array))
    assert dense.rank == sparse.rank == 3
    scores = [[row["held_out"] for row in one.ranks] for one in (dense, sparse)]
    np.testing.assert_allclose(*scores, rtol=1e-4, atol=1e-6)


def test_a_time_limit_names_what_was_not_finished():
    told = []
    found = discover(
        counts(m=200), **FAST | {"n_runs": 400, "ranks": 3, "max_iter": 2000}, max_time=1.5, callback=told.append
    )
    assert found.notes[0].startswith("Out of time: ")
    assert not found.stages[-2]["finished"]
    assert all(moment.left <= 1.5 for moment in told)


@pytest.mark.slow
def test_the_noise_has_its_part_of_the_time_and_is_named_where_that_ended_it(monkeypatch):
    given = []

    def hurried(problem, model, runner, **settings):
        given.append(model.max_time)
        return read_noise(problem, replace(model, max_time=1e-9), runner, **settings)

    monkeypatch.setattr("drnmf.selection.stages.stages.read_noise", hurried)
    found = discover(counts(), **FAST | {"betas": "auto", "ranks": (2, 3)}, max_time=3000.0)
    assert 0 < given[0] < 3000.0
    assert [stage["finished"] for stage in found.stages] == [False, True, True, True]
    assert found.notes[0] == "Out of time: the noise was read off fits that had not ended."
    assert any(note.startswith("Losses whose fits had not ended: ") for note in found.notes)
    assert "raise max_time, which was 3000 s. So far 3 stable components of 3" in found.summary()


@pytest.mark.slow
def test_ctrl_c_during_the_noise_is_a_keyboard_interrupt_and_leaves_no_run(tmp_path, monkeypatch):
    def interrupted(*given, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("drnmf.selection.warm_starts.fit_all", interrupted)
    with pytest.raises(KeyboardInterrupt):
        discover(counts(), **FAST | {"betas": "auto"}, checkpoint=tmp_path / "kept")
    monkeypatch.undo()
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["discovery.npz", "lock"]
    assert discover(counts(), **FAST | {"betas": "auto"}, checkpoint=tmp_path / "kept").rank == 3


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_runs_of_a_large_X_see_some_of_its_rows(monkeypatch, form):
    X = form(counts(m=300))
    monkeypatch.setattr("drnmf.selection.stages.run_pool.LARGE", 60 * 24)
    monkeypatch.setattr("drnmf.selection.stages.run_pool.LEAST_ROWS", 50)
    whole = Received(X)
    assert 50 <= len(rows_seen(whole, 0)) < 100
    assert rows_seen(Received(X, Ones(X.shape)), 0) == slice(None)
    monkeypatch.setattr("drnmf.selection.stages.run_pool.SCORED", 3)
    empty = Received(sp.csr_array(([1.0], ([0], [0])), shape=X.shape))
    assert rows_seen(empty, 0, (KL,)) == slice(None)
    assert 50 <= len(rows_seen(empty, 0, (KL,), scored=True)) < 300
    found = discover(X, **FAST | {"ranks": (2, 3)})
    assert found.rank == 3
    assert found.stable.all()
    assert found.contributions.shape == (300, 3)
    assert found.contributions.sum() == pytest.approx(X.sum(), rel=1e-3)


def test_without_time_for_the_consensus_the_runs_that_judged_the_rank_are_compared(monkeypatch):
    make = Study.run

    def parts_alone(self, rank, seed, max_time, callback, judges=False):
        run = make(self, rank, seed, max_time, callback, judges)
        return run if judges else replace(run, reason="max_time")

    ended = []

    def once(self, *given):  # one run of the consensus, and that one stopped early
        ended.append(given[-1])
        return None if not given[-1] and ended.count(False) > 1 else run(self, *given)

    run = RunPool._run
    monkeypatch.setattr(Study, "run", parts_alone)
    monkeypatch.setattr(RunPool, "_run", once)
    found = discover(counts(), **FAST | {"ranks": (2, 3)})
    assert found.rank == 3
    assert found.stable.all()
    assert not found.stages[-2]["finished"]
    assert found.notes == (
        "Out of time: 0 of the 4 runs of the consensus were finished.",
        "The components are those of the runs that judged the rank, each without a tenth of the entries.",
        "Held-out entries are predicted best at rank 3.",
        "Every run saw counts drawn anew with X as their mean.",
    )


def scored(sums: np.ndarray) -> Scores:
    """Scores of losses: larger ones are worse."""
    return Scores(-sums, -sums, np.ones(sums.size), np.ones(sums.size))


def judged(rank: int, stable: int, stability: float = 0.9) -> Tried:
    """A rank of which so many components come again."""
    return Tried(rank, None, np.where(np.arange(rank) < stable, stability, 0.1), 5, 1.0)


def predicted(rank: int, stable: int, score: float) -> Tried:
    """A rank whose held-out scores have a standard error of about 0.1."""
    return replace(judged(rank, stable), scores=scored(score + np.random.default_rng(rank).normal(0.0, 0.5, 50)))


def search(ranks, attempt, tried: dict[int, Tried], how: str = LADDER) -> None:
    for rank in to_try(ranks, tried, how):
        tried[rank] = attempt(rank)


def best_of(tried: list[Tried]) -> int:
    return best_rank(tried).rank


def test_the_rank_with_most_stable_components_is_found_without_trying_all():
    tried: dict[int, Tried] = {}
    search(range(2, 31), lambda rank: judged(rank, min(rank, 12) - max(0, rank - 12)), tried)
    assert best_of(list(tried.values())) == 12
    assert {11, 12, 13} <= set(tried)
    assert len(tried) < 15


def test_gaps_of_a_tenth_of_the_best_rank_are_left_alone():
    tried: dict[int, Tried] = {}
    search(range(2, 31), lambda rank: judged(rank, min(rank, 25) - max(0, rank - 25)), tried)
    assert abs(best_of(list(tried.values())) - 25) <= 1
    assert len(tried) < 14


def test_held_out_entries_say_which_ranks_stability_may_choose_from():
    ranks = [predicted(5, 5, 3.0), predicted(9, 8, 0.02), predicted(11, 11, 0.0), predicted(23, 15, 3.0)]
    assert best_of(ranks) == 11  # 15 stable components of 23 predict nothing
    assert best_of([predicted(9, 9, 0.02), predicted(11, 8, 0.0)]) == 9  # no entry tells them apart
    smaller = replace(judged(9, 9), scores=scored(np.ones(50)))
    larger = replace(judged(11, 11), scores=scored(np.tile([0.55, 1.55], 25)))
    assert best_of([smaller, larger]) == 11  # nor these, although the best score is the smaller one's
    rows = rows_of(ranks, 0.6)
    assert [row["stable"] for row in rows] == [5, 8, 11, 15]
    assert [row["within"] for row in rows] == [False, True, True, False]
    assert rows[2]["held_out"] <= 0.1 < rows[0]["held_out"]


@pytest.mark.parametrize("most", [12, 31, 200])
def test_the_largest_rank_offered_has_no_say(most):
    tried: dict[int, Tried] = {}
    search(range(2, most), lambda rank: predicted(rank, rank, abs(rank - 5.0)), tried)
    assert best_of(list(tried.values())) == 5
    assert sorted(tried) == [2, 3, 4, 5, 6, 8, 11]


def test_a_second_peak_between_two_ranks_that_predict_nearly_as_well_is_found():
    """On the ladder 4 predicts best, 6 and 8 within a standard error of it; 7, between them, better than all."""
    levels = {4: 0.0, 6: 0.02, 7: -2.0, 8: 0.02}
    tried: dict[int, Tried] = {}
    search(range(2, 31), lambda rank: predicted(rank, 2 if rank in (6, 8) else rank, levels.get(rank, 3.0)), tried)
    assert best_of(list(tried.values())) == 7
    assert len(tried) < 12


def test_a_coarse_search_tries_the_ladder_alone():
    tried: dict[int, Tried] = {}
    search(range(2, 31), lambda rank: judged(rank, rank), tried, COARSE)
    assert sorted(tried) == ladder(range(2, 31))


def test_ties_go_to_the_steadier_rank():
    assert best_of([judged(3, 3, 0.9), judged(5, 4, 0.95), judged(4, 3, 0.7)]) == 3


def test_ranks_that_are_not_named_end_where_X_does():
    assert check_ranks(None, (500, 7)) == (2, 3, 4, 5, 6, 7)
    assert check_ranks([5, 3, 5], (500, 7)) == (3, 5)
    assert check_ranks(None, (500, 96))[-1] == 30


def test_the_time_left_counts_all_stages_and_never_passes_the_limit():
    seen = []
    schedule = Schedule({"ranks": 30.0, "consensus": 30.0}, None, seen.append)
    schedule.advance("ranks", 10.0, "rank 2")
    assert (seen[0].number, seen[0].stages) == (1, 2)
    assert seen[0].share == pytest.approx(1 / 6)
    assert seen[0].left == pytest.approx(5 * seen[0].seconds, rel=0.5)
    schedule.expect("consensus", 0.0)
    schedule.close("ranks")
    schedule.advance("consensus", 1.0, "run 1")
    assert seen[1].share == 1.0
    assert seen[1].left == 0.0
    limited = Schedule({"ranks": 1e9}, 3.0, seen.append)
    limited.advance("ranks", 1.0, "rank 2")
    assert seen[-1].left <= 3.0


def test_residuals_are_the_losses_of_rows_and_columns():
    rng = np.random.default_rng(0)
    X, W, H = rng.poisson(3.0, (7, 5)).astype(float), rng.gamma(1.0, 1.0, (7, 2)), rng.gamma(1.0, 1.0, (2, 5))
    expected = KL.terms(X, W @ H)
    for given in (X, sp.csr_array(X)):
        seen = residuals(given, W, H, KL)
        np.testing.assert_allclose(seen.rows, expected.mean(axis=1))
        np.testing.assert_allclose(seen.columns, expected.mean(axis=0))
        np.testing.assert_allclose(seen.row_sums, X.sum(axis=1))
        np.testing.assert_allclose(seen.column_sums, X.sum(axis=0))
    assert (np.diff(seen.levels) >= 0).all()
