"""The files of a discovery."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drnmf.runs import schema, write

if TYPE_CHECKING:
    from drnmf.selection.discover import Discovery
    from drnmf.selection.intervals.bars import Intervals


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
    rest = found.contributions[:, ~found.stable].sum(axis=1)
    parts = np.column_stack([found.contributions[:, kept], rest])
    write.write_rows(folder / schema.CONTRIBUTIONS, _table(["label", *names, "unstable"], samples, parts))
    if found.intervals is not None:
        _write_intervals(folder, found.intervals, kept, profiles, samples)
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


def _write_intervals(
    folder: Path, found: Intervals, kept: Any, profiles: Sequence[str], samples: Sequence[str]
) -> None:
    """Write the ends of the intervals of stable components, and of their contributions where those have any."""
    head = ["label", *(f"{name}_{end}" for name in names_of(len(kept)) for end in ("low", "high"))]
    H, W = found.components.reordered(kept, 0), found.contributions
    write.write_rows(folder / schema.INTERVALS, _table(head, profiles, _beside(H.lower.T, H.upper.T)))
    if W is not None:
        W = W.reordered(kept, 1)
        write.write_rows(folder / schema.CONTRIBUTION_INTERVALS, _table(head, samples, _beside(W.lower, W.upper)))


def _beside(low: Any, high: Any) -> Any:
    """Put the columns of two tables side by side: the first of both, the second of both, and so on."""
    import numpy as np

    return np.stack([low, high], axis=2).reshape(low.shape[0], -1)


def covered_of(found: Intervals | None) -> schema.Covered | None:
    """Say in summary.json what intervals are to cover, and what they cover in simulation."""
    if found is None:
        return None
    sides = {"components": found.components, "contributions": found.contributions}
    bars = {name: side for name, side in sides.items() if side is not None}
    return {
        "level": found.level, "draws": found.draws, "truths": found.truths, "noise": found.noise,
        "widening": {name: round(side.widening, 4) for name, side in bars.items()},
        "coverage": {name: round(side.coverage, 4) if found.truths else None for name, side in bars.items()},
        "finding": found.summary(),
    }  # fmt: skip


def _table(header: list[str], labels: Sequence[str], values: Any) -> list[list[Any]]:
    return [header, *([label, *row] for label, row in zip(labels, values.tolist(), strict=True))]


def _stability(found: Discovery) -> list[dict[str, Any]]:
    """One row per component: the stable ones under the names of components.csv, then the others."""
    order = sorted(range(found.rank), key=lambda k: not found.stable[k])
    rows = []
    for place, k in enumerate(order):
        row: dict[str, Any] = {
            "component": f"component_{place + 1}", "stability": float(found.stability[k]),
            "stable": bool(found.stable[k]), "size": float(found.sizes[k]), "found_in": int(found.found_in[k]),
            "runs": len(found.runs),
        }  # fmt: skip
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
