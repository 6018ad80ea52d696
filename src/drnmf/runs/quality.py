"""How well a model meets X within its uncertainties: Q and what is expected of it, in all and by column."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from drnmf.numerics import Entries, Vector
from drnmf.runs import schema, write

BEYOND = 4.0
"""Scaled residuals from here on are outliers: EPA PMF damps them in its robust Q."""


@dataclass(frozen=True)
class Quality:
    """Scaled residuals and their sums of squares."""

    residuals: Vector  # (m, n), (x - v) / u; NaN where x was not observed
    rank: int  # components of the model

    @property
    def entries(self) -> int:
        """Entries that were observed."""
        return int(np.isfinite(self.residuals).sum())

    @property
    def expected(self) -> float:
        """Q that uncertainties of the right size give: entries less parameters, r (m + n); NaN where none is left."""
        m, n = self.residuals.shape
        free = self.entries - self.rank * (m + n)
        return float(free) if free > 0 else float("nan")

    @property
    def Q(self) -> float:
        """The sum of squares of the scaled residuals."""
        return float(np.nansum(self.residuals**2))

    @property
    def robust(self) -> float:
        """Q in which an outlier counts in proportion to its size, not to its square."""
        return float(np.nansum(_damped(self.residuals)))

    def columns(self, names: list[str]) -> list[write.Record]:
        """List Q of every column, beside the part of the expected Q that its entries have."""
        share = self.expected / max(self.entries, 1)
        seen = np.isfinite(self.residuals).sum(axis=0)
        Q, robust = np.nansum(self.residuals**2, axis=0), np.nansum(_damped(self.residuals), axis=0)
        beyond = (np.abs(self.residuals) > BEYOND).sum(axis=0)  # NaN is not larger than anything
        rows = []
        for j, name in enumerate(names):
            expected = share * int(seen[j])
            ratio = float(Q[j]) / expected if expected > 0 else float("nan")
            row = {"label": name, "entries": int(seen[j]), "Q": float(Q[j]), "Q_expected": expected, "Q_ratio": ratio}
            rows.append(row | {"Q_robust": float(robust[j]), "beyond": int(beyond[j])})
        return rows

    @property
    def summary(self) -> schema.Quality:
        """What summary.json says of it."""
        expected = self.expected
        known = np.isfinite(expected)
        return {
            "Q": self.Q,
            "Q_expected": expected if known else None,
            "Q_ratio": self.Q / expected if known else None,
            "Q_robust": self.robust,
            "entries": self.entries,
            "beyond": int((np.abs(self.residuals) > BEYOND).sum()),
        }


def _damped(residuals: Vector) -> Vector:
    size = np.abs(residuals)
    return np.where(size > BEYOND, BEYOND * size, size**2)


def quality(X: Entries, W: ArrayLike, H: ArrayLike, uncertainty: ArrayLike) -> Quality:
    """Compare X (m, n) with WH in units of its uncertainties, which broadcast to X.

    >>> found = quality(np.array([[3.0, 1.0]]), np.ones((1, 1)), np.ones((1, 2)), np.array([[0.25, 1.0]]))
    >>> found.Q, found.robust
    (64.0, 32.0)
    """
    x = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    u = np.broadcast_to(np.asarray(uncertainty, dtype=np.float64), x.shape)
    fitted = np.asarray(W, dtype=np.float64) @ np.asarray(H, dtype=np.float64)
    seen = np.isfinite(x) & (u > 0)
    return Quality(np.where(seen, (x - fitted) / np.where(seen, u, 1.0), np.nan), int(np.asarray(H).shape[0]))


def write_quality(folder: Path, measured: Quality, rows: list[str], columns: list[str]) -> schema.Quality:
    """Write quality.csv and scaled_residuals.csv; return what summary.json says."""
    write.write_table(folder / schema.QUALITY, measured.columns(columns))
    write.write_rows(folder / schema.SCALED_RESIDUALS, write.labelled(rows, measured.residuals, columns))
    return measured.summary
