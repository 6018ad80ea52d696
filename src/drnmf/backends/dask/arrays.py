"""Dask arrays in and out: X as `Blocks`, and W or a transform as a Dask array that nobody has computed yet."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import Any

import dask
import dask.array as da
import numpy as np
import scipy.sparse as sp
from distributed import futures_of

from drnmf.backends.dask import cluster
from drnmf.backends.dask.blocks import Blocks
from drnmf.backends.dask.holders import OutOfCore, Scratch, Summary, hold, look
from drnmf.backends.dask.space import stacked
from drnmf.backends.entries import refusal
from drnmf.backends.observed import Ones
from drnmf.numerics import Array, Grid, Precision

logger = logging.getLogger("drnmf")


def blocks_of(X: da.Array, mean: float | None = None) -> Blocks:
    """X behind the seam: one look at every block, which stays in memory where all of X fits there."""
    X = in_rows(X)
    dtype = fit_dtype(X)
    in_memory = _fits(X, dtype)
    assignment = cluster.Assignment([row[0] for row in X.__dask_keys__()], futures_of(X))
    holders, summaries = _hold_all(X, dtype, assignment) if in_memory else _leave_all(X, dtype, assignment)
    _check(summaries, X)
    m, n = X.shape
    scratch = _scratch()
    where = "kept in memory" if in_memory else "read from its source in every sweep"
    logger.info("X in %d blocks of rows, %s; scratch %s.", len(summaries), where, scratch and scratch.path)
    count = m * n - sum(summary.missing for summary in summaries)
    own = sum(summary.total for summary in summaries) / max(1, count) if mean is None else mean
    return Blocks(
        holders=holders,
        sizes=tuple(X.chunks[0]),
        columns=n,
        dtype=dtype,
        mean=own,
        zeros=sum(summary.zeros for summary in summaries),
        in_memory=in_memory,
        assignment=assignment,
        scratch=scratch,
        save_every=int(dask.config.get("drnmf.save-every", cluster.SAVE_EVERY)),
        count=count,
        observed=None if count == m * n else Ones((m, n)),
    )


def fit_dtype(X: da.Array) -> Precision:
    """float32 and float64 stay; all else is computed in float64."""
    return X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float64)


def in_rows(X: da.Array) -> da.Array:
    """X with every row in one block. Column chunks are merged, and a warning says what that costs."""
    if X.ndim != 2:
        raise ValueError(f"X has shape {X.shape}: a matrix with two dimensions is needed.")
    if any(np.isnan(size) for sizes in X.chunks for size in sizes):
        raise ValueError("X has blocks of unknown size: call X.compute_chunk_sizes() first.")
    if 0 in X.shape:
        raise ValueError(f"Found array with shape {X.shape}: at least one row and one column are needed.")
    if X.numblocks[1] > 1:
        size = X.nbytes / 1e9
        warnings.warn(
            f"X is split into {X.numblocks[1]} chunks of columns; rows must be whole, so they are merged: up to "
            f"{size:.3g} GB move between workers once, and blocks of rows are {X.numblocks[1]} times as large. Use "
            "chunks along rows alone, X.rechunk({1: -1}), before the data is stored.",
            UserWarning,
            stacklevel=2,
        )
        X = X.rechunk({1: -1})
    if 0 in X.chunks[0]:
        X = X.rechunk({0: tuple(size for size in X.chunks[0] if size)})
    return X


def _fits(X: da.Array, dtype: Precision) -> bool:
    """Does X, as the core holds it, fit in the memory set aside for it? Sparse X is judged by its first block."""
    if futures_of(X):
        return True  # somebody keeps it in memory already
    needed = float(X.shape[0]) * X.shape[1] * dtype.itemsize
    if needed > cluster.memory_for_data() and sp.issparse(X._meta):
        first = cluster.task("look", _size, X.blocks[0], dtype).compute()
        needed = first * X.shape[0] / X.chunks[0][0]
    return needed <= cluster.memory_for_data()


def _size(X: Grid, dtype: Precision) -> int:
    return hold(X, dtype)[1].nbytes


def _hold_all(
    X: da.Array, dtype: Precision, assignment: cluster.Assignment
) -> tuple[tuple[object, ...], list[Summary]]:
    """Blocks read where they will stay; those that share work with others are made as Dask sees fit, and moved."""
    graphs = _graphs(X)
    blocks = _sources(X, graphs, dtype) if not futures_of(X) and _alone(graphs) else X.to_delayed().ravel()
    pairs = []
    for i, block in enumerate(blocks):
        with assignment.at(i):
            pairs.append(cluster.task("hold", hold, block, dtype))
    holders = [cluster.item("X", pair, 0) for pair in pairs]
    return _with_summaries(holders, [cluster.item("summary", pair, 1) for pair in pairs])


def _leave_all(
    X: da.Array, dtype: Precision, assignment: cluster.Assignment
) -> tuple[tuple[object, ...], list[Summary]]:
    holders, looks = _sources(X, _graphs(X), dtype), []
    for i, holder in enumerate(holders):
        with assignment.at(i):
            looks.append(cluster.task("look", look, holder))
    return _with_summaries(holders, looks)


def _graphs(X: da.Array) -> list[dict[object, object]]:
    """For every block of X the tasks that make it."""
    (X,) = dask.optimize(X)
    graph = X.__dask_graph__()
    return [dict(graph.cull({row[0]})) for row in X.__dask_keys__()]


def _alone(graphs: list[dict[object, object]]) -> bool:
    """No task is part of two blocks, but for the name of an open file or store."""
    seen: set[object] = set()
    for graph in graphs:
        if any(not _is_handle(graph[key]) for key in seen & graph.keys()):
            return False
        seen |= graph.keys()
    return True


def _is_handle(node: Any) -> bool:
    return type(node).__name__ == "DataNode" and not isinstance(node(), np.ndarray)


def _sources(X: da.Array, graphs: list[dict[object, object]], dtype: Precision) -> list[object]:
    """Tasks that hold no rows, but what it takes to read them. They need no worker of their own."""
    keys = [row[0] for row in X.__dask_keys__()]
    return [cluster.constant("source", OutOfCore(*pair, dtype)) for pair in zip(graphs, keys, strict=True)]


def _with_summaries(holders: list[object], summaries: list[object]) -> tuple[tuple[object, ...], list[Summary]]:
    listed = cluster.tree_sum([cluster.task("list", _listed, summary) for summary in summaries], 0)
    kept, (found,) = cluster.run(holders, listed)
    return kept, list(found)


def _listed(value: object) -> tuple[list[object]]:
    return ([value],)


def _check(summaries: list[Summary], X: da.Array) -> None:
    for i, (summary, size) in enumerate(zip(summaries, X.chunks[0], strict=True)):
        if summary.shape != (size, X.shape[1]):
            raise ValueError(
                f"Block {i} of X has shape {summary.shape}, but its chunks say {(size, X.shape[1])}: "
                "give the true chunks where the array is made."
            )
    first = 0
    for summary in summaries:
        if summary.bad is not None:
            i, j, value = summary.bad
            raise refusal(first + i, j, value, "NMF")
        first += summary.shape[0]


def _scratch() -> Scratch | None:
    """The folder for W's blocks: ``drnmf.scratch`` of Dask's configuration, else a temporary one that all see."""
    if cluster.client() is None:
        return None
    folder = dask.config.get("drnmf.scratch", None)
    scratch = Scratch(folder)
    if cluster.seen_by_all(scratch.path):
        return scratch
    scratch.remove()
    if folder is not None:
        raise ValueError(f"drnmf.scratch = {folder}: not every worker sees this folder; name one that all share.")
    warnings.warn(
        "The workers share no temporary folder with this process, so blocks of W are not written down: a worker that "
        "is lost makes Dask replay the fit from its start. Name a shared folder: "
        'dask.config.set({"drnmf.scratch": "/shared/folder"}).',
        UserWarning,
        stacklevel=4,
    )
    return None


def map_rows(function: Callable[[Array, int], Array], X: da.Array, rank: int) -> da.Array:
    """function(block, first row of it) for every block of rows of X, as a lazy (m, r) array."""
    X = in_rows(X)
    dtype = fit_dtype(X)
    shared = cluster.constant("model", function)
    starts = np.cumsum([0, *X.chunks[0][:-1]]).tolist()
    blocks = X.to_delayed().ravel()
    parts = [cluster.task("transform", _call, shared, x, a) for x, a in zip(blocks, starts, strict=True)]
    return stacked(parts, X.chunks[0], rank, dtype)


def _call(function: Callable[[Array, int], Array], X: Array, start: int) -> Array:
    return function(X, start)
