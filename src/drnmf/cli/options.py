"""Options of the commands, and how they are read. The names of rules, policies and starts are the library's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drnmf.algorithms.initialize import STARTS
from drnmf.algorithms.updates.table import RULES
from drnmf.algorithms.weights import POLICIES
from drnmf.cli.common import bad_usage, choice

if TYPE_CHECKING:
    from drnmf.losses.base import Omega
    from drnmf.losses.interval import Interval
    from drnmf.matrices.matrix import Layout

ZEROS = ("raise", "floor")
NEGATIVES = ("raise", "clip", "missing")
UNSTORED = ("zero", "missing")
DTYPES = ("float32", "float64")
PRECISIONS = ("float32", "tf32")
DEVICES = "auto, cpu, cuda, cuda:N, cuda-blocks"


def _one_of(names: Any) -> str:
    return ", ".join(names)


Threads = Annotated[int | None, typer.Option("--threads", min=1, help="Threads to use (default: all cores).")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of the random start.")]
Out = Annotated[Path, typer.Option("--out", help="Folder for the results; it must not exist yet.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", metavar="", help="Replace the files of an earlier run.")]
Input = Annotated[
    Path,
    typer.Argument(
        metavar="X",
        help="Matrix: .npy .npz .mtx .mat .zarr .h5ad, a folder of row blocks; table: .csv .tsv .txt .xlsx .parquet "
        ".feather.",
        show_default=False,
    ),
]
Column = Annotated[str | None, typer.Option("--column", help="The column that holds the text.")]
Encoding = Annotated[str, typer.Option("--encoding", help="Encoding of the texts.")]
Variable = Annotated[str | None, typer.Option("--variable", help="Which array of a .mat or .npz file.")]
LabelColumns = Annotated[
    int | None, typer.Option("--labels", min=0, help="How many first columns of a table are labels (default: found).")
]
Delimiter = Annotated[
    str | None, typer.Option("--delimiter", help="Between the cells of a text table: ; tab space ... (default: found).")
]
Sheet = Annotated[str | None, typer.Option("--sheet", help="Which sheet of an .xlsx file (default: the first).")]
Transpose = Annotated[bool, typer.Option("--transpose", metavar="", help="Exchange rows and columns of X.")]
Quiet = Annotated[bool, typer.Option("--quiet", metavar="", help="No progress.")]
Rank = Annotated[int, typer.Option("--rank", "-r", min=1, help="Number of components.", show_default=False)]
Betas = Annotated[
    str,
    typer.Option("--betas", help="Losses: IS, KL, Frobenius, any number >= 0, nb:SIZE; fit also takes 0..2, and auto."),
]
Penalty = Annotated[
    str | None,
    typer.Option("--penalty", help="Beside the losses, for example sparsity:0.1 or volume:auto:W,l2:0.1."),
]
SumToOne = Annotated[
    str | None, typer.Option("--sum-to-one", help="W: every row of W sums to one; H: every column of H.")
]
Fixed = Annotated[
    Path | None, typer.Option("--fixed", help="Table of components that do not move, one per row, as wide as X.")
]
PolicyName = Annotated[str | None, typer.Option("--policy", help=f"How the weights move: {_one_of(POLICIES)}.")]
UpdateName = Annotated[str | None, typer.Option("--update", help=f"Update rule: {_one_of(RULES)}.")]
InitName = Annotated[str | None, typer.Option("--init", help=f"Start: {_one_of(STARTS)}.")]
MaxIter = Annotated[int, typer.Option("--max-iter", min=1, help="Most iterations of a run.")]
Tol = Annotated[float, typer.Option("--tol", min=0.0, help="Stop when little changes; 0 runs all iterations.")]
FitTol = Annotated[
    float | None,
    typer.Option(
        "--tol", min=0.0, help="Stop when less changes (1e-6; --betas 2 stops earlier); 0 runs all iterations."
    ),
]
Zeros = Annotated[str, typer.Option("--zeros", help="Zeros under beta 0: raise (refuse) or floor (a tiny value).")]
Negatives = Annotated[
    str, typer.Option("--negatives", help="Negative entries: raise (refuse), clip (to 0) or missing (not observed).")
]
Unstored = Annotated[
    str, typer.Option("--unstored", help="What a sparse X does not store: zero (a 0), or missing (not observed).")
]
Uncertainty = Annotated[
    Path | None, typer.Option("--uncertainty", help="Standard deviations of the entries of X: weights 1 / U^2.")
]
EntryWeights = Annotated[
    Path | None, typer.Option("--entry-weights", help="Weights of the entries of X, >= 0; 0: not observed.")
]
MaxTime = Annotated[float | None, typer.Option("--max-time", min=0.001, help="Seconds after which it stops.")]
Starts = Annotated[int, typer.Option("--n-init", min=1, help="Starts, of which the best is kept.")]
Jobs = Annotated[int | None, typer.Option("--jobs", help="Runs side by side, one core each; -1: all cores.")]
Dtype = Annotated[str | None, typer.Option("--dtype", help="Compute in float32 or float64 (default: the data's).")]
Device = Annotated[
    str | None, typer.Option("--device", help=f"Where to run: {DEVICES} (default: the CPU).", show_default=False)
]
Precision = Annotated[str, typer.Option("--precision", help=f"Products on a GPU: {_one_of(PRECISIONS)}.")]


def layout_of(labels: int | None, delimiter: str | None, sheet: str | None, transpose: bool) -> Layout:
    """Collect how a table lies in its file."""
    from drnmf.matrices.delimited import as_delimiter
    from drnmf.matrices.matrix import Layout

    if delimiter is not None:
        with bad_usage("--delimiter"):
            as_delimiter(delimiter)
    return Layout(labels, delimiter, sheet, transpose)


@dataclass(frozen=True)
class Choices:
    """Options that estimators and fronts share; what was not given is left to their defaults."""

    policy: str | None
    update: str | None
    init: str | None
    zeros: str
    dtype: str | None
    device: str | None
    precision: str
    negatives: str = "raise"
    unstored: str = "zero"
    penalty: str | None = None
    sum_to_one: str | None = None

    def __post_init__(self) -> None:
        choice(self.policy, POLICIES, "--policy")
        choice(self.update, RULES, "--update")
        choice(self.init, STARTS, "--init")
        choice(self.zeros, ZEROS, "--zeros")
        choice(self.negatives, NEGATIVES, "--negatives")
        choice(self.unstored, UNSTORED, "--unstored")
        choice(self.dtype, DTYPES, "--dtype")
        choice(self.precision, PRECISIONS, "--precision")
        choice(self.sum_to_one, ("W", "H"), "--sum-to-one")
        parse_penalties(self.penalty)
        _check_device(self.device)

    def given(self) -> dict[str, Any]:
        """Collect keyword arguments for the library."""
        chosen: dict[str, Any] = {"policy": self.policy, "update": self.update, "init": self.init, "zeros": self.zeros}
        chosen |= {"device": self.device, "precision": self.precision}
        chosen |= {"negatives": self.negatives, "unstored": self.unstored}
        chosen |= {"penalties": parse_penalties(self.penalty), "sum_to_one": self.sum_to_one}
        return {name: value for name, value in chosen.items() if value is not None}

    def cast(self, X: Any) -> Any:
        """Convert X to the dtype asked for."""
        return X if self.dtype is None else X.astype(self.dtype)


def _check_device(device: str | None) -> None:
    """Refuse a device that is not known or not here, before X is read."""
    if device in (None, "auto", "cpu"):
        return
    from drnmf.problem.device import is_device, missing_gpu  # with SciPy, which --help does without

    if not is_device(device):
        raise typer.BadParameter(f"{device!r} is not one of {DEVICES}.", param_hint="--device")
    missing = missing_gpu(device)
    if missing is not None:
        raise OSError(f"--device {device} cannot be used: {missing}")


def weights_files(uncertainty: Path | None, entry_weights: Path | None) -> tuple[Path, ...]:
    """List the table beside X, if there is one; both at once are refused, since uncertainties are weights already."""
    if uncertainty is not None and entry_weights is not None:
        raise typer.BadParameter(
            "uncertainties are weights (1 / U^2) already: give one of --uncertainty and --entry-weights.",
            param_hint="--uncertainty",
        )
    return tuple(path for path in (uncertainty, entry_weights) if path is not None)


def files_beside(uncertainty: Path | None, entry_weights: Path | None, fixed: Path | None) -> tuple[Path, ...]:
    """List the tables beside X."""
    return (*weights_files(uncertainty, entry_weights), *((fixed,) if fixed is not None else ()))


def parse_numbers(text: str, name: str) -> tuple[float, ...]:
    """Read a comma-separated list from the command line, for example "0,1"."""
    try:
        return tuple(float(item) for item in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a comma-separated list of numbers.", param_hint=name) from None


def parse_penalties(text: str | None) -> list[str] | None:
    """Read penalties from the command line, "sparsity:0.1,l2:0.1:W"; they stay texts, which the library takes."""
    from drnmf.objective.penalties import as_penalties

    if text is None:
        return None
    items = [item.strip() for item in text.split(",")]
    with bad_usage("--penalty"):
        as_penalties(items)
    return items


def parse_omega(text: str) -> Omega | Interval | str:
    """Read Omega from the command line: a list as in `parse_betas`, an interval "0..2", or "auto"."""
    from drnmf.losses.interval import as_interval

    if text.strip().lower() == "auto":
        return "auto"
    with bad_usage("--betas"):
        return as_interval(text) or parse_betas(text)


def parse_betas(text: str) -> Omega:
    """Read Omega from the command line: "0,1", "itakura-saito,1" or "1,nb:30"."""
    from drnmf.losses.names import as_losses

    items = [item.strip() for item in text.split(",")]
    with bad_usage("--betas"):
        return as_losses(float(item) if _is_number(item) else item for item in items)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
