"""drnmf discover, noise, rank and consensus of a table; drnmf assign, which known components every sample has."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drnmf.cli import keeping, options, reading
from drnmf.cli.common import bad_usage, choice, errors, in_options, plain_warnings, say
from drnmf.cli.results import Results, writes
from drnmf.runs import schema, write
from drnmf.runs.read import read_run

if TYPE_CHECKING:
    from drnmf.discovery.named import Named
    from drnmf.losses.base import Omega
    from drnmf.matrices.matrix import Matrix, Names
    from drnmf.selection.matching import Known

PROFILES = ("auto", "columns", "rows")
RESAMPLE = ("auto", "none", "poisson", "bootstrap", "uncertainty")
HEAVY = ("auto", "keep", "cap")

Ranks = Annotated[str, typer.Option("--ranks", help="Ranks to try: 2:30, or a list (3,5,8); one is not searched.")]
Losses = Annotated[
    str, typer.Option("--betas", help="auto (from the data's noise), a loss, several (0,1), or an interval (0..2).")
]
Runs = Annotated[int, typer.Option("--runs", min=2, help="Runs of the consensus.")]
ReferenceFile = Annotated[
    Path | None,
    typer.Option("--reference", help="Table of known components, one per column, to name ours by, matched by label."),
]
Keep = Annotated[
    bool, typer.Option("--keep", metavar="", help="Keep components of --reference that serve, and find new ones.")
]
Profiles = Annotated[
    str,
    typer.Option(
        "--profiles", help="What a component is a profile over: columns of X, or rows; auto sees it by labels."
    ),
]
Resample = Annotated[
    str, typer.Option("--resample", help="What each run sees: auto, none (X itself), poisson, bootstrap, uncertainty.")
]
Counts = Annotated[
    bool | None,
    typer.Option("--counts/--no-counts", help="Whether X holds counts (default: what its noise says)."),
]
Heavy = Annotated[
    str, typer.Option("--heavy", help="Samples far heavier than others: keep, cap at ten times the median, or auto.")
]
_NOT_HERE = ("sum_to_one", "fixed", "device", "policy", "inner_iter", "precision", "checkpoint_every")
"""Parameters that a discovery does without."""
Threshold = Annotated[float, typer.Option("--threshold", min=-1, max=1, help="Stability that a component needs.")]

Level = Annotated[
    float, typer.Option("--level", help="What intervals are to cover, 0.9 for 90 %; 0 finds none, and is quicker.")
]


@options.takes_model(without=_NOT_HERE, max_iter=500, tol=1e-5, random_state=0)
@reading.reads()
@writes()
def discover(
    x: options.Input,
    ranks: Ranks = "2:30",
    betas: Losses = "auto",
    runs: Runs = 20,
    profiles: Profiles = "auto",
    reference: ReferenceFile = None,
    keep: Keep = False,
    resample: Resample = "auto",
    heavy: Heavy = "auto",
    threshold: Threshold = 0.6,
    counts: Counts = None,
    level: Level = 0.9,
    groups: options.GroupsFile = None,
    groups_before: options.GroupsBefore = None,
    *,
    settings: options.Settings,
    source: reading.Source,
    names: options.Names = None,
    field: options.Field = "auto",
    results: Results,
) -> None:
    """Find how many components X has, under which noise, and which of them come again in every run.

    Writes components.csv, contributions.csv, both with intervals, stability.csv, noise.csv, ranks.csv and summary.json
    into a folder, all or nothing. After Ctrl-C it writes what the finished runs agree on.
    """
    for value, allowed, name in (
        (profiles, PROFILES, "--profiles"),
        (resample, RESAMPLE, "--resample"),
        (heavy, HEAVY, "--heavy"),
    ):
        choice(value, allowed, name)
    choice(field, ("auto", *schema.FIELDS), "--field")
    losses = betas if betas == "auto" else options.parse_omega(betas)
    asked, checkpoint = settings.asked, settings["checkpoint"]
    results = results.settled("discover", x, reference, groups, source.weights_file)
    keeping.check(checkpoint, results.folder)
    from drnmf.discovery.folder import write_discovery
    from drnmf.discovery.found import labelled as with_labels
    from drnmf.discovery.named import facts_of
    from drnmf.estimators.models import DRNMF
    from drnmf.matrices.companions import read_groups, read_known
    from drnmf.selection.asked import Asked
    from drnmf.selection.discover import search

    data = source.open(x, settings["negatives"])
    data = replace(data, matrix=data.matrix.with_gaps())
    profiles = side_of(profiles, reference, data.matrix)
    data = data.over(profiles)
    matrix = data.matrix
    listed = parse_ranks(ranks, min(matrix.X.shape), asked=ranks != "2:30")
    known = None
    if reference is not None:
        known = read_known(reference, "--reference", matrix.column_names, matrix.X.shape[1])
    labelled = read_groups(groups, groups_before, matrix.row_names)
    keeping.remember(checkpoint, "discover", asked | {"out": results.folder})
    model = DRNMF(betas=losses, verbose=int(not results.quiet), **settings.parameters())
    with plain_warnings() as warned, keeping.kept(checkpoint), keyboard_interrupts(), data.named_cells():
        query = Asked(
            listed,
            runs,
            None if resample == "none" else resample,
            heavy,
            threshold,
            counts,
            level or None,
            known,
            keep,
            groups=labelled,
            **data.weights,
        )
        searched = search(matrix.X, model, query)
    discovery = with_labels(searched, query, matrix.X, matrix.rows, matrix.columns)
    with bad_usage("--names"):
        discovery = discovery.named(options.parse_names(names))
    with results.writing() as temporary:
        summary = _summary(discovery, matrix, warned, profiles)
        if field != "auto":
            summary["field"] = field
        summary["parameters"] = settings.stored(*_NOT_PARAMETERS)
        summary["seed"], summary["input"] = settings["random_state"], data.described
        if profiles == "columns":
            found = discovery.contributions, discovery.components
            data.annotate(temporary, *found, discovery.names, facts_of(discovery))
        write_discovery(temporary, discovery, summary | write.computed_by(matrix.X))
        results.add_page(temporary)
    say(f"{in_options(discovery.summary())} {discovery.seconds:.1f} s; results in {results.folder}")
    if discovery.interrupted:
        raise typer.Exit(128 + signal.SIGINT)


def side_of(profiles: str, reference: Path | None, matrix: Matrix) -> str:
    """Settle what components are profiles over: columns, unless labels of mutation types or of a reference say rows."""
    from drnmf.matrices.companions import side_named
    from drnmf.matrices.matrix import are_mutations

    if reference is None:
        named = "rows" if are_mutations(matrix.row_names) else None
        why = "its rows are mutation types"
    else:
        named, why = side_named(reference, matrix), f"{reference} has the labels of its rows"
    if profiles == "columns" and named == "rows" and reference is not None:
        raise ValueError(f"{why}, but components are profiles over the columns of X: pass --profiles rows.")
    if profiles != "auto":
        return profiles
    if named == "rows":
        say(f"Components are profiles over the rows of X: {why} (--profiles columns decides otherwise).", errors)
        return "rows"
    return "columns"


_NOT_PARAMETERS = ("x", "out", "overwrite", "threads", "quiet", "report", "checkpoint")


def _summary(discovery: Named, matrix: Matrix, warned: list[str], profiles: str) -> schema.Summary:
    """What summary.json says of this discovery, in the words of the command line."""
    from drnmf.discovery.folder import discovered

    search = discovered(discovery, profiles)
    search["missing"] = [in_options(what) for what in search["missing"]]
    search["finding"] = in_options(search["finding"])
    search["cautions"] = [in_options(caution) for caution in search["cautions"]]
    return {"notes": [*map(in_options, (*matrix.notes, *discovery.notes)), *warned], "discovery": search}


def parse_ranks(text: str, most: int, asked: bool = True) -> list[int]:
    """Read ranks from the command line: "2:30" (both ends), or "3,5,8"; those that nobody asked for end at `most`."""
    ends = re.fullmatch(r"\s*(\d+)\s*:\s*(\d+)\s*", text)
    if ends:
        listed = list(range(int(ends[1]), int(ends[2]) + 1))
    elif re.fullmatch(r"\s*\d+\s*(,\s*\d+\s*)*", text):
        listed = [int(item) for item in text.split(",")]
    else:
        listed = []
    if not listed or min(listed) < 1:
        raise typer.BadParameter(f"{text!r} names no ranks: write 2:30 or 3,5,8.", param_hint="--ranks")
    return listed if asked else [rank for rank in listed if rank <= most] or [most]


@contextmanager
def keyboard_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt at Ctrl-C in the block, of which the library keeps what is done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    if before not in (signal.SIG_IGN, None):
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


KnownComponents = Annotated[
    Path,
    typer.Option("--components", help="Known components, one per column of a table; or a folder of fit or discover."),
]
OneLoss = Annotated[str, typer.Option("--betas", help="A loss, or auto: that of the folder, else of the data's noise.")]


@options.takes_model(only=(options.READING, "random_state"), random_state=0)
@reading.reads()
@writes("quiet", "report")
def assign(
    x: options.Input,
    components: KnownComponents,
    betas: OneLoss = "auto",
    profiles: Profiles = "auto",
    *,
    settings: options.Settings,
    source: reading.Source,
    results: Results,
) -> None:
    """Find which of some known components every sample has, and how much of each: contributions with real zeros.

    Writes contributions.csv, contributions-dense.csv (with all components in every sample) and summary.json.
    """
    choice(profiles, PROFILES, "--profiles")
    results = replace(results, report=False).settled("assign", x, components, source.weights_file)
    from drnmf.estimators.models import DRNMF
    from drnmf.selection.assignment.assign import assign as find

    data = source.open(x, settings["negatives"])
    data = replace(data, matrix=data.matrix.with_gaps())
    table = components / schema.COMPONENTS if components.is_dir() else components
    if table.is_file():
        profiles = side_of(profiles, table, data.matrix)
    data = data.over(profiles)
    matrix = data.matrix
    known, own = read_components(components, matrix.column_names, matrix.X.shape[1])
    losses = own if betas == "auto" and own is not None else options.parse_omega(betas)
    model, before = DRNMF(betas=losses, **settings.parameters()), time.perf_counter()
    with plain_warnings() as warned, data.named_cells():
        assignment = find(matrix.X, known.components, model, **data.weights)
    with results.writing() as temporary:
        samples = matrix.row_names or write.counted(matrix.X.shape[0])
        for file, W in ((schema.CONTRIBUTIONS, assignment.contributions), (schema.DENSE, assignment.dense)):
            write.write_rows(temporary / file, write.labelled(samples, W, known.names))
        summary: schema.Summary = {
            "kind": "assign",
            "seconds": round(time.perf_counter() - before, 3),
            "seed": settings["random_state"],
            "notes": [*map(in_options, matrix.notes), *warned, in_options(assignment.summary())],
            "input": data.described,
            "parameters": settings.stored("x", "out", "overwrite", "threads"),
        }
        results.finish(temporary, summary | write.computed_by(matrix.X))
    say(f"{in_options(assignment.summary())} Results in {results.folder}")


def read_components(path: Path, labels: Names, count: int) -> tuple[Known, Omega | None]:
    """Read known components from a table, or those of a run, under the labels of X.

    With them comes the loss of the run; None where there is no run, or where it had several.
    """
    import numpy as np

    from drnmf.matrices.companions import ordered, read_known
    from drnmf.selection.matching import Known

    if not path.is_dir():
        return read_known(path, "--components", labels, count), None
    run = read_run(path)
    omega = run.omega if len(run.omega) == 1 else None
    if (path / schema.COMPONENTS).is_file():
        return read_known(path / schema.COMPONENTS, "--components", labels, count), omega
    if run.H is None:
        raise ValueError(f"--components {path} is a run without components: name one of fit or discover, or a table.")
    own = None if run.column_names is None else tuple(run.column_names)
    H = ordered(np.asarray(run.H.T, dtype=np.float64), own, labels, count, f"--components {path}").T
    return Known(H, run.component_names), omega
