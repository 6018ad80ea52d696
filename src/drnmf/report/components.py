"""The components of a run whose rows and columns have names: what weighs most in each."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from drnmf.numerics import Array, Vector
from drnmf.report.parts import NOTHING, Section, section
from drnmf.runs import schema
from drnmf.runs.read import Run

SHOWN = 24
"""Components on the page; they come with the largest first."""
LISTED = 8
"""Rows and columns listed for a component."""


def components(run: Run) -> Section:
    """List the rows and columns with the largest part of every component; nothing where neither has names."""
    rows, columns = run.row_names, run.column_names
    if run.W is None or run.H is None or (rows is None and columns is None) or run.table(schema.TOPICS):
        return NOTHING
    W, H = run.W[:, :SHOWN], run.H[:SHOWN]
    sizes = np.asarray(run.W.sum(axis=0), dtype=np.float64) * np.asarray(run.H.sum(axis=1), dtype=np.float64)
    sizes /= max(float(sizes.sum()), np.finfo(np.float64).tiny)
    cards = []
    for k in range(W.shape[1]):
        lists = _list("Columns", columns, H[k]) + _list("Rows", rows, W[:, k])
        size = f"<small>{100 * sizes[k]:.2g}% of the model</small>"
        cards.append(f'<div class="card"><div class="bar"><h3>Component {k}</h3>{size}</div>{lists}</div>')
    note = "The columns and rows with the largest part of each component, in percent of its sum."
    if run.W.shape[1] > SHOWN:
        note += f" These are the first {SHOWN} of {run.W.shape[1]}; {schema.W_TABLE} and {schema.H_TABLE} have all."
    return section("The components", note, f'<div class="cards">{"".join(cards)}</div>'), {}


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
    found = [] if names is None else [(str(names[i]), part) for i, part in top(values, LISTED)]
    return f'<h4>{escape(title)}</h4><ol class="words">{bars(found)}</ol>' if found else ""


def bars(found: Sequence[tuple[str, float]]) -> str:
    """Make the items of a list of names and parts, with bars relative to the largest."""
    largest = max((part for _, part in found), default=1.0) or 1.0
    return "".join(
        f'<li style="--w:{100 * part / largest:.1f}%"><b>{escape(name)}</b><span>{100 * part:.2g}%</span></li>'
        for name, part in found
    )
