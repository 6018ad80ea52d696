"""drnmf pareto: what one loss costs in terms of another, as a table and a figure."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

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
    starts,
)
from drnmf.runs import schema, write
from drnmf.runs.output import check_out


def pareto(
    x: options.Input,
    rank: options.Rank,
    betas: options.Betas = "0,1",
    points: Annotated[int, typer.Option("--points", min=2, help="Points per edge of the front.")] = 11,
    method: Annotated[str, typer.Option("--method", help="How weights become points.")] = "weighted",
    penalty: options.Penalty = None,
    sum_to_one: options.SumToOne = None,
    fixed: options.Fixed = None,
    policy: options.PolicyName = None,
    update: options.UpdateName = None,
    init: options.InitName = None,
    max_iter: options.MaxIter = 10_000,
    tol: options.Tol = 1e-6,
    n_init: options.Starts = 1,
    jobs: options.Jobs = None,
    max_time: options.MaxTime = None,
    seed: options.Seed = 0,
    zeros: options.Zeros = "raise",
    negatives: options.Negatives = "raise",
    unstored: options.Unstored = "zero",
    uncertainty: options.Uncertainty = None,
    entry_weights: options.EntryWeights = None,
    variable: options.Variable = None,
    labels: options.LabelColumns = None,
    delimiter: options.Delimiter = None,
    sheet: options.Sheet = None,
    transpose: options.Transpose = False,
    dtype: options.Dtype = None,
    device: options.Device = None,
    precision: options.Precision = "float32",
    out: Annotated[Path | None, typer.Option("--out", help="Folder for the results (default: NAME-pareto).")] = None,
    overwrite: options.Overwrite = False,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
    report: reporting.Report = None,
    checkpoint: keeping.CheckpointFolder = None,
    checkpoint_every: keeping.CheckpointEvery = 30.0,
) -> None:
    """Find solutions between the losses of --betas, and the robust one among them.

    Writes front.csv, summary.json and, with matplotlib, front.png and front.svg into a folder, all or nothing.
    """
    asked = dict(locals())  # every option, before anything else has a name here
    choices = options.Choices(
        policy, update, init, zeros, dtype, device, precision, negatives, unstored, penalty, sum_to_one
    )
    layout = options.layout_of(labels, delimiter, sheet, transpose)
    omega = options.parse_betas(betas)
    if len(omega) < 2:
        raise typer.BadParameter("a front needs at least two losses, for example 0,1.", param_hint="--betas")
    folder = out if out is not None else folder_for(x, "pareto")
    inputs = (x, *options.files_beside(uncertainty, entry_weights, fixed))
    check_out(folder, overwrite, inputs)
    keeping.check(checkpoint, folder)
    reporting.check(report)
    limit_threads(threads)
    from drnmf.estimators.pareto import METHODS, pareto_front
    from drnmf.matrices.beside import named_cells, read_beside, read_fixed
    from drnmf.report import figures

    choice(method, METHODS, "--method")
    matrix = read_input(x, variable, layout, negatives)
    weights_given = read_beside(uncertainty, entry_weights, x, matrix, layout)
    settings: dict[str, Any] = {"betas": omega, "weights": points, "method": method, **choices.given()}
    known = read_fixed(fixed, x, matrix, layout)
    settings |= {
        "max_iter": max_iter,
        "tol": tol,
        "n_init": n_init,
        "max_time": max_time,
        "random_state": seed,
        "n_jobs": jobs,
    }
    if checkpoint is not None:
        keeping.remember(checkpoint, "pareto", asked | {"out": folder})
    started = time.perf_counter()
    named = named_cells(matrix, x, uncertainty or entry_weights)
    with plain_warnings() as warned, keeping.kept(checkpoint), named:
        front = pareto_front(
            choices.cast(matrix.X), rank, verbose=int(not quiet), checkpoint=checkpoint,
            checkpoint_every=checkpoint_every, **settings, **known, **weights_given,
        )  # fmt: skip
    seconds = time.perf_counter() - started
    with output_folder(folder, overwrite, inputs) as temporary:
        write.write_table(temporary / schema.FRONT, front.to_rows())
        drawn = figures.try_to_draw(figures.draw_front, front, temporary, "front")
        summary: schema.Summary = {
            "kind": "pareto",
            "input": write.describe_input(x, matrix, variable, uncertainty, entry_weights),
            "parameters": {"n_components": rank, **settings, "fixed": None if fixed is None else str(fixed)},
            "seed": seed,
            "seconds": round(seconds, 3),
            "references": write.per_loss(omega, front.references),
            "dominated_points": int(front.dominated.sum()),
            "dr": {
                "weights": write.per_loss(omega, front.dr.weights),
                "losses": write.per_loss(omega, front.dr.losses),
                "scaled_losses": write.per_loss(omega, front.dr.scaled_losses),
            },
            "penalties": write.penalised(front.penalties, front.penalty_path),
            "notes": [*map(in_options, (*matrix.notes, *front.notes)), *warned],
        }
        write.write_summary(temporary, summary | write.computed_by(matrix.X, device, precision))
        reporting.add(temporary, report)
    if not drawn:
        say(figures.HOW_TO_GET)
    worst = 100 * (float(front.dr.scaled_losses.max()) - 1)
    say(
        f"{len(front.points)} points, {seconds:.1f} s; the robust one is at most {worst:.2f} % above the best found "
        f"({starts(n_init)}) of each loss; results in {folder}"
    )
