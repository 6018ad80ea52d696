"""The units of the caller beside those of a fit, in which X is multiplied by a power of four.

A fit of X * scale knows nothing of the scale. With s = scale and d the degree of a loss (`Loss.degree`)

    W, H       times sqrt(s) on the way in      (given starts, components of a model, fixed components)
    D, e       times s^d                        (references)
    size       times s                          (`Loss.scaled`)

and the inverse of each on the way out. All of these are powers of two where 2 d is an integer, so X and 4^k X give the
same bits. A loss beyond float64 in the units of the caller is refused, before the fit where it can be told; one below
comes out as zero, with a note, while scaled losses, weights and factors do not notice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from drnmf.algorithms.result import Progress, Result, Trace
from drnmf.backends.base import Data, losses_of
from drnmf.losses.base import Omega
from drnmf.losses.interval import Coverage
from drnmf.numerics import EPS, Array, Vector, rescaled
from drnmf.objective.constraints import Constraints
from drnmf.objective.penalty import Penalties, Penalty, Setting, mode_of


@dataclass(frozen=True)
class Units:
    """How numbers of the caller and of a fit become each other."""

    scale: float  # what X is multiplied by in the fit
    given: Vector | None = None  # (p,) references of the caller, None where the fit computes them
    # "W" or "H" where that factor sums to one and so has no unit: all of X's is then in the other. Of the modes of a
    # tensor the first of the columns, "H0", has the unit of H, and all after it have none
    held: str | None = None

    @property
    def left(self) -> float:
        """What W is multiplied by in the fit."""
        return self.scale / self.right

    @property
    def right(self) -> float:
        """What H is multiplied by in the fit."""
        return {"H": 1.0, "H0": 1.0, "W": self.scale}.get(self.held or "", math.sqrt(self.scale))

    def of_mode(self, mode: int) -> float:
        """What the factor of a mode is multiplied by in the fit."""
        return (self.left, self.right)[mode] if mode < 2 else 1.0

    def omega(self, omega: Omega) -> Omega:
        """The losses of the caller in the units of the fit."""
        return tuple(loss.scaled(self.scale) for loss in omega)

    def _named(self, omega: Omega) -> Omega:
        """The losses of the fit in the units of the caller."""
        return tuple(loss.scaled(1.0 / self.scale) for loss in omega)

    def losses_in(self, losses: Vector, omega: Omega) -> Vector:
        """Take losses of the caller, (..., p), into the units of the fit."""
        found: Vector = rescaled(losses, self.scale, _degrees(omega))
        return found

    def losses(self, losses: Vector, omega: Omega) -> Vector:
        """Return losses of the fit, (..., p), in the units of the caller; those beyond float64 there are refused."""
        found: Vector = rescaled(losses, self.scale, -_degrees(omega))
        if np.isfinite(found).all():
            return found
        beyond = (np.isinf(found) & np.isfinite(losses)).reshape(-1, len(omega))
        if beyond.any():
            names = ", ".join(omega[b].name for b in np.flatnonzero(beyond.any(axis=0)))
            raise ValueError(
                f"Losses leave the range of float64 in the unit of X ({names}). Divide X by its mean first."
            )
        return found

    def error(self, losses: Vector, omega: Omega) -> float:
        """Compute sqrt(2 D) of a loss alone in the units of the caller, which float64 may hold where it holds no D."""
        return float(rescaled(np.sqrt(2.0 * losses), self.scale, -_degrees(omega) / 2.0)[0])

    def cost(self, losses: Vector, omega: Omega, penalty: float = 0.0) -> float:
        """Add the caller's penalty to a loss alone, for comparison with others of the same X.

        In the units of the caller, or in those of the fit where float64 cannot hold a loss there down to an exact fit.
        """
        degree = _degrees(omega)
        if rescaled(EPS**2, self.scale, -degree)[0] >= np.finfo(np.float64).tiny:
            return float(self.losses(losses, omega)[0]) + penalty
        return float((losses + rescaled(penalty, self.scale, degree))[0])

    def references(self, omega: Omega) -> Vector | None:
        """The references of the caller in the units of the fit; a loss alone is not divided before it is handed out.

        They are refused where float64 cannot hold them.
        """
        if self.given is None or self.given.size == 1:
            return None if self.given is None else np.ones(1)
        found = self.losses_in(self.given, omega)
        if not (np.isfinite(found).all() and (found > 0).all()):
            raise ValueError(
                f"references={self.given.tolist()}: relative to the mean of X they leave the range of float64. Divide "
                "X by its mean, and the references by its power that belongs to each beta."
            )
        return found

    def constraints(self, given: Constraints) -> Constraints:
        """The constraints of the caller in the units of the fit."""
        if self.scale == 1.0 or given.fixed == 0:
            return given
        H = None if given.H is None else given.H * self.right
        columns = tuple(None if F is None else F * self.of_mode(k + 1) for k, F in enumerate(given.columns))
        return replace(given, H=H, W=None if given.W is None else given.W * self.left, columns=columns)

    def whole(self, omega: Omega) -> float:
        """What the objective is multiplied by in the fit: a loss alone is not divided there, see `references`."""
        if self.given is None or self.given.size > 1:
            return 1.0
        return float(self.losses_in(self.given, omega)[0])

    def terms(self, terms: tuple[Penalty, ...], omega: Omega) -> tuple[Penalty, ...]:
        """The penalties of the caller in the units of the fit."""
        whole = self.whole(omega)
        if self.scale == 1.0 and whole == 1.0:
            return terms
        modes = [(term, mode_of(term)) for term in terms]
        return tuple(
            term.in_units(self.left, self.right if mode is None else self.of_mode(mode), whole) for term, mode in modes
        )

    def penalties(self, given: Penalties, omega: Omega) -> Penalties:
        """The penalties of the caller, with their setting, in the units of the fit."""
        at, whole = given.setting, self.whole(omega)
        return Penalties(self.terms(given.terms, omega), replace(at, mean=at.mean * self.scale, level=at.level * whole))

    def penalties_out(self, terms: tuple[Penalty, ...], setting: Setting, omega: Omega) -> Penalties:
        """The penalties of the caller, with the setting of the fit in the units of the caller."""
        whole = self.whole(omega)
        return Penalties(terms, replace(setting, mean=setting.mean / self.scale, level=setting.level / whole))

    def result(self, data: Data, result: Result) -> Result:
        """Return a result in the units of the caller."""
        omega = self._named(result.omega)
        whole, losses = self.whole(omega), self.losses(result.losses, result.omega)
        first, *others, last = result.blocks
        A = data.T.space.map(partial(divided, by=self.left), data.T.space.put(last))
        B = data.space.map(partial(divided, by=self.right), data.space.put(first))
        result = replace(
            result,
            blocks=(B, *others, A),
            omega=omega,
            losses=losses,
            references=self.losses(result.references, omega),
            trace=self._trace(result.trace, omega, whole),
            single_losses=None if result.single_losses is None else self.losses(result.single_losses, omega),
            coverage=None if result.coverage is None else self._coverage(result.coverage),
            notes=result.notes + _too_small(losses, result.losses, omega),
            penalty=result.penalty / whole,
        )
        if self.given is not None and len(omega) == 1:
            result = result.under(self.given)
        return result

    def _trace(self, trace: Trace, omega: Omega, whole: float) -> Trace:
        if trace.losses.shape[1] != len(omega):
            return trace
        return replace(trace, losses=self.losses(trace.losses, omega), penalty=trace.penalty / whole)

    def _coverage(self, coverage: Coverage) -> Coverage:
        losses, references = (rescaled(v, self.scale, -coverage.betas) for v in (coverage.losses, coverage.references))
        return replace(coverage, losses=losses, references=references)

    def progress(self, progress: Progress) -> Progress:
        """Return what a callback sees, in the units of the caller."""
        losses, scaled = self.losses(progress.losses, progress.omega), progress.scaled_losses
        if (progress.losses == scaled).all():  # a loss alone
            scaled = losses / (1.0 if self.given is None or self.given.size > 1 else self.given)
        p, omega = progress, self._named(progress.omega)
        return Progress(
            p.iteration, losses, scaled, p.weights, p.seconds, p.max_iter, omega,
            lambda: divided(p.components(), self.right),
        )  # fmt: skip


def _too_small(losses: Vector, inside: Vector, omega: Omega) -> tuple[str, ...]:
    """Say which losses are too small for the unit of the caller."""
    return tuple(
        f"The {loss.name} loss is below the range of float64 in the unit of X and is given as 0: the factors are not "
        "touched. Divide X by its mean to see it."
        for loss, value, own in zip(omega, losses, inside, strict=True)
        if value == 0.0 and own > 0.0
    )


def divided(F: Array, by: float) -> Array:
    """Divide a factor, or a piece of one."""
    return F / by


def losses_at(data: Data, W: Array, H: Array, omega: Omega) -> Vector:
    """Compute D(X, WH) for every loss, factors and losses in the units of the caller."""
    units = Units(data.scale)
    found = losses_of(data, W * units.left, np.asarray(H, dtype=data.dtype) * units.right, units.omega(omega))
    return units.losses(found, omega)


def mean_of(data: Data) -> float:
    """Return mean(X) in the units of the caller."""
    return data.mean / data.scale


def _degrees(omega: Omega) -> Vector:
    return np.array([loss.degree for loss in omega])
