"""The update rules by name."""

from __future__ import annotations

from drnmf.algorithms.updates.base import Extrapolated, Monotone, Multiplicative, Rule
from drnmf.algorithms.updates.hals import HALS
from drnmf.algorithms.updates.newton import Newton
from drnmf.numerics import NEWTON_RANK

RULES: dict[str, Rule] = {
    "auto": Newton(largest_rank=NEWTON_RANK),
    "mu": Multiplicative(),
    "extrapolated": Extrapolated(),
    "monotone": Monotone(),
    "newton": Newton(),
    "hals": HALS(),
}
"""Names that estimators and the command line take."""


def as_rule(update: str | Rule) -> Rule:
    """The rule behind a name, or the object itself."""
    if not isinstance(update, str):
        return update
    if update not in RULES:
        raise ValueError(f"update={update!r} is not known: use one of {sorted(RULES)}.")
    return RULES[update]
