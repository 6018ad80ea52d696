"""Options of the commands, and how they are read. Those of the model are made from the fields of its parameters."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from drnmf.cli.common import bad_usage, choice
from drnmf.parameters.common import DEVICES, Parameters
from drnmf.parameters.fields import Parameter, parameters_of
from drnmf.parameters.solver import Solver
from drnmf.runs.schema import FIELDS

if TYPE_CHECKING:
    from typer.models import OptionInfo

    from drnmf.losses.base import Omega
    from drnmf.losses.interval import Interval
    from drnmf.numerics import Entries

Asked = dict[str, Any]
"""Values of options by the names of their arguments, of whatever types the command gives them."""
Command = TypeVar("Command", bound=Callable[..., None])
DTYPES = ("float32", "float64")
READING, SHAPE, SEARCH = "Reading X", "Penalties and constraints", "Starts and stopping"
RUNNING, RESULTS, EXPERT = "Running", "Results", "Expert"
"""The groups of options in --help."""
_PANELS = {
    **dict.fromkeys(("penalties", "sum_to_one", "fixed"), SHAPE),
    **dict.fromkeys(("init", "n_init", "max_iter", "tol", "max_time", "random_state"), SEARCH),
    "device": RUNNING,
}
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


def panel_of(name: str) -> str:
    """Choose the group of a parameter: what changes no result is about running, what is left is about X."""
    known = (MODEL | SOLVER)[name]
    return EXPERT if name in SOLVER else _PANELS.get(name, READING if known.result else RUNNING)


def option(name: str) -> OptionInfo:
    """Make the option of a parameter."""
    known, panel = (MODEL | SOLVER)[name], panel_of(name)
    kind, text = known.kind, known.help
    if kind.names and not any(word in text for word in kind.names):
        text = f"{text.rstrip('.')}: {', '.join(kind.names)}."
    if known.option == "--rank":
        return typer.Option("--rank", "-r", help=text, parser=parse_rank, metavar="INTEGER|auto", show_default=False)
    return typer.Option(known.option, help=text, min=kind.least, rich_help_panel=panel)


Threads = Annotated[
    int | None, typer.Option("--threads", min=1, help="Threads to use (default: all cores).", rich_help_panel=RUNNING)
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", metavar="", help="Replace the files of an earlier run.", rich_help_panel=RESULTS)
]
Input = Annotated[
    Path,
    typer.Argument(
        metavar="X",
        help="Matrix: .npy .npz .mtx .mat .zarr .h5ad, a folder of row blocks; table: .csv .tsv .txt .xlsx .parquet "
        ".feather.",
        show_default=False,
    ),
]
Names = Annotated[
    str | None, typer.Option("--names", help="Names of the components, in their order: a,b,c.", rich_help_panel=RESULTS)
]
Field = Annotated[
    str,
    typer.Option(
        "--field", help=f"Pictures of the page: auto (by the labels), {', '.join(FIELDS)}.", rich_help_panel=RESULTS
    ),
]
GroupsFile = Annotated[
    Path | None, typer.Option("--groups", help="Table of two columns, label and group of every row (sample).")
]
GroupsBefore = Annotated[
    str | None, typer.Option("--groups-before", help="The group is the part of a label before this text (::).")
]
Column = Annotated[str | None, typer.Option("--column", help="The column that holds the text.")]
Encoding = Annotated[str, typer.Option("--encoding", help="Encoding of the texts.")]
Variable = Annotated[
    str | None, typer.Option("--variable", help="Which array of a .mat, .npz or .zarr file.", rich_help_panel=READING)
]
Quiet = Annotated[bool, typer.Option("--quiet", metavar="", help="No progress.", rich_help_panel=RUNNING)]
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
Dtype = Annotated[
    str | None,
    typer.Option("--dtype", help="Compute in float32 or float64 (default: the data's).", rich_help_panel=RUNNING),
]


def parse_seconds(text: str | None) -> float | None:
    """Read a time: "90", "90s", "10m", "1.5h".

    >>> parse_seconds("90"), parse_seconds("10m"), parse_seconds("1.5h")
    (90.0, 600.0, 5400.0)
    """
    if text is None:
        return None
    parts = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smh]?)\s*", text)
    if not parts or float(parts[1]) == 0:
        raise typer.BadParameter(f"{text!r} is no time: write seconds, or 90s, 10m, 2h.", param_hint="--max-time")
    return float(parts[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[parts[2]]


@dataclass(frozen=True)
class Settings:
    """The options of a command that are parameters of its model, checked."""

    values: Asked  # by the names of the parameters; None leaves the choice to the library
    asked: Asked  # all options of the command, by the names of its arguments

    def __post_init__(self) -> None:
        for name, value in self.values.items():
            known = (MODEL | SOLVER)[name]
            if known.kind.names:
                choice(value, known.kind.names, str(known.option))
        parse_penalties(self.values.get("penalties"))
        parse_seconds(self.values.get("max_time"))
        _check_device(self.values.get("device"))

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def stored(self, *leave_out: str) -> Asked:
        """List the options of the command, but for some, as summary.json has them: files by their names."""
        return {
            name: value.name if isinstance(value, Path) else value
            for name, value in self.asked.items()
            if name not in leave_out
        }

    def parameters(self) -> Asked:
        """Collect the parameters of the model; `fixed` is still to be read from its file."""
        chosen = {name: value for name, value in self.values.items() if value is not None and name != "fixed"}
        if "penalties" in chosen:
            chosen["penalties"] = parse_penalties(chosen["penalties"])
        if "max_time" in chosen:
            chosen["max_time"] = parse_seconds(chosen["max_time"])
        expert = {name: chosen.pop(name) for name in SOLVER if name in chosen}
        return chosen | {"solver": Solver(**expert)}


def takes_model(
    *, only: tuple[str, ...] = (), without: tuple[str, ...] = (), **defaults: object
) -> Callable[[Command], Command]:
    """Give a command the options of its model in the place of its argument `settings`, those of the solver last.

    It takes `only` these parameters, or groups of them, `without` those; `defaults` are others than the model's.
    """
    listed = {
        name: known
        for name, known in (MODEL | SOLVER).items()
        if known.option is not None
        and name not in ("n_components", *without)
        and (not only or name in only or panel_of(name) in only)
    }
    made = {name: _argument(name, known, defaults) for name, known in listed.items()}
    flat = [argument for name, argument in made.items() if name in MODEL]
    expert = [argument for name, argument in made.items() if name in SOLVER]

    def settings(asked: Asked) -> Settings:
        return Settings({name: asked[name] for name in listed}, asked)

    return expanded("settings", flat, expert, settings)


def expanded(
    place: str,
    flat: list[inspect.Parameter],
    last: list[inspect.Parameter],
    make: Callable[[Asked], object],
) -> Callable[[Command], Command]:
    """Replace an argument of a command by several options, some of them at the end, of which it is made."""
    names = {parameter.name for parameter in (*flat, *last)}

    def decorate(command: Command) -> Command:
        hints = get_type_hints(command, include_extras=True)
        whole = inspect.signature(command)
        own = [p.replace(annotation=hints[p.name]) for p in whole.parameters.values()]
        at = next(i for i, p in enumerate(own) if p.name == place)
        signature = whole.replace(parameters=[*own[:at], *flat, *own[at + 1 :], *last])

        @functools.wraps(command)
        def call(*values: object, **named: object) -> None:
            bound = signature.bind(*values, **named)
            bound.apply_defaults()
            asked = dict(bound.arguments)
            rest = {name: value for name, value in asked.items() if name not in names}
            command(**rest, **{place: make(asked)})

        del call.__wrapped__  # whose signature typer would take
        call.__signature__ = signature  # type: ignore[attr-defined]
        call.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()} | {"return": None}
        return call  # type: ignore[return-value]

    return decorate


def takes_fields(place: str, owner: type, names: Collection[str]) -> Callable[[Command], Command]:
    """Give a command some fields of a dataclass as options, in the place of its argument of that class."""
    hints = get_type_hints(owner, include_extras=True)
    made = [
        inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=hints[one.name])
        for one in fields(owner)
        if one.name in names
    ]
    return expanded(place, made, [], lambda asked: owner(**{one.name: asked[one.name] for one in made}))


def _argument(name: str, known: Parameter, defaults: Mapping[str, object]) -> inspect.Parameter:
    """Make the argument of a command for a parameter."""
    owner = Parameters if name in MODEL else Solver
    default = defaults.get(name, owner.__dataclass_fields__[name].default)
    kind: Any = known.kind.type | None if default is None else known.kind.type
    annotation = Annotated[kind, option(name)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def cast(X: Entries, dtype: str | None) -> Entries:
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


def parse_numbers(text: str, name: str) -> tuple[float, ...]:
    """Read a comma-separated list from the command line, for example "0,1"."""
    try:
        return tuple(float(item) for item in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a comma-separated list of numbers.", param_hint=name) from None


def parse_names(text: str | None) -> list[str] | None:
    """Read names of components from the command line.

    >>> parse_names("sea, road")
    ['sea', 'road']
    """
    return None if text is None else [name.strip() for name in text.split(",")]


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
