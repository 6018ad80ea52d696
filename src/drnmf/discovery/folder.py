"""The folder of a discovery: its tables, its model, its page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from drnmf.discovery.named import Named
from drnmf.matrices.matrix import Matrix
from drnmf.report import write_report
from drnmf.report.profiles import field_of
from drnmf.runs import schema, write
from drnmf.runs.output import output_folder
from drnmf.runs.quality import write_quality
from drnmf.selection.intervals.bars import Intervals


def write_discovery(folder: Path, found: Named, summary: schema.Summary) -> None:
    """Write every table of a discovery, its model and its summary.

    Parameters
    ----------
    summary : what else summary.json is to say: the input, parameters, notes
    """
    kept = np.flatnonzero(found.stable)
    names, profiles, samples = [found.names[k] for k in kept], found.column_names, found.row_names
    components = np.asarray(found.components)
    write.write_rows(folder / schema.COMPONENTS, write.labelled(profiles, components[kept].T, names))
    if found.intervals is not None:
        _write_intervals(folder, found, found.intervals)
    for file, table in ((schema.CONTRIBUTIONS, found.contributions), (schema.DENSE, found.dense)):
        W = np.asarray(table)
        parts = np.column_stack([W[:, kept], W[:, ~found.stable].sum(axis=1)])
        write.write_rows(folder / file, write.labelled(samples, parts, [*names, "unstable"]))
    write.write_table(folder / schema.STABILITY, found.stability_rows())
    if found.noise is not None:
        write.write_table(folder / schema.NOISE, found.noise.table)
    if found.ranks:
        write.write_table(folder / schema.RANKS, found.ranks)
    write.write_table(folder / schema.RESIDUALS, _residuals(found))
    levels = (found.residuals.levels, found.residuals.squares, found.residuals.expected)
    heads = ("fitted", "squared_residual", "expected")
    variance = zip(*(values.tolist() for values in levels), strict=True)
    write.write_table(folder / schema.VARIANCE, [dict(zip(heads, row, strict=True)) for row in variance])
    best = found.runs[0]
    write.write_table(folder / schema.TRACE, write.trace_rows(best.omega, best.trace))
    found.save(folder / schema.MODEL)
    write.write_component_names(folder, Matrix(None, found.rows, found.columns), found.names)
    content = _described(found) | summary
    if found.quality is not None:
        content["quality"] = write_quality(folder, found.quality, samples, profiles)
    write.write_summary(folder, content)


def _write_intervals(folder: Path, found: Named, bars: Intervals) -> None:
    """Write the ends of the intervals of stable components, and of their contributions where those have any."""
    kept = np.flatnonzero(found.stable)
    ends = [f"{found.names[k]}_{end}" for k in kept for end in ("low", "high")]
    H, W = bars.components.reordered(kept, 0), bars.contributions
    profiles = _alternating(H.lower.T, H.upper.T)
    write.write_rows(folder / schema.INTERVALS, write.labelled(found.column_names, profiles, ends))
    if W is not None:
        W = W.reordered(kept, 1)
        parts = _alternating(W.lower, W.upper)
        write.write_rows(folder / schema.CONTRIBUTION_INTERVALS, write.labelled(found.row_names, parts, ends))


def _alternating(low: Any, high: Any) -> Any:
    """Put the columns of two tables side by side: the first of both, the second of both, and so on."""
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


def _described(found: Named) -> schema.Summary:
    """What summary.json says of any discovery."""
    best = found.runs[0]
    return {
        "kind": "discover", "seconds": round(found.seconds, 3),
        "losses": write.per_loss(best.omega, best.losses),
        "references": write.per_loss(best.omega, best.references),
        "weights": write.per_loss(best.omega, best.weights), "notes": list(found.notes),
        "field": field_of(found.column_names, found.row_names, found.rows and found.rows.image),
        "discovery": discovered(found),
    }  # fmt: skip


def discovered(found: Named, profiles: str = "columns") -> schema.Discovered:
    """What summary.json says of the search; its sentences are those of Python."""
    noise = found.noise
    return {
        "missing": list(found.missing), "rank": found.rank, "stable": int(found.stable.sum()),
        "threshold": found.threshold, "resample": found.resample, "intervals": covered_of(found.intervals),
        "beta": None if noise is None else noise.beta, "slope": None if noise is None else noise.slope,
        "profiles": profiles, "penalties": list(found.penalties), "finding": found.summary(), "stages": found.stages,
    }  # fmt: skip


def write_report_folder(found: Named, folder: Path, overwrite: bool) -> Path:
    """Write the folder of a discovery that was made in Python, and return the path of its page."""
    m, n = np.asarray(found.contributions).shape[0], np.asarray(found.components).shape[1]
    image = None if found.rows is None else found.rows.image
    data: dict[str, Any] = {"shape": [m, n], "image": None if image is None else list(image)}
    with output_folder(folder, overwrite) as temporary:
        write_discovery(temporary, found, {"command": "drnmf.discover(X)", "data": data})
        write_report(temporary)
    return folder / schema.REPORT


def _residuals(found: Named) -> list[dict[str, Any]]:
    seen = found.residuals
    sides = (
        ("contribution", found.row_names, seen.rows, seen.row_sums),
        ("profile", found.column_names, seen.columns, seen.column_sums),
    )
    return [
        {"side": side, "label": label, "loss": loss, "sum": total}
        for side, labels, losses, sums in sides
        for label, loss, total in zip(labels, losses.tolist(), sums.tolist(), strict=True)
    ]
