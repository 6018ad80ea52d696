r"""How many components? Entries left out of the fits, scored rank by rank (`stages.Stages.settle`).

Among the ranks that held-out entries cannot tell from the best the most stable is taken (`choose.best_rank`). With it
stand the information criteria, from C, minus the log-likelihood of the fitted entries, each entry of W seeing n
observations and each of H seeing m:

.. math:: \mathrm{BIC}(\beta, r) = 2 C(\beta) + r m \log n + r n \log m - r^2 \log \min(m, n)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from drnmf.losses.base import Loss
from drnmf.losses.names import as_loss
from drnmf.numerics import MatrixLike
from drnmf.parameters.common import Parameters
from drnmf.parameters.fields import check_integer
from drnmf.problem.weights import WeightsLike, reading_of
from drnmf.selection.choose import Rows, Tried, differences, doubt, why_rank
from drnmf.selection.entries import ONE_COMPONENT, one_component
from drnmf.selection.folds import HELD_OUT, check_fraction, mask_seed
from drnmf.selection.noise import NoiseProfile
from drnmf.selection.stages.ranks import ALL, LADDER, UPWARDS
from drnmf.selection.stages.run_pool import RunPool, Study, draw_seeds
from drnmf.selection.stages.runs import Store
from drnmf.selection.stages.schedule import Schedule
from drnmf.selection.stages.stages import (
    MORE_JUDGES,
    MOST_RANKS,
    NOISE,
    RANKS,
    REDRAWN_RUNS,
    RUNS_PER_RANK,
    Question,
    Stages,
)
from drnmf.solve.settings import as_part, asked_losses, check_model, jobs_of, judged_budget


@dataclass(frozen=True)
class RankProfile:
    """What X says about the number of components.

    Attributes
    ----------
    best : int
        The most stable of the ranks whose held-out score is not clearly worse than the best; where X is too small the
        one of the smallest BIC. Of counts more, where runs of somewhat more components, to counts drawn anew, have
        more stable ones.
    loss : Loss
        The loss under which ranks were compared.
    table : list of dict
        One row for each rank: rank, held_out (difference to the best, per entry), standard_error (of that paired
        difference), within (one standard error), criterion (C), bic, aic, and stability (how well the components come
        again over the masks, their mean).
    noise : NoiseProfile or None
        What the loss was chosen by.
    notes : tuple of str
    """

    best: int
    loss: Loss
    table: Rows
    noise: NoiseProfile | None
    notes: tuple[str, ...] = ()


def rank_profile(
    model: Parameters,
    X: MatrixLike,
    *,
    ranks: int | Iterable[int] | None = 10,
    held_out: float = HELD_OUT,
    n_masks: int = RUNS_PER_RANK,
    counts: bool | None = None,
    entry_weight: WeightsLike = None,
    uncertainty: WeightsLike = None,
) -> RankProfile:
    """Compare numbers of components by how well they predict entries that were left out.

    Parameters
    ----------
    model : an estimator with one loss, for example ``BetaNMF(beta="auto")``. Its loss, tolerances, update rule, seed
        and device are used, not its rank, penalties and constraints. "auto" settles noise (`noise_profile`)
        and rank in turn, until both stand. Every fit is the best of `n_init` starts, of two at least where `init` is
        "auto". Where it leaves them to the library, max_iter is 500 and tol 1e-5, as in `discover`, which asks the same
        function
    X : as in `BetaNMF.fit`, or in `CP.fit` where that is the model
    ranks : the numbers of components, all of which are tried; or the largest of 1, 2, ..., where the search stops once
        two are worse than the best below them by more than two standard errors; None is 2 to 30 on a ladder, and then
        next to the best, as `discover` and ``n_components="auto"`` search
    held_out : share of the entries left out of the fits; 0 compares by BIC alone
    n_masks : how often entries are held out, other ones each time: the time grows with it, and standard errors fall.
        Four times as often where uncertainties leave several ranks
    counts : whether X holds counts, which are drawn from its means: True compares noises of counts alone, False all
        others; None lets the data say
    entry_weight, uncertainty : as in `BetaNMF.fit`; a weight says how often its entry counts, an uncertainty is its
        standard deviation

    Returns
    -------
    profile : RankProfile

    Raises
    ------
    ValueError
        For bad X or parameters, X without a positive entry, and for ranks above what X can tell apart.

    Examples
    --------
    >>> import numpy as np
    >>> from drnmf import BetaNMF
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(rng.gamma(0.5, size=(40, 2)) @ rng.gamma(0.5, size=(2, 50)) * 100)
    >>> rank_profile(BetaNMF(beta=1, random_state=0), X, ranks=4).best
    2
    """
    check_model(model, "rank_profile")
    how = LADDER if ranks is None else ALL if isinstance(ranks, Iterable) else UPWARDS
    fraction, masks = check_fraction(held_out), check_integer("n_masks", n_masks, 1)
    model, X, entry_weight, uncertainty = model.unfolded(X, entry_weight, uncertainty)
    study = Study.of(X, judged_budget(model), "rank_profile", reading_of(model, entry_weight, uncertainty))
    listed = check_ranks(ranks, study.problem.data.shape)
    ask = Question(listed, model, judges=masks, how=how, held_out=fraction, counts=counts, criteria=True)
    return profile_ranks(study, ask)


def profile_ranks(study: Study, ask: Question) -> RankProfile:
    """Settle rank and noise of X that is open already."""
    model, betas = study.model, asked_losses(study.model)
    losses = None if isinstance(betas, str) and betas.strip().lower() == "auto" else (_one_loss(betas),)
    notes, alike = list(study.problem.notes), one_component(study.problem.given.X)
    if alike:  # all ranks predict the same, and rounding would choose
        ask = replace(ask, ranks=ask.ranks[:1], held_out=0.0)
        notes.insert(0, ONE_COMPONENT)
    study = replace(study, model=as_part(model), losses=losses or ())
    schedule = Schedule({NOISE: 1.0, RANKS: 1.0}, model.max_time, None)
    seeds = draw_seeds(mask_seed(model.random_state), max(MORE_JUDGES * ask.judges, REDRAWN_RUNS))
    stages = Stages(ask, losses, schedule, notes)
    pool = RunPool(study, Store(None, {}), schedule, seeds, jobs_of(model))
    pool, table, noise = stages.settle(pool)
    best, judge = stages.components(table), (stages.judging or pool).study.omega[0]
    said = (*(() if noise is None else noise.notes), *stages.notes, *(f"Out of time: {one}." for one in stages.missing))
    if len(table) < len(ask.ranks) and ask.how == ALL:
        said += (f"Out of time: of the ranks only {', '.join(str(one.rank) for one in table)} were tried.",)
    elif len(table) < len(ask.ranks) and ask.how == UPWARDS:
        said += (f"The search stopped at rank {table[-1].rank}: two smaller ranks were clearly worse than the best.",)
    unsure = doubt(table) if stages.larger is None else ()
    return RankProfile(best, judge, _rows(table), noise, tuple(dict.fromkeys((*unsure, *said, why_rank(table)))))


def _one_loss(betas: object) -> Loss:
    """Return the loss under which ranks are compared, which must be one."""
    losses = [betas] if isinstance(betas, str) or not isinstance(betas, Iterable) else list(betas)
    if len(losses) != 1:
        raise ValueError(f"betas={betas!r} are {len(losses)} losses: ranks are compared under one, as of BetaNMF.")
    return as_loss(losses[0])


def check_ranks(ranks: int | Iterable[int] | None, shape: tuple[int, int]) -> tuple[int, ...]:
    """Turn what a user wrote for ranks into increasing integers that X can tell apart; None is 2 to 30.

    >>> check_ranks(None, (100, 12))
    (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
    """
    most = min(int(shape[0]), int(shape[1]))
    if ranks is None:
        ranks = range(min(2, most), min(MOST_RANKS, most) + 1)
    if not isinstance(ranks, Iterable):
        ranks = range(1, min(check_integer("ranks", ranks, 1), most) + 1)
    several = list(ranks)
    if not several:
        raise ValueError(f"ranks={ranks!r} names no rank: write the smallest first, for example range(2, 9).")
    listed = sorted({check_integer("ranks", rank, 1) for rank in several})
    if listed[-1] > most:
        raise ValueError(f"ranks holds {listed[-1]}, but X of {shape[0]} x {shape[1]} has at most {most} components.")
    return tuple(listed)


def _rows(table: list[Tried]) -> Rows:
    """Write the ranks as rows of a table."""
    return [
        {"rank": one.rank, **row, "criterion": one.criterion, "bic": one.bic, "aic": one.aic}
        | {"stability": one.mean_stability}
        for one, row in zip(table, differences(table), strict=True)
    ]
