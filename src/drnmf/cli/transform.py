"""drnmf transform and drnmf predict: a saved model applied to new rows, texts or recordings, or to entries of X."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drnmf.cli import options, reading
from drnmf.cli.common import plain_warnings, say, stem
from drnmf.cli.results import limit_threads
from drnmf.files import replacing
from drnmf.loading import load as loaded
from drnmf.runs import apps, schema, write
from drnmf.runs.output import check_out_file
from drnmf.runs.read import component_names_of, model_file, read_run, summary_of

if TYPE_CHECKING:
    from drnmf.estimators.base import NMF
    from drnmf.matrices.matrix import Matrix
    from drnmf.numerics import Array
    from drnmf.problem.tabular import Tabular


@dataclass(frozen=True)
class Request:
    """What was asked for, for the app that made the run: it answers True, or False to have X read as a matrix."""

    run: Path
    x: Path
    out: Path | None
    overwrite: bool
    column: str | None
    encoding: str

    def target(self) -> Path:
        """Choose the file for W, checked: nothing is overwritten but what an earlier call wrote."""
        target = self.out if self.out is not None else Path(f"{stem(self.x)}-W.npy")
        array = [] if target.suffix == ".csv" else [(target, _is_array)]
        for path, is_ours in (*array, (target.with_suffix(".csv"), _is_table)):
            _check_target(path, self.x, self.overwrite, is_ours)
        return target


@reading.reads()
def transform(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN_DIR", help="Results of `drnmf fit`, `discover`, `topics` or `separate`.", show_default=False
        ),
    ],
    x: Annotated[
        Path,
        typer.Argument(
            metavar="X",
            help="New rows; of tables, a file called as one of them; of topics, new texts; of separate, a recording.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", help="File for the result (default: NAME-W.npy; of separate, the folder NAME-sources)."),
    ] = None,
    column: options.Column = None,
    encoding: options.Encoding = "utf-8",
    *,
    source: reading.Source,
    overwrite: options.Overwrite = False,
    threads: options.Threads = None,
) -> None:
    """Compute W for new rows of the same columns, with the components and weights of a fitted model.

    Every row is treated on its own. New texts are counted in the words of the run, and a new recording is split by the
    spectra of the run.
    """
    summary = summary_of(run)
    kind = summary.get("kind", "fit")
    limit_threads(threads)
    request = Request(run, x, out, overwrite, column, encoding)
    if kind in apps.TRANSFORMS and loaded(apps.TRANSFORMS[kind])(request):
        return
    target = request.target()
    from drnmf.estimators.models import load

    model = load(model_file(run))
    cure = "correct it, or use a model that was fitted with --negatives clip or missing"
    side = summary["discovery"]["profiles"] if "discovery" in summary else "columns"
    data = source.open(x, model.negatives, cure).over(side)
    matrix = data.matrix
    if matrix.gaps and hasattr(model, "feature_names_in_"):
        matrix = matrix.under(model.feature_names_in_.tolist())
    _check_names(model, matrix.column_names, x)
    X = _table_of(model, matrix, x) if getattr(model, "tables_", None) else matrix.X
    with plain_warnings(), replace(data, matrix=matrix).named_cells():
        W = model.transform(X, **data.weights)
    names = component_names_of(run, W.shape[1])
    save(target, W, None if matrix.rows is None else write.labelled(matrix.row_names, W, names))


def _table_of(model: NMF, matrix: Matrix, x: Path) -> dict[str, Tabular]:
    """Return new rows of one table of a model of several: the file is called as the table was."""
    from drnmf.problem.tabular import Tabular

    names, name = [str(table.name) for table in model.tables_], stem(x)
    if name not in names:
        files = " or ".join(f"{one}{x.suffix}" for one in names)
        raise ValueError(f"the run has the tables {', '.join(names)}: call {x.name} as the table of its rows, {files}.")
    return {name: Tabular(matrix.X, matrix.row_names, matrix.column_names)}


def save(target: Path, W: Array, rows: Iterable[Sequence[object]] | None) -> None:
    """Write W, and a table of its rows beside it where they have names; a target .csv is that table alone."""
    import numpy as np

    target.parent.mkdir(parents=True, exist_ok=True)
    if target.suffix == ".csv":
        write.write_rows(target, rows or write.labelled(write.counted(len(W)), W, write.counted(W.shape[1])))
        say(f"W with shape {W.shape} in {target}")
        return
    with replacing(target) as stream:
        np.save(stream, W)
    if rows is not None:
        write.write_rows(target.with_suffix(".csv"), rows)
    table = "" if rows is None else f" and {target.with_suffix('.csv')}"
    say(f"W with shape {W.shape} in {target}{table}")


def _check_target(target: Path, x: Path, overwrite: bool, is_ours: Callable[[Path], bool]) -> None:
    """Refuse to write over anything but what an earlier `transform` wrote."""
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder: --out names a file here, for example {target / 'W.npy'}.")
    if target.exists() and x.exists() and target.samefile(x):
        raise ValueError(f"{target} is the input itself: choose another --out.")
    if target.exists() and not overwrite:
        raise FileExistsError(f"{target} exists: choose another --out, or pass --overwrite to replace it.")
    if target.exists() and not is_ours(target):
        what = "no .npy file" if target.suffix != ".csv" else "no table that drnmf wrote"
        raise FileExistsError(f"{target} is {what}, so --overwrite leaves it alone: choose another --out.")
    check_out_file(target)


def _is_array(path: Path) -> bool:
    with open(path, "rb") as stream:
        return stream.read(6) == b"\x93NUMPY"


def _is_table(path: Path) -> bool:
    with open(path, encoding="utf-8", errors="replace") as stream:
        head = stream.readline(1 << 16).rstrip("\n").split(",")
    return head[0] == "label" or head[:2] == ["document", "best_topic"]


def _check_names(model: NMF, names: tuple[str, ...] | None, x: Path) -> None:
    """Refuse column names that differ from the model's; values alone are checked for their number later."""
    known = getattr(model, "feature_names_in_", None)
    if known is None:
        return
    del model.feature_names_in_  # the library would ask for a data frame
    if names is None or len(names) != len(known):
        return
    for j, (new, old) in enumerate(zip(names, known, strict=True)):
        if new != old:
            raise ValueError(
                f"{x}: column {j + 1} is {new!r}, but the model has {old!r} there: put the columns in its order."
            )


def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN_DIR", help="Results of `drnmf fit`.", show_default=False)],
    pairs: Annotated[
        Path,
        typer.Argument(metavar="PAIRS", help="Table: the name of a row, the name of a column.", show_default=False),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", help="File for the result (default: NAME-predicted.csv).")
    ] = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Predict entries of X: ratings that users have not given, say.

    PAIRS names a row and a column of X in its first two columns; the result has a third one, with WH there.
    """
    target = out if out is not None else Path(f"{stem(pairs)}-predicted.csv")
    if target.exists() and not overwrite:
        raise FileExistsError(f"{target} exists: choose another --out, or pass --overwrite to replace it.")
    check_out_file(target)
    import numpy as np

    from drnmf.estimators.tables import places
    from drnmf.matrices.cells import find_delimiter, rows_of

    fit = read_run(run)
    if fit.W is None or fit.H is None:
        raise ValueError(f"{run} holds no {schema.W_FILE} and {schema.H_FILE}: name the folder of a `drnmf fit`.")
    with rows_of(pairs, find_delimiter(pairs)) as rows:
        head, *asked = [[cell.strip() for cell in cells[:2]] for _, cells in rows]
    names = fit.row_names or write.counted(fit.W.shape[0]), fit.column_names or write.counted(fit.H.shape[1])
    if head[0] in names[0] and head[-1] in names[1]:
        head, asked = ["row", "column"], [head, *asked]
    i, j = (places([pair[side] for pair in asked], names[side]) for side in (0, 1))
    values = np.einsum("ij,ij->i", fit.W[i], fit.H.T[j]).tolist()
    write.write_rows(
        target, [[*head, "predicted"], *([*pair, value] for pair, value in zip(asked, values, strict=True))]
    )
    say(f"{len(values)} predictions in {target}")
