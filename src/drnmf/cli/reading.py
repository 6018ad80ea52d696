"""How the commands read X: one set of options for all of them, and what they say."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from drnmf.cli import options
from drnmf.cli.common import bad_usage, in_options, warn

if TYPE_CHECKING:
    from drnmf.matrices.matrix import Layout, Matrix

_READING = {
    "uncertainty": Annotated[Path | None, "Standard deviations of the entries of X: weights 1 / U^2."],
    "entry_weights": Annotated[Path | None, "Weights of the entries of X, >= 0; 0: not observed."],
    "variable": options.Variable,
    "layer": Annotated[str | None, "Which layer of an .h5ad file (default: counts where there is one, else X)."],
    "long": Annotated[bool | None, "The table has a row per entry: its row, its column, its value (default: found)."],
    "image": Annotated[str | None, "Rows of X are the pixels of a picture of so many rows and columns, as 95x95."],
    "labels": Annotated[int | None, "How many first columns of a table are labels (default: found)."],
    "delimiter": Annotated[str | None, "Between the cells of a text table: ; tab space ... (default: found)."],
    "sheet": Annotated[str | None, "Which sheet of an .xlsx file (default: the first)."],
    "transpose": Annotated[bool, "Exchange rows and columns of X."],
    "scale_rows": Annotated[bool, "Divide every row of X by its sum."],
}
"""How X is read, by the names of the arguments: what every command that reads a matrix takes."""


@dataclass(frozen=True)
class Source:
    """How X is read from its file, and the table that belongs to it."""

    layout: Layout
    variable: str | None = None
    uncertainty: Path | None = None
    entry_weights: Path | None = None
    scale_rows: bool = False

    @property
    def weights_file(self) -> Path | None:
        """The table of uncertainties or weights, if there is one."""
        return self.uncertainty or self.entry_weights

    @classmethod
    def of(
        cls, uncertainty: Path | None, entry_weights: Path | None, variable: str | None, layer: str | None,
        long: bool | None, image: str | None, labels: int | None, delimiter: str | None, sheet: str | None,
        transpose: bool, scale_rows: bool,
    ) -> Source:  # fmt: skip
        """Collect the options, checked."""
        from drnmf.matrices.delimited import as_delimiter
        from drnmf.matrices.matrix import Layout

        if delimiter is not None:
            with bad_usage("--delimiter"):
                as_delimiter(delimiter)
        if uncertainty is not None and entry_weights is not None:
            raise typer.BadParameter(
                "uncertainties are weights (1 / U^2) already: give one of --uncertainty and --entry-weights.",
                param_hint="--uncertainty",
            )
        size = None if image is None else parse_image(image)
        layout = Layout(labels, delimiter, sheet, transpose, layer, long, size)
        return cls(layout, variable, uncertainty, entry_weights, scale_rows)

    def read(self, path: Path, negatives: str = "raise", cure: str | None = None) -> Matrix:
        """Read a matrix as a whole, with remarks on standard error; a bad cell is named, with its cure."""
        from drnmf.matrices.matrix import TAKE_NEGATIVES, check_cells

        matrix = self._whole(path)
        for note in matrix.notes:
            warn(in_options(note))
        check_cells(matrix, path, negatives, cure or TAKE_NEGATIVES)
        return self._scaled(matrix)

    def _scaled(self, matrix: Matrix) -> Matrix:
        """Divide every row by its sum, where that was asked for; uncertainties would have to be divided too."""
        if not self.scale_rows:
            return matrix
        if self.uncertainty is not None:
            raise typer.BadParameter(
                "uncertainties belong to X as it is: scale both in the files.", param_hint="--scale-rows"
            )
        return matrix.scaled_rows()

    def _whole(self, path: Path) -> Matrix:
        from drnmf.matrices import files

        if not stored_in_blocks(path):
            return files.read_matrix(path, self.variable, self.layout)
        need_dask()
        from drnmf.matrices.rowblocks import read_whole

        return read_whole(path, self.variable, self.layout)

    def described(self, path: Path, matrix: Matrix) -> dict[str, Any]:
        """Describe what was read, for summary.json."""
        from drnmf.runs.write import describe_input

        return describe_input(path, matrix, self.variable, self.uncertainty, self.entry_weights)

    def weights(self, path: Path, matrix: Matrix) -> dict[str, Any]:
        """Read the table of uncertainties or weights as the keyword argument of `fit`."""
        from drnmf.matrices.companions import read_weights

        return read_weights(self.uncertainty, self.entry_weights, path, matrix, self.layout)


def of_matrix(settings: options.Settings, matrix: Matrix) -> dict[str, Any]:
    """Collect the parameters of a model that the data decide: components that do not move, and what is missing."""
    given: dict[str, Any] = {}
    if settings["sum_to_one"] == "W":
        _warn_of_sums(matrix)
    if matrix.unstored == "missing":
        given["unstored"] = "missing"
    if settings["fixed"] is not None:
        from drnmf.matrices.companions import read_known

        given["fixed"] = read_known(settings["fixed"], "--fixed", matrix.column_names, matrix.X.shape[1]).components
    return given


def _warn_of_sums(matrix: Matrix) -> None:
    """Warn where rows of X have very different sums, which fractions that sum to one cannot follow."""
    import numpy as np

    if hasattr(matrix.X, "chunks"):
        return
    sums = np.asarray(np.nansum(matrix.X.toarray() if hasattr(matrix.X, "toarray") else matrix.X, axis=1))
    low, high = (
        (float(value) for value in np.quantile(sums[sums > 0], (0.05, 0.95))) if (sums > 0).any() else (1.0, 1.0)
    )
    if high > UNEVEN * low:
        warn(
            f"Most rows of X sum to between {low:.3g} and {high:.3g}, but with --sum-to-one W every row is a mixture "
            "of the same components with the same total: light and dark rows need components of their own. Pass "
            "--scale-rows to divide every row by its sum, or leave --sum-to-one out."
        )


UNEVEN = 1.5
"""Ratio of the sums of heavy and light rows from which fractions cannot follow both."""


def stored_in_blocks(path: Path) -> bool:
    """Tell whether a matrix is stored so that it is read in blocks of rows."""
    return path.is_dir() or path.suffix.lower() in (".zarr", ".h5ad")


def need_dask() -> Any:
    """Import Dask, or say how to get it."""
    try:
        import dask
        import dask.array
        import distributed  # noqa: F401
    except ImportError as error:
        raise ImportError(f"Dask is needed here ({error}): pip install 'drnmf[dask]'.") from None
    return dask


def parse_image(text: str) -> tuple[int, int]:
    """Read the size of a picture: rows, then columns.

    >>> parse_image("95x105")
    (95, 105)
    """
    found = re.fullmatch(r"\s*([1-9]\d*)\s*[x,*]\s*([1-9]\d*)\s*", text)
    if not found:
        raise typer.BadParameter(f"{text!r} is no size of a picture: write 95x105.", param_hint="--image")
    return int(found[1]), int(found[2])


def reads(command: options.Command) -> options.Command:
    """Give a command the options of how X is read, in the place of its argument `source`."""
    made = []
    for name, annotation in _READING.items():
        kind, said = get_args(annotation)[:2]
        flag = "--long/--no-long" if name == "long" else "--" + name.replace("_", "-")
        least = 0 if name == "labels" else None
        if isinstance(said, str):
            hint = "" if kind in (bool, bool | None) else None
            said = typer.Option(
                flag, help=said, min=least, metavar=hint, rich_help_panel=options.READING, show_default=False
            )
        default = False if kind is bool else None
        made.append(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, said])
        )
    return options.expanded("source", made, [], lambda asked: Source.of(**{name: asked[name] for name in _READING}))(
        command
    )
