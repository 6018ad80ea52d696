"""drnmf stream: follow rows that are more than memory holds, or that keep coming."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drnmf.cli import options, reading
from drnmf.cli.common import choice, errors, plain_warnings, say
from drnmf.cli.endings import Stopped
from drnmf.cli.fit import estimator_of
from drnmf.cli.results import Results, writes
from drnmf.runs import schema, write
from drnmf.runs.read import model_file, read_run

if TYPE_CHECKING:
    from drnmf.estimators.base import NMF
    from drnmf.matrices.matrix import Matrix

SAID, SAVED = 5.0, 60.0
"""Seconds between two lines of progress, and between two times that the model is written."""
_TAKEN = (options.READING, "init", "random_state", "device", "policy", "precision")
"""Parameters of a fit that does not see all rows at once."""


@options.takes_model(only=_TAKEN, random_state=0)
@reading.reads("variable", "labels", "delimiter")
@writes()
def stream(
    x: Annotated[
        Path,
        typer.Argument(
            metavar="X", help="Rows: .npy .zarr .h5ad, a folder of row blocks, .csv, .jsonl, or - (standard input)."
        ),
    ],
    rank: options.Rank,
    betas: options.Betas = "1",
    weights: Annotated[str | None, typer.Option("--weights", help="Fixed weights, one per loss.")] = None,
    *,
    settings: options.Settings,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Rows of a batch.")] = 4096,
    passes: Annotated[int, typer.Option("--passes", min=1, help="How often X is read.")] = 1,
    forget: Annotated[
        float | None, typer.Option("--forget", min=1, help="Rows after which a row counts half (default: never).")
    ] = None,
    grow: Annotated[
        bool, typer.Option("--grow", metavar="", help="Add components where held-out rows ask for them.")
    ] = False,
    source: reading.Source,
    dtype: options.Dtype = None,
    goes_on: Annotated[
        bool, typer.Option("--continue", metavar="", help="Continue the model in --out, after the rows it has read.")
    ] = False,
    results: Results,
) -> None:
    """Follow rows batch by batch, in memory that does not grow with them.

    Writes H, the trace of the batches, summary.json and model.npz; Ctrl-C too, and --continue resumes there. W of
    any rows comes from `drnmf transform`.
    """
    choice(dtype, options.DTYPES, "--dtype")
    model = estimator_of(rank, options.parse_omega(betas), weights, settings)
    results = replace(results, overwrite=results.overwrite or goes_on)
    results = results.at(results.out or Path("input-stream")) if str(x) == "-" else results.settled("stream", x)
    folder = results.folder
    if str(x) == "-" and passes > 1:
        raise typer.BadParameter("standard input can be read once: write it to a file.", param_hint="--passes")
    from drnmf.estimators.models import load
    from drnmf.matrices.batches import row_batches
    from drnmf.matrices.matrix import check_cells

    progress = StreamProgress(x, batch, results.quiet)
    if goes_on:
        if not folder.is_dir():
            raise ValueError(f"{folder} does not exist: leave --continue out to begin a stream there.")
        asked, model = model, load(model_file(folder))
        progress.go_on(folder, model)
        _check_same(asked, model, folder)
    progress.begin(progress.turn, model)

    def save(rest: bool) -> None:
        with results.writing(overwrite=progress.saved > 0) as temporary:
            summary = _write(temporary, model, progress, rest)
            replace(results, report=False if rest else results.report).finish(temporary, summary)
        progress.saved = time.perf_counter()

    try:
        with plain_warnings() as progress.warned:
            for turn in range(progress.turn, passes):
                progress.begin(turn, model)
                for matrix in progress.left(row_batches(x, batch, source.variable, source.layout)):
                    progress.check_columns(matrix, model)
                    check_cells(matrix, x, settings["negatives"], first=progress.rows(model))
                    model.partial_fit(options.cast(matrix.X, dtype), forget=forget, grow=grow)
                    progress.take(matrix, model)
                    if progress.due():
                        save(True)
    except (Stopped, KeyboardInterrupt, ValueError, OSError) as stop:
        if (taken := progress.rows(model)) == progress.before:
            raise
        save(True)
        again = "the rows after them" if str(x) == "-" else "the same command"
        if isinstance(stop, ValueError | OSError):
            remark = f"{stop} The model of the {taken} rows before is in {folder}: correct the input, and continue with"
            raise ValueError(f"{remark} {again} and --continue.") from None
        remark = f"the model of {taken} rows is in {folder}: continue with {again} and --continue."
        raise Stopped(getattr(stop, "number", 2), remark) from None
    if not hasattr(model, "rows_seen_"):
        raise ValueError(f"{x} holds no rows.")
    save(False)
    say(f"{model.rows_seen_} rows, {model.n_iter_} batches, {progress.seconds():.1f} s; results in {folder}")


@dataclass
class StreamProgress:
    """How far a stream has come."""

    # x, batch, quiet: the input, rows of a batch, and whether nothing is said
    x: Path
    batch: int
    quiet: bool
    # base, before: rows that the model was given when this pass began, and rows of it that another process read
    base: int = 0
    before: int = 0
    turn: int = 0  # the pass
    spent: float = 0.0  # seconds of the processes before
    # saved, said, started: times
    saved: float = 0.0
    # columns, warned: names of the columns, and what was warned of
    columns: tuple[str, ...] | None = None
    # dtype, taken: of the rows, and how many of them this process has read
    dtype: str = ""
    taken: int = 0
    started: float = field(default_factory=time.perf_counter)
    said: float = field(default_factory=time.perf_counter)
    warned: list[str] = field(default_factory=list)

    def go_on(self, folder: Path, model: NMF) -> None:
        """Take up where the run in the folder stopped; of another input all rows are new."""
        summary = read_run(folder).summary
        done = summary.get("stream")
        if done is None:
            raise ValueError(f"{folder} is no run of drnmf stream: --continue resumes one.")
        self.spent, names = float(done["seconds"]), model.__dict__.pop("feature_names_in_", None)
        self.columns = None if names is None else tuple(names)
        if summary.get("input", {}).get("file") == self.x.name and str(self.x) != "-":
            self.before, self.turn = int(done["taken"]), int(done["turn"])

    def begin(self, turn: int, model: NMF) -> None:
        """Begin a pass, or resume it."""
        from drnmf.estimators.streaming import begin_pass

        if turn > self.turn:
            self.turn, self.before = turn, 0
            begin_pass(model)
        self.base = _rows_offered(model) - self.before

    def rows(self, model: NMF) -> int:
        """Count the rows of this pass that the model has seen: it alone knows where a signal met it."""
        return _rows_offered(model) - self.base

    def left(self, batches: Iterator[Matrix]) -> Iterator[Matrix]:
        """Leave out the rows that were read before, in the pass that is gone on with."""
        skip = self.before
        for matrix in batches:
            rows = matrix.X.shape[0]
            if skip >= rows:
                skip -= rows
                continue
            yield matrix if not skip else replace(matrix, X=matrix.X[skip:], rows=None)
            skip = 0

    def check_columns(self, matrix: Matrix, model: NMF) -> None:
        """Remember the names of the columns, and refuse others: the library knows only how many there are."""
        count, known = matrix.X.shape[1], getattr(model, "n_features_in_", None)
        if known not in (None, count):
            raise ValueError(f"{self.x} has {count} columns, but the rows before have {known}: give the same columns.")
        names = matrix.column_names
        self.columns = self.columns or names
        if names is not None and self.columns is not None and tuple(names) != tuple(self.columns):
            raise ValueError(f"{self.x}: its columns are named otherwise than those of the rows before.")

    def take(self, matrix: Matrix, model: NMF) -> None:
        """Count a batch, and say now and then how it goes."""
        self.taken += matrix.X.shape[0]
        self.dtype = str(matrix.X.dtype)
        now = time.perf_counter()
        if self.quiet or now - self.said < SAID:
            return
        self.said = now
        losses = zip(model.loss_names_, model.losses_ / model.rows_seen_, strict=True)
        means = ", ".join(f"{name} {value:.5g} a row" for name, value in losses)
        say(f"{model.rows_seen_} rows, {self.taken / (now - self.started):.0f} a second, {means}", errors)

    def due(self) -> bool:
        """Tell whether it is time to write the model."""
        return time.perf_counter() - max(self.saved, self.started) > SAVED

    def seconds(self) -> float:
        """Compute the seconds spent, in all processes."""
        return self.spent + time.perf_counter() - self.started

    def described(self, model: NMF, rest: bool) -> schema.Streamed:
        """Describe it for summary.json."""
        return {
            "rows": model.rows_seen_,
            "batch": self.batch,
            "taken": self.rows(model),
            "turn": self.turn,
            "rest": rest,
            "seconds": round(self.seconds(), 3),
        }


def _check_same(asked: NMF, model: NMF, folder: Path) -> None:
    """Refuse to continue a stream under another rank or other losses, which would change nothing."""
    losses = [", ".join(loss.name for loss in omega) for omega in (asked._omega(), model.omega_)]
    for option, now, before in (("--rank", asked.n_components, model.n_components), ("--betas", *losses)):
        if now != before:
            raise ValueError(
                f"{option} is {now}, but the stream in {folder} has {before}: continue it with the same options, or "
                "choose another --out."
            )


def _rows_offered(model: NMF) -> int:
    """Count the rows that a model was given, those that it holds out among them."""
    return int(getattr(model, "rows_offered_", getattr(model, "rows_seen_", 0)))


def _write(folder: Path, model: NMF, progress: StreamProgress, rest: bool) -> schema.Summary:
    """Write the run, what `drnmf fit` writes but W, and say what summary.json says."""
    import numpy as np

    if progress.columns is not None:
        model.feature_names_in_ = np.array(progress.columns, dtype=object)
    write.write_model(folder, model, None)
    model.__dict__.pop("feature_names_in_", None)  # the next rows come without names
    summary = write.summary_of("stream", model, progress.seconds(), progress.warned)
    summary["input"] = {
        "file": progress.x.name,
        "shape": [progress.rows(model), model.n_features_in_],
        "dtype": progress.dtype,
        "sha256": None,
    }
    summary["stream"] = progress.described(model, rest)
    return summary
