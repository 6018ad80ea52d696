"""Options of the commands that fit. The names of rules, policies and starts are those of the library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from drnmf.algorithms.initialize import STARTS
from drnmf.algorithms.updates.table import RULES
from drnmf.algorithms.weights import POLICIES
from drnmf.cli.common import choice

ZEROS = ("raise", "floor")
DTYPES = ("float32", "float64")


def _one_of(names: Any) -> str:
    return ", ".join(names)


Rank = Annotated[int, typer.Option("--rank", "-r", min=1, help="Number of components.", show_default=False)]
Betas = Annotated[
    str, typer.Option("--betas", help="Losses: 0 IS, 1 KL, 2 Frobenius, any number >= 0, nb:SIZE; fit also takes 0..2.")
]
PolicyName = Annotated[str | None, typer.Option("--policy", help=f"How the weights move: {_one_of(POLICIES)}.")]
UpdateName = Annotated[str | None, typer.Option("--update", help=f"Update rule: {_one_of(RULES)}.")]
InitName = Annotated[str | None, typer.Option("--init", help=f"Start: {_one_of(STARTS)}.")]
MaxIter = Annotated[int, typer.Option("--max-iter", min=1, help="Most iterations of a run.")]
Tol = Annotated[float, typer.Option("--tol", min=0.0, help="Stop when little changes; 0 runs all iterations.")]
Zeros = Annotated[str, typer.Option("--zeros", help="Zeros under beta 0: raise (refuse) or floor (a tiny value).")]
Starts = Annotated[int, typer.Option("--n-init", min=1, help="Starts, of which the best is kept.")]
Dtype = Annotated[str | None, typer.Option("--dtype", help="Compute in float32 or float64 (default: the data's).")]


@dataclass(frozen=True)
class Choices:
    """Options that estimators and fronts share; what was not given is left to their defaults."""

    policy: str | None
    update: str | None
    init: str | None
    zeros: str
    dtype: str | None

    def __post_init__(self) -> None:
        choice(self.policy, POLICIES, "--policy")
        choice(self.update, RULES, "--update")
        choice(self.init, STARTS, "--init")
        choice(self.zeros, ZEROS, "--zeros")
        choice(self.dtype, DTYPES, "--dtype")

    def given(self) -> dict[str, Any]:
        """Collect keyword arguments for the library."""
        names = {"policy": self.policy, "update": self.update, "init": self.init, "zeros": self.zeros}
        return {name: value for name, value in names.items() if value is not None}

    def cast(self, X: Any) -> Any:
        """Convert X to the dtype asked for."""
        return X if self.dtype is None else X.astype(self.dtype)
