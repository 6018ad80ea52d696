"""The command line: parsing and calls only. One file per command; those of the apps are theirs."""

from __future__ import annotations

from typing import Annotated

import typer

from drnmf import __version__
from drnmf.cli import assign, discover, fit, pareto, reporting, resume, stream, transform
from drnmf.cli.endings import Commands

app = typer.Typer(
    name="drnmf",
    cls=Commands,
    help="Nonnegative matrix factorization for data whose noise you do not know.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"drnmf {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="After an error show where in the program it arose (the traceback).")
    ] = False,
) -> None:
    """Nonnegative matrix factorization for data whose noise you do not know."""


for command in (
    discover.discover,
    fit.fit,
    assign.assign,
    resume.resume,
    stream.stream,
    pareto.pareto,
    transform.transform,
    transform.predict,
    reporting.report,
    reporting.info,
):
    app.command()(command)
