"""The files of a discovery."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drnmf.runs import schema, write

if TYPE_CHECKING:
    from drnmf.selection.discover import Discovery


def names_of(count: int) -> list[str]:
    """Name components as the columns of components.csv.

    >>> names_of(2)
    ['component_1', 'component_2']
    """
    return [f"component_{k + 1}" for k in range(count)]


def write_discovery(folder: Path, found: Discovery, profiles: Sequence[str], samples: Sequence[str]) -> None:
    """Write every table of a discovery.

    Parameters
    ----------
    profiles, samples : labels of the columns of the components, and of the rows of the contributions
    """
    import numpy as np

    kept = np.flatnonzero(found.stable)
    names = names_of(len(kept))
    write.write_rows(folder / schema.COMPONENTS, _table(["label", *names], profiles, found.components[kept].T))
    ends = [f"{name}_{end}" for name in names for end in ("low", "high")]
    intervals = np.moveaxis(found.interval[:, kept], 0, 1).reshape(2 * len(kept), len(profiles))
    write.write_rows(folder / schema.INTERVALS, _table(["label", *ends], profiles, intervals.T))
    for file, W in ((schema.CONTRIBUTIONS, found.contributions), (schema.DENSE, found.dense)):
        parts = np.column_stack([W[:, kept], W[:, ~found.stable].sum(axis=1)])
        write.write_rows(folder / file, _table(["label", *names, "unstable"], samples, parts))
    write.write_table(folder / schema.STABILITY, _stability(found))
    if found.noise is not None:
        write.write_table(folder / schema.NOISE, found.noise.table)
    if found.ranks:
        write.write_table(folder / schema.RANKS, found.ranks)
    write.write_table(folder / schema.RESIDUALS, _residuals(found, profiles, samples))
    levels = (found.residuals.levels, found.residuals.squares, found.residuals.expected)
    heads = ("fitted", "squared_residual", "expected")
    variance = zip(*(values.tolist() for values in levels), strict=True)
    write.write_table(folder / schema.VARIANCE, [dict(zip(heads, row, strict=True)) for row in variance])
    best = found.runs[0]
    write.write_table(folder / schema.TRACE, write.trace_rows(best.omega, best.trace))


def _table(header: list[str], labels: Sequence[str], values: Any) -> list[list[Any]]:
    return [header, *([label, *row] for label, row in zip(labels, values.tolist(), strict=True))]


def _stability(found: Discovery) -> list[dict[str, Any]]:
    """One row per component: the stable ones under the names of components.csv, then the others."""
    order = sorted(range(found.rank), key=lambda k: not found.stable[k])
    rows = []
    for place, k in enumerate(order):
        row: dict[str, Any] = {
            "component": f"component_{place + 1}", "stability": float(found.stability[k]),
            "stable": bool(found.stable[k]), "size": float(found.sizes[k]),
        }  # fmt: skip
        if found.sources:
            row["found_in"] = "; ".join(found.sources[k])
        if found.matching is not None:
            row |= {"match": found.matching.names[k] or "", "similarity": float(found.matching.similarity[k])}
        rows.append(row)
    return rows


def _residuals(found: Discovery, profiles: Sequence[str], samples: Sequence[str]) -> list[dict[str, Any]]:
    seen = found.residuals
    sides = (("contribution", samples, seen.rows, seen.row_sums), ("profile", profiles, seen.columns, seen.column_sums))
    return [
        {"side": side, "label": label, "loss": loss, "sum": total}
        for side, labels, losses, sums in sides
        for label, loss, total in zip(labels, losses.tolist(), sums.tolist(), strict=True)
    ]
