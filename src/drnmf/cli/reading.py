"""How the commands read X: one set of options for all of them, and what they say."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drnmf.cli import options
from drnmf.cli.common import bad_usage, errors, in_options, say, warn
from drnmf.loading import needs

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from drnmf.matrices.matrix import Layout, Matrix
    from drnmf.numerics import Entries
    from drnmf.runs import schema


def _about_x(said: str, *flags: str, **more: Any) -> Any:
    """Make an option of how X is read."""
    return typer.Option(*flags, help=said, rich_help_panel=options.READING, show_default=False, **more)


@dataclass(frozen=True)
class Source:
    """How X is read from its file, and the table that belongs to it: each field is an option."""

    uncertainty: Annotated[Path | None, _about_x("Standard deviations of the entries of X: weights 1 / U^2.")] = None
    entry_weights: Annotated[Path | None, _about_x("Weights of the entries of X, >= 0; 0: not observed.")] = None
    variable: options.Variable = None
    layer: Annotated[
        str | None, _about_x("Which layer of an .h5ad file (default: counts where there is one, else X).")
    ] = None
    long: Annotated[
        bool | None,
        _about_x(
            "The table has a row per entry: its row, its column, its value (default: found).",
            "--long/--no-long",
            metavar="",
        ),
    ] = None
    image: Annotated[
        str | None, _about_x("Rows of X are the pixels of a picture of so many rows and columns, as 95x95.")
    ] = None
    labels: Annotated[int | None, _about_x("How many first columns of a table are labels (default: found).", min=0)] = (
        None
    )
    delimiter: Annotated[
        str | None, _about_x("Between the cells of a text table: ; tab space ... (default: found).")
    ] = None
    sheet: Annotated[str | None, _about_x("Which sheet of an .xlsx file (default: the first).")] = None
    transpose: Annotated[bool, _about_x("Exchange rows and columns of X.", "--transpose", metavar="")] = False
    scale_rows: Annotated[bool, _about_x("Divide every row of X by its sum.", "--scale-rows", metavar="")] = False

    def __post_init__(self) -> None:
        from drnmf.matrices.cells import as_delimiter

        if self.delimiter is not None:
            with bad_usage("--delimiter"):
                as_delimiter(self.delimiter)
        if self.uncertainty is not None and self.entry_weights is not None:
            raise typer.BadParameter(
                "uncertainties are weights (1 / U^2) already: give one of --uncertainty and --entry-weights.",
                param_hint="--uncertainty",
            )
        if self.image is not None:
            parse_image(self.image)

    @property
    def layout(self) -> Layout:
        """How a table lies in its file."""
        from drnmf.matrices.matrix import Layout

        image = None if self.image is None else parse_image(self.image)
        return Layout(self.labels, self.delimiter, self.sheet, self.transpose, self.layer, self.long, image)

    @property
    def weights_file(self) -> Path | None:
        """The table of uncertainties or weights, if there is one."""
        return self.uncertainty or self.entry_weights

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

    def open(self, path: Path, negatives: str = "raise", cure: str | None = None) -> Opened:
        """Read a matrix as a whole, with the table that belongs to it."""
        return self.opened(path, self.read(path, negatives, cure))

    def opened(self, path: Path, matrix: Matrix) -> Opened:
        """Read the table that belongs to a matrix, and describe both for summary.json."""
        from drnmf.matrices.companions import read_weights
        from drnmf.runs.write import describe_input

        weights = read_weights(self.uncertainty, self.entry_weights, path, matrix, self.layout)
        described = describe_input(path, matrix, self.variable, self.uncertainty, self.entry_weights)
        return Opened(path, matrix, weights, described, self.weights_file)


@dataclass(frozen=True)
class Opened:
    """X as a command has read it."""

    # path, matrix: the file, and what it holds
    path: Path
    matrix: Matrix
    weights: dict[str, Entries]  # the table of uncertainties or weights, as the keyword argument of `fit`
    described: schema.Input  # what summary.json says of them, as they were read
    weights_file: Path | None  # where the table is from

    def over(self, profiles: str) -> Opened:
        """Exchange rows and columns where components are profiles over "rows"."""
        if profiles != "rows":
            return self
        weights = {name: table.T for name, table in self.weights.items()}
        return replace(self, matrix=self.matrix.transposed(), weights=weights)

    def annotate(
        self, folder: Path, W: ArrayLike, H: ArrayLike, names: Sequence[str], facts: Mapping[str, object]
    ) -> None:
        """Put a copy of an .h5ad file with the result in it into the folder; of other files there is none."""
        if self.path.suffix.lower() != ".h5ad":
            return
        from drnmf.runs.schema import ANNOTATED
        from drnmf.runs.write import write_annotated

        if not write_annotated(self.path, folder / ANNOTATED, W, H, names, facts):
            say(
                "No copy of the .h5ad file: anndata is not installed. Get it with: pip install 'drnmf[anndata]'", errors
            )

    def named_cells(self) -> AbstractContextManager[None]:
        """Name the row and the column where the library names a cell by numbers."""
        from drnmf.matrices.companions import named_cells

        return named_cells(self.matrix, self.path, self.weights_file)


def of_matrix(settings: options.Settings, matrix: Matrix) -> options.Asked:
    """Collect the parameters of a model that the data decide: components that do not move, and what is missing."""
    decided: options.Asked = {}
    if settings["sum_to_one"] == "W":
        _warn_of_sums(matrix)
    if matrix.gaps:
        decided["unstored"] = "missing"
    if settings["fixed"] is not None:
        from drnmf.matrices.companions import read_known

        decided["fixed"] = read_known(settings["fixed"], "--fixed", matrix.column_names, matrix.X.shape[1]).components
    return decided


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


def need_dask() -> ModuleType:
    """Import Dask with its cluster, or say how to get it."""
    for module in ("dask.array", "distributed"):
        needs(module, "dask", "here")
    return needs("dask", "dask", "here")


def parse_image(text: str) -> tuple[int, int]:
    """Read the size of a picture: rows, then columns.

    >>> parse_image("95x105")
    (95, 105)
    """
    sizes = re.fullmatch(r"\s*([1-9]\d*)\s*[x,*]\s*([1-9]\d*)\s*", text)
    if not sizes:
        raise typer.BadParameter(f"{text!r} is no size of a picture: write 95x105.", param_hint="--image")
    return int(sizes[1]), int(sizes[2])


def reads(*only: str) -> Callable[[options.Command], options.Command]:
    """Give a command the options of how X is read, or only some, in the place of its argument `source`."""
    return options.takes_fields("source", Source, only or [one.name for one in fields(Source)])
