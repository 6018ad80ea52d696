"""drnmf predict: entries of X that were not observed, from the factors of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from drnmf.cli import options
from drnmf.cli.common import say, stem
from drnmf.runs import schema, write
from drnmf.runs.output import check_out_file
from drnmf.runs.read import read_run


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
    from drnmf.matrices.delimited import find_delimiter, rows_of

    found = read_run(run)
    if found.W is None or found.H is None:
        raise ValueError(f"{run} holds no {schema.W_FILE} and {schema.H_FILE}: name the folder of a `drnmf fit`.")
    with rows_of(pairs, find_delimiter(pairs)) as rows:
        head, *asked = [[cell.strip() for cell in cells[:2]] for _, cells in rows]
    names = found.row_names or write.counted(found.W.shape[0]), found.column_names or write.counted(found.H.shape[1])
    if head[0] in names[0] and head[-1] in names[1]:
        head, asked = ["row", "column"], [head, *asked]
    i, j = (places([pair[side] for pair in asked], names[side]) for side in (0, 1))
    values = np.einsum("ij,ij->i", found.W[i], found.H.T[j]).tolist()
    write.write_rows(
        target, [[*head, "predicted"], *([*pair, value] for pair, value in zip(asked, values, strict=True))]
    )
    say(f"{len(values)} predictions in {target}")
