"""drnmf fit, pareto and tables: factorise a matrix, once or along a front, or several tables, into a folder."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drnmf.cli import keeping, options, reading
from drnmf.cli.common import bad_usage, choice, in_options, plain_warnings, say, starts, table
from drnmf.cli.results import Results, writes
from drnmf.cli.workers import Place, Scheduler, ScratchFolder, Workers
from drnmf.numerics import TOLERANCE
from drnmf.parameters.common import MAX_ITER
from drnmf.runs import schema, write
from drnmf.runs.read import component_names_of

if TYPE_CHECKING:
    from drnmf.estimators.base import NMF
    from drnmf.estimators.models import DRNMF
    from drnmf.losses.base import Omega
    from drnmf.losses.interval import Interval
    from drnmf.matrices.matrix import Matrix
    from drnmf.numerics import Array, Entries


@options.takes_model(max_iter=MAX_ITER, random_state=0)
@reading.reads()
@writes()
def fit(
    x: options.Input,
    rank: options.Rank,
    betas: options.Betas = "1,2",
    weights: Annotated[
        str | None, typer.Option("--weights", help="Fixed weights, one per loss, instead of the most robust ones.")
    ] = None,
    *,
    groups: options.GroupsFile = None,
    groups_before: options.GroupsBefore = None,
    settings: options.Settings,
    source: reading.Source,
    names: options.Names = None,
    field: options.Field = "auto",
    dtype: options.Dtype = None,
    results: Results,
    workers: Workers = None,
    scheduler: Scheduler = None,
    scratch: ScratchFolder = None,
) -> None:
    """Factorise X as W H, good for every loss of --betas at once.

    Writes W and H (.npy, and .csv with names), trace.csv, summary.json and model.npz into a folder, all or nothing.
    """
    choice(dtype, options.DTYPES, "--dtype")
    choice(field, ("auto", *schema.FIELDS), "--field")
    called = options.parse_names(names)
    if not isinstance(rank, str):  # else how many there are is not known yet
        _called(called, rank)
    model = estimator_of(rank, options.parse_omega(betas), weights, settings, bool(groups or groups_before))
    device, checkpoint = settings["device"], settings["checkpoint"]
    results = results.settled("drnmf", x, source.weights_file, settings["fixed"])
    keeping.check(checkpoint, results.folder)
    from drnmf.matrices.companions import read_groups

    place = Place(workers, scheduler, scratch)
    place.check_device(x, device)
    data = source.opened(x, place.read(x, source, settings["negatives"]))
    matrix = data.matrix
    with bad_usage("--groups"):
        labels = read_groups(groups, groups_before, matrix.row_names)
    model.set_params(verbose=int(not results.quiet), **reading.of_matrix(settings, matrix))
    keeping.remember(checkpoint, "fit", settings.asked | {"out": results.folder})
    started = time.perf_counter()
    with place.active(results.threads):  # the rows of a Dask array's W are written from where they are
        with plain_warnings() as warned, keeping.kept(checkpoint), data.named_cells():
            W = model.fit_transform(options.cast(matrix.X, dtype), groups=labels, **data.weights)
        seconds = time.perf_counter() - started
        if matrix.column_names is not None:
            import numpy as np

            model.feature_names_in_ = np.array(matrix.column_names, dtype=object)
        with results.writing() as temporary:
            write.write_model(temporary, model, W)
            write.write_names(temporary, matrix, W, model.components_, _called(called, model.n_components_))
            write.write_comparison_of(temporary, model)
            write.write_coverage(temporary, model)
            summary = write.summary_of(
                "fit", model, seconds, [*map(in_options, (*matrix.notes, *model.notes_)), *warned]
            )
            summary |= {"input": data.described, **_write_more(temporary, data, W, model)}
            if field != "auto":
                summary["field"] = field
            summary |= place.computed(matrix.X, device, settings["precision"], results.threads)
            results.finish(temporary, summary)
    if not results.quiet:
        show_losses(model)
    if model.coverage_ is not None:
        say(f"For every beta of {betas}: at most {100 * (model.coverage_.bound - 1):.2f} % above its best found.")
    for path in model.penalty_path_:
        say(f"{path.penalty}: alpha = {path.alpha:.3g} was chosen from {path.alphas.size} that were tried.")
    say(f"{model.n_iter_} iterations, {seconds:.1f} s; results in {results.folder}")


def _called(names: list[str] | None, rank: int) -> list[str] | None:
    """Name the components as asked, the rest by counting."""
    from drnmf.problem.tabular import component_names

    if names is not None and (len(names) > rank or len(set(names)) < len(names)):
        raise typer.BadParameter(f"give at most {rank} names, each once.", param_hint="--names")
    return None if names is None else [*names, *component_names(rank)[len(names) :]]


def _write_more(folder: Path, data: reading.Opened, W: Entries, model: NMF) -> schema.Summary:
    """Write what goes with uncertainties and with .h5ad files, and say what summary.json says of it."""
    H, summary, matrix = model.components_, schema.Summary(), data.matrix
    if "uncertainty" in data.weights and not hasattr(W, "dask"):
        from drnmf.runs.quality import quality, write_quality

        rows, columns = (
            names or write.counted(size)
            for names, size in zip((matrix.row_names, matrix.column_names), matrix.X.shape, strict=True)
        )
        measured = quality(matrix.X, W, H, data.weights["uncertainty"])
        summary["quality"] = write_quality(folder, measured, list(rows), list(columns))
    facts = {"losses": model.loss_names_, "rank": model.n_components_}
    data.annotate(folder, W, H, component_names_of(folder, H.shape[0]), facts)
    return summary


def estimator_of(
    rank: str, betas: Omega | Interval | str, weights: str | None, settings: options.Settings, grouped: bool = False
) -> NMF:
    """Choose the estimator: BetaNMF for one loss of one group, else DRNMF, or MultiObjectiveNMF under given weights."""
    from drnmf.estimators.models import DRNMF, BetaNMF, MultiObjectiveNMF
    from drnmf.objective.simplex import check_weights

    parameters = settings.parameters()
    if not isinstance(betas, tuple):
        if weights is not None:
            raise typer.BadParameter(f"--betas {betas} has no fixed weights: name the losses.", param_hint="--weights")
        return DRNMF(rank, betas=betas, **parameters)
    if settings["policy"] != "auto" and (weights is not None or (len(betas) == 1 and not grouped)):
        raise typer.BadParameter("the weights are fixed here, so no policy moves them.", param_hint="--policy")
    if weights is not None:
        with bad_usage("--weights"):
            fixed = check_weights(options.parse_numbers(weights, "--weights"), len(betas))
        return MultiObjectiveNMF(rank, betas=betas, weights=tuple(fixed.tolist()), **parameters)
    if len(betas) == 1 and not grouped:
        return BetaNMF(rank, beta=betas[0], **parameters)
    return DRNMF(rank, betas=betas, **parameters)


def show_losses(model: NMF) -> None:
    """Print a line for every loss."""
    from drnmf.parameters.solver import as_solver

    single, solver = len(model.betas_) == 1, as_solver(model.solver)
    parted = model.groups_ is not None
    regrets = parted and solver.part_scale == "regret"
    rows = []
    for b, name in enumerate(model.loss_names_):
        row = [name, f"{model.losses_[b]:.6g}"]
        if not single:
            above = f"{100 * (model.scaled_losses_[b] - (not regrets)):.2f} %"
            row += [f"{model.references_[b]:.6g}", above, f"{model.weights_[b]:.3f}"]
        rows.append(row)
    best = "given reference" if solver.references is not None else f"best found ({starts(model.n_init)})"
    if parted:
        best = f"{best} alone"
    columns = ("loss", "error") if single else ("loss", "error", best, "regret" if regrets else "above it", "weight")
    table(f"{type(model).__name__}, rank {model.n_components_}", columns, rows, left=("loss",))


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
    from drnmf.estimators.models import DRNMF
    from drnmf.estimators.pareto import METHODS, pareto_front

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
