"""Numbers in words: the headline, percentages, times, sizes; labels that fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from drnmf.losses.names import from_text
from drnmf.runs import schema
from drnmf.runs.read import compared


def percent(excess: float) -> str:
    """Write an excess over the best, rounded as one would say it.

    >>> percent(0.0893), percent(0.0042), percent(2.118), percent(98.7), percent(-0.002)
    ('9%', '0.4%', '212%', '9,870%', '0%')
    >>> percent(3e10)
    'over 10,000%'
    """
    value = 100.0 * excess
    if not value < 10_000:
        return "over 10,000%"
    if value < 0.05:
        return "0%"
    if value < 9.95:
        return f"{value:.1f}".removesuffix(".0") + "%" if value < 1 else f"{round(value)}%"
    return f"{round(value):,}%" if value < 1000 else f"{float(f'{value:.3g}'):,.0f}%"


def join(parts: Sequence[str]) -> str:
    """Join words: "a", "a and b", "a, b and c"."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def found_in(summary: schema.Summary) -> str:
    """Say how hard the best errors were looked for: how many starts they are the best of.

    >>> found_in({"parameters": {"n_init": 5}}), found_in({})
    ('found (5 starts)', 'found')
    """
    starts = (summary.get("parameters") or {}).get("n_init")
    if not isinstance(starts, int):
        return "found"
    return f"found ({starts} start{'s' if starts > 1 else ''})"


def unconverged(summary: schema.Summary, front: Sequence[Mapping[str, str]]) -> str:
    """Say that a fit ended at its largest number of iterations before it stood still; empty where it did not.

    >>> unconverged({"reason": "max_iter", "iterations": 50, "parameters": {"tol": 1e-6}}, [])
    'The fit had not converged after 50 iterations: a larger --max-iter would bring it further.'
    """
    parameters = summary.get("parameters") or {}
    if parameters.get("tol", 0.0) == 0.0:
        return ""
    further = ": a larger --max-iter would bring"
    if summary.get("reason") == "max_iter":
        return f"The fit had not converged after {summary.get('iterations')} iterations{further} it further."
    stopped = sum(row["converged"] == "False" for row in front)
    return f"{stopped} of the {len(front)} points had not converged{further} them further." if stopped else ""


def headline(comparison: schema.Comparison | None, effort: str = "found") -> tuple[str, str]:
    """Say what DR-NMF reached and what the fits alone would have cost; empty where nothing was compared.

    `effort` says how hard the best errors were looked for.
    """
    if comparison is None:
        return "", ""
    omega = compared(comparison)
    methods = list(comparison["methods"])
    robust = next((m for m in methods if m["name"] == "DR-NMF"), methods[-1])
    excess = [float(s) - 1.0 for s in robust["scaled_losses"]]
    parts = [f"{percent(e)} of the best {loss.name} error" for loss, e in zip(omega, excess, strict=True)]
    first = f"{robust['name']} is within {join(parts)} {effort}."
    if len(omega) < 2:
        return first, ""
    worst = []
    for method in methods:
        if method is robust:
            continue
        value, name = max(zip(map(float, method["scaled_losses"]), (loss.name for loss in omega), strict=True))
        if value - 1.0 > max(excess):
            worst.append((value, f"{method['name']} alone would be {percent(value - 1.0)} off in {name}"))
    if not worst:
        return first, ""
    return first, f"{join([text for _, text in sorted(worst, reverse=True)])}."


def losses_headline(summary: schema.Summary, rank: int | None) -> tuple[str, str]:
    """Say which errors a fit leaves, where nothing was compared, and then how it ended; empty where no error is known.

    >>> losses_headline({"losses": {"1": 193.2366}, "iterations": 43, "converged": True}, 3)
    ('3 components leave a KL error of 193.2.', 'It converged after 43 iterations.')
    """
    losses = summary.get("losses")
    if not isinstance(losses, dict) or not losses or rank is None:
        return "", ""
    named = [(from_text(key).name, value) for key, value in losses.items()]
    parts = [f"a{_n(name)} {name} error of {number(float(value))}" for name, value in named]
    first = f"{rank} component{'s leave' if rank > 1 else ' leaves'} {join(parts)}."
    iterations = summary.get("iterations")
    if iterations is None or unconverged(summary, ()):
        return first, ""
    end = "converged" if summary.get("converged") else "ended"
    return first, f"It {end} after {iterations} iteration{'' if iterations == 1 else 's'}."


def _n(name: str) -> str:
    """End the article before a name that is spoken with a vowel first: an IS error, an NB(30) error."""
    return "n" if name.startswith(("IS", "NB")) else ""


def interval_headline(rows: Sequence[Mapping[str, str]], bound: float | None, effort: str = "found") -> tuple[str, str]:
    """Say what holds for every beta of an interval, from coverage.csv and the bound; empty where there is none."""
    if not rows or bound is None:
        return "", ""
    betas = [float(row["beta"]) for row in rows]
    worst = max(rows, key=lambda row: float(row["scaled_loss"]))
    interval = f"every beta from {min(betas):g} to {max(betas):g}"
    first = f"For {interval}, DR-NMF is within {percent(bound - 1.0)} of the best error {effort}."
    knots = sum(row["knot"] == "True" for row in rows)
    excess = percent(float(worst["scaled_loss"]) - 1.0)
    return (
        first,
        f"The most that was seen is {excess}, at beta = {float(worst['beta']):.3g}; {knots} betas were fitted.",
    )


def short(label: str, most: int) -> str:
    """Cut a label to so many characters.

    >>> short("benzene", 4)
    'ben…'
    """
    return label if len(label) <= most else label[: most - 1] + "…"


def duration(seconds: float) -> str:
    """Write seconds as people say them.

    >>> duration(0.256), duration(12.3), duration(75), duration(7300)
    ('0.26 s', '12.3 s', '1 min 15 s', '2 h 2 min')
    """
    if seconds < 10:
        return f"{seconds:.2g} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{int(seconds // 60)} min {round(seconds % 60)} s"
    return f"{int(seconds // 3600)} h {round(seconds % 3600 / 60)} min"


def number(value: float) -> str:
    """Write a number with four significant digits."""
    return f"{value:.4g}"
