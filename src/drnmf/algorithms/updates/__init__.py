"""The update rules by name."""

from __future__ import annotations

from drnmf.algorithms.updates.base import Rule
from drnmf.algorithms.updates.hals import HALS
from drnmf.algorithms.updates.monotone import Extrapolated, Monotone, Multiplicative
from drnmf.algorithms.updates.newton import Newton
from drnmf.numerics import NEWTON_RANK

RULES: dict[str, Rule] = {
    "auto": Newton(largest_rank=NEWTON_RANK, alone=HALS()),
    "mu": Multiplicative(),
    "extrapolated": Extrapolated(),
    "monotone": Monotone(),
    "newton": Newton(),
    "hals": HALS(),
}
"""Names that estimators and the command line take."""

ELSEWHERE = {"cd": "hals", "lsnmf": "hals", "brunet": "mu", "lee": "mu", "nmf": "mu"}
"""Rules by their names in scikit-learn, nimfa and the R package NMF -> here."""

GPU_RULES: dict[str, Rule] = {"auto": Newton(largest_rank=0, alone=HALS())}
"""Where a name means another rule on a GPU: there the curvature of every column is a pass of its own, and costs more
than it saves, so all columns share one at every rank."""


def as_rule(update: str | Rule, gpu: bool = False) -> Rule:
    """Return the rule behind a name, or the object itself."""
    if not isinstance(update, str):
        return update
    if update in ELSEWHERE:
        raise ValueError(f"update={update!r} is called {ELSEWHERE[update]!r} here: write solver={ELSEWHERE[update]!r}.")
    if update not in RULES:
        raise ValueError(f"update={update!r} is not known: use one of {sorted(RULES)}.")
    return GPU_RULES.get(update, RULES[update]) if gpu else RULES[update]
