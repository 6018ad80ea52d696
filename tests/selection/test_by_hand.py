"""Decisions of profiles and discoveries against numbers worked out by hand, without fits."""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from drnmf import BetaNMF, Sparsity, Volume, discover, noise_profile, rank_profile
from drnmf.algorithms.loop import Control
from drnmf.backends.base import in_unit
from drnmf.backends.open import open_data
from drnmf.losses.beta import KL, Beta
from drnmf.losses.names import as_loss
from drnmf.losses.negative_binomial import NegativeBinomial
from drnmf.parameters.common import Parameters
from drnmf.problem.problem import Problem
from drnmf.problem.units import Units
from drnmf.selection import alpha, noise, warm_starts
from drnmf.selection.alpha import SPARSITIES, largest, said, sparsity_path, volume_path, with_path
from drnmf.selection.choose import (
    Candidate,
    Tried,
    best_rank,
    candidates,
    clearly_worse,
    differences,
    doubt,
    overdispersed,
    undecided,
    why_rank,
)
from drnmf.selection.entries import Facts, facts_of
from drnmf.selection.folds import too_few_to_hold_out
from drnmf.selection.likelihood.grid import Grid
from drnmf.selection.likelihood.masses import PoissonNoise, noise_for
from drnmf.selection.likelihood.scores import Scores
from drnmf.selection.noise import LEAST_BETA, RARE, STRUCTURE, ComparedNoises, NoiseProfile, NoiseQuestion, everything
from drnmf.selection.stages import ranks as ranks_module
from drnmf.selection.stages import run_pool
from drnmf.selection.stages import stages as module
from drnmf.selection.stages.run_pool import RunPool, draw_seeds
from drnmf.selection.stages.runs import Store
from drnmf.selection.stages.schedule import Schedule
from drnmf.selection.stages.stages import LEAST_PART, REDRAWN_RUNS, ROUNDS, Question, Stages, plan
from drnmf.selection.warm_starts import RACE, fit_best
from drnmf.solve.runner import Budget, Runner
from drnmf.synthetic import planted


def scores_of(level: float, spread: float = 0.0) -> Scores:
    """Ten rows and columns with a level and differences of their own; larger is better."""
    sums = level + spread * np.linspace(-1.0, 1.0, 10)
    return Scores(sums, sums, np.ones(10), np.ones(10))


def test_twice_the_components_are_tried_where_x_is_large_enough(monkeypatch):
    """2 k (m + n - k) entries of 20 x 30 for k components; the share is the median over columns that hold a loss."""
    asked = []
    monkeypatch.setattr(noise, "grown", lambda data, start, k, rng, columns: asked.append(k))
    W, H = np.ones((20, 2)), np.ones((2, 30))
    run = SimpleNamespace(W=W, H=H, blocks=(H, W.T))
    more = SimpleNamespace(W=None, H=None)
    after = np.array([1.0, 1.0, 2.0, 9.0])

    def share(count: int, before=(2.0, 4.0, 4.0, 0.0)) -> float:
        fold = SimpleNamespace(losses=lambda loss, factors: after if factors[0] is None else np.array(before))
        monkeypatch.setattr(noise, "in_unit_of_X", lambda problem: problem.data)
        monkeypatch.setattr(noise, "fit_all", lambda *given: [more])
        seen = SimpleNamespace(data=SimpleNamespace(shape=(20, 30), count=count), shape=(20, 30), columns=())
        return NoiseQuestion._structure(SimpleNamespace(seed=0, runner=Runner.of("auto", "auto")), fold, seen, KL, run)

    assert [share(count) for count in (281, 282, 367, 368, 10**6)] == [0.0, 0.5, 0.5, 0.5, 0.5]
    assert asked == [3, 3, 4, 4]
    assert share(10**6, np.zeros(4)) == 0.0


MANY = Facts(600, 0)
THREE = [Candidate(noise_for(Beta(beta)), Beta(beta)) for beta in (0.0, 1.0, 2.0)]


def profile(levels, structure=math.nan, exact=False, listed=THREE, facts=MANY) -> NoiseProfile:
    """What is read off candidates whose scores have a standard error of about 0.2."""
    runs = {
        one.name: SimpleNamespace(W=np.ones((20, 2)), H=np.ones((2, 30)), losses=[1.0], reason="tol") for one in listed
    }
    scores = [scores_of(level, spread) for level, spread in zip(levels, (0.0, 1.0, 2.0, 3.0), strict=False)]
    chosen = noise.likeliest(listed, scores)
    return ComparedNoises(listed, scores, chosen, 1.0, structure, 5.0, exact, runs).profile(facts, ("first",))


def test_the_likeliest_noise_names_the_loss():
    found = profile([-1.0, -9.0, -8.0])
    assert (found.best, found.beta, found.interval) == (0.0, 0.0, (0.0,))
    assert found.notes[0] == "first"
    assert math.isnan(found.structure)
    assert [row["criterion"] for row in found.table] == pytest.approx([600.0, 5400.0, 4800.0])
    assert sorted(found.solutions) == ["Fro", "IS", "KL"]


def test_nothing_is_said_of_noise_where_a_fit_is_exact():
    found = profile([-1.0, -9.0, -8.0], exact=True)
    assert any("The fit is exact" in note for note in found.notes)
    assert (found.best, found.interval) == (1.0, (1.0,))


def test_losses_that_held_out_entries_cannot_tell_apart():
    near, much = [-1.0, -1.1, -9.0], STRUCTURE + 0.1
    assert profile(near, 0.1).interval == (0.0, 1.0)
    assert profile(near, 0.1).best == 1.0  # the simpler of two that are alike
    assert profile(near, much).interval == (0.0, 1.0, 2.0)
    assert profile(near, much).structure == much
    row = profile(near, 0.1).table[2]
    assert row["held_out"] > row["standard_error"] > 0
    assert not row["within"]


def test_counts_are_named_and_ties_go_to_poisson():
    listed = candidates((Beta(0.5), KL), True, 4.0)
    facts = Facts(600, 100, Grid(1.0))
    found = profile([-9.0, -1.3, -1.2, -1.0], listed=listed, facts=facts)
    assert (found.best, found.beta, found.counts) == (1.0, 1.0, True)
    assert any("Poisson is the likeliest" in note for note in found.notes)
    wide = profile([-9.0, -8.0, -8.0, -1.0], listed=listed, facts=facts)
    assert (wide.best, wide.counts) == (NegativeBinomial(4.0), True)
    assert isinstance(listed[2].noise, PoissonNoise)


def test_rare_zeros_do_not_exclude_itakura_saito():
    few, betas = round(RARE * 1000), [LEAST_BETA, 1.0]
    for zeros, expected in ((0, LEAST_BETA), (1, 0.0), (few, 0.0), (few + 1, LEAST_BETA)):
        found, said_so = everything(betas, Facts(1000, zeros))
        assert found == (expected, 1.0)
        assert bool(said_so) == (expected == 0.0)
    assert everything([0.5, 1.0], Facts(1000, 1)) == ((0.5, 1.0), ())
    assert "0.5 %" in everything(betas, Facts(1000, 5))[1][0]


def test_entries_are_held_out_where_enough_are_left_to_fit():
    """At least 50 of them, and more to fit than r (m + n - r) parameters."""
    for effective, rank_, fraction, enough in (
        (1000, 19, 0.1, True), (1000, 20, 0.1, False), (500, 1, 0.1, True), (499, 1, 0.1, False), (499, 1, 0.2, True),
    ):  # fmt: skip
        said_so = too_few_to_hold_out(SimpleNamespace(count=effective), (40, 25), rank_, fraction)
        assert (said_so == ()) == enough
    (said_so,) = too_few_to_hold_out(SimpleNamespace(count=9), (40, 25), 1, 0.1)
    assert said_so.startswith("X of 40 x 25 has too few entries to hold some out at rank 1")


def tried_at(rank: int, level: float | None, criterion: float = math.nan, spread: float = 0.0, stability=()) -> Tried:
    scores = None if level is None else scores_of(level, spread)
    return Tried(rank, scores, np.array(stability), criterion=criterion, shape=(20, 30))


def test_of_ranks_that_predict_alike_the_most_stable_is_taken():
    """A component counts 1 at a stability of one and 0 at 2/3, among ranks that are not clearly worse than the best."""
    ranks = [
        tried_at(1, -5.0, stability=[1.0]), tried_at(2, -1.1, spread=1.0, stability=[1.0, 0.9]),
        tried_at(3, -1.0, stability=[1.0, 0.95, 0.9]), tried_at(4, -1.1, spread=1.0, stability=[0.9, 0.9, 0.5, 0.2]),
    ]  # fmt: skip
    assert best_rank(ranks).rank == 3
    assert [row["within"] for row in differences(ranks)] == [False, True, True, True]
    assert "best at rank 3, and not clearly worse at 2, 4; of these the components of rank 3" in why_rank(ranks)
    larger = [replace(one, stability=np.ones(one.rank)) for one in ranks]
    assert best_rank(larger).rank == 4  # above the best score too
    below = [tried_at(2, -1.4, spread=1.0, stability=[1.0, 1.0]), tried_at(3, -1.0, stability=[0.7, 0.7, 0.7])]
    above = [tried_at(2, -1.0, stability=[0.7, 0.7]), tried_at(3, -1.4, spread=1.0, stability=[1.0, 1.0, 1.0])]
    assert all(
        1.0 < row["held_out"] / row["standard_error"] < 2.0 for row in (differences(below)[0], differences(above)[1])
    )
    assert [best_rank(below).rank, best_rank(above).rank] == [2, 2]  # more than predict best need better evidence
    by_bic = [tried_at(rank, None, c) for rank, c in ((1, 1000.0), (2, 300.0), (3, 299.0))]
    assert why_rank(by_bic) == "BIC is smallest at rank 2."


def test_uncertainties_that_hold_leave_no_wider_noise():
    """Two standard errors, but a gain far above 25: what stability says counts where entries scatter farther alone."""
    ranks = [tried_at(2, -1.4, spread=1.0, stability=[1.0, 1.0]), tried_at(3, -1.0, stability=[0.7, 0.7, 0.7])]
    many = [replace(one.scores, row_weights=100 * one.scores.row_weights) for one in ranks]
    many = [replace(one, rows=100 * one.rows, columns=100 * one.columns) for one in many]
    for factor, chosen in ((1.0, 3), (1.1, 3), (2.0, 2), (math.nan, 2)):
        known = [replace(one, scores=replace(each, factor=factor)) for one, each in zip(ranks, many, strict=True)]
        assert best_rank(known).rank == chosen
        assert ("scatter 2 times as far as their uncertainties say" in why_rank(known)) == (factor == 2.0)


def test_ranks_that_nothing_tells_apart_are_said_to_be_uncertain():
    """Neither held-out entries nor stability decide; where uncertainties are known more runs are asked."""
    alone = tried_at(2, -9.0, stability=[1.0, 1.0])
    near = [tried_at(rank, -1.0, spread=0.1 * rank, stability=rank * [0.5]) for rank in (3, 4, 5)]
    (said,) = doubt([alone, *near])
    assert said.startswith("The rank is uncertain, between 3 and 5: ")
    assert not doubt([alone])
    assert not doubt([replace(one, stability=np.ones(one.rank)) for one in near])
    for factor, wanted in ((2.0, True), (1.1, True), (math.nan, False)):
        known = [replace(one, scores=replace(one.scores, factor=factor)) for one in (alone, *near)]
        assert undecided(known) == wanted
        assert not undecided(known[:2])
    assert not undecided([tried_at(2, None, 300.0), tried_at(3, None, 299.0)])


def test_of_uncertainties_that_are_all_too_small_those_that_others_exceed_are_out():
    """Halved uncertainties double every factor, and must not change which rank is taken."""
    ranks = [tried_at(3, -1.0, stability=3 * [1.0]), tried_at(6, -1.1, spread=1.0, stability=6 * [0.8])]
    for factors, chosen in (((4.9, 1.9), 6), ((2.2, 1.9), 3), ((math.nan, math.nan), 3)):
        known = [
            replace(one, scores=replace(one.scores, factor=factor)) for one, factor in zip(ranks, factors, strict=True)
        ]
        assert best_rank(known).rank == chosen
        assert ("at rank 3, but scatter farther there, and are not clearly worse at 6." in why_rank(known)) == (
            chosen == 6
        )


def test_a_rank_that_meets_uncertainties_beats_those_that_call_structure_noise():
    """The wider noise of two components makes entries likelier, but five meet what is known of it."""
    ranks = [tried_at(2, -1.0, stability=[1.0, 1.0]), tried_at(5, -1.2, stability=5 * [0.9])]
    for factors, chosen in (((2.3, 1.05), 5), ((2.3, 1.9), 2), ((1.0, 1.0), 2), ((math.nan, math.nan), 2)):
        known = [
            replace(one, scores=replace(one.scores, factor=factor)) for one, factor in zip(ranks, factors, strict=True)
        ]
        assert best_rank(known).rank == chosen
        assert ("at rank 5, of those at which they scatter as" in why_rank(known)) == (chosen == 5)


def test_ranks_without_scores_are_chosen_by_stability_alone():
    tried = [Tried(rank_, None, np.full(rank_, level)) for rank_, level in ((2, 0.9), (3, 0.9), (4, 0.5))]
    assert best_rank(tried).rank == 3
    assert clearly_worse(tried) == []
    assert clearly_worse([Tried(2, scores_of(-1.0)), Tried(3, scores_of(-2.0))]) == [3]


def settled(monkeypatch, rank_under, noise_at):
    """Settle noise and rank, of which both are given: the stages, and what was asked in which order."""
    asked: list = []

    def read(self, study, rank):
        asked.append(rank)
        profile = NoiseProfile(noise_at(rank), 1.0, (1.0,), [], 1.0)
        self.losses = (as_loss(profile.best),)
        return profile

    def tried(self, search):
        loss = search.pool.study.losses[0]
        asked.append(loss.name)
        rank = rank_under(loss)
        search.found[rank], search.finished = Tried(rank), True
        return search.table

    monkeypatch.setattr(Stages, "noise", read)
    monkeypatch.setattr(Stages, "_try", tried)
    monkeypatch.setattr(module, "_too_few", lambda *given: ())
    schedule = Schedule({"noise": 1.0, "ranks": 1.0, "contributions": 0.0}, None, None)
    made = Stages(Question((2, 3, 4, 5), Parameters()), None, schedule)
    pool = RunPool(run_pool.Study(None, Parameters(), None, None), Store(None, {}), schedule, [7], 1)
    found, table, profile = made.settle(pool)
    return made, asked, table[0].rank, found.study.losses[0], profile.best


def test_noise_and_rank_are_settled_in_turn(monkeypatch):
    """The noise is read at a small rank first, then at every rank that is found, until neither changes."""
    ranks = {"NB(2)": 4, "NB(8)": 5, "KL": 5}
    noises = {3: NegativeBinomial(2.0), 4: NegativeBinomial(8.0), 5: 1.0}
    made, asked, rank, loss, best = settled(monkeypatch, lambda loss: ranks[loss.name], noises.__getitem__)
    assert asked == [3, "NB(2)", 4, "NB(8)", 5, "KL", 5, "KL"]
    assert (rank, loss, best) == (5, KL, 1.0)
    assert not any("did not settle" in note for note in made.notes)
    sizes = iter(range(1, 99))
    made, *_ = settled(monkeypatch, lambda loss: 2, lambda rank: NegativeBinomial(10.0 ** next(sizes)))
    assert f"did not settle in {ROUNDS} rounds" in made.notes[-1]


@pytest.fixture
def announced(monkeypatch):
    """How many runs were announced: what a progress bar divides by."""
    seen = []

    def recorded(module):
        plain = module.running

        @contextmanager
        def recording(problem, runner, parameters, runs, **named):
            seen.append(runs)
            with plain(problem, runner, parameters, runs, **named) as ready:
                yield ready

        monkeypatch.setattr(module, "running", recording)

    recorded(run_pool)
    recorded(noise)
    return seen


SMALL = {"max_iter": 3, "random_state": 0}


@pytest.mark.slow
def test_a_search_that_ends_early_says_so(monkeypatch, announced):
    X = planted("poisson", 40, 50, seed=1, rank=2)[0]
    whole = rank_profile(BetaNMF(beta=1, n_init=3, **SMALL), X, ranks=range(1, 4), n_masks=2)
    assert not any("stopped" in note for note in whole.notes)
    assert announced == (3 * 2 + REDRAWN_RUNS) * [3]  # and one rank looked at above, whose runs have not ended
    monkeypatch.setattr(ranks_module, "too_large", lambda tried, rank: len(tried) == 2)
    early = rank_profile(BetaNMF(beta=1, **SMALL), X, ranks=3, n_masks=1)
    assert [row["rank"] for row in early.table] == [1, 2]
    assert any("stopped at rank 2: two smaller ranks" in note for note in early.notes)
    assert len(rank_profile(BetaNMF(beta=1, **SMALL), X, ranks=range(1, 4), n_masks=1).table) == 3  # as named


def test_a_negative_binomial_without_a_size_is_a_model_of_counts(announced):
    X = planted("negative binomial", 30, 40, seed=0, rank=2)[0]
    found = noise_profile(BetaNMF(2, **SMALL), X, betas="nb:auto", held_out=0.0)
    assert [row["name"].partition("(")[0] for row in found.table] == ["KL", "Poisson", "NB"]
    plain = noise_profile(BetaNMF(2, n_init=2, **SMALL), X, betas=(0.5, 1), held_out=0.1)
    assert [row["beta"] for row in plain.table] == [0.5, 1.0]
    assert announced == [1 + 1 + 2, noise.MASKS * (2 + 2 + 2)]
    with pytest.raises(ValueError, match="size of a negative binomial"):
        noise_profile(BetaNMF(2, **SMALL), np.sqrt(X + 1.0), betas="nb:auto")


class Recorded:
    """The tolerance and the start of every fit; a fit ends with the loss that its start names."""

    def __init__(self, monkeypatch, tol: float = 1e-4) -> None:
        self.tolerances: list[float] = []
        monkeypatch.setattr(warm_starts, "solve", self.fit)
        monkeypatch.setattr(Units, "result", lambda self, data, result: result)
        problem = Problem.opened(in_unit(open_data(np.ones((3, 4))))).asked(1, (KL,))
        self.problem, runner = problem, Runner.of("auto", "auto")
        self.runner = replace(runner, budget=Budget(Control(tol=tol), 9))

    def fit(self, problems, runner):
        found = []
        for problem in problems:
            self.tolerances.append(runner.control(problem).tol)
            W, H = problem.begins
            found.append(SimpleNamespace(W=W, H=H, losses=H[:1, 0], objective=float(H[0, 0]), reason="tol"))
        return found


def begin(level: float):
    return np.ones((3, 1)), np.full((1, 4), level)


def test_starts_compete_coarsely_and_the_best_is_brought_to_its_end(monkeypatch):
    record = Recorded(monkeypatch)
    found = fit_best(record.problem, record.runner, KL, [begin(5.0), begin(4.0), begin(3.0)])
    np.testing.assert_allclose(record.tolerances, [*3 * [RACE * 1e-4], 1e-4])
    assert found.losses == pytest.approx(3.0)


@pytest.mark.parametrize(("count", "tol"), [(1, 1e-4), (3, 0.0)])
def test_one_start_and_fits_of_given_length_are_not_made_twice(monkeypatch, count, tol):
    record = Recorded(monkeypatch, tol)
    starts = [begin(2.0 + i) for i in range(count)]
    assert fit_best(record.problem, record.runner, KL, starts).losses == pytest.approx(2.0)
    assert record.tolerances == count * [tol]


def test_the_largest_alpha_that_holds():
    """Steps of a factor of four from a thousandth, then three halvings of the last step."""
    asked = []

    def below(limit):
        def holds(alpha):
            asked.append(alpha)
            return alpha <= limit

        return holds

    assert largest(below(0.0)) == 0.0
    np.testing.assert_allclose(asked, 1e-3 * 0.25 ** np.arange(4))
    asked.clear()
    found = largest(below(0.1))
    np.testing.assert_allclose(asked[:5], 1e-3 * 4.0 ** np.arange(5))
    assert len(asked) == 8
    assert 0.1 / 4 ** (1 / 8) <= found <= 0.1
    assert largest(below(1e9)) == pytest.approx(1e-3 * 4.0**6)
    assert largest(below(16.0)) <= 16.0


def test_a_volume_may_cost_five_percent():
    path = volume_path(Volume("auto"), lambda alpha: 2.0 * (1.0 + alpha))
    assert path.limit == pytest.approx(2.1)
    assert path.values[path.alphas == path.alpha] <= path.limit < path.values[path.alphas > path.alpha].min()
    assert "at most 5 %" in said(path, Volume("auto"))
    assert volume_path(Volume("auto"), lambda alpha: math.inf).alpha == 0.0


def _scores(sums) -> Scores:
    return Scores(sums, sums, np.ones(sums.size), np.ones(sums.size))


def test_sparsities_are_tried_until_entries_are_predicted_clearly_worse():
    spread = 0.01 * np.linspace(-1.0, 1.0, 10)

    def scores(levels):
        given = dict(zip(SPARSITIES, levels, strict=False))
        return lambda alpha: None if alpha not in given else _scores(-given[alpha] + alpha * spread)

    path = sparsity_path(Sparsity("auto"), scores([3.0, 2.0, 1.0, 9.0, 0.0]))
    assert path.alpha == SPARSITIES[2]
    assert path.alphas.tolist() == list(SPARSITIES[:4])
    assert with_path((), Sparsity("auto"), path) == (Sparsity(SPARSITIES[2]),)
    assert sparsity_path(Sparsity("auto"), scores([1.0])) is None
    assert sparsity_path(Sparsity("auto"), scores([1.0, 1.0])).alpha == 0.0


def test_the_work_of_a_discovery_is_planned():
    """In fits times rank: the noise with a look at every rank of the ladder, four runs at each rank, the consensus."""
    alphas, ranks, steps = len(SPARSITIES) - 1, (2, 3, 4), 3
    after = {"consensus": 30.0, "contributions": 1.5}
    assert plan(ranks, 10, True, False) == {"noise": (8 + 4 * steps) * 3, "ranks": 4 * (steps + 4) * 3} | after
    assert plan(ranks, 10, False, True) == {"ranks": 4 * (steps + 4) * 3, "heavy": 12.0} | after
    assert plan((5,), 3, False, True) == {"heavy": 40.0, "consensus": 15.0, "contributions": 2.5}
    both = plan(ranks, 3, False, False, 2)
    assert both["ranks"] == 4 * steps * 3
    assert both["penalty"] == 4 * alphas * 2 * 3
    assert both["finer ranks"] == 4 * (steps + 2) * 3
    assert plan((5,), 3, False, False, 1)["finer ranks"] == 0.0


def stages(ranks=(2, 3, 4, 5, 6)) -> Stages:
    schedule = SimpleNamespace(seconds=1.0, close=lambda name: None)
    return Stages(Question(ranks, Parameters(), 0.5, 10), None, schedule)


@pytest.mark.parametrize(("term", "expected"), [(Sparsity("auto"), (3, 4, 5, 6)), (Volume("auto"), (2, 3, 4, 5, 6))])
def test_under_a_sparsity_small_ranks_are_not_tried_again(monkeypatch, term, expected):
    """The best rank of the grid is 5: ranks below 60 % of it are left out, unless no sparsity was chosen."""
    made, asked = stages(), []
    path = SimpleNamespace(alpha=0.1, alphas=np.ones(1))
    pool = SimpleNamespace(study=SimpleNamespace(model=Parameters()), penalised=lambda terms: ("penalised", terms))
    monkeypatch.setattr(Stages, "_path", lambda *given: path)
    monkeypatch.setattr(Stages, "_rank", lambda self, table: 5)
    monkeypatch.setattr(Stages, "_finer", lambda self, pool, ranks: asked.append((pool, ranks)) or (["finer"], True))
    kept, table = made.penalise(pool, ["coarse"], (term,))
    ((used, ranks),) = asked
    assert ranks == expected
    assert min(ranks) >= LEAST_PART * 5 or term.word == "volume"
    assert (used is pool) == isinstance(term, Volume)
    assert kept == ("penalised", (replace(term, alpha=0.1),))
    assert (table, made.done[0]["finished"]) == (["finer"], True)


def test_an_interrupted_search_of_alphas_leaves_the_penalty_out(monkeypatch):
    made, halted = stages(), []
    parameters = Parameters()
    pool = SimpleNamespace(study=SimpleNamespace(model=parameters), halt=lambda: halted.append(True))

    def interrupted(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(Stages, "_path", interrupted)
    monkeypatch.setattr(Stages, "_rank", lambda self, table: 5)
    assert made.penalise(pool, [], (Sparsity("auto"),)) == (pool, [])
    assert halted == [True]
    assert made.interrupted
    assert made.missing[0].startswith("no alpha was chosen for the ")
    assert not made.done[0]["finished"]


def runs(*reasons: str):
    return [SimpleNamespace(whole=reason == "tol") for reason in reasons]


@pytest.mark.parametrize(
    ("made", "judged"),
    [
        ([runs("tol", "tol"), runs("tol", "tol")], True),
        ([runs("tol", "tol"), runs("tol", "max_time")], False),
        ([runs("tol"), runs("tol", "tol")], False),
        (None, False),
    ],
)
@pytest.mark.parametrize("better", [True, False])
def test_heavy_rows_are_scaled_down_where_two_runs_of_each_kind_say_so(monkeypatch, made, judged, better):
    stage, given = stages(), iter(made or [])

    def work(*asked):
        if made is None:
            raise KeyboardInterrupt
        return next(given)

    pool = SimpleNamespace(study=None, runs=work, halt=lambda: None)
    pool.changed = lambda kind, factors: SimpleNamespace(**vars(pool))
    pool.as_it_is = lambda: pool
    monkeypatch.setattr(module, "capped_is_better", lambda *runs: better)
    monkeypatch.setattr(module, "_too_few", lambda *given: ())
    monkeypatch.setattr(Stages, "_rank", lambda self, table: 5)
    found = stage.heavy(pool, [], np.array([1.0, 0.5, 1.0, 0.2]))
    assert (found is not pool) == (judged and better)
    (remark,) = stage.notes if judged else stage.missing
    assert remark.startswith("2 rows weigh more")
    assert ("was not judged" in remark) != judged
    assert stage.done[0]["finished"] == judged


def test_a_folder_of_another_discovery_is_refused(tmp_path):
    with Store(tmp_path / "kept", {"X": "aa", "ranks": [1, 2]}):
        pass
    with Store(tmp_path / "kept", {"X": "aa", "ranks": [1, 2]}):
        pass
    for identity, said_so in (
        ({"X": "bb", "ranks": [1, 2]}, "another X"),
        ({"X": "aa", "ranks": [1]}, r"ranks=\[1, 2\], not \[1\]"),
    ):
        with pytest.raises(ValueError, match=said_so), Store(tmp_path / "kept", identity):
            pass


def test_the_threshold_of_a_discovery_is_a_cosine():
    with pytest.raises(ValueError, match="threshold"):
        discover(np.ones((4, 5)), threshold=-1.5)
    with pytest.raises(ValueError, match="random_state"):
        discover(np.ones((4, 5)), BetaNMF(beta="auto", random_state=-1), threshold=-0.5)
    with pytest.raises(TypeError, match="positional"):
        rank_profile(BetaNMF(), np.ones((4, 5)), 2)
    with pytest.raises(TypeError, match="positional"):
        noise_profile(BetaNMF(2), np.ones((4, 5)), 1)


def test_entries_are_read_in_pieces_whatever_holds_them():
    dask = pytest.importorskip("dask.array")
    X = np.array([[1.0, 0.0, 3.0], [0.0, 5.0, 6.0]])
    for form in (X, sp.csr_array(X), dask.from_array(X, chunks=(1, 2))):
        assert facts_of(form) == Facts(6, 2, Grid(1.0))


@pytest.mark.parametrize(("tol", "used"), [(0.0, 0.0), (1e-7, 1e-5), (1e-3, 1e-3)])
def test_fits_that_compare_alphas_need_not_be_fine(monkeypatch, tol, used):
    asked = []

    def solve(problems, runner):
        asked.append((runner.budget.control.tol, problems[0].penalties))
        return ["run"]

    monkeypatch.setattr(alpha, "solve", solve)
    monkeypatch.setattr(alpha, "smallest", lambda runs: runs)
    problem = Problem.opened(in_unit(open_data(np.ones((3, 4))))).asked(1, (KL,), references=np.ones(1))
    runner = replace(Runner.of("auto", "auto"), budget=Budget(Control(tol=tol), 3))
    for how in (runner, runner.near()):
        assert alpha._fit(problem, Volume("auto"), 0.1, how, [begin(1.0)]) == ["run"]
    assert asked == 2 * [(used, (Volume(0.1),))]


class Study:
    """Fits that note how long they may take, and take a second of a clock each."""

    batch = 1

    def __init__(self, clock, reasons) -> None:
        self.clock, self.reasons, self.asked = clock, iter(reasons), []

    def run(self, rank_, seed, left, watch, judges):
        self.asked.append((rank_, seed, left, judges))
        self.clock.now += 1.0
        return SimpleNamespace(whole=next(self.reasons) == "tol", reason="", seconds=1.0)


class Told(Schedule):
    """Notes what it is told."""

    def advance(self, *given) -> None:
        self.told.append(given)


@pytest.fixture
def pooled():
    clock = SimpleNamespace(now=0.0)

    def make(allowed, reasons, jobs=1):
        schedule = Told({"ranks": 1.0, "contributions": 0.0}, allowed, None, lambda: clock.now)
        told = schedule.told = []
        study = Study(clock, reasons)
        return RunPool(study, Store(None, {}), schedule, [7, 8, 9, 10], jobs), study, told

    return make


def test_the_first_of_several_runs_takes_half_of_the_time_at_most(pooled):
    """Two runs can be compared, one cannot; what is left when the time is up is not begun."""
    pool, study, told = pooled(2.5, 4 * ["tol"])
    assert len(pool.runs("ranks", 3, 4)) == 3
    assert study.asked == [(3, 7, 1.25, False), (3, 8, 1.5, False), (3, 9, 0.5, False)]
    assert told == [("ranks", 3, f"rank 3, run {i} of 4", True) for i in (1, 2, 3)]
    assert pool.schedule.overrun == 0.0
    assert len(pool.runs("ranks", 3, 2)) == 2
    assert len(study.asked) == 3  # they were there already
    assert told[-1][-1] is False


def test_what_a_run_takes_beside_its_iterations_is_kept_for_it(pooled):
    pool, study, _ = pooled(8.0, 4 * ["tol"])
    make = study.run
    study.run = lambda *given: SimpleNamespace(**vars(make(*given)) | {"seconds": 0.25})
    pool.runs("ranks", 3, 4)
    assert pool.schedule.overrun == 0.75
    assert [left for _, _, left, _ in study.asked] == [4.0, 7.0, 5.25, 4.25]


def test_runs_that_were_stopped_count_where_fewer_than_two_came_to_their_end(pooled):
    for reasons, count in ((["tol", "max_time", "tol"], 2), (["tol", "max_time", "max_time"], 3)):
        pool, _, _ = pooled(None, reasons)
        assert len(pool.runs("ranks", 3, 3)) == count


def test_after_a_halt_no_run_is_begun(pooled):
    pool, study, told = pooled(None, 4 * ["tol"])
    pool.runs("ranks", 3, 2, True)
    pool.halt()
    assert len(pool.runs("ranks", 3, 4, True)) == 2
    assert pool.runs("ranks", 4, 2) == []
    assert [asked[:2] for asked in study.asked] == [(3, 7), (3, 8)]
    assert len(told) == 2


def test_seeds_of_fewer_runs_are_the_first_of_more():
    assert draw_seeds(5, 3) == draw_seeds(5, 6)[:3]
    assert len(set(draw_seeds(5, 100))) == 100
    assert draw_seeds(6, 3) != draw_seeds(5, 3)
    assert 0 <= min(draw_seeds(5, 100)) <= max(draw_seeds(5, 100)) < 2**31


def test_overdispersed_counts_take_the_negative_binomial():
    """In the place of a beta below one, where the middle of the means is below 30 units."""
    listed = candidates((Beta(0.5), KL, Beta(2.0)), True, 7.0)
    sized = len(listed) - 1
    assert overdispersed(listed, 0, 1.0, 5.0) == sized
    assert overdispersed(listed, 0, 1.0, 50.0) == 0
    assert overdispersed(listed, 0, None, 5.0) == 0
    assert [overdispersed(listed, i, 1.0, 5.0) for i in (1, 2, 3)] == [1, 2, 3]
    assert overdispersed(listed[:3], 0, 1.0, 5.0) == 0


@pytest.mark.parametrize(("later", "expected"), [(0.9, 3), (0.0, 5)])
def test_more_runs_say_whether_more_components_may_be_taken(monkeypatch, later, expected):
    """Five components are stable where few runs say that three predict best: many runs have the last word."""
    made, asked = stages(), []

    def tried(rank: int, worse: float) -> Tried:
        sums = -worse - np.linspace(0.0, 0.1, 30)
        return Tried(rank, Scores(sums, sums, np.ones(30), np.ones(30)), np.ones(rank))

    def runs(stage, rank, count, judge):
        asked.append((rank, count, judge))
        return [SimpleNamespace(whole=True)] * count

    monkeypatch.setattr(Stages, "_that_judges", lambda self, pool: pool)
    monkeypatch.setattr(Stages, "_judged", lambda self, pool, rank, runs: tried(rank, later * (rank == 5)))
    pool = SimpleNamespace(runs=runs)
    stability = {3: np.ones(3), 5: np.ones(5)}
    few = [tried(2, 1.0), tried(3, 0.0), tried(5, 1.0)]
    assert made._most(pool, few, stability) == expected
    assert asked == [(3, 16, True), (5, 16, True)]
    assert made._most(pool, few, {3: np.ones(3), 5: np.array([1.0, 1.0, 1.0, 0.1, 0.1])}) == 3
    assert len(asked) == 2  # nothing to ask where no more are stable
