"""The command line: parsing and calls only. One file per command; those of the apps are theirs."""

from __future__ import annotations

from copy import copy
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from drnmf import __version__
from drnmf.cli.endings import errors_in_a_line
from drnmf.loading import load
from drnmf.runs.apps import COMMANDS as APPS
from drnmf.runs.apps import Command

LIBRARY = {
    "discover": Command(
        "drnmf.cli.discover:discover",
        "Find how many components X has, under which noise, and which of them come again in every run.",
    ),
    "fit": Command("drnmf.cli.fit:fit", "Factorise X as W H, good for every loss of --betas at once."),
    "tables": Command(
        "drnmf.cli.fit:tables",
        "Factorise several tables of the same rows at once, each with columns, loss and unit of its own.",
    ),
    "assign": Command(
        "drnmf.cli.discover:assign",
        "Find which of some known components every sample has, and how much of each: contributions with real zeros.",
    ),
    "resume": Command(
        "drnmf.cli.reporting:resume",
        "Resume a fit, a front or a discovery that was stopped, from its checkpoint, with the options it had.",
    ),
    "stream": Command("drnmf.cli.stream:stream", "Follow rows batch by batch, in memory that does not grow with them."),
    "pareto": Command(
        "drnmf.cli.fit:pareto", "Find solutions between the losses of --betas, and the robust one among them."
    ),
    "transform": Command(
        "drnmf.cli.transform:transform",
        "Compute W for new rows of the same columns, with the components and weights of a fitted model.",
    ),
    "predict": Command("drnmf.cli.transform:predict", "Predict entries of X: ratings that users have not given, say."),
    "report": Command("drnmf.cli.reporting:report", "Make the page of an earlier run: one self-contained report.html."),
    "info": Command(
        "drnmf.cli.reporting:info",
        "Describe version, backend, instruction set, threads, GPU and packages: what to paste into a bug report.",
    ),
}
"""Commands of the library, by name; a test compares their lines with their docstrings."""

COMMANDS = LIBRARY | APPS


class Commands(TyperGroup):
    """All commands, each imported once it is asked for, behind one handler of whatever they raise."""

    listing = False
    """Whether only the lines of the commands are asked for: they stand in the table, and nothing is imported."""

    def list_commands(self, ctx: object) -> list[str]:
        """Name the commands of the library, then those of the apps."""
        return list(COMMANDS)

    def get_command(self, ctx: object, name: str) -> Any:
        """Find a command by its name, and import it."""
        if name not in COMMANDS:
            return None
        known, panel = COMMANDS[name], "Applications" if name in APPS else None
        if self.listing:
            return TyperCommand(name, help=known.line, rich_help_panel=panel, hidden=known.hidden)
        alone = typer.Typer(add_completion=False)
        alone.command(name, rich_help_panel=panel, hidden=known.hidden)(load(known.place))
        return typer.main.get_command(alone)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print what commands there are."""
        listed = copy(self)
        listed.listing = True
        super(Commands, listed).format_help(ctx, formatter)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; an error becomes a line on standard error and an exit code."""
        with errors_in_a_line(bool(ctx.params.get("debug"))):
            return super().invoke(ctx)


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
