"""The page of a discovery: how many, what noise, which components, where they occur, where they do not fit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from drnmf.losses.names import from_text
from drnmf.numerics import Vector
from drnmf.report.charts import Chart, factor_image, numbers
from drnmf.report.components import bars
from drnmf.report.parts import NOTHING, Section, place, section
from drnmf.report.words import loss_name
from drnmf.runs import schema
from drnmf.runs.read import Run

SHOWN = 40
"""Components on the page."""
DRAWN = 400
"""Entries of a profile that are drawn as bars; longer ones list their largest."""
LISTED = 10
"""Rows and columns listed."""

Rows = Sequence[Mapping[str, str]]


def how_many(run: Run) -> Section:
    """Draw the ranks that were tried: stable components and mean stability."""
    rows, found = run.table(schema.RANKS), run.summary.get("discovery")
    if found is None:
        return NOTHING
    note = f"{found['finding']} A component is stable where its silhouette over the runs is at least "
    note += f"{found['threshold']:g}."
    if not rows:
        return section("How many components", f"{note} The rank was given.", ""), {}
    ranks = [int(row["rank"]) for row in rows]
    colours = ["var(--dr)" if rank == found["rank"] else "var(--kl)" for rank in ranks]
    stable = {
        "type": "bar", "x": ranks, "y": [int(row["stable"]) for row in rows], "marker": {"color": colours},
        "customdata": _column(rows, "mean_stability"),
        "hovertemplate": "rank %{x}: %{y} stable components, mean stability %{customdata:.2f}<extra></extra>",
    }  # fmt: skip
    name, caption, chart, remark = _how_clear(ranks, rows)
    parts = {"rank-stable": _chart([stable], "rank", "stable components"), name: chart}
    body = f'<div class="pair">{place("rank-stable", "Stable components")}{place(name, caption)}</div>'
    return section("How many components", f"{note} {remark}", body), parts


def _how_clear(ranks: list[int], rows: Rows) -> tuple[str, str, Chart, str]:
    """Draw the held-out scores of the ranks, or their stability where no entries were held out; with a remark."""
    scores = _column(rows, "held_out") if "held_out" in rows[0] else []
    if scores and all(map(math.isfinite, scores)):
        line = _line(ranks, scores, "held out")
        line["error_y"] = {"type": "data", "array": _column(rows, "standard_error"), "visible": True}
        remark = (
            "Too few components merge what is apart, too many split what is one: both predict entries worse that a run "
            "has not seen. Of the ranks within one standard error of the best the one is taken that has most stable "
            "components, less twice those that are not."
        )
        return "rank-held-out", "Held-out entries", _chart([line], "rank", "above the best, per entry"), remark
    means = _column(rows, "mean_stability")
    chart = _chart([_line(ranks, means, "mean stability")], "rank", "stability")
    chart["layout"]["yaxis"] |= {"range": [min(0.0, *means) - 0.03, 1.03]}
    remark = "Too few components merge what is apart, too many split what is one: both leave fewer that come again."
    return "rank-stability", "Mean stability", chart, remark


def what_noise(run: Run) -> Section:
    """Draw how likely every loss makes X, and how residuals grow with the fitted value."""
    rows, variance, found = run.table(schema.NOISE), run.table(schema.VARIANCE), run.summary.get("discovery")
    if found is None or not variance:
        return NOTHING
    parts: dict[str, Chart] = {}
    note = "The losses were given."
    if rows:
        criterion = _column(rows, "criterion")
        excess = [value - min(criterion) for value in criterion]
        betas = [(float(row["beta"]), row["name"], value) for row, value in zip(rows, excess, strict=True)]
        # Poisson with its variance fixed is a model of counts like the negative binomial, beside KL at the same beta
        drawn = sorted((beta, value) for beta, name, value in betas if math.isfinite(beta) and name != "Poisson")
        line = _line([beta for beta, _ in drawn], [value for _, value in drawn], "criterion")
        parts["noise"] = _chart([line], "beta", "above the most likely")
        fitted = ", ".join(loss_name(from_text(key)) for key in run.summary["losses"])
        note = f"{fitted} is fitted: beta 2 is Gaussian noise, 1 Poisson, 0 Gamma. Lower is likelier, ties aside."
    parts["variance"] = _variance(*(_column(variance, name) for name in ("fitted", "squared_residual", "expected")))
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
        return _chart([], "fitted value", "squared residual")
    v, seen, line = (list(values) for values in zip(*used, strict=True))
    data: list[dict[str, Any]] = [
        {
            "type": "scatter", "mode": "markers", "name": "residuals", "x": numbers(v), "y": numbers(seen),
            "marker": {"color": "var(--kl)", "size": 8},
        },
        _line(v, line, "expected"),
    ]  # fmt: skip
    chart = _chart(data, "fitted value", "squared residual")
    for axis in ("xaxis", "yaxis"):
        chart["layout"][axis] |= {"type": "log", "exponentformat": "power", "dtick": 1}
    return chart


def which_components(run: Run) -> Section:
    """Show every stable component: profile with its interval, size, stability, how often it was found, and partner."""
    rows, found = run.table(schema.COMPONENTS), run.summary.get("discovery")
    if found is None:
        return NOTHING
    ends, known = run.table(schema.INTERVALS), run.table(schema.STABILITY)
    names = [name for name in (rows[0] if rows else {}) if name != "label"]
    if not names:
        return section("The components", "No component is stable, so none is shown.", _unstable(known)), {}
    labels = [row["label"] for row in rows]
    cards, parts = [], {}
    for name, facts in zip(names[:SHOWN], known, strict=False):
        values = _column(rows, name)
        title = f"Component {name.removeprefix('component_')}"
        if facts.get("match"):
            title += f" = {facts['match']}, {float(facts['similarity']):.2f}"
        size = f"{100 * float(facts['size']):.2g}%, stability {float(facts['stability']):.2f}"
        if facts.get("found_in"):
            size += f", found in {facts['found_in']} of {facts['runs']} runs"
        head = f'<div class="bar"><h3>{escape(title)}</h3><small>{size}</small></div>'
        if len(labels) <= DRAWN:
            parts[name] = _profile(labels, values, [_column(ends, f"{name}_{end}") for end in ("low", "high") if ends])
            cards.append(f'<div class="card">{head}{place(name)}</div>')
        else:
            top = sorted(zip(labels, values, strict=True), key=lambda pair: -pair[1])[:LISTED]
            cards.append(f'<div class="card">{head}<ol class="words">{bars(top)}</ol></div>')
    sure = found.get("intervals")
    whiskers = f"The whiskers are intervals. {sure['finding']}" if sure else "No intervals were found."
    note = f"Every profile sums to one, the largest contribution first. {whiskers}"
    if len(names) > SHOWN:
        note += f" These are the first {SHOWN} of {len(names)}; {schema.COMPONENTS} has all."
    return section("The components", note, f'<div class="profiles">{"".join(cards)}</div>{_unstable(known)}'), parts


def _unstable(known: Rows) -> str:
    """Name the components that were left out, with their stability."""
    left = [row for row in known if row["stable"] != "True"]
    if not left:
        return ""
    listed = ", ".join(f"{float(row['stability']):.2f} ({100 * float(row['size']):.2g}%)" for row in left[:SHOWN])
    return f'<p class="note">Left out as unstable: {len(left)}, of stability (size) {escape(listed)}.</p>'


def _profile(labels: list[str], values: list[float], ends: list[list[float]]) -> Chart:
    """Draw a profile, with whiskers where it has an interval."""
    y = np.array(values)
    bar: dict[str, Any] = {
        "type": "bar", "x": list(range(len(labels))), "y": numbers(y, 4), "customdata": labels,
        "marker": {"color": "var(--kl)"}, "hovertemplate": "%{customdata}: %{y:.3g}<extra></extra>",
    }  # fmt: skip
    if ends:
        low, high = (np.array(end) for end in ends)
        bar["error_y"] = {
            "type": "data", "symmetric": False, "array": numbers(np.maximum(high - y, 0.0), 3),
            "arrayminus": numbers(np.maximum(y - low, 0.0), 3), "thickness": 1, "width": 0, "color": "var(--max)",
        }  # fmt: skip
    chart = _chart([bar], "", "")
    step = max(1, -(-len(labels) // 12))
    short = [label if len(label) <= 12 else label[:11] + "…" for label in labels[::step]]
    chart["layout"]["xaxis"] |= {"tickvals": list(range(0, len(labels), step)), "ticktext": short, "tickangle": -60}
    chart["layout"]["bargap"] = 0.15
    chart["height"] = chart["phone"] = 210
    return chart


def where_they_occur(run: Run) -> Section:
    """Draw the contributions: one row per component, one column per sample."""
    rows = run.table(schema.CONTRIBUTIONS)
    names = [name for name in (rows[0] if rows else {}) if name not in ("label", "unstable")]
    if run.summary.get("discovery") is None or not names:
        return NOTHING
    parts: Vector = np.array([_column(rows, name) for name in names])
    totals = np.maximum(parts.sum(axis=0) + np.array(_column(rows, "unstable")), np.finfo(np.float64).tiny)
    chart = factor_image(parts / totals, False, [row["label"] for row in rows], "sample")
    chart["data"][0]["y"] = list(range(1, len(names) + 1))
    note = "How much of each sample every component explains, relative to where it explains most."
    return section("Where they occur", note, place("occurrence")), {"occurrence": chart}


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
            total = sum(_column(own, quantity)) or 1.0
            top = sorted(((row["label"], float(row[quantity]) / total) for row in own), key=lambda pair: -pair[1])
            lists.append(f'<div class="card"><h3>{title}</h3><ol class="words">{bars(top[:LISTED])}</ol></div>')
    note = "Parts of the whole loss, and of the sum of X. A few that hold much of either may rule the components."
    return section("Where they do not fit", note, f'<div class="profiles">{"".join(lists)}</div>'), {}


def _column(rows: Rows, name: str) -> list[float]:
    return [float(row[name]) for row in rows]


def _line(x: Sequence[float], y: Sequence[float], name: str) -> dict[str, Any]:
    return {
        "type": "scatter", "mode": "lines+markers", "name": name, "x": numbers(x), "y": numbers(y),
        "line": {"color": "var(--dr)", "width": 2}, "marker": {"size": 6},
    }  # fmt: skip


def _chart(data: list[dict[str, Any]], x: str, y: str) -> Chart:
    layout = {"xaxis": {"title": {"text": x}}, "yaxis": {"title": {"text": y}}, "showlegend": False}
    return {"data": data, "layout": layout, "height": 300, "phone": 270}


ALL = (how_many, what_noise, which_components, where_they_occur, where_they_do_not_fit)
"""The sections of a discovery, in the order of the page."""
