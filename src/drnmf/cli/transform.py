"""drnmf transform: a saved model applied to new rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from drnmf.cli import options
from drnmf.cli.common import limit_threads, plain_warnings, read_input, reports_errors, say, stem
from drnmf.runs.read import model_file
from drnmf.storage.files import replacing


@reports_errors
def transform(
    run: Annotated[Path, typer.Argument(metavar="RUN_DIR", help="Results folder of `drnmf fit`.", show_default=False)],
    x: options.Input,
    out: Annotated[Path | None, typer.Option("--out", help="File for the result (default: NAME-W.npy).")] = None,
    variable: options.Variable = None,
    labels: options.LabelColumns = None,
    delimiter: options.Delimiter = None,
    sheet: options.Sheet = None,
    transpose: options.Transpose = False,
    overwrite: options.Overwrite = False,
    threads: options.Threads = None,
) -> None:
    """Compute W for new rows of the same columns, with the components and weights of a fitted model.

    Every row is treated on its own.
    """
    layout = options.layout_of(labels, delimiter, sheet, transpose)
    target = out if out is not None else Path(f"{stem(x)}-W.npy")
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder: --out names a file here, for example {target / 'W.npy'}.")
    if target.exists() and not overwrite:
        raise FileExistsError(f"{target} exists: choose another --out, or pass --overwrite to replace it.")
    if target.exists() and not _is_array(target):
        raise FileExistsError(f"{target} is no .npy file, so --overwrite leaves it alone: choose another --out.")
    if target.exists() and x.exists() and target.samefile(x):
        raise ValueError(f"{target} is the input itself: choose another --out.")
    limit_threads(threads)
    import numpy as np

    from drnmf.estimators.load import load

    model = load(model_file(run))
    matrix = read_input(x, variable, layout)
    _check_names(model, matrix.column_names, x)
    with plain_warnings():
        W = model.transform(matrix.X)
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as stream:
        np.save(stream, W)
    say(f"W with shape {W.shape} in {target}")


def _is_array(path: Path) -> bool:
    with open(path, "rb") as stream:
        return stream.read(6) == b"\x93NUMPY"


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
