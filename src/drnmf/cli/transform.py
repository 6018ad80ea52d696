"""drnmf transform: a saved model applied to new rows, new texts or a new recording."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from drnmf.cli import options, reading
from drnmf.cli.common import limit_threads, plain_warnings, say, stem
from drnmf.files import replacing
from drnmf.runs import apps, write
from drnmf.runs.output import check_out_file
from drnmf.runs.read import component_names_of, kind_of, model_file, profiles_of


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
        for path, is_ours in ((target, _is_array), (target.with_suffix(".csv"), _is_table)):
            _check_target(path, self.x, self.overwrite, is_ours)
        return target


@reading.reads
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
            metavar="X", help="New rows; of topics, new texts; of separate, a recording.", show_default=False
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
    kind = kind_of(run)
    limit_threads(threads)
    request = Request(run, x, out, overwrite, column, encoding)
    if kind in apps.TRANSFORMS and apps.load(apps.TRANSFORMS[kind])(request):
        return
    target = request.target()
    from drnmf.estimators.load import load
    from drnmf.matrices.companions import named_cells

    model = load(model_file(run))
    cure = "correct it, or use a model that was fitted with --negatives clip or missing"
    matrix = source.read(x, model.negatives, cure)
    weights = source.weights(x, matrix)
    if profiles_of(run) == "rows":  # as X was read there
        matrix, weights = matrix.transposed(), {name: table.T for name, table in weights.items()}
    if matrix.unstored == "missing" and hasattr(model, "feature_names_in_"):
        matrix = matrix.under(model.feature_names_in_.tolist())
    _check_names(model, matrix.column_names, x)
    with plain_warnings(), named_cells(matrix, x, source.weights_file):
        W = model.transform(matrix.X, **weights)
    names = component_names_of(run, W.shape[1])
    save(target, W, None if matrix.rows is None else write.labelled(matrix.row_names, W, names))


def save(target: Path, W: Any, rows: Any) -> None:
    """Write W, and a table of its rows beside it where they have names."""
    import numpy as np

    target.parent.mkdir(parents=True, exist_ok=True)
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


def _check_names(model: Any, names: tuple[str, ...] | None, x: Path) -> None:
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
