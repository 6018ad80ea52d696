"""drnmf resume: continue a fit, a front or a discovery that was stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from drnmf.cli import keeping, options
from drnmf.cli.common import errors, say
from drnmf.cli.discover import discover
from drnmf.cli.fit import fit
from drnmf.cli.pareto import pareto


def resume(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder that --checkpoint named.", show_default=False)
    ],
    out: Annotated[Path | None, typer.Option("--out", help="Folder for the results (default: as before).")] = None,
    overwrite: options.Overwrite = False,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
) -> None:
    """Resume a fit, a front or a discovery that was stopped, from its checkpoint, with the options it had."""
    stored = keeping.recall(folder, {"fit": fit, "pareto": pareto, "discover": discover})
    stored.check_input(folder)
    anew: dict[str, object] = {"out": out, "threads": threads, "quiet": quiet or None}
    chosen = stored.options | {name: value for name, value in anew.items() if value is not None}
    say(f"Resuming {chosen['x']}.", errors)
    stored.command(**chosen, checkpoint=folder, overwrite=overwrite)
