"""drnmf discover: noise, rank and consensus of a table, in one command."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drnmf.cli import keeping, options, reporting
from drnmf.cli.common import (
    choice,
    folder_for,
    in_options,
    limit_threads,
    output_folder,
    plain_warnings,
    read_input,
    say,
)
from drnmf.cli.discover.files import write_discovery
from drnmf.cli.discover.groups import GroupsBefore, GroupsFile, read_groups
from drnmf.cli.discover.reference import read_reference
from drnmf.runs import schema, write
from drnmf.runs.output import check_out

if TYPE_CHECKING:
    from drnmf.matrices.matrix import Matrix
    from drnmf.selection.discover import Discovery

PROFILES = ("columns", "rows")
RESAMPLE = ("auto", "none", "poisson", "bootstrap", "uncertainty")
HEAVY = ("auto", "keep", "cap")

Ranks = Annotated[str, typer.Option("--ranks", help="Ranks to try: 2:30, or a list (3,5,8); one is not searched.")]
Losses = Annotated[
    str, typer.Option("--betas", help="auto (from the data's noise), a loss, several (0,1), or an interval (0..2).")
]
Runs = Annotated[int, typer.Option("--runs", min=2, help="Runs of the consensus.")]
Duration = Annotated[str | None, typer.Option("--max-time", help="Time for all of it: seconds, or 90s, 10m, 2h.")]
ReferenceFile = Annotated[
    Path | None, typer.Option("--reference", help="Table of known components, one per column, to name ours by.")
]
Keep = Annotated[
    bool, typer.Option("--keep", metavar="", help="Keep components of --reference that serve, and find new ones.")
]
Profiles = Annotated[
    str, typer.Option("--profiles", help="What a component is a profile over: columns of X, or rows (signatures).")
]
Resample = Annotated[
    str, typer.Option("--resample", help="What each run sees: auto, none (X itself), poisson, bootstrap, uncertainty.")
]
Heavy = Annotated[
    str, typer.Option("--heavy", help="Samples far heavier than others: keep, cap at ten times the median, or auto.")
]
_NOT_HERE = (
    "sum_to_one", "fixed", "device", "max_time", "policy", "inner_iter", "precision", "checkpoint_every",
)  # fmt: skip
"""Parameters that a discovery does without; --max-time also takes minutes and hours here."""
Threshold = Annotated[float, typer.Option("--threshold", min=-1, max=1, help="Stability that a component needs.")]


@options.takes_model(*_NOT_HERE, max_iter=500, tol=1e-5, random_state=0)
def discover(
    x: options.Input,
    ranks: Ranks = "2:30",
    betas: Losses = "auto",
    runs: Runs = 20,
    profiles: Profiles = "columns",
    reference: ReferenceFile = None,
    keep: Keep = False,
    resample: Resample = "auto",
    heavy: Heavy = "auto",
    threshold: Threshold = 0.6,
    groups: GroupsFile = None,
    groups_before: GroupsBefore = None,
    max_time: Duration = None,
    *,
    settings: options.Settings,
    uncertainty: options.Uncertainty = None,
    entry_weights: options.EntryWeights = None,
    variable: options.Variable = None,
    labels: options.LabelColumns = None,
    delimiter: options.Delimiter = None,
    sheet: options.Sheet = None,
    transpose: options.Transpose = False,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for the results (default: NAME-discover).")] = None,
    overwrite: options.Overwrite = False,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
    report: reporting.Report = None,
) -> None:
    """Find how many components X has, under which noise, and which of them come again in every run.

    Writes components.csv, contributions.csv, stability.csv, noise.csv, ranks.csv and summary.json into a folder, all or
    nothing. After Ctrl-C it writes what the finished runs agree on.
    """
    for value, allowed, name in (
        (profiles, PROFILES, "--profiles"),
        (resample, RESAMPLE, "--resample"),
        (heavy, HEAVY, "--heavy"),
    ):
        choice(value, allowed, name)
    losses = betas if betas == "auto" else options.parse_omega(betas)
    seconds = None if max_time is None else parse_seconds(max_time)
    asked, checkpoint = settings.asked, settings["checkpoint"]
    layout = options.layout_of(labels, delimiter, sheet, transpose)
    folder = out if out is not None else folder_for(x, "discover")
    beside = options.weights_files(uncertainty, entry_weights)
    inputs = [path for path in (x, reference, groups, *beside) if path is not None]
    check_out(folder, overwrite, inputs)
    keeping.check(checkpoint, folder)
    reporting.check(report)
    limit_threads(threads)
    from drnmf.estimators.robust import DRNMF
    from drnmf.matrices.beside import named_cells, read_beside
    from drnmf.selection.discover import discover as find

    matrix = read_input(x, variable, layout, settings["negatives"])
    described = write.describe_input(x, matrix, variable, uncertainty, entry_weights)
    weights = read_beside(uncertainty, entry_weights, x, matrix, layout)
    if profiles == "rows":
        matrix, weights = matrix.transposed(), {name: table.T for name, table in weights.items()}
    given = parse_ranks(ranks, min(matrix.X.shape), asked=ranks != "2:30")
    known = None if reference is None else read_reference(reference, matrix.column_names, matrix.X.shape[1])
    labelled = read_groups(groups, groups_before, matrix.row_names)
    if checkpoint is not None:
        keeping.remember(checkpoint, "discover", asked | {"out": folder})
    model = DRNMF(betas=losses, max_time=seconds, verbose=int(not quiet), **settings.given())
    named = named_cells(matrix, x, uncertainty or entry_weights)
    with plain_warnings() as warned, keeping.kept(checkpoint), keyboard_interrupts(), named:
        found = find(
            matrix.X, model, ranks=given, n_runs=runs, resample=None if resample == "none" else resample, heavy=heavy,
            threshold=threshold, reference=None if known is None else known.components,
            reference_names=None if known is None else known.names, groups=labelled, keep=keep, **weights,
        )  # fmt: skip
    with output_folder(folder, overwrite, inputs) as temporary:
        m, n = matrix.X.shape
        write_discovery(temporary, found, matrix.column_names or _counted(n), matrix.row_names or _counted(m))
        summary = _summary(found, matrix, warned, profiles, threshold)
        summary["parameters"] = {
            name: value.name if isinstance(value, Path) else value
            for name, value in asked.items()
            if name not in _NOT_PARAMETERS
        }
        summary["seed"], summary["input"] = settings["random_state"], described
        write.write_summary(temporary, summary | write.computed_by(matrix.X))
        reporting.add(temporary, report)
    say(f"{in_options(found.summary())} {found.seconds:.1f} s; results in {folder}")
    if found.interrupted:
        raise typer.Exit(128 + signal.SIGINT)


_NOT_PARAMETERS = ("x", "out", "overwrite", "threads", "quiet", "report", "checkpoint")


def _counted(count: int) -> list[str]:
    return [str(i) for i in range(count)]


def _summary(found: Discovery, matrix: Matrix, warned: list[str], profiles: str, threshold: float) -> schema.Summary:
    """What summary.json says of a discovery."""
    best = found.runs[0]
    noise = found.noise
    return {
        "kind": "discover",
        "seconds": round(found.seconds, 3),
        "losses": write.per_loss(best.omega, best.losses),
        "references": write.per_loss(best.omega, best.references),
        "weights": write.per_loss(best.omega, best.weights),
        "notes": [*map(in_options, (*matrix.notes, *found.notes)), *warned],
        "discovery": {
            "missing": [in_options(what) for what in found.missing],
            "rank": found.rank,
            "stable": int(found.stable.sum()),
            "threshold": threshold,
            "resample": found.resample,
            "beta": None if noise is None else noise.beta,
            "slope": None if noise is None else noise.slope,
            "profiles": profiles,
            "penalties": list(found.penalties),
            "finding": in_options(found.summary()),
            "stages": found.stages,
        },
    }


def parse_ranks(text: str, most: int, asked: bool = True) -> list[int]:
    """Read ranks from the command line: "2:30" (both ends), or "3,5,8".

    Parameters
    ----------
    most : min(m, n)
    asked : whether the user named them; else they end where X does
    """
    found = re.fullmatch(r"\s*(\d+)\s*:\s*(\d+)\s*", text)
    if found:
        listed = list(range(int(found[1]), int(found[2]) + 1))
    elif re.fullmatch(r"\s*\d+\s*(,\s*\d+\s*)*", text):
        listed = [int(item) for item in text.split(",")]
    else:
        listed = []
    if not listed or min(listed) < 1:
        raise typer.BadParameter(f"{text!r} names no ranks: write 2:30 or 3,5,8.", param_hint="--ranks")
    return listed if asked else [rank for rank in listed if rank <= most] or [most]


def parse_seconds(text: str) -> float:
    """Read a time: "90", "90s", "10m", "1.5h".

    >>> parse_seconds("90"), parse_seconds("10m"), parse_seconds("1.5h")
    (90.0, 600.0, 5400.0)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smh]?)\s*", text)
    if not found or float(found[1]) == 0:
        raise typer.BadParameter(f"{text!r} is no time: write seconds, or 90s, 10m, 2h.", param_hint="--max-time")
    return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]]


@contextmanager
def keyboard_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt at Ctrl-C in the block, of which the library keeps what is done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: Any = signal.getsignal(signal.SIGINT)
    if before not in (signal.SIG_IGN, None):
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
