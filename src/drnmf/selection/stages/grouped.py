"""Searches made of several: one over all rows and one in every group, or one without known components and one with."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.backends.observed import HeldOut
from drnmf.numerics import Vector
from drnmf.parameters.common import Parameters
from drnmf.parameters.solver import as_solver
from drnmf.problem.device import as_numpy
from drnmf.problem.weights import reading_of
from drnmf.selection.asked import Asked, AskedOfGroup, SearchResult
from drnmf.selection.assignment.assign import assign, assigned_in_time, encoded, opened, settled, supports_of
from drnmf.selection.assignment.supports import Places
from drnmf.selection.matching import shares
from drnmf.selection.stages.groups import LEAST_ROWS, OVERALL, Asking, Merged, groups_of, told_apart
from drnmf.selection.stages.residuals import residuals
from drnmf.selection.stages.stages import REDRAWN_RUNS
from drnmf.solve.settings import asked_losses

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
