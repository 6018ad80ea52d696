"""What several runs agree on: their components in clusters, one of every run to a cluster.

Components are compared by their cosine. Clusters are found by turns: every run is assigned to the centres by the
Hungarian algorithm, then every centre becomes the mean direction of its members, until no assignment changes; the sum
of cosines to the centres rises with each turn. The first centres are those of one run, tried for several runs.

The stability of a component is the mean silhouette (b - a) / max(a, b) of its members: a is the mean cosine distance to
the other members, b that to the nearest other cluster. It is 1 where all runs find the same component, and near 0
where the members are no nearer to one another than to their neighbours (math: Alexandrov et al. 2013).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from drnmf.algorithms.initialize import Start
from drnmf.numerics import Array, Vector
from drnmf.selection.entries import Indices
from drnmf.selection.matching import assign, shares, unit

FIRST_CENTRES = 8
"""Runs whose components are tried as the first centres."""
TURNS = 100
"""Most turns of assignment and means; a handful is enough as a rule."""
IDLE = 1e-3
"""Part of the whole below which a component is empty."""
FOUND = 0.9
"""Cosine with which a run counts as having found a component."""


@dataclass(frozen=True)
class Consensus:
    """The components on which runs agree, every row a distribution over the columns.

    Attributes
    ----------
    components : (r, n), the median of each cluster, rows sum to one
    stability : (r,), mean silhouette of each cluster
    spread : (r, n), standard deviation of every entry over the runs: how far these differ, and no error bar
    runs : (R, r, n), the components of the runs, those of a cluster at the same place, rows sum to one
    members : (R, r) int, the place that each of them had in its run
    """

    components: Vector
    stability: Vector
    spread: Vector
    runs: Vector
    members: Indices

    @property
    def found_in(self) -> Indices:
        """How many runs have each component, with a cosine of at least 0.9; (r,)."""
        alike = np.einsum("ikn,kn->ik", unit(self.runs), unit(self.components))
        return np.asarray((alike >= FOUND).sum(axis=0))

    def reordered(self, order: Indices) -> Consensus:
        """Take components in another order, or some of them only."""
        return replace(
            self,
            components=self.components[order],
            stability=self.stability[order],
            spread=self.spread[order],
            runs=self.runs[:, order],
            members=self.members[:, order],
        )


def consensus(runs: Sequence[Array]) -> Consensus:
    """Cluster the components of several runs and summarise each cluster.

    Parameters
    ----------
    runs : at least two matrices (r, n), the components of a run in its rows, in any order and scale

    Returns
    -------
    Consensus
        Medians, stability and spread.

    Examples
    --------
    >>> one = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> found = consensus([one, 2 * one[::-1]])
    >>> found.components.tolist(), found.stability.tolist()
    ([[1.0, 0.0], [0.0, 1.0]], [1.0, 1.0])
    """
    if len(runs) < 2:
        raise ValueError(f"A consensus needs at least 2 runs: there is {len(runs)}.")
    whole = shares(np.asarray(runs, dtype=np.float64))
    members = cluster(unit(whole))
    ordered = np.take_along_axis(whole, members[:, :, None], axis=1)
    return Consensus(
        shares(np.median(ordered, axis=0)),
        silhouettes(unit(ordered)).mean(axis=0),
        ordered.std(axis=0),
        ordered,
        members,
    )


def cluster(directions: Vector) -> Indices:
    """Assign the components of every run, unit vectors (R, r, n), to clusters, one to each.

    Returns (R, r) int: [i, k] is the component of run i in cluster k.
    """
    tried = [_settled(directions, first) for first in directions[:FIRST_CENTRES]]
    return max(tried, key=lambda settled: settled[0])[1]


def _settled(directions: Vector, centres: Vector) -> tuple[float, Indices]:
    """Assignments that no further turn changes, and the sum of their cosines, from given centres."""
    before: Indices | None = None
    for _ in range(TURNS):
        members = np.stack([assign(centres @ run.T) for run in directions])
        if before is not None and np.array_equal(members, before):
            break
        before = members
        centres = unit(np.take_along_axis(directions, members[:, :, None], axis=1).mean(axis=0))
    agreement = np.einsum("ikn,kn->", np.take_along_axis(directions, members[:, :, None], axis=1), centres)
    return float(agreement), members


def silhouettes(directions: Vector) -> Vector:
    """Compute the silhouette of every member of every cluster under the cosine distance, (R, r).

    `directions` are unit vectors (R, r, n), of which [:, k] is cluster k. With one cluster alone the nearest other one
    is at distance 1, that of unrelated directions.
    """
    R, r, _ = directions.shape
    distances = 1.0 - np.einsum("ikn,ln->ikl", directions, directions.mean(axis=0))  # mean distance to every cluster
    place = np.arange(r)
    # the mean over a cluster counts the member itself, at distance zero
    own = np.maximum(distances[:, place, place] * (R / (R - 1)), 0.0)
    distances[:, place, place] = np.inf
    nearest = np.maximum(distances.min(axis=2), 0.0) if r > 1 else np.ones((R, r))
    larger = np.maximum(own, nearest)
    return np.divide(nearest - own, larger, out=np.zeros((R, r)), where=larger > _ROUNDING)


_ROUNDING = 1e-12
"""Distances below it are zero but for rounding: two clusters at the same place are no clusters."""


def come_again(fits: Sequence[Start]) -> Vector:
    """Compute how well components come again in several fits: by both factors, so that X and X' say the same."""
    if len(fits) < 2:
        return np.empty(0)
    sides = [consensus([F[side].T if side == 0 else F[side] for F in fits]).stability for side in (0, 1)]
    stability = np.mean([np.sort(side) for side in sides], axis=0)
    stability[: min(_idle(W, H) for W, H in fits)] = 0.0
    return np.asarray(stability)


def _idle(W: Array, H: Array) -> int:
    """Count components that a fit has left empty: exact data need no more, and nothing comes again of those."""
    sizes = W.sum(axis=0, dtype=np.float64) * H.sum(axis=1, dtype=np.float64)
    return int((sizes < IDLE * sizes.sum()).sum())
