"""Searches made of several: over all rows and in every group of them, or without known components and with them.

Components that few rows hold are looked for in every group and over all, and put together. What was found over all
rows stays as it is: it was fitted to many more rows. It is kept where a group has it too, or held-out entries ask for
it. Components that only groups have are merged where they are alike (average linkage of cosines), and each is kept
where held-out entries of its groups ask for it: what comes again in several groups may be the same mixture of what they
share.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.special import ndtr, ndtri

from drnmf.backends.observed import HeldOut, product
from drnmf.losses.base import Loss
from drnmf.numerics import Vector
from drnmf.parameters.common import Parameters
from drnmf.parameters.solver import as_solver
from drnmf.problem.device import as_numpy
from drnmf.problem.problem import Problem
from drnmf.problem.receive import Received
from drnmf.problem.weights import reading_of
from drnmf.selection.asked import Asked, AskedOfGroup, SearchResult
from drnmf.selection.assignment.assign import assign, assigned_in_time, encoded, opened, settled, supports_of
from drnmf.selection.assignment.supports import Places
from drnmf.selection.choose import CLEARLY
from drnmf.selection.entries import Facts, counted, facts_of
from drnmf.selection.folds import HELD_OUT, LEAST_ENTRIES, Fold
from drnmf.selection.likelihood.masses import noise_for
from drnmf.selection.likelihood.scores import Scores, joined, paired
from drnmf.selection.matching import cosine, shares
from drnmf.selection.stages.residuals import residuals
from drnmf.selection.stages.stages import REDRAWN_RUNS
from drnmf.solve.encode import Encoder
from drnmf.solve.settings import asked_losses

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

    There must be one label for each row, and more than one group.

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
    """Stable components of one search or of several, and how sure these are of them."""

    components: Vector  # (r, n), rows sum to one
    # stability, found_in, spread: as in a consensus; medians where several searches found a component
    stability: Vector
    found_in: Places
    spread: Vector
    sources: tuple[tuple[str, ...], ...]  # names of the searches that found each

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

    Returns `overall` with the groups that have each component among its sources, and the others, each the median of
    those that are alike.

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
    """Held-out entries of groups, which tell whether a component that was found once is real."""

    problem: Problem  # X
    encoder: Encoder  # what finds contributions; its components are replaced
    groups: dict[str, Places]  # the rows of every search by its name

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


FOR_ALL = 0.4
"""Part of a limit on time that is for the search over all rows."""

KEPT_ROWS, KEPT_PART = 2, 0.01
"""Rows that need a known component before it is kept: so many, and this part of all."""

MORE = 10
"""New components that are looked for beside known ones, at most, where no ranks are named."""

Search = Callable[[Any, Parameters, Asked], SearchResult]
"""One search."""

NO_INTERVALS = "No intervals: components of several searches were put together."


def in_groups(search: Search, X: Any, model: Parameters, asked: Asked) -> SearchResult:
    """Search all rows and every group: what all rows say comes back with the components of all searches."""
    before, m = time.perf_counter(), int(X.shape[0])
    if isinstance(asked.entry_weight, HeldOut):
        raise ValueError("groups do not go with entries that are held out (HeldOut): give weights, or leave one out.")
    rows = groups_of(() if asked.groups is None else asked.groups, m)
    searched = {name: at for name, at in rows.items() if at.size >= LEAST_ROWS and _holds_something(X, at)}
    overall, alone = every_search(search, X, model, asked, searched)
    of_all, of_groups = _stable(OVERALL, overall), [_stable(name, one) for name, one in alone.items()]
    small = [name for name in rows if name not in searched]
    notes = [f"Groups of fewer than {LEAST_ROWS} rows were not searched alone: {', '.join(small)}."] if small else []
    if not any(len(one.components) for one in (of_all, *of_groups)):
        return replace(overall, notes=(*overall.notes, "No group has a stable component.", *notes))
    problem = opened(X, "discover", reading_of(model, asked.entry_weight, asked.uncertainty))
    asking = Asking(problem, overall.encoder, {OVERALL: np.arange(m)} | searched)
    found = _assembled(overall, asking, *told_apart(of_all, of_groups), notes)
    matching = asked.matched(found.components)
    return replace(found, matching=matching, seconds=time.perf_counter() - before, max_time=model.max_time)


def every_search(
    search: Search, X: Any, model: Parameters, asked: Asked, groups: dict[str, Places]
) -> tuple[SearchResult, dict[str, SearchResult]]:
    """Search all rows, and then every group under the losses and with at most the components that all rows have."""
    before, m = time.perf_counter(), int(X.shape[0])
    plain = replace(asked, groups=None, reference=None, level=None)
    overall, alone = search(X, _part(model, "all", FOR_ALL), plain), dict[str, SearchResult]()
    for k, (name, at) in enumerate(groups.items()):
        part, count = _rows(X, at), sum(rest.size for rest in list(groups.values())[k:])
        left = None if model.max_time is None else max(model.max_time - (time.perf_counter() - before), 1.0)
        one = replace(model, max_time=None if left is None else left * at.size / count)
        of_part = replace(
            plain,
            ranks=_fewer(asked.ranks, min(*part.shape, overall.rank)),
            n_runs=min(asked.n_runs, REDRAWN_RUNS),
            entry_weight=_rows(asked.entry_weight, at, m),
            uncertainty=_rows(asked.uncertainty, at, m),
        )
        asked_of_it = AskedOfGroup(**vars(of_part), within=overall.losses)
        alone[name] = search(part, _part(one, f"group-{k + 1}", 1.0), asked_of_it)
    return overall, alone


def _assembled(
    overall: SearchResult, asking: Asking, of_all: Merged, of_groups: Merged, notes: list[str]
) -> SearchResult:
    """The discovery over all rows with what groups add to it, and contributions of those."""
    problem, encoder = asking.problem, overall.encoder
    chosen = asking.kept(of_all, of_groups)
    said = (*overall.notes, _said(of_all, of_groups, chosen, len(asking.groups) - 1), *notes, NO_INTERVALS)
    if chosen.sources == of_all.sources and len(chosen.sources) == overall.rank:
        return replace(overall, sources=of_all.sources, notes=said)
    H = chosen.components.astype(encoder.components.dtype)
    encoder = replace(encoder, components=H, mean_row=np.zeros(len(H)))
    dense = encoded(encoder, problem)
    supports = supports_of(encoder, problem, dense)
    W = settled(supports, assigned_in_time(supports, dense, lambda: False)[0], lambda: False)
    order = np.argsort(-W.sum(axis=0, dtype=np.float64), kind="stable")
    chosen, W, dense = chosen.some(order), W[:, order], dense[:, order]
    encoder = replace(encoder, components=H[order], mean_row=dense.mean(axis=0))
    run = overall.runs[0]
    worst = run.omega[int(np.argmax(run.losses / run.references))]
    return replace(
        overall,
        components=chosen.components,
        contributions=W,
        dense=dense,
        stability=chosen.stability,
        stable=np.ones(len(order), dtype=bool),
        found_in=chosen.found_in,
        spread=chosen.spread,
        rank=len(order),
        residuals=residuals(problem.given.X, W, chosen.components, worst),
        encoder=encoder,
        sources=chosen.sources,
        notes=said,
    )


def _said(of_all: Merged, of_groups: Merged, chosen: Merged, groups: int) -> str:
    """Say what was kept of what all rows and the groups have."""
    again = sum(len(names) > 1 for names in of_all.sources)
    added = sum(OVERALL not in names for names in chosen.sources)
    return (
        f"{groups} groups were searched beside all rows: {again} of the {len(of_all.sources)} components of all rows "
        f"were found there again and {len(chosen.sources) - added} are kept; of {len(of_groups.sources)} that only "
        f"groups have {added} are kept, because held-out entries of their groups ask for them."
    )


def _stable(name: str, found: SearchResult) -> Merged:
    """What one search is sure of."""
    at, names = np.flatnonzero(found.stable), ((name,),) * len(found.stable)
    return Merged(found.components, found.stability, found.found_in, found.spread, names).some(at)


def _part(model: Parameters, name: str, part: float) -> Parameters:
    """The model of one search: a part of the time, and a folder of its own for what it keeps."""
    solver = as_solver(model.solver)
    if solver.checkpoint is not None:
        solver = replace(solver, checkpoint=Path(solver.checkpoint) / name)
    return replace(model, max_time=None if model.max_time is None else part * model.max_time, solver=solver)


def _fewer(ranks: Any, most: int) -> Any:
    """The ranks that a group may have."""
    if ranks is None:
        ranks = range(2, most + 1)
    listed = [ranks] if isinstance(ranks, int) else list(ranks)
    return [rank for rank in listed if rank <= most] or [most]


def _rows(values: Any, at: Places, count: int | None = None) -> Any:
    """Take rows of X, or of a table beside it that may have one row for all."""
    if values is None or (count is not None and np.shape(values)[0] != count):
        return values
    if hasattr(values, "iloc"):
        return values.iloc[at]
    return values.tocsr()[at] if sp.issparse(values) else np.asarray(values)[at]


def _holds_something(X: Any, at: Places) -> bool:
    part = _rows(X, at)
    return bool((part.sum() if sp.issparse(part) else np.nansum(np.asarray(part))) > 0)


def search_beside_known(search: Search, X: Any, model: Parameters, asked: Asked) -> SearchResult:
    """Search with known components fixed where they serve.

    A search without them comes first. Known components serve where rows need them although they may have those that
    were found freely: so none is kept because it was the nearest thing at hand.
    """
    assert asked.reference is not None
    known, free = asked.reference.components, replace(asked, reference=None, keep=False, level=None)
    H = serving(X, known, search(X, model, free).components, model, asked.entry_weight, asked.uncertainty)
    fixed = replace(model, fixed=H) if len(H) else model
    tried = ranks_beside(asked.ranks, len(H), min(X.shape)) if len(H) else asked.ranks
    found = search(X, fixed, replace(asked, keep=False, ranks=tried))
    said = f"{len(H)} of {len(known)} known components are needed, and were kept as they are in every run."
    return replace(found, notes=(said, *found.notes))


def serving(X: Any, known: Vector, others: Vector, model: Parameters, entry_weight: Any, uncertainty: Any) -> Vector:
    """Take the known components (s, n) that some rows need beside others (r, n), as `assign` says, in their order."""
    betas = asked_losses(model)
    several = not isinstance(betas, str | int | float) and hasattr(betas, "__len__") and len(betas) > 1
    read = replace(model.without_losses() if several else model, penalties=None)
    pool = np.vstack([shares(known), others])
    found = assign(X, pool, read, entry_weight=entry_weight, uncertainty=uncertainty)
    needed = (np.asarray(as_numpy(found.contributions))[:, : len(known)] > 0).sum(axis=0)
    return known[needed >= max(KEPT_ROWS, KEPT_PART * X.shape[0])]


def ranks_beside(ranks: Any, known: int, most: int) -> list[int]:
    """List how many components to try where some are known.

    >>> ranks_beside(None, 3, 5), ranks_beside(range(2, 5), 3, 9)
    ([3, 4, 5], [3, 4])
    """
    listed = range(known, known + MORE + 1) if ranks is None else [ranks] if isinstance(ranks, int) else list(ranks)
    return [rank for rank in listed if known <= rank <= most] or [min(known, most)]
