"""drnmf tables: factorise several tables of the same rows at once, each with columns, loss and unit of its own."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drnmf.cli import options, reading
from drnmf.cli.common import bad_usage, in_options, plain_warnings, say
from drnmf.cli.fit import show_losses
from drnmf.cli.results import Results, writes
from drnmf.parameters.common import MAX_ITER
from drnmf.runs import schema, write

if TYPE_CHECKING:
    from drnmf.estimators.models import DRNMF
    from drnmf.losses.base import Omega
    from drnmf.matrices.matrix import Matrix
    from drnmf.numerics import Array

Inputs = Annotated[
    list[Path],
    typer.Argument(
        metavar="TABLES", help="Two files or more, called by their names without ending.", show_default=False
    ),
]
Losses = Annotated[str, typer.Option("--betas", help="A loss for every table, as rna=1,protein=2; or one for all.")]


@options.takes_model(
    without=("checkpoint", "checkpoint_every", "references", "fixed", "device", "precision"),
    max_iter=MAX_ITER,
    random_state=0,
)
@reading.reads("labels", "delimiter", "transpose")
@writes()
def tables(
    x: Inputs,
    rank: options.Rank,
    betas: Losses = "1",
    *,
    settings: options.Settings,
    source: reading.Source,
    results: Results,
) -> None:
    """Factorise several tables of the same rows at once, each with columns, loss and unit of its own.

    Rows are matched by their names. Writes what fit does, and the components of every table, in its unit, as
    H-NAME.csv.
    """
    names = [path.stem for path in x]
    if len(x) < 2 or len(set(names)) < len(names):
        raise typer.BadParameter("give two files or more, each with a name of its own.", param_hint="TABLES")
    losses = parse_losses(betas, names)
    results = results.settled("tables", x[0], *x[1:])
    from drnmf.estimators.models import DRNMF
    from drnmf.problem.tabular import Tabular, component_names

    read = {path.stem: source.read(path, settings["negatives"]) for path in x}
    model = DRNMF(rank, betas=losses, verbose=int(not results.quiet), **settings.parameters())
    began = time.perf_counter()
    with plain_warnings() as warned:
        W = model.fit_transform({n: Tabular(m.X, m.row_names, m.column_names) for n, m in read.items()})
    seconds = time.perf_counter() - began
    joined = _joined(model, W)
    with results.writing() as temporary:
        write.write_model(temporary, model, W)
        called = component_names(model.n_components_)
        write.write_names(temporary, joined, W, model.components_, called)
        for name, H in model.table_components_.items():
            rows = read[name].column_names or write.counted(H.shape[1])
            write.write_rows(temporary / f"H-{name}.csv", write.labelled(rows, H.T, called))
        notes = [in_options(note) for matrix in read.values() for note in matrix.notes]
        summary = write.summary_of("fit", model, seconds, [*notes, *map(in_options, model.notes_), *warned])
        files = {path.stem: write.describe_input(path, read[path.stem], None) for path in x}
        together = " + ".join(path.name for path in x)
        whole = schema.Input(file=together, sha256=None, variable=None, shape=list(joined.X.shape), tables=files)
        summary |= {"input": files[names[0]] | whole}
        results.finish(temporary, summary | write.computed_by(joined.X))
    if not results.quiet:
        show_losses(model)
    say(f"{model.n_iter_} iterations, {seconds:.1f} s; results in {results.folder}")


def parse_losses(text: str, names: list[str]) -> Omega | dict[str, str | float]:
    """Read the losses of all tables: NAME=LOSS for each, or one for all.

    >>> parse_losses("rna=KL,protein=2", ["rna", "protein"])
    {'rna': 1.0, 'protein': 2.0}
    """
    if "=" not in text:
        return options.parse_betas(text)
    with bad_usage("--betas"):
        pairs = [part.partition("=")[::2] for part in text.split(",")]
        losses = {name.strip(): loss.strip() for name, loss in pairs}
        if sorted(losses) != sorted(names) or len(pairs) != len(names) or not all(losses.values()):
            raise ValueError(f"name each table once, as {','.join(f'{name}=1' for name in names)}.")
    parsed = {name: options.parse_betas(loss)[0] for name, loss in losses.items()}
    return {name: loss.key if math.isnan(loss.beta) else loss.beta for name, loss in parsed.items()}


def _joined(model: DRNMF, W: Array) -> Matrix:
    """The names of all rows and columns, and a matrix of their shape."""
    import numpy as np

    from drnmf.matrices.matrix import Labels, Matrix

    shape = W.shape[0], model.components_.shape[1]
    rows = None if model.row_names_ is None else Labels.of(list(model.row_names_))
    return Matrix(np.broadcast_to(0.0, shape), rows, Labels.of(list(model.feature_names_in_)))
