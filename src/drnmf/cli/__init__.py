"""The command line: parsing and calls only. One file per command."""

from __future__ import annotations

import typer

app = typer.Typer(
    name="drnmf",
    help="Nonnegative matrix factorization for data whose noise you do not know.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

from drnmf.cli import reproduce  # noqa: E402, F401
