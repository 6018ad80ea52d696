"""What a profile says in words."""

from __future__ import annotations

import math

from drnmf.selection.entries import Facts, mostly_zero

_FAMILIES = {0.0: "Gamma", 1.0: "Poisson", 2.0: "Gaussian"}


def describe(facts: Facts, beta: float, slope: float, best: str) -> tuple[str, ...]:
    """Describe the noise of X, how its zeros were treated, and what the residuals say."""
    notes = [f"The variance grows like mu^{2.0 - beta:.3g}: {family(beta)}."]
    if best.startswith(("NB", "Poisson")):
        notes.append(f"Of the models of counts {best} is the most likely, more so than any beta-divergence.")
    if math.isfinite(slope):
        notes.append(f"Squared residuals grow like mu^{slope:.2f}.")
    return (*notes, *zeros(facts))


def structured(share: float, rank: int, much: bool) -> tuple[str, ...]:
    """Say that what is left at this rank is not noise, where that is so."""
    if not much:
        return ()
    return (
        f"{100 * share:.0f} % of what rank {rank} leaves of held-out entries is explained by twice as many components: "
        "it is structure more than noise, and no loss is excluded by it.",
    )


def family(beta: float) -> str:
    """Name the distribution of a beta, or its two neighbours.

    >>> family(1.0), family(0.5), family(1.75), family(2.5)
    ('Poisson', 'between Poisson and Gamma', 'between Gaussian and Poisson', 'flatter than Gaussian')
    """
    if beta in _FAMILIES:
        return _FAMILIES[beta]
    if beta > 2.0:
        return "flatter than Gaussian"
    low = math.floor(beta)
    return f"between {_FAMILIES[low + 1.0]} and {_FAMILIES[float(low)]}"


def zeros(facts: Facts) -> tuple[str, ...]:
    """Say how zeros of X entered."""
    if facts.zeros == 0:
        return ()
    if mostly_zero(facts):
        return (
            f"{100 * facts.zeros / facts.count:.0f} % of X is zero: trust held-out entries more than the criterion.",
        )
    if facts.unit is not None:
        return (f"X holds counts (multiples of {facts.unit:g}): its zeros enter the criterion as 1/6 of one.",)
    return ("X is not counts and has zeros: they are taken as a probability mass of their own.",)
