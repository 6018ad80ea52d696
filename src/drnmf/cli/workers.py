"""Options of commands that can run on Dask, and the cluster behind them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drnmf.cli.common import errors, in_options, say, warn
from drnmf.cli.local_cluster import local_cluster
from drnmf.cli.options import RUNNING
from drnmf.cli.reading import Source, need_dask, stored_in_blocks
from drnmf.files import temporary_folder
from drnmf.runs import schema, write

if TYPE_CHECKING:
    from distributed import Client

    from drnmf.matrices.matrix import Matrix
    from drnmf.numerics import Entries

Workers = Annotated[
    int | None,
    typer.Option("--workers", min=1, help="Run on so many processes of this machine (Dask).", rich_help_panel=RUNNING),
]
Scheduler = Annotated[
    str | None,
    typer.Option("--scheduler", help="Run on a Dask cluster, for example tcp://host:8786.", rich_help_panel=RUNNING),
]
ScratchFolder = Annotated[
    Path | None,
    typer.Option(
        "--scratch", help="Folder that all workers see, for blocks of W (default: temporary).", rich_help_panel=RUNNING
    ),
]


@dataclass(frozen=True)
class Place:
    """Where a command runs: here, on processes of this machine, or on a cluster."""

    workers: int | None
    scheduler: str | None
    scratch: Path | None

    def __post_init__(self) -> None:
        if self.workers is not None and self.scheduler is not None:
            raise typer.BadParameter("a cluster has its own workers: give one of the two.", param_hint="--workers")

    @property
    def remote(self) -> bool:
        return self.workers is not None or self.scheduler is not None

    def in_blocks(self, path: Path) -> bool:
        """Tell whether a matrix is read in blocks of rows: for a cluster, and where it is stored so."""
        return self.remote or stored_in_blocks(path)

    def check_device(self, path: Path, device: str | None) -> None:
        """Refuse a GPU for a matrix in blocks, which Dask computes on CPUs."""
        if device not in (None, "cpu") and self.in_blocks(path):
            raise typer.BadParameter(
                f"{path} is computed in blocks of rows by Dask, on the CPU: leave --device out, or give X as one array "
                "(.npy, .npz, .mtx) without --workers and --scheduler.",
                param_hint="--device",
            )

    def read(self, path: Path, source: Source, negatives: str = "raise") -> Matrix:
        """Read the matrix, whole or in blocks of rows."""
        if not self.in_blocks(path):
            return source.read(path, negatives)
        need_dask()
        from drnmf.matrices.rowblocks import open_matrix

        matrix = open_matrix(path, source.variable, self.workers or 1, source.layout)
        for note in matrix.notes:
            warn(in_options(note))
        return matrix

    def threads_each(self, threads: int | None) -> int:
        """Choose the threads of a process on this machine: those asked for, else an even part of the cores."""
        return threads or max(1, len(os.sched_getaffinity(0)) // (self.workers or 1))

    def computed(self, X: Entries, device: str | None, precision: str, threads: int | None) -> schema.Summary:
        """Tell what computed a fit, for summary.json."""
        summary = write.computed_by(X, device, precision)
        if self.workers is not None:
            summary["threads"] = self.threads_each(threads)
        return summary

    @contextmanager
    def active(self, threads: int | None) -> Iterator[object]:
        """Connect to the cluster while the block runs; None where everything runs in this process."""
        if not self.remote:
            yield None
            return
        dask = need_dask()
        from distributed import Client

        with self._folder() as folder, dask.config.set({} if folder is None else {"drnmf.scratch": str(folder)}):
            if self.scheduler is not None:
                with Client(self.scheduler) as client:
                    yield _announced(client)
                return
            assert self.workers is not None
            assert folder is not None
            with local_cluster(self.workers, self.threads_each(threads), folder) as address, Client(address) as client:
                yield _announced(client)

    @contextmanager
    def _folder(self) -> Iterator[Path | None]:
        """Make the folder of this run for what workers write, in --scratch or among the temporary ones.

        None where the workers are another machine's, and nobody has said where they and this process both see a folder.
        """
        if self.scratch is None and self.workers is None:
            yield None
            return
        parent = Path(tempfile.gettempdir()) if self.scratch is None else self.scratch
        new = not parent.exists()
        parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary_folder(parent, "drnmf-") as folder:
                yield folder
        finally:
            if new:
                with suppress(OSError):  # somebody else put something there
                    parent.rmdir()


def _announced(client: Client) -> Client:
    say(f"Dashboard: {client.dashboard_link}", errors)
    return client
