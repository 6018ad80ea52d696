"""What is asked of a discovery, and what it found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drnmf.losses.base import Omega
from drnmf.losses.names import noise_of
from drnmf.numerics import Array, MatrixLike, Vector
from drnmf.parameters.common import Parameters
from drnmf.parameters.fields import check_choice, check_integer, check_number
from drnmf.problem.weights import reading_of
from drnmf.selection.alpha import AlphaPath
from drnmf.selection.assignment.assign import Assignment, assigned, encoded, opened
from drnmf.selection.choose import Rows
from drnmf.selection.entries import Caution, Indices
from drnmf.selection.intervals import check_level
from drnmf.selection.intervals.bars import Intervals
from drnmf.selection.matching import Known, Matching, match
from drnmf.selection.noise import NoiseProfile
from drnmf.selection.resampling import POISSON, UNCERTAINTY
from drnmf.selection.stages.residuals import Residuals
from drnmf.selection.stages.runs import Run
from drnmf.selection.stages.stages import LEAST_RUNS
from drnmf.solve.encode import Encoder

HEAVY_CHOICES = ("auto", "keep", "cap")


@dataclass(frozen=True, repr=False)
class SearchResult:
    """What a search found. Components are those of the consensus: stable ones first, each by contribution.

    Attributes
    ----------
    components : (r, n), every row sums to one
    contributions : (m, r), W under the losses of the fit, in the unit of X, with real zeros: every row has the
        components that it needs (`assign`)
    stability : (r,), mean silhouette of each component over the runs
    stable : (r,) bool, whether it reaches the threshold; none where fewer than four runs came to their end
    intervals : Intervals of the components and of `dense`, from draws apart from the runs; None with a reason in the
        notes
    found_in : (r,) int, runs that have the component, with a cosine of at least 0.9
    spread : (r, n), standard deviation of every entry over the runs: how far these differ, and no error bar
    rank : r
    losses : the losses of the fit
    noise : NoiseProfile, or None where the losses were given
    ranks : list of dict, the ranks that were tried
    matching : partners in the reference, or None
    residuals : where the components do not fit
    runs : the runs behind the consensus
    stages : list of dict with name, seconds and whether the stage was finished
    interrupted : whether Ctrl-C ended it: it then holds what the runs so far agree on
    missing : tuple of str, what was not finished, for lack of time or by Ctrl-C
    max_time : the limit that was given, or None
    resample : what each run saw of X: "poisson", "bootstrap", "uncertainty", or None for X itself
    seconds : float
    notes : tuple of str
    penalties : tuple of str, those of the runs and the contributions ("sparsity:0.003:W")
    penalty_path : tuple of AlphaPath, what was tried for alphas that the data chose
    sources : with groups, which of them, or "all", found each component
    dense : (m, r), W with all components in every row
    dispersions : (p,), phi of every loss that the best run left
    encoder : the components as a function of rows, which gives the contributions of new ones
    settings : the model, which says how X was read
    """

    components: Vector
    contributions: Array
    stability: Vector
    stable: NDArray[np.bool_]
    intervals: Intervals | None
    found_in: Indices
    spread: Vector
    rank: int
    losses: Omega
    noise: NoiseProfile | None
    ranks: Rows
    matching: Matching | None
    residuals: Residuals
    runs: list[Run] = field(repr=False)
    stages: Rows
    interrupted: bool
    missing: tuple[str, ...]
    max_time: float | None
    resample: str | None
    seconds: float
    notes: tuple[str, ...]
    dense: Array = field(repr=False)
    dispersions: Vector = field(repr=False)
    encoder: Encoder = field(repr=False)
    settings: Parameters = field(repr=False)
    penalties: tuple[str, ...] = ()
    penalty_path: tuple[AlphaPath, ...] = ()
    sources: tuple[tuple[str, ...], ...] = ()

    def assign(
        self, X: MatrixLike, *, entry_weight: ArrayLike | None = None, uncertainty: ArrayLike | None = None
    ) -> Assignment:
        """Find which of the components new rows have, and how much of each, as in `contributions`.

        Parameters
        ----------
        X : as in `discover`, with the same columns
        entry_weight, uncertainty : as in `discover`, of these rows

        Returns
        -------
        Assignment
            Contributions with real zeros, and what judged them.
        """
        problem = opened(X, "assign", reading_of(self.settings, entry_weight, uncertainty))
        return assigned(self.encoder, problem, encoded(self.encoder, problem))

    @property
    def sizes(self) -> Vector:
        """Part of each component in the sum of all contributions, (r,)."""
        sums = np.asarray(self.contributions, dtype=np.float64).sum(axis=0)
        return sums / (sums.sum() or 1.0)

    @property
    def counts(self) -> bool:
        """Whether X is taken to hold counts: its noise says so, or runs drew it as counts; True where nobody looked."""
        return self.noise is None or self.noise.counts or self.resample == POISSON

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.summary()}>"

    @property
    def cautions(self) -> tuple[str, ...]:
        """Those of the notes that say what was left out of X, or why not to be sure."""
        return tuple(note for note in self.notes if isinstance(note, Caution))

    def summary(self) -> str:
        """Say in a few sentences what was found; why not to be sure, what is missing and what to do come first."""
        return " ".join((*self.cautions, self.headline()))

    def headline(self) -> str:
        """Say what was found, without the cautions."""
        count, ended, first = int(self.stable.sum()), sum(run.whole for run in self.runs), ""
        if self.missing:
            cure = "let it run to its end" if self.interrupted else f"raise max_time, which was {self.max_time:g} s"
            why = "Interrupted" if self.interrupted else "Out of time"
            first = f"{why}: {'; '.join(self.missing)}. To finish it, {cure}. "
        if ended < LEAST_RUNS:
            cure = "" if self.missing else f" Raise n_runs to {LEAST_RUNS} or more."
            return f"{first}{too_few_runs(ended)}{cure}"
        if not count:
            return (
                f"{first}Found nothing to trust: of {self.rank} components none comes again in the runs (largest "
                f"stability {self.stability.max():.2f})."
            )
        known = "uncertainties as given" if self.resample == UNCERTAINTY else None
        names = ", ".join(f"{loss.name} ({known or noise_of(loss, self.counts)})" for loss in self.losses)
        return f"{first}{'So far ' if first else ''}{count} stable components of {self.rank}, under {names}."


@dataclass(frozen=True)
class Asked:
    """What is asked of a discovery; `drnmf.discover` says what each means."""

    ranks: Iterable[int] | int | None = None
    n_runs: int = 20
    resample: str | None = "auto"
    heavy: str = "auto"
    threshold: float = 0.6
    counts: bool | None = None
    level: float | None = 0.9
    reference: Known | None = None  # Known components under the columns of X, or None
    keep: bool = False
    # entry_weight, uncertainty: as in `BetaNMF.fit`
    entry_weight: ArrayLike | None = None
    uncertainty: ArrayLike | None = None
    groups: Iterable[object] | None = None  # the group of every row, or None

    def __post_init__(self) -> None:
        check_integer("n_runs", self.n_runs, 2)
        check_choice("heavy", self.heavy, HEAVY_CHOICES)
        check_number("threshold", self.threshold, -1.0)
        if self.level is not None:
            check_level(self.level)
        if self.keep and (self.reference is None or self.groups is not None):
            raise ValueError("keep=True keeps known components: give them as reference, and no groups beside them.")

    def matched(self, components: Vector) -> Matching | None:
        """Partners of components in the reference."""
        known = self.reference
        return None if known is None else match(components, known.components, names=known.names)


def too_few_runs(ended: int) -> str:
    """Say why nothing is called stable."""
    return f"Nothing is called stable on the word of fewer than {LEAST_RUNS} runs: {ended} came to their end."


@dataclass(frozen=True)
class AskedOfGroup(Asked):
    """What is asked of the rows of one group."""

    # losses of the search over all rows. They hold here too, and what few rows have is not looked for at larger ranks:
    # the group is how it is looked for
    within: Omega = ()
