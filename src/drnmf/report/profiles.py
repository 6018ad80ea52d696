"""The components of a run as its page draws them: profiles, contributions, names, and what is known of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from drnmf.matrices.matrix import are_mutations
from drnmf.numerics import Vector
from drnmf.runs import schema
from drnmf.runs.read import Run

DRAWN = 400
"""Entries of a profile that are drawn as bars; longer ones list their largest."""
_LEAST = 10
"""Numbers in a row that make an axis."""
_DATES = ("%Y-%m-%d", "%m/%d/%Y", "%d/%m/%Y", "%d.%m.%Y", "%m/%d/%y", "%Y/%m/%d", "%Y%m%d")
_TIMES = ("", " %H:%M", "T%H:%M", " %H:%M:%S", "T%H:%M:%S")


def field_of(columns: Sequence[str] | None, rows: Sequence[str] | None, image: object = None) -> str:
    """Tell the field from what profiles are over, what samples are, and whether these are pixels.

    >>> field_of(["A[C>A]A", "A[C>A]C"], ["tumour 1"]), field_of(["lead", "zinc"], ["2020-01-01", "2020-01-02"])
    ('signatures', 'air')
    """
    if are_mutations(columns):
        return "signatures"
    if image is not None or axis_of(columns) is not None:
        return "spectra"
    if dates_of(rows) is not None:
        return "air"
    return "cells" if columns is not None and len(columns) > DRAWN else "plain"


def dates_of(labels: Sequence[str] | None) -> list[str] | None:
    """Read labels as dates, all in one way of writing; None where they are none.

    >>> dates_of(["12/14/2000", "12/20/2000"]), dates_of(["a", "b"])
    (['2000-12-14T00:00:00', '2000-12-20T00:00:00'], None)
    """
    if not labels or len(labels) < 2:
        return None
    for form in (day + time for day in _DATES for time in _TIMES):
        try:
            return [datetime.strptime(label.strip(), form).isoformat() for label in labels]
        except ValueError:
            continue
    return None


def axis_of(labels: Sequence[str] | None) -> Vector | None:
    """Read labels as positions on an axis, such as wavelengths: numbers that rise or fall; None where they do not.

    Labels that only count, from 0 or 1, are none.

    >>> axis_of([str(400 + 10 * k) for k in range(12)])[-1].item(), axis_of([str(k) for k in range(12)])
    (510.0, None)
    """
    if labels is None or len(labels) < _LEAST:
        return None
    try:
        places = np.array([float(label) for label in labels])
    except ValueError:
        return None
    steps = np.diff(places)
    one_way = bool((steps > 0).all() or (steps < 0).all()) and bool(np.isfinite(places).all())
    counts = places[0] in (0.0, 1.0) and bool((steps == 1.0).all())
    return places if one_way and not counts else None


Rows = Sequence[Mapping[str, str]]


@dataclass(frozen=True)
class Profiles:
    """Components with their names."""

    names: list[str]  # of the components
    # labels, samples: of what profiles are over, and of what they contribute to; None where X has none
    labels: list[str] | None
    samples: list[str] | None
    values: Vector  # (r, n), every row sums to one
    parts: Vector  # (m, r), contributions in the unit of X
    rest: Vector  # (m,), what unstable components contribute
    # low, high: (r, n), the ends of the intervals; None where there are none
    low: Vector | None
    high: Vector | None
    facts: list[str]  # what the page says of each component
    field: str  # one of `schema.FIELDS`
    image: tuple[int, int] | None  # rows and columns of the picture whose pixels the samples are

    @property
    def shares(self) -> Vector:
        """Part of every component in each sample, (m, r); what unstable ones contribute is left out."""
        totals = self.parts.sum(axis=1) + self.rest
        return np.asarray(self.parts / np.maximum(totals, np.finfo(np.float64).tiny)[:, None])

    @property
    def amounts(self) -> Vector:
        """Mean amount of every component in each entry of the profile, (r, n), in the unit of X."""
        return np.asarray(self.parts.mean(axis=0)[:, None] * self.values)


def profiles_of(run: Run) -> Profiles | None:
    """Gather the components of a fit or a discovery; None where it has none."""
    return _of_discovery(run) if "discovery" in run.summary else _of_fit(run)


def _image(run: Run) -> tuple[int, int] | None:
    size = run.data.get("image")
    return (int(size[0]), int(size[1])) if isinstance(size, list) and len(size) == 2 else None


def _field(run: Run, labels: list[str] | None, samples: list[str] | None, image: object) -> str:
    asked = run.summary.get("field")
    return asked if asked in schema.FIELDS else field_of(labels, samples, image)


def _of_discovery(run: Run) -> Profiles | None:
    rows, parts, known = (run.table(name) for name in (schema.COMPONENTS, schema.CONTRIBUTIONS, schema.STABILITY))
    names = [name for name in (rows[0] if rows else {}) if name != "label"]
    if not names or not parts:
        return None
    labels, samples = ([row["label"] for row in table] for table in (rows, parts))
    ends, image = run.table(schema.INTERVALS), _image(run)
    if image is not None and image[0] * image[1] != len(samples):
        image = None  # its pixels are what profiles are over
    low, high = (column_matrix(ends, [f"{name}_{end}" for name in names]) if ends else None for end in ("low", "high"))
    facts = [_stability(row, name) for row, name in zip(known, names, strict=False)]
    values, shares = column_matrix(rows, names), column_matrix(parts, names).T
    rest = np.array(column(parts, "unstable"))
    field = _field(run, labels, samples, image)
    return Profiles(names, labels, samples, values, shares, rest, low, high, facts, field, image)


def _stability(row: Mapping[str, str], name: str) -> str:
    text = f"{100 * float(row['size']):.2g}%, stability {float(row['stability']):.2f}"
    if row.get("found_in"):
        text += f", found in {row['found_in']} of {row['runs']} runs"
    if row.get("match"):
        like = f"cosine {float(row['similarity']):.2f}"
        text += f", {like}" if row["match"] == name else f", nearest {row['match']} ({like})"
    return text


def _of_fit(run: Run) -> Profiles | None:
    if run.W is None or run.H is None or run.table(schema.TOPICS):
        return None
    labels, samples, image = run.column_names, run.row_names, _image(run)
    if labels is None and samples is None:
        return None
    W, H = (np.asarray(factor, dtype=np.float64) for factor in (run.W, run.H))
    sums = H.sum(axis=1)
    parts, total = W * sums, max(float((W.sum(axis=0) * sums).sum()), np.finfo(np.float64).tiny)
    facts = [f"{100 * value / total:.2g}% of the model" for value in (W.sum(axis=0) * sums).tolist()]
    values, field = H / np.maximum(sums, np.finfo(np.float64).tiny)[:, None], _field(run, labels, samples, image)
    names, rest = run.component_names, np.zeros(len(W))
    return Profiles(names, labels, samples, values, parts, rest, None, None, facts, field, image)


def column(rows: Rows, name: str) -> list[float]:
    """Read a column of a table as numbers."""
    return [float(row[name]) for row in rows]


def column_matrix(rows: Rows, names: Sequence[str]) -> Vector:
    """Read columns of a table as the rows of an array."""
    return np.array([column(rows, name) for name in names])
