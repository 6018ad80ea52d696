"""Options of the commands, and how they are read. Those of the model are made from the fields of its parameters."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from drnmf.cli.common import bad_usage, choice
from drnmf.parameters.common import DEVICES, Parameters
from drnmf.parameters.fields import Parameter, parameters_of
from drnmf.parameters.solver import Solver

if TYPE_CHECKING:
    from drnmf.losses.base import Omega
    from drnmf.losses.interval import Interval
    from drnmf.matrices.matrix import Layout

Command = TypeVar("Command", bound=Callable[..., None])
DTYPES = ("float32", "float64")
EXPERT = "Expert"
MODEL, SOLVER = parameters_of(Parameters), parameters_of(Solver)


def parse_rank(text: str) -> int | str:
    """Read a number of components, or "auto"."""
    if str(text).strip().lower() == "auto":
        return "auto"
    try:
        rank = int(text)
    except ValueError:
        rank = 0
    if rank < 1:
        raise typer.BadParameter(f"{text!r} is no rank: write a whole number from 1 on, or auto.", param_hint="--rank")
    return rank


def option(name: str) -> Any:
    """Make the option of a parameter."""
    known, expert = (MODEL | SOLVER)[name], name in SOLVER
    kind, text = known.kind, known.help
    if kind.names and not any(word in text for word in kind.names):
        text = f"{text.rstrip('.')}: {', '.join(kind.names)}."
    if known.option == "--rank":
        return typer.Option("--rank", "-r", help=text, parser=parse_rank, metavar="INTEGER|auto", show_default=False)
    names = (known.option,)
    return typer.Option(*names, help=text, min=kind.least, rich_help_panel=EXPERT if expert else None)


Threads = Annotated[int | None, typer.Option("--threads", min=1, help="Threads to use (default: all cores).")]
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
Rank = Annotated[str, option("n_components")]
"""A number, or "auto"."""
MaxIter = Annotated[int, option("max_iter")]
Tol = Annotated[float, option("tol")]
Starts = Annotated[int, option("n_init")]
Seed = Annotated[int, option("random_state")]
Betas = Annotated[
    str,
    typer.Option("--betas", help="Losses: IS, KL, Frobenius, any number >= 0, nb:SIZE; fit also takes 0..2, and auto."),
]
Uncertainty = Annotated[
    Path | None, typer.Option("--uncertainty", help="Standard deviations of the entries of X: weights 1 / U^2.")
]
EntryWeights = Annotated[
    Path | None, typer.Option("--entry-weights", help="Weights of the entries of X, >= 0; 0: not observed.")
]
Dtype = Annotated[str | None, typer.Option("--dtype", help="Compute in float32 or float64 (default: the data's).")]


def layout_of(labels: int | None, delimiter: str | None, sheet: str | None, transpose: bool) -> Layout:
    """Collect how a table lies in its file."""
    from drnmf.matrices.delimited import as_delimiter
    from drnmf.matrices.matrix import Layout

    if delimiter is not None:
        with bad_usage("--delimiter"):
            as_delimiter(delimiter)
    return Layout(labels, delimiter, sheet, transpose)


@dataclass(frozen=True)
class Settings:
    """The options of a command that are parameters of its model, checked.

    Attributes
    ----------
    values : by the names of the parameters; None leaves the choice to the library
    asked : all options of the command, by the names of its arguments
    """

    values: dict[str, Any]
    asked: dict[str, Any]

    def __post_init__(self) -> None:
        for name, value in self.values.items():
            known = (MODEL | SOLVER)[name]
            if known.kind.names:
                choice(value, known.kind.names, str(known.option))
        parse_penalties(self.values.get("penalties"))
        _check_device(self.values.get("device"))

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def given(self) -> dict[str, Any]:
        """Collect the parameters of the model; `fixed` is still to be read from its file."""
        chosen = {name: value for name, value in self.values.items() if value is not None and name != "fixed"}
        if "penalties" in chosen:
            chosen["penalties"] = parse_penalties(chosen["penalties"])
        expert = {name: chosen.pop(name) for name in SOLVER if name in chosen}
        return chosen | {"solver": Solver(**expert)}


def takes_model(*leave_out: str, **defaults: Any) -> Callable[[Command], Command]:
    """Give a command the options of its model in the place of its argument `settings`, those of the solver last.

    Parameters
    ----------
    leave_out : parameters that the command does without
    defaults : where they are others than the model's
    """
    listed = {
        name: known
        for name, known in (MODEL | SOLVER).items()
        if known.option is not None and name not in ("n_components", *leave_out)
    }

    def decorate(command: Command) -> Command:
        hints = get_type_hints(command, include_extras=True)
        whole = inspect.signature(command)
        own = [p.replace(annotation=hints[p.name]) for p in whole.parameters.values()]
        at = next(i for i, p in enumerate(own) if p.name == "settings")
        made = {name: _argument(name, known, defaults) for name, known in listed.items()}
        flat = [argument for name, argument in made.items() if name in MODEL]
        expert = [argument for name, argument in made.items() if name in SOLVER]
        signature = whole.replace(parameters=[*own[:at], *flat, *own[at + 1 :], *expert])

        @functools.wraps(command)
        def call(*values: Any, **given: Any) -> None:
            bound = signature.bind(*values, **given)
            bound.apply_defaults()
            asked = dict(bound.arguments)
            rest = {name: value for name, value in asked.items() if name not in listed}
            command(**rest, settings=Settings({name: asked[name] for name in listed}, asked))

        del call.__wrapped__  # whose signature typer would take
        call.__signature__ = signature  # type: ignore[attr-defined]
        call.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()} | {"return": None}
        return call  # type: ignore[return-value]

    return decorate


def _argument(name: str, known: Parameter, defaults: dict[str, Any]) -> inspect.Parameter:
    """Make the argument of a command for a parameter."""
    owner: Any = Parameters if name in MODEL else Solver
    default = defaults.get(name, owner.__dataclass_fields__[name].default)
    kind: Any = known.kind.type | None if default is None else known.kind.type
    annotation = Annotated[kind, option(name)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def cast(X: Any, dtype: str | None) -> Any:
    """Convert X to the dtype asked for."""
    return X if dtype is None else X.astype(dtype)


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
