"""Charts of components as their fields draw them: 96 bars in six colours, species on a log axis, spectra, maps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from drnmf.matrices.matrix import SUBSTITUTIONS, spelt, substitution
from drnmf.numerics import Vector
from drnmf.report.charts import CELLS, Chart, Layout, Trace, bars, chart, factor_image, heat, line, marks, numbers, pool
from drnmf.report.profiles import Profiles, axis_of, dates_of
from drnmf.report.words import short

BASES = dict(zip(SUBSTITUTIONS, ("#02bdee", "var(--ink)", "#e42a27", "#b8b4b5", "#a2cf63", "#ecb0ae"), strict=True))
"""The colours of the six substitutions."""
_IN_TURN = ("kl", "is", "fro", "dr", *(f"other-{k}" for k in (0, 1, 2, 4, 3, 7, 6, 5)))
PALETTE = tuple(f"var(--{name})" for name in _IN_TURN)
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


def signature(profiles: Profiles, k: int) -> Chart:
    """Draw a profile over mutation types: a bar each, in the colours of the six substitutions."""
    labels = profiles.labels or []
    order = mutation_order(labels)
    kinds = [substitution(labels[j]) or "C>A" for j in order]
    bar = _bars(profiles, k, order)
    bar["marker"] = {"color": [BASES[kind] for kind in kinds]}
    places = {kind: [i for i, other in enumerate(kinds) if other == kind] for kind in SUBSTITUTIONS if kind in kinds}
    drawn = _small([bar], 150, flat=True)
    middles = [float(np.mean(at)) for at in places.values()]
    drawn["layout"]["xaxis"] |= _ticks(middles, list(places), 0) | {"ticks": "", "range": [-0.7, len(order) - 0.3]}
    drawn["layout"]["yaxis"] |= {"tickformat": ".0%", "nticks": 4}
    return drawn


def species(profiles: Profiles, k: int) -> Chart:
    """Draw a profile over species: its mean amount on a log axis, and per cent of the species that it explains."""
    labels, amounts = profiles.labels or [], profiles.amounts
    share = amounts[k] / np.maximum(amounts.sum(axis=0), np.finfo(np.float64).tiny)
    seen = amounts[k][amounts[k] > 0]
    low = float(np.log10(seen.max())) - 5.0 if seen.size else -5.0
    shown = np.where(amounts[k] > 10**low, amounts[k], np.nan)
    places = range(len(labels))
    amount = bars(places, numbers(shown, 4), colour(k), "%{customdata}: %{y:.3g}", labels) | {"name": "amount"}
    amount["marker"] |= {"opacity": 0.55}
    part = marks(list(places), numbers(100 * share, 3), {"color": "var(--max)", "size": 6}, "%")
    part |= {"yaxis": "y2", "customdata": labels, "hovertemplate": "%{customdata}: %{y:.3g}% of it<extra></extra>"}
    drawn = _small([amount, part], 235)
    top = float(np.log10(seen.max())) + 0.2 if seen.size else 0.0
    drawn["layout"]["xaxis"] |= _ticks(list(places), labels, -90, 9)
    drawn["layout"]["yaxis"] |= {"type": "log", "range": [low, top], "dtick": 1, "exponentformat": "power"}
    percents = {"tickmode": "array", "tickvals": [0, 50, 100], "ticktext": ["0%", "50%", "100%"], "showgrid": False}
    drawn["layout"]["yaxis2"] = percents | {"overlaying": "y", "side": "right", "range": [0, 105]}
    return drawn


def spectrum(profiles: Profiles, k: int) -> Chart:
    """Draw a profile as a line over wavelengths, with its interval as a band."""
    axis = axis_of(profiles.labels)
    x = numbers(np.arange(1, profiles.values.shape[1] + 1) if axis is None else axis, 6)
    data: list[Trace] = []
    if profiles.low is not None and profiles.high is not None:
        edge = {"type": "scatter", "mode": "lines", "x": x, "line": {"width": 0}, "hoverinfo": "skip"}
        data = [
            edge | {"y": numbers(profiles.low[k], 4)},
            edge | {"y": numbers(profiles.high[k], 4), "fill": "tonexty", "fillcolor": "rgba(128,128,128,0.28)"},
        ]
    data.append(line(x, numbers(profiles.values[k], 4), colour(k)) | {"hovertemplate": "%{x}: %{y:.3g}<extra></extra>"})
    drawn = _small(data, 170, flat=True)
    drawn["layout"]["yaxis"] |= {"rangemode": "tozero", "nticks": 4}
    return drawn


def plain(profiles: Profiles, k: int) -> Chart:
    """Draw a profile as bars with their labels."""
    labels = profiles.labels or []
    drawn = _small([_bars(profiles, k, list(range(len(labels))))], 200)
    step = max(1, -(-len(labels) // _TICKS))
    angle = 0 if len(labels) <= 4 else -60
    drawn["layout"]["xaxis"] |= _ticks(list(range(0, len(labels), step)), labels[::step], angle, 10)
    return drawn


def _ticks(places: Sequence[float], labels: list[str], angle: int, size: int | None = None) -> Layout:
    named = [short(label, _LETTERS) for label in labels]
    texts = {"tickvals": places, "ticktext": named, "tickangle": angle, "showgrid": False}
    return texts if size is None else texts | {"tickfont": {"size": size}}


def _bars(profiles: Profiles, k: int, order: list[int]) -> Layout:
    labels, y = profiles.labels or [], profiles.values[k][order]
    named = [labels[j] for j in order]
    bar = bars(range(len(order)), numbers(y, 4), "var(--kl)", "%{customdata}: %{y:.3g}", named)
    if profiles.low is not None and profiles.high is not None:
        above, below = (
            numbers(np.maximum(reach, 0.0), 3) for reach in (profiles.high[k][order] - y, y - profiles.low[k][order])
        )
        bar["error_y"] = {"type": "data", "symmetric": False, "array": above, "arrayminus": below}
        bar["error_y"] |= {"thickness": 1, "width": 0, "color": "var(--soft)"}
    return bar


def exposures(profiles: Profiles) -> Chart:
    """Draw contributions stacked by sample, the largest samples first."""
    totals = profiles.parts.sum(axis=1) + profiles.rest
    order = np.argsort(-totals, kind="stable")[:STACKED]
    samples = profiles.samples or [str(i + 1) for i in range(len(totals))]
    named = [samples[i] for i in order]
    rest = [("unstable", profiles.rest[order], "var(--line)")] if profiles.rest.any() else []
    stacks = [(name, profiles.parts[order, k], colour(k)) for k, name in enumerate(profiles.names)]
    hover = "%{customdata}<br>%{fullData.name}: %{y:.4g}"
    data = [
        bars(range(len(order)), numbers(values, 4), shade, hover, named) | {"name": name}
        for name, values, shade in (*stacks, *rest)
    ]
    title = f"sample, largest first ({len(order)} of {len(totals)})"
    legend = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "traceorder": "normal"}
    rows = -(-len(stacks) // 8)
    drawn = chart(data, title, "contribution", (330 + 20 * rows, 330 + 22 * -(-len(stacks) // 3)), legend=True)
    drawn["layout"]["xaxis"] |= {"showticklabels": False, "showgrid": False}
    drawn["layout"] |= {"barmode": "stack", "bargap": 0.06, "legend": legend | {"font": {"size": 11}}}
    return drawn


def over_dates(profiles: Profiles, k: int) -> Chart:
    """Draw the contribution of a component over dates."""
    curve = line(dates_of(profiles.samples) or [], numbers(profiles.parts[:, k], 4), colour(k), width=1.2)
    curve["hovertemplate"] = "%{x|%Y-%m-%d}: %{y:.3g}<extra></extra>"
    drawn = _small([curve], 130, flat=True)
    # Turned labels would be cut off.
    drawn["layout"]["xaxis"] |= {"type": "date", "nticks": 4, "tickangle": 0, "tickfont": {"size": 10}}
    drawn["layout"]["yaxis"] |= {"rangemode": "tozero", "nticks": 4}
    return drawn


def abundance(profiles: Profiles, k: int) -> Chart:
    """Draw the part of a component in every pixel as a picture."""
    assert profiles.image is not None
    share: Vector = profiles.shares[:, k].reshape(profiles.image)
    small, _, _ = pool(share, CELLS)
    image = heat(small) | {"hovertemplate": "row %{y}, column %{x}: %{z:.2f}<extra></extra>", "showscale": False}
    hidden = {"visible": False, "showgrid": False}
    layout = {
        "xaxis": {**hidden, "constrain": "domain"},
        "yaxis": {**hidden, "autorange": "reversed", "scaleanchor": "x"},
    }
    return {"data": [image], "layout": layout, "height": 300, "phone": 300}


def usage(profiles: Profiles) -> Chart:
    """Draw the contributions as an image: one row per component, one column per sample."""
    drawn = factor_image(profiles.shares.T, False, profiles.samples, "sample")
    drawn["layout"]["yaxis"] |= {
        "tickvals": list(range(len(profiles.names))),
        "ticktext": [short(n, _LETTERS) for n in profiles.names],
    }
    drawn["data"][0]["y"] = list(range(len(profiles.names)))
    drawn["data"][0]["hovertemplate"] = "%{x}<br>%{z:.2f} of its largest<extra></extra>"
    return drawn


def _small(data: list[Trace], height: int, flat: bool = False) -> Chart:
    axis: Layout = {"title": {"text": "", "standoff": 0}}
    layout: Layout = {"xaxis": dict(axis), "yaxis": dict(axis), "showlegend": False, "bargap": 0.15}
    if flat:  # tick labels lie in one line: no room is left for more
        layout |= {"xaxis": {**axis, "automargin": False}, "margin": {"l": 8, "r": 8, "t": 6, "b": 20}}
    return {"data": data, "layout": layout, "height": height, "phone": height}
