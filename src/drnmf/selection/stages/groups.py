"""Components that few rows hold: looked for in every group of rows and over all, and put together.

What was found over all rows stays as it is: it was fitted to many more rows. It is kept where a group has it too, or
held-out entries ask for it. Components that only groups have are merged where they are alike (average linkage of
cosines), and each is kept where held-out entries of its groups ask for it: what comes again in several groups may be
the same mixture of what they share.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.special import ndtr, ndtri

from drnmf.backends.observed import HeldOut, product
from drnmf.losses.base import Loss
from drnmf.numerics import Vector
from drnmf.problem.problem import Problem
from drnmf.problem.receive import Received
from drnmf.selection.assignment.supports import Places
from drnmf.selection.choose import CLEARLY
from drnmf.selection.entries import Facts, counted, facts_of
from drnmf.selection.folds import HELD_OUT, LEAST_ENTRIES, Fold
from drnmf.selection.likelihood.masses import noise_for
from drnmf.selection.likelihood.scores import Scores, joined, paired
from drnmf.selection.matching import cosine, shares
from drnmf.solve.encode import Encoder

OVERALL = "all"
"""What the search over all rows is called."""

ALIKE = 0.8
"""Cosine above which components of two searches are one."""

LEAST_ROWS = 10
"""Rows that a group needs to be searched by itself."""

MASKS = 4
"""How often entries of a group are held out."""

STEPS = 100
"""Steps of contributions that are only compared."""

_ARRAYS = ("components", "stability", "found_in", "spread")


def groups_of(labels: Iterable[Any], count: int) -> dict[str, Places]:
    """Collect the rows of every group, in the order of their first rows.

    Raises
    ------
    ValueError
        Where there is not one label for each row, or only one group.

    Examples
    --------
    >>> {name: rows.tolist() for name, rows in groups_of(["a", "b", "a"], 3).items()}
    {'a': [0, 2], 'b': [1]}
    """
    names = [str(label) for label in labels]
    if len(names) != count:
        raise ValueError(f"groups has {len(names)} entries, but X has {count} rows: give one group for each row.")
    listed = np.array(names)
    found: dict[str, Places] = {name: np.flatnonzero(listed == name) for name in dict.fromkeys(names)}
    if len(found) < 2:
        raise ValueError("groups names one group only: leave it out, or name at least two.")
    return found


@dataclass(frozen=True)
class Merged:
    """Stable components of one search or of several, and how sure these are of them.

    Attributes
    ----------
    components : (r, n), rows sum to one
    stability, found_in, spread : as in a consensus; medians where several searches found a component
    sources : names of the searches that found each
    """

    components: Vector
    stability: Vector
    found_in: Places
    spread: Vector
    sources: tuple[tuple[str, ...], ...]

    def and_those_of(self, other: Merged) -> Merged:
        """Put others behind them."""
        components, stability, found_in, spread = (
            np.concatenate([getattr(self, part), getattr(other, part)]) for part in _ARRAYS
        )
        return Merged(components, stability, found_in, spread, self.sources + other.sources)

    def some(self, kept: Sequence[int] | Places) -> Merged:
        """Take some of them."""
        sources = tuple(self.sources[k] for k in kept)
        return Merged(self.components[kept], self.stability[kept], self.found_in[kept], self.spread[kept], sources)


def told_apart(overall: Merged, groups: Sequence[Merged]) -> tuple[Merged, Merged]:
    """Tell what groups found again of what all rows have, and merge what only groups have.

    Returns
    -------
    overall : as it was, with the groups that have each component among its sources
    of_groups : the others, each the median of those that are alike

    Examples
    --------
    >>> one, spread = np.eye(2, 3), np.zeros((2, 3))
    >>> a = Merged(one, np.ones(2), np.full(2, 4), spread, (("all",),) * 2)
    >>> b = Merged(one[:, ::-1], np.ones(2), np.full(2, 4), spread, (("b",),) * 2)
    >>> found, new = told_apart(a, [b])
    >>> found.sources, new.components.tolist()
    ((('all',), ('all', 'b')), [[0.0, 0.0, 1.0]])
    """
    names, only = list(overall.sources), list[Merged]()
    for group in groups:
        alike = cosine(group.components, overall.components)
        again = np.asarray(alike.max(axis=1, initial=-1.0) >= ALIKE)
        for k in np.unique(alike[again].argmax(axis=1)) if again.any() else ():  # each stands for the nearest alone
            names[k] += group.sources[0]
        only.append(group.some(np.flatnonzero(~again)))
    new = merged(only) if any(len(one.sources) for one in only) else overall.some([])
    return replace(overall, sources=tuple(names)), new


def merged(found: Sequence[Merged]) -> Merged:
    """Merge components that are alike, each into the median of its cluster; there must be one at least."""
    components, stability, found_in, spread = (
        np.concatenate([getattr(one, part) for one in found]) for part in _ARRAYS
    )
    components, names = shares(components), [name for one in found for (name,) in one.sources]
    cluster = np.ones(1, dtype=np.int64)
    if len(components) > 1:
        cluster = fcluster(linkage(components, "average", metric="cosine"), 1.0 - ALIKE, "distance")
    members = [np.flatnonzero(cluster == k) for k in dict.fromkeys(cluster.tolist())]
    return Merged(
        shares(np.stack([np.median(components[at], axis=0) for at in members])),
        np.array([np.median(stability[at]) for at in members]),
        np.array([int(np.median(found_in[at])) for at in members]),
        np.stack([np.median(spread[at], axis=0) for at in members]),
        tuple(tuple(dict.fromkeys(names[i] for i in at)) for at in members),
    )


def _surest(found: Merged, some: set[int]) -> list[int]:
    """Order components by their stability."""
    return sorted(some, key=lambda k: (-float(found.stability[k]), k))


@dataclass(frozen=True)
class Asking:
    """Held-out entries of groups, which tell whether a component that was found once is real.

    Attributes
    ----------
    problem : X
    encoder : what finds contributions; its components are replaced
    groups : the rows of every search by its name
    """

    problem: Problem
    encoder: Encoder
    groups: dict[str, Places]

    def kept(self, overall: Merged, of_groups: Merged) -> Merged:
        """Take what is found again or asked for of all rows, and what is asked for beside it of groups.

        Many components of groups are asked about, and each must convince as one of so many.
        """
        again = [k for k, names in enumerate(overall.sources) if len(names) > 1]
        for k in _surest(overall, set(range(len(overall.sources))) - set(again)):
            if self._asks(overall.sources[k], overall.components[again], overall.components[k], CLEARLY):
                again.append(k)
        chosen, count = overall.some(sorted(again)), len(of_groups.sources)
        clearly = float(-ndtri(ndtr(-CLEARLY) / max(count, 1)))
        for k in _surest(of_groups, set(range(count))):
            if self._asks(of_groups.sources[k], chosen.components, of_groups.components[k], clearly):
                chosen = chosen.and_those_of(of_groups.some([k]))
        return chosen

    def _asks(self, names: tuple[str, ...], others: Vector, one: Vector, clearly: float) -> bool:
        """Tell whether held-out entries of groups are predicted clearly better with a component than without it."""
        if not len(others):
            return True
        at = np.sort(np.concatenate([self.groups[name] for name in names]))
        part = self.problem.rows(at).given
        facts = facts_of(counted(part))
        if HELD_OUT * facts.count < LEAST_ENTRIES:
            return False
        scores = [self._score(part, facts, H) for H in (np.vstack([others, one]), others)]
        gain, error = paired(*scores)
        return gain > clearly * error

    def _score(self, part: Received, facts: Facts, H: Vector) -> Scores:
        omega, found = self.encoder.objective.omega, []
        assert not isinstance(part.observed, HeldOut)
        encoder = replace(
            self.encoder, components=H.astype(self.encoder.components.dtype), mean_row=np.zeros(len(H)), max_iter=STEPS
        )
        for seed in range(MASKS):
            fold = Fold.of(part, facts, HELD_OUT, seed)
            assert fold.mask is not None
            seen = replace(part, observed=product(part.observed, fold.mask.others))
            W = np.asarray(encoder.rows(self.problem.entries(seen, encoder.objective.mean)))
            best: Loss = omega[int(np.argmax(encoder.weights))]
            found.append(fold.score(noise_for(best), (W, encoder.components)))
        return joined(found)
