"""drnmf assign: which known components every sample has, and how much of each."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drnmf.cli import options, reading
from drnmf.cli.common import choice, in_options, plain_warnings, say
from drnmf.cli.discover import PROFILES, Profiles, side_of
from drnmf.cli.results import Results, writes
from drnmf.runs import schema, write
from drnmf.runs.read import read_run

if TYPE_CHECKING:
    from drnmf.losses.base import Omega
    from drnmf.matrices.matrix import Names
    from drnmf.selection.matching import Known

Components = Annotated[
    Path,
    typer.Option("--components", help="Known components, one per column of a table; or a folder of fit or discover."),
]
Loss = Annotated[str, typer.Option("--betas", help="A loss, or auto: that of the folder, else of the data's noise.")]


@options.takes_model(only=(options.READING, "random_state"), random_state=0)
@reading.reads()
@writes("quiet", "report")
def assign(
    x: options.Input,
    components: Components,
    betas: Loss = "auto",
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
    """Read known components from a table, or those of a run with the loss that they were fitted under.

    Returns
    -------
    known : the components, under the labels of X
    omega : the loss of the run; None where there is no run, or where it had several
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
