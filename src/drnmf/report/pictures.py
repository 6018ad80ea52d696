"""Charts of components as their fields draw them: 96 bars in six colours, species on a log axis, spectra, maps."""

from __future__ import annotations

from typing import Any

import numpy as np

from drnmf.matrices.mutations import SUBSTITUTIONS, spelt, substitution
from drnmf.numerics import Vector
from drnmf.report.charts import CELLS, HEAT, Chart, factor_image, numbers, pool
from drnmf.report.fields import axis_of, dates_of
from drnmf.report.profiles import Profiles

BASES = dict(zip(SUBSTITUTIONS, ("#02bdee", "var(--ink)", "#e42a27", "#b8b4b5", "#a2cf63", "#ecb0ae"), strict=True))
"""The colours of the six substitutions."""
PALETTE = (
    "var(--kl)", "var(--is)", "var(--fro)", "var(--dr)", "var(--other-0)", "var(--other-1)", "var(--other-2)",
    "var(--other-4)", "var(--other-3)", "var(--other-7)", "var(--other-6)", "var(--other-5)",
)  # fmt: skip
"""One colour for every component, in turn."""
STACKED = 80
"""Samples that are drawn side by side; the largest are taken."""
_TICKS, _LETTERS = 12, 12


def colour(k: int) -> str:
    """Choose the colour of a component."""
    return PALETTE[k % len(PALETTE)]


def mutation_order(labels: list[str]) -> list[int]:
    """Order mutation types as the field does: by substitution, then by the bases beside it.

    >>> mutation_order(["T[T>G]T", "A[C>A]C", "A[C>A]A"])
    [2, 1, 0]
    """
    return sorted(
        range(len(labels)), key=lambda j: (SUBSTITUTIONS.index(substitution(labels[j]) or "C>A"), spelt(labels[j]))
    )


def signature(found: Profiles, k: int) -> Chart:
    """Draw a profile over mutation types: a bar each, in the colours of the six substitutions."""
    labels = found.labels or []
    order = mutation_order(labels)
    kinds = [substitution(labels[j]) or "C>A" for j in order]
    bar = _bars(found, k, order)
    bar["marker"] = {"color": [BASES[kind] for kind in kinds]}
    places = {kind: [i for i, other in enumerate(kinds) if other == kind] for kind in SUBSTITUTIONS if kind in kinds}
    chart = _small([bar], 150, flat=True)
    chart["layout"]["xaxis"] |= {
        "tickvals": [float(np.mean(at)) for at in places.values()], "ticktext": list(places), "ticks": "",
        "tickangle": 0, "showgrid": False, "range": [-0.7, len(order) - 0.3],
    }  # fmt: skip
    chart["layout"]["yaxis"] |= {"tickformat": ".0%", "nticks": 4}
    return chart


def species(found: Profiles, k: int) -> Chart:
    """Draw a profile over species: its mean amount on a log axis, and per cent of the species that it explains."""
    labels, amounts = found.labels or [], found.amounts
    share = amounts[k] / np.maximum(amounts.sum(axis=0), np.finfo(np.float64).tiny)
    seen = amounts[k][amounts[k] > 0]
    low = float(np.log10(seen.max())) - 5.0 if seen.size else -5.0
    shown = np.where(amounts[k] > 10**low, amounts[k], np.nan)
    data: list[dict[str, Any]] = [
        {
            "type": "bar", "x": list(range(len(labels))), "y": numbers(shown, 4),
            "customdata": labels, "marker": {"color": colour(k), "opacity": 0.55}, "name": "amount",
            "hovertemplate": "%{customdata}: %{y:.3g}<extra></extra>",
        },
        {
            "type": "scatter", "mode": "markers", "x": list(range(len(labels))), "y": numbers(100 * share, 3),
            "yaxis": "y2", "customdata": labels, "marker": {"color": "var(--max)", "size": 6}, "name": "%",
            "hovertemplate": "%{customdata}: %{y:.3g}% of it<extra></extra>",
        },
    ]  # fmt: skip
    chart = _small(data, 235)
    top = float(np.log10(seen.max())) + 0.2 if seen.size else 0.0
    chart["layout"]["xaxis"] |= {
        "tickvals": list(range(len(labels))), "ticktext": [_short(label) for label in labels], "tickangle": -90,
        "tickfont": {"size": 9},
        "showgrid": False,
    }  # fmt: skip
    chart["layout"]["yaxis"] |= {"type": "log", "range": [low, top], "dtick": 1, "exponentformat": "power"}
    chart["layout"]["yaxis2"] = {
        "overlaying": "y", "side": "right", "range": [0, 105], "tickmode": "array", "tickvals": [0, 50, 100],
        "ticktext": ["0%", "50%", "100%"], "showgrid": False,
    }  # fmt: skip
    return chart


def spectrum(found: Profiles, k: int) -> Chart:
    """Draw a profile as a line over wavelengths, with its interval as a band."""
    axis = axis_of(found.labels)
    x = numbers(np.arange(1, found.values.shape[1] + 1) if axis is None else axis, 6)
    data: list[dict[str, Any]] = []
    if found.low is not None and found.high is not None:
        edge = {"type": "scatter", "mode": "lines", "x": x, "line": {"width": 0}, "hoverinfo": "skip"}
        data = [
            edge | {"y": numbers(found.low[k], 4)},
            edge | {"y": numbers(found.high[k], 4), "fill": "tonexty", "fillcolor": "rgba(128,128,128,0.28)"},
        ]
    data.append(
        {
            "type": "scatter", "mode": "lines", "x": x, "y": numbers(found.values[k], 4),
            "line": {"color": colour(k), "width": 2}, "hovertemplate": "%{x}: %{y:.3g}<extra></extra>",
        }
    )  # fmt: skip
    chart = _small(data, 170, flat=True)
    chart["layout"]["yaxis"] |= {"rangemode": "tozero", "nticks": 4}
    return chart


def bars(found: Profiles, k: int) -> Chart:
    """Draw a profile as bars with their labels."""
    labels = found.labels or []
    chart = _small([_bars(found, k, list(range(len(labels))))], 200)
    step = max(1, -(-len(labels) // _TICKS))
    chart["layout"]["xaxis"] |= {
        "tickvals": list(range(0, len(labels), step)), "ticktext": [_short(label) for label in labels[::step]],
        "tickangle": 0 if len(labels) <= 4 else -60, "tickfont": {"size": 10}, "showgrid": False,
    }  # fmt: skip
    return chart


def _bars(found: Profiles, k: int, order: list[int]) -> dict[str, Any]:
    labels, y = found.labels or [], found.values[k][order]
    bar: dict[str, Any] = {
        "type": "bar", "x": list(range(len(order))), "y": numbers(y, 4), "customdata": [labels[j] for j in order],
        "marker": {"color": "var(--kl)"}, "hovertemplate": "%{customdata}: %{y:.3g}<extra></extra>",
    }  # fmt: skip
    if found.low is not None and found.high is not None:
        bar["error_y"] = {
            "type": "data", "symmetric": False, "array": numbers(np.maximum(found.high[k][order] - y, 0.0), 3),
            "arrayminus": numbers(np.maximum(y - found.low[k][order], 0.0), 3), "thickness": 1, "width": 0,
            "color": "var(--soft)",
        }  # fmt: skip
    return bar


def exposures(found: Profiles) -> Chart:
    """Draw contributions stacked by sample, the largest samples first."""
    totals = found.parts.sum(axis=1) + found.rest
    order = np.argsort(-totals, kind="stable")[:STACKED]
    samples = found.samples or [str(i + 1) for i in range(len(totals))]
    named = [samples[i] for i in order]
    rest = [("unstable", found.rest[order], "var(--line)")] if found.rest.any() else []
    stacks = [(name, found.parts[order, k], colour(k)) for k, name in enumerate(found.names)]
    data = [
        {
            "type": "bar", "name": name, "x": list(range(len(order))), "y": numbers(values, 4), "customdata": named,
            "marker": {"color": shade}, "hovertemplate": "%{customdata}<br>%{fullData.name}: %{y:.4g}<extra></extra>",
        }
        for name, values, shade in (*stacks, *rest)
    ]  # fmt: skip
    layout = {
        "barmode": "stack", "bargap": 0.06, "showlegend": True,
        "xaxis": {"showticklabels": False, "title": {"text": f"sample, largest first ({len(order)} of {len(totals)})"},
                  "showgrid": False},
        "yaxis": {"title": {"text": "contribution"}},
        "legend": {
            "orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "font": {"size": 11}, "traceorder": "normal",
        },
    }  # fmt: skip
    rows = -(-len(stacks) // 8)
    return {"data": data, "layout": layout, "height": 330 + 20 * rows, "phone": 330 + 22 * -(-len(stacks) // 3)}


def over_dates(found: Profiles, k: int) -> Chart:
    """Draw the contribution of a component over dates."""
    line = {
        "type": "scatter", "mode": "lines", "x": dates_of(found.samples), "y": numbers(found.parts[:, k], 4),
        "line": {"color": colour(k), "width": 1.2}, "hovertemplate": "%{x|%Y-%m-%d}: %{y:.3g}<extra></extra>",
    }  # fmt: skip
    chart = _small([line], 130, flat=True)
    # Turned labels would be cut off.
    chart["layout"]["xaxis"] |= {"type": "date", "nticks": 4, "tickangle": 0, "tickfont": {"size": 10}}
    chart["layout"]["yaxis"] |= {"rangemode": "tozero", "nticks": 4}
    return chart


def abundance(found: Profiles, k: int) -> Chart:
    """Draw the part of a component in every pixel as a picture."""
    assert found.image is not None
    share: Vector = found.shares[:, k].reshape(found.image)
    small, _, _ = pool(share, CELLS)
    heat = {
        "type": "heatmap", "z": [numbers(row, 3) for row in small], "colorscale": HEAT, "zmin": 0, "zmax": 1,
        "hovertemplate": "row %{y}, column %{x}: %{z:.2f}<extra></extra>", "showscale": False,
    }  # fmt: skip
    hidden = {"visible": False, "showgrid": False}
    layout = {
        "xaxis": {**hidden, "constrain": "domain"},
        "yaxis": {**hidden, "autorange": "reversed", "scaleanchor": "x"},
    }
    return {"data": [heat], "layout": layout, "height": 300, "phone": 300}


def usage(found: Profiles) -> Chart:
    """Draw the contributions as an image: one row per component, one column per sample."""
    chart = factor_image(found.shares.T, False, found.samples, "sample")
    chart["layout"]["yaxis"] |= {
        "tickvals": list(range(len(found.names))),
        "ticktext": [_short(n) for n in found.names],
    }
    chart["data"][0]["y"] = list(range(len(found.names)))
    chart["data"][0]["hovertemplate"] = "%{x}<br>%{z:.2f} of its largest<extra></extra>"
    return chart


def _short(label: str) -> str:
    return label if len(label) <= _LETTERS else label[: _LETTERS - 1] + "…"


def _small(data: list[dict[str, Any]], height: int, flat: bool = False) -> Chart:
    axis: dict[str, Any] = {"title": {"text": "", "standoff": 0}}
    layout: dict[str, Any] = {"xaxis": dict(axis), "yaxis": dict(axis), "showlegend": False, "bargap": 0.15}
    if flat:  # tick labels lie in one line: no room is left for more
        layout |= {"xaxis": {**axis, "automargin": False}, "margin": {"l": 8, "r": 8, "t": 6, "b": 20}}
    return {"data": data, "layout": layout, "height": height, "phone": height}
