"""The components of a run, and where they occur, as its field draws them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

import numpy as np

from drnmf.numerics import Array, Vector
from drnmf.report import pictures
from drnmf.report.charts import Chart
from drnmf.report.parts import NOTHING, Section, place, section
from drnmf.report.profiles import DRAWN, Profiles, profiles_of
from drnmf.runs import schema
from drnmf.runs.read import Run

SHOWN = 40
"""Components on the page; they come with the largest first."""
LISTED = 8
"""Rows and columns listed for a component."""

Drawing = Callable[[Profiles, int], Chart]
_PROFILES: dict[str, tuple[Drawing, str]] = {
    "signatures": (pictures.signature, "One bar for each mutation type, in the colours of the six substitutions."),
    "air": (
        pictures.species,
        "Bars are the mean amount of each species, on a log scale; dots are per cent of the species that the component "
        "explains.",
    ),
    "spectra": (pictures.spectrum, "One spectrum each, which sums to one."),
    "plain": (pictures.plain, "Every profile sums to one."),
}


def components(run: Run) -> Section:
    """Show every component: its profile as the field draws it, or the names with its largest parts."""
    profiles = profiles_of(run)
    if profiles is None:
        left = _unstable(run)
        return (section("The components", "No component is stable, so none is shown.", left), {}) if left else NOTHING
    single = "discovery" not in run.summary
    drawn = (
        _PROFILES.get(profiles.field) if len(profiles.labels or ()) <= DRAWN or profiles.field == "spectra" else None
    )
    if drawn is not None and profiles.field == "plain" and single:
        drawn = None  # of a single fit the largest parts say more than bars without an interval
    cards, parts = [], {}
    for k, name in enumerate(profiles.names[:SHOWN]):
        fact = profiles.facts[k] if k < len(profiles.facts) else ""
        head = f'<div class="bar"><h3>{escape(name)}</h3><small>{escape(fact)}</small></div>'
        if drawn is None:
            lists = _list("Columns", profiles.labels, profiles.values[k])
            lists += _list("Rows", profiles.samples, profiles.parts[:, k]) if single else ""
            cards.append(f'<div class="card">{head}{lists}</div>')
        else:
            parts[f"profile-{k + 1}"] = drawn[0](profiles, k)
            cards.append(f'<div class="card">{head}{place(f"profile-{k + 1}")}</div>')
    note = drawn[1] if drawn is not None else "What has the largest part in each component, in percent of its sum."
    if profiles.low is not None and drawn is not None and profiles.field != "air":
        shown = "The band is its interval." if profiles.field == "spectra" else "Whiskers are intervals."
        sure = run.summary["discovery"].get("intervals")
        note += f" {shown} {sure['finding']}" if sure else f" {shown}"
    elif profiles.low is None and "discovery" in run.summary:
        note += " No intervals were found."
    note += "" if single else " Largest contribution first."  # a fit orders by norms
    if len(profiles.names) > SHOWN:
        note += f" These are the first {SHOWN} of {len(profiles.names)}; the tables have all."
    grid = "profiles" if drawn is not None else "cards"
    return section("The components", note, f'<div class="{grid}">{"".join(cards)}</div>{_unstable(run)}'), parts


def occurrence(run: Run) -> Section:
    """Show where components occur: stacked by sample, over dates, as maps, or as an image."""
    profiles = profiles_of(run)
    if profiles is None or ("discovery" not in run.summary and profiles.field == "plain"):
        return NOTHING
    each: tuple[Drawing, str] | None = None
    if profiles.image is not None:
        each = pictures.abundance, "The part of each component in every pixel, from none (light) to all of it."
    elif profiles.field == "air":
        each = pictures.over_dates, "Contributions over time, in the unit of X."
    if each is not None:
        named = {f"occurrence-{k + 1}": name for k, name in enumerate(profiles.names[:SHOWN])}
        cards = "".join(f'<div class="card"><h3>{escape(name)}</h3>{place(key)}</div>' for key, name in named.items())
        grid = "cards" if profiles.image is not None else "profiles"
        drawn = {key: each[0](profiles, k) for k, key in enumerate(named)}
        return section("Where they occur", each[1], f'<div class="{grid}">{cards}</div>'), drawn
    if profiles.field == "signatures":
        note = "Contributions stacked by sample, in the unit of X."
        return section("Where they occur", note, place("occurrence")), {"occurrence": pictures.exposures(profiles)}
    note = "How much of each sample every component explains, relative to where it explains most."
    return section("Where they occur", note, place("occurrence")), {"occurrence": pictures.usage(profiles)}


def _unstable(run: Run) -> str:
    """Name the components that were left out, with their stability."""
    left = [row for row in run.table(schema.STABILITY) if row["stable"] != "True"]
    if not left:
        return ""
    listed = ", ".join(f"{float(row['stability']):.2f} ({100 * float(row['size']):.2g}%)" for row in left[:SHOWN])
    return f'<p class="note">Left out as unstable: {len(left)}, of stability (size) {escape(listed)}.</p>'


def top(values: Array, count: int) -> list[tuple[int, float]]:
    """Find the largest entries: their places, and their parts of the sum.

    >>> top(np.array([1.0, 0.0, 3.0]), 2)
    [(2, 0.75), (0, 0.25)]
    """
    parts: Vector = np.asarray(values, dtype=np.float64)
    total = max(float(parts.sum()), np.finfo(np.float64).tiny)
    order = np.argsort(-parts, kind="stable")[:count]
    return [(int(i), float(parts[i]) / total) for i in order if parts[i] > 0]


def _list(title: str, names: Sequence[str] | None, values: Array) -> str:
    """Make a list of the largest entries with bars; empty where they have no names."""
    largest = [] if names is None else [(str(names[i]), part) for i, part in top(values, LISTED)]
    return f'<h4>{escape(title)}</h4><ol class="words">{listed_parts(largest)}</ol>' if largest else ""


def listed_parts(items: Sequence[tuple[str, float]]) -> str:
    """Make the items of a list of names and parts, with bars relative to the largest."""
    largest = max((part for _, part in items), default=1.0) or 1.0
    return "".join(
        f'<li style="--w:{100 * part / largest:.1f}%"><b>{escape(name)}</b><span>{100 * part:.2g}%</span></li>'
        for name, part in items
    )
