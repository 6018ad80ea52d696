"""The page of a discovery: how many, what noise, which components, where they occur, where they do not fit."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from drnmf.losses.names import from_text, noise_of
from drnmf.report.charts import Chart, Trace, bars, chart, line, marks, numbers
from drnmf.report.components import listed_parts
from drnmf.report.parts import NOTHING, Section, place, section, table
from drnmf.report.profiles import Rows, column
from drnmf.runs import schema
from drnmf.runs.read import Run

LISTED = 10
"""Rows and columns listed."""


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
        fitted = ", ".join(f"{loss.name} ({noise_of(loss)})" for loss in losses)
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
            top = sorted(((row["label"], float(row[quantity]) / total) for row in own), key=lambda pair: -pair[1])
            lists.append(f'<div class="card"><h3>{title}</h3><ol class="words">{listed_parts(top[:LISTED])}</ol></div>')
    note = "Parts of the whole loss, and of the sum of X. A few that hold much of either may rule the components."
    return section("Where they do not fit", note, f'<div class="profiles">{"".join(lists)}</div>'), {}


def _line(x: Sequence[float], y: Sequence[float], name: str) -> Trace:
    return line(numbers(x), numbers(y), "var(--dr)", name) | {"mode": "lines+markers", "marker": {"size": 6}}


FIRST, LAST = (how_many, what_noise), (how_well, where_they_do_not_fit)
"""The sections of a discovery before and after those of its components."""
