"""Which field a run is from, by its labels: mutation types, dates, wavelengths, genes. It decides on the pictures."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np

from drnmf.matrices.mutations import are_mutations
from drnmf.numerics import Vector

FIELDS = ("signatures", "air", "spectra", "cells", "plain")
"""Profiles over mutation types; species over dates; lines over wavelengths and maps; top genes; bars."""

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
