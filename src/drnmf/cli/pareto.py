"""drnmf pareto: what one loss costs in terms of another, as a table and a figure."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from drnmf.cli import keeping, options, reading
from drnmf.cli.common import choice, in_options, plain_warnings, say, starts
from drnmf.cli.results import Results, writes
from drnmf.numerics import TOLERANCE
from drnmf.parameters.common import MAX_ITER
from drnmf.runs import schema, write


@options.takes_model(max_iter=MAX_ITER, tol=TOLERANCE, random_state=0)
@reading.reads()
@writes()
def pareto(
    x: options.Input,
    rank: options.Rank,
    betas: options.Betas = "0,1",
    points: Annotated[int, typer.Option("--points", min=2, help="Points per edge of the front.")] = 11,
    method: Annotated[str, typer.Option("--method", help="How weights become points.")] = "weighted",
    *,
    settings: options.Settings,
    source: reading.Source,
    dtype: options.Dtype = None,
    results: Results,
) -> None:
    """Find solutions between the losses of --betas, and the robust one among them.

    Writes front.csv, summary.json and a page that draws the front into a folder, all or nothing.
    """
    choice(dtype, options.DTYPES, "--dtype")
    omega = options.parse_betas(betas)
    if len(omega) < 2:
        raise typer.BadParameter("a front needs at least two losses, for example 0,1.", param_hint="--betas")
    results, checkpoint = results.settled("pareto", x, source.weights_file, settings["fixed"]), settings["checkpoint"]
    keeping.check(checkpoint, results.folder)
    from drnmf.estimators.pareto import METHODS, pareto_front
    from drnmf.estimators.robust import DRNMF

    choice(method, METHODS, "--method")
    data = source.open(x, settings["negatives"])
    parameters = settings.parameters() | reading.of_matrix(settings, data.matrix)
    if rank == "auto":
        raise typer.BadParameter("a front has one rank: name it, or find it with drnmf fit.", param_hint="--rank")
    model = DRNMF(rank, betas=omega, verbose=int(not results.quiet), **parameters)
    keeping.remember(checkpoint, "pareto", settings.asked | {"out": results.folder})
    started = time.perf_counter()
    with plain_warnings() as warned, keeping.kept(checkpoint), data.named_cells():
        X = options.cast(data.matrix.X, dtype)
        front = pareto_front(model, X, weights=points, method=method, **data.weights)
    seconds = time.perf_counter() - started
    with results.writing() as temporary:
        write.write_table(temporary / schema.FRONT, front.to_rows())
        summary: schema.Summary = {
            "kind": "pareto",
            "input": data.described,
            "parameters": write.parameters_of(model)
            | {
                "weights": points,
                "method": method,
                "fixed": None if (file := settings["fixed"]) is None else str(file),
            },
            "seed": settings["random_state"],
            "seconds": round(seconds, 3),
            "references": write.per_loss(omega, front.references),
            "dominated_points": int(front.dominated.sum()),
            "dr": {
                "weights": write.per_loss(omega, front.dr.weights),
                "losses": write.per_loss(omega, front.dr.losses),
                "scaled_losses": write.per_loss(omega, front.dr.scaled_losses),
            },
            "penalties": write.penalised(front.penalties, front.penalty_path),
            "notes": [*map(in_options, (*data.matrix.notes, *front.notes)), *warned],
        }
        computed = write.computed_by(data.matrix.X, settings["device"], settings["precision"])
        results.finish(temporary, summary | computed)
    worst = 100 * (float(front.dr.scaled_losses.max()) - 1)
    say(
        f"{len(front.points)} points, {seconds:.1f} s; the robust one is at most {worst:.2f} % above the best found "
        f"({starts(settings['n_init'])}) of each loss; results in {results.folder}"
    )
