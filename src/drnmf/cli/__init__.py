"""The command line: parsing and calls only. One file per command."""

from __future__ import annotations

import typer

from drnmf.cli import reproduce

app = typer.Typer(
    name="drnmf",
    help="Nonnegative matrix factorization for data whose noise you do not know.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def main() -> None:
    """Nonnegative matrix factorization for data whose noise you do not know."""


app.command()(reproduce.reproduce)
