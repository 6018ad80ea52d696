"""drnmf transform: a saved model applied to new rows, new texts or a new recording."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from drnmf.cli import options
from drnmf.cli.common import limit_threads, plain_warnings, read_input, say, stem, warn
from drnmf.cli.separate import separate_again
from drnmf.cli.topics import Column, document_rows, is_matrix, lines_of
from drnmf.files import replacing
from drnmf.runs import schema, write
from drnmf.runs.output import check_out_file
from drnmf.runs.read import kind_of, model_file


def transform(
    run: Annotated[
        Path,
        typer.Argument(metavar="RUN_DIR", help="Results of `drnmf fit`, `topics` or `separate`.", show_default=False),
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
    column: Column = None,
    encoding: Annotated[str, typer.Option("--encoding", help="Encoding of the texts.")] = "utf-8",
    variable: options.Variable = None,
    labels: options.LabelColumns = None,
    delimiter: options.Delimiter = None,
    sheet: options.Sheet = None,
    transpose: options.Transpose = False,
    uncertainty: options.Uncertainty = None,
    entry_weights: options.EntryWeights = None,
    overwrite: options.Overwrite = False,
    threads: options.Threads = None,
) -> None:
    """Compute W for new rows of the same columns, with the components and weights of a fitted model.

    Every row is treated on its own. New texts are counted in the words of the run, and a new recording is split by the
    spectra of the run.
    """
    layout, kind = options.layout_of(labels, delimiter, sheet, transpose), kind_of(run)
    options.weights_files(uncertainty, entry_weights)
    limit_threads(threads)
    if kind == "separate":
        separate_again(run, x, out, overwrite, quiet=True)
        return
    target = out if out is not None else Path(f"{stem(x)}-W.npy")
    for path, is_ours in ((target, _is_array), (target.with_suffix(".csv"), _is_table)):
        _check_target(path, x, overwrite, is_ours)
    from drnmf.estimators.load import load
    from drnmf.matrices.beside import named_cells, read_beside

    model = load(model_file(run))
    if kind == "topics" and not is_matrix(x):
        W, rows = _of_texts(model, run, x, column, encoding)
    else:
        cure = "correct it, or use a model that was fitted with --negatives clip or missing"
        matrix = read_input(x, variable, layout, model.negatives, cure)
        weights = read_beside(uncertainty, entry_weights, x, matrix, layout)
        _check_names(model, matrix.column_names, x)
        with plain_warnings(), named_cells(matrix, x, uncertainty or entry_weights):
            W = model.transform(matrix.X, **weights)
        rows = None if matrix.rows is None else write.w_rows(matrix.rows, W)
    _save(target, W, rows)
    table = "" if rows is None else f" and {target.with_suffix('.csv')}"
    say(f"W with shape {W.shape} in {target}{table}")


def _of_texts(model: Any, run: Path, x: Path, column: str | None, encoding: str) -> tuple[Any, Any]:
    """Compute W of new texts, zero for those without a word of the run, and the rows of a table like documents.csv."""
    import numpy as np

    from drnmf.text import count_known_words, read_documents, shares_of

    vocabulary = lines_of(run / schema.VOCABULARY)
    idf = np.load(run / schema.IDF, allow_pickle=False) if (run / schema.IDF).exists() else None
    corpus = count_known_words(read_documents(x, column, encoding), vocabulary, idf)
    for note in corpus.notes:
        warn(note)
    if hasattr(model, "feature_names_in_"):
        del model.feature_names_in_
    with plain_warnings():
        found = model.transform(corpus.X)
    W = np.zeros((len(corpus.kept) + len(corpus.empty), found.shape[1]), dtype=found.dtype)
    W[corpus.kept] = found
    table = document_rows(corpus, shares_of(found, model.components_))
    return W, [list(table[0]), *(list(row.values()) for row in table)]


def _save(target: Path, W: Any, rows: Any) -> None:
    import numpy as np

    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as stream:
        np.save(stream, W)
    if rows is not None:
        write.write_rows(target.with_suffix(".csv"), rows)


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
    return schema.component_names(1)[0] in head or head[:2] == ["document", "best_topic"]


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
