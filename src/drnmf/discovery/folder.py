"""The folder of a discovery: its tables, its model, its page."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from drnmf.discovery.named import Named
from drnmf.matrices.matrix import Matrix
from drnmf.numerics import Vector
from drnmf.report import write_report
from drnmf.report.profiles import field_of
from drnmf.runs import schema, write
from drnmf.runs.output import output_folder
from drnmf.runs.quality import write_quality
from drnmf.selection.intervals.bars import Intervals


def write_discovery(folder: Path, discovery: Named, summary: schema.Summary) -> None:
    """Write every table of a discovery, its model and its summary, which knows the input already."""
    kept = np.flatnonzero(discovery.stable)
    names, profiles, samples = [discovery.names[k] for k in kept], discovery.column_names, discovery.row_names
    components = np.asarray(discovery.components)
    write.write_rows(folder / schema.COMPONENTS, write.labelled(profiles, components[kept].T, names))
    if discovery.intervals is not None:
        _write_intervals(folder, discovery, discovery.intervals)
    for file, table in ((schema.CONTRIBUTIONS, discovery.contributions), (schema.DENSE, discovery.dense)):
        W = np.asarray(table)
        parts = np.column_stack([W[:, kept], W[:, ~discovery.stable].sum(axis=1)])
        write.write_rows(folder / file, write.labelled(samples, parts, [*names, "unstable"]))
    write.write_table(folder / schema.STABILITY, discovery.stability_rows())
    if discovery.noise is not None:
        write.write_table(folder / schema.NOISE, discovery.noise.table)
    if discovery.ranks:
        write.write_table(folder / schema.RANKS, discovery.ranks)
    write.write_table(folder / schema.RESIDUALS, _residuals(discovery))
    levels = (discovery.residuals.levels, discovery.residuals.squares, discovery.residuals.expected)
    heads = ("fitted", "squared_residual", "expected")
    variance = zip(*(values.tolist() for values in levels), strict=True)
    write.write_table(folder / schema.VARIANCE, [dict(zip(heads, row, strict=True)) for row in variance])
    best = discovery.runs[0]
    write.write_table(folder / schema.TRACE, write.trace_rows(best.omega, best.trace))
    discovery.save(folder / schema.MODEL)
    write.write_component_names(folder, Matrix(None, discovery.rows, discovery.columns), discovery.names)
    content = _described(discovery) | summary
    if discovery.quality is not None:
        content["quality"] = write_quality(folder, discovery.quality, samples, profiles)
    write.write_summary(folder, content)


def _write_intervals(folder: Path, discovery: Named, bars: Intervals) -> None:
    """Write the ends of the intervals of stable components, and of their contributions where those have any."""
    kept = np.flatnonzero(discovery.stable)
    ends = [f"{discovery.names[k]}_{end}" for k in kept for end in ("low", "high")]
    H, W = bars.components.reordered(kept, 0), bars.contributions
    profiles = _alternating(H.lower.T, H.upper.T)
    write.write_rows(folder / schema.INTERVALS, write.labelled(discovery.column_names, profiles, ends))
    if W is not None:
        W = W.reordered(kept, 1)
        parts = _alternating(W.lower, W.upper)
        write.write_rows(folder / schema.CONTRIBUTION_INTERVALS, write.labelled(discovery.row_names, parts, ends))


def _alternating(low: Vector, high: Vector) -> Vector:
    """Put the columns of two tables side by side: the first of both, the second of both, and so on."""
    return np.stack([low, high], axis=2).reshape(low.shape[0], -1)


def covered_of(intervals: Intervals | None) -> schema.Covered | None:
    """Say in summary.json what intervals are to cover, and what they cover in simulation."""
    if intervals is None:
        return None
    sides = {"components": intervals.components, "contributions": intervals.contributions}
    bars = {name: side for name, side in sides.items() if side is not None}
    return {
        "level": intervals.level,
        "draws": intervals.draws,
        "truths": intervals.truths,
        "noise": intervals.noise,
        "widening": {name: round(side.widening, 4) for name, side in bars.items()},
        "coverage": {name: round(side.coverage, 4) if intervals.truths else None for name, side in bars.items()},
        "finding": intervals.summary(),
    }


def _described(discovery: Named) -> schema.Summary:
    """What summary.json says of any discovery."""
    best = discovery.runs[0]
    return {
        "kind": "discover",
        "seconds": round(discovery.seconds, 3),
        "losses": write.per_loss(best.omega, best.losses),
        "references": write.per_loss(best.omega, best.references),
        "weights": write.per_loss(best.omega, best.weights),
        "notes": list(discovery.notes),
        "field": field_of(discovery.column_names, discovery.row_names, discovery.rows and discovery.rows.image),
        "discovery": discovered(discovery),
    }


def discovered(discovery: Named, profiles: str = "columns") -> schema.Discovered:
    """What summary.json says of the search; its sentences are those of Python."""
    noise = discovery.noise
    return {
        "missing": list(discovery.missing),
        "rank": discovery.rank,
        "stable": int(discovery.stable.sum()),
        "threshold": discovery.threshold,
        "resample": discovery.resample,
        "intervals": covered_of(discovery.intervals),
        "beta": None if noise is None else noise.beta,
        "slope": None if noise is None else noise.slope,
        "counts": discovery.counts,
        "profiles": profiles,
        "penalties": list(discovery.penalties),
        "finding": discovery.headline(),
        "cautions": list(discovery.cautions),
        "stages": discovery.stages,
    }


def write_report_folder(discovery: Named, folder: Path, overwrite: bool) -> Path:
    """Write the folder of a discovery that was made in Python, and return the path of its page."""
    m, n = np.asarray(discovery.contributions).shape[0], np.asarray(discovery.components).shape[1]
    image = None if discovery.rows is None else discovery.rows.image
    data: schema.Input = {"shape": [m, n], "image": None if image is None else list(image)}
    with output_folder(folder, overwrite) as temporary:
        write_discovery(temporary, discovery, {"command": "drnmf.discover(X)", "data": data})
        write_report(temporary)
    return folder / schema.REPORT


def _residuals(discovery: Named) -> list[write.Record]:
    seen = discovery.residuals
    sides = (
        ("contribution", discovery.row_names, seen.rows, seen.row_sums),
        ("profile", discovery.column_names, seen.columns, seen.column_sums),
    )
    return [
        {"side": side, "label": label, "loss": loss, "sum": total}
        for side, labels, losses, sums in sides
        for label, loss, total in zip(labels, losses.tolist(), sums.tolist(), strict=True)
    ]
