"""The sections on what was found: how many, what noise, which components, where they occur, where they do not fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

import numpy as np

from drnmf.losses.names import from_text, noise_of
from drnmf.numerics import Array, Vector
from drnmf.report import pictures
from drnmf.report.charts import Chart, Trace, bars, chart, line, marks, numbers
from drnmf.report.parts import NOTHING, Section, place, section, table
from drnmf.report.profiles import DRAWN, Profiles, Rows, column, profiles_of
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


UNMET = 10
"""Rows and columns listed of where the model does not fit."""


def how_many(run: Run) -> Section:
    """Draw the ranks that were tried: stable components and mean stability."""
    rows, search = run.table(schema.RANKS), run.summary.get("discovery")
    if search is None:
        return NOTHING
    note = f"{search['finding']} A component is stable where its silhouette over the runs is at least "
    note += f"{search['threshold']:g}."
    if not rows:
        return section("How many components", f"{note} The rank was given.", ""), {}
    ranks = [int(row["rank"]) for row in rows]
    colours = ["var(--dr)" if rank == search["rank"] else "var(--kl)" for rank in ranks]
    hover = "rank %{x}: %{y} stable components, mean stability %{customdata:.2f}"
    stable = bars(ranks, [int(row["stable"]) for row in rows], colours, hover, column(rows, "mean_stability"))
    name, caption, drawn, remark = _how_clear(ranks, rows)
    parts = {"rank-stable": chart([stable], "rank", "stable components"), name: drawn}
    body = f'<div class="pair">{place("rank-stable", "Stable components")}{place(name, caption)}</div>'
    return section("How many components", f"{note} {remark}", body), parts


def _how_clear(ranks: list[int], rows: Rows) -> tuple[str, str, Chart, str]:
    """Draw the held-out scores of the ranks, or their stability where no entries were held out; with a remark."""
    scores = column(rows, "held_out") if "held_out" in rows[0] else []
    if scores and all(map(math.isfinite, scores)):
        scored = _line(ranks, scores, "held out")
        scored["error_y"] = {"type": "data", "array": column(rows, "standard_error"), "visible": True}
        remark = (
            "Too few components merge what is apart, too many split what is one: both predict entries worse that a run "
            "has not seen. Of the ranks that are not clearly worse than the best (smaller ones by two standard errors, "
            "larger ones by one) the one is taken whose components come again best."
        )
        return "rank-held-out", "Held-out entries", chart([scored], "rank", "above the best, per entry"), remark
    means = column(rows, "mean_stability")
    drawn = chart([_line(ranks, means, "mean stability")], "rank", "stability")
    drawn["layout"]["yaxis"] |= {"range": [min(0.0, *means) - 0.03, 1.03]}
    remark = "Too few components merge what is apart, too many split what is one: both leave fewer that come again."
    return "rank-stability", "Mean stability", drawn, remark


def what_noise(run: Run) -> Section:
    """Draw how likely every loss makes X, and how residuals grow with the fitted value."""
    rows, variance, search = run.table(schema.NOISE), run.table(schema.VARIANCE), run.summary.get("discovery")
    if search is None or not variance or (not rows and "quality" in run.summary):  # uncertainties say what is expected
        return NOTHING
    parts: dict[str, Chart] = {}
    note = "The losses were given."
    if rows:
        criterion = column(rows, "criterion")
        excess = [value - min(criterion) for value in criterion]
        betas = [(float(row["beta"]), row["name"], value) for row, value in zip(rows, excess, strict=True)]
        # Poisson with its variance fixed is a model of counts like the negative binomial, beside KL at the same beta
        drawn = sorted((beta, value) for beta, name, value in betas if math.isfinite(beta) and name != "Poisson")
        curve = _line([beta for beta, _ in drawn], [value for _, value in drawn], "criterion")
        parts["noise"] = chart([curve], "beta", "above the most likely")
        losses = [from_text(key) for key in run.summary["losses"]]
        fitted = ", ".join(f"{loss.name} ({noise_of(loss, search['counts'])})" for loss in losses)
        note = f"{fitted} is fitted: beta 2 is a constant error, 1 counts, 0 a relative error. "
        note += "Lower is likelier, ties aside."
    parts["variance"] = _variance(*(column(variance, name) for name in ("fitted", "squared_residual", "expected")))
    note += " Squared residuals against fitted values show the same: the line is what the loss expects."
    places = "".join(
        place(name, caption)
        for name, caption in (("noise", "Likelihood of the losses"), ("variance", "Residuals"))
        if name in parts
    )
    return section("What noise", note, f'<div class="pair">{places}</div>'), parts


def _variance(level: list[float], square: list[float], expected: list[float]) -> Chart:
    """Draw mean squared residuals over fitted values, and what the loss expects."""
    used = [at for at in zip(level, square, expected, strict=True) if min(at) > 0]
    if not used:
        return chart([], "fitted value", "squared residual")
    v, seen, line = (list(values) for values in zip(*used, strict=True))
    residuals = marks(numbers(v), numbers(seen), {"color": "var(--kl)", "size": 8}, "residuals")
    drawn = chart([residuals, _line(v, line, "expected")], "fitted value", "squared residual")
    for axis in ("xaxis", "yaxis"):
        drawn["layout"][axis] |= {"type": "log", "exponentformat": "power", "dtick": 1}
    return drawn


def how_well(run: Run) -> Section:
    """Show Q beside what uncertainties of the right size give, in all and by column, and the scaled residuals."""
    quality, rows = run.summary.get("quality"), run.table(schema.QUALITY)
    if quality is None or not rows:
        return NOTHING
    ratio = quality["Q_ratio"]
    note = f"Q, the sum of squared residuals over uncertainties, is {quality['Q']:.6g}"
    if ratio is not None:
        note += (
            f", {ratio:.3g} times what is expected ({quality['Q_expected']:.6g}): far above 1 the uncertainties or the "
        )
        note += "number of components are too small, far below too large"
    note += f". Robust Q is {quality['Q_robust']:.6g}; {quality['beyond']} residuals are beyond 4 uncertainties."
    residuals = np.array(
        [[float(cell or "nan") for cell in list(row.values())[1:]] for row in run.table(schema.SCALED_RESIDUALS)]
    )
    seen = residuals[np.isfinite(residuals)]
    counts, edges = np.histogram(np.clip(seen, -6, 6), bins=48, range=(-6, 6))
    bar = bars(numbers((edges[:-1] + edges[1:]) / 2), counts.tolist(), "var(--kl)")
    ordered = sorted(rows, key=lambda row: -float(row["Q_ratio"]))
    listed = [[row["label"], *(f"{float(row[key]):.4g}" for key in _QUALITY)] for row in ordered]
    heads = ["column", "Q", "Q expected", "Q / expected", "robust Q", "beyond 4"]
    columns = table(heads, listed, range(1, 6))
    drawn = chart([bar], "residual / uncertainty", "entries")
    drawn["layout"]["bargap"] = 0.05
    body = f"{place('scaled-residuals', 'Scaled residuals')}<h3>Columns</h3>{columns}"
    return section("How well, within the uncertainties", note, body), {"scaled-residuals": drawn}


_QUALITY = ("Q", "Q_expected", "Q_ratio", "Q_robust", "beyond")


def where_they_do_not_fit(run: Run) -> Section:
    """List the rows and columns of X with most of the loss, and the heaviest ones."""
    rows = run.table(schema.RESIDUALS)
    if not rows:
        return NOTHING
    columns = "columns" if run.summary["discovery"]["profiles"] == "columns" else "rows"
    others = "rows" if columns == "columns" else "columns"
    lists = []
    for side, name in (("contribution", others), ("profile", columns)):
        own = [row for row in rows if row["side"] == side]
        for quantity, title in (("loss", f"Most of the loss, {name}"), ("sum", f"Heaviest {name}")):
            total = sum(column(own, quantity)) or 1.0
            most = sorted(((row["label"], float(row[quantity]) / total) for row in own), key=lambda pair: -pair[1])
            lists.append(f'<div class="card"><h3>{title}</h3><ol class="words">{listed_parts(most[:UNMET])}</ol></div>')
    note = "Parts of the whole loss, and of the sum of X. A few that hold much of either may rule the components."
    return section("Where they do not fit", note, f'<div class="profiles">{"".join(lists)}</div>'), {}


def _line(x: Sequence[float], y: Sequence[float], name: str) -> Trace:
    return line(numbers(x), numbers(y), "var(--dr)", name) | {"mode": "lines+markers", "marker": {"size": 6}}


FIRST, LAST = (how_many, what_noise), (components, occurrence, how_well, where_they_do_not_fit)
"""The sections before and after those that an app adds."""
