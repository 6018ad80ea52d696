"""Tables that share rows: counts beside intensities of the same samples, each with columns, loss and unit of its own.

They are laid side by side, each times the power of four that brings its mean into [1, 4), so that one start and one
floor serve all; parts of columns then are what groups of rows are.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import scipy.sparse as sp

from drnmf.backends.open import is_dask
from drnmf.backends.parted import Parted, Piece
from drnmf.losses.base import Omega, is_unsized
from drnmf.losses.huber import Huber
from drnmf.losses.names import as_loss, as_losses
from drnmf.numerics import Array, Entries, MatrixLike, real_numbers, rescaled, unit_scale
from drnmf.objective import simplex
from drnmf.parameters.solver import as_solver
from drnmf.problem.check import check_entries, structured
from drnmf.problem.device import is_sparse, is_tensor, place
from drnmf.problem.parts import Division, open_part
from drnmf.problem.receive import Received, received
from drnmf.problem.scikit import BaseEstimator
from drnmf.problem.tabular import Tabular, tabular
from drnmf.problem.weights import WeightsLike, reading_of
from drnmf.solve.encode import Encoder


def is_elsewhere(X: object) -> bool:
    """Tell whether X is a Dask array or a tensor."""
    return is_dask(X) or is_tensor(X)


def total(X: Entries) -> tuple[float, int]:
    """Add up the entries of a matrix that are not missing, and count them; zeros that are not stored are some."""
    if is_dask(X):
        dask = sys.modules["dask"]
        found = dask.compute(*(dask.delayed(total)(block) for block in X.to_delayed().ravel()))
        return sum(block[0] for block in found), sum(block[1] for block in found)
    if is_tensor(X):
        values = (X.to_sparse_coo().coalesce().values() if is_sparse(X) else X).double()
        stored = int(values.isfinite().sum())
        return float(values.nansum()), int(np.prod(X.shape)) if is_sparse(X) else stored
    values = X.data if sp.issparse(X) else np.asarray(X)
    count = X.shape[0] * X.shape[1] if sp.issparse(X) else int(np.isfinite(values).sum())
    return float(np.nansum(values, dtype=np.float64)), count


def laid(parts: list[Entries]) -> Entries:
    """Lay matrices with the same rows side by side.

    The kind is that of a Dask array among them, with its blocks of rows, else that of a tensor; sparse where one is and
    none has gaps.
    """
    for part in parts:
        if is_dask(part):
            return _in_blocks(parts, part.chunks[0])
    for part in parts:
        if is_tensor(part):
            return _tensors(parts, part)
    if any(map(sp.issparse, parts)) and not any(not sp.issparse(part) and np.isnan(part).any() for part in parts):
        return sp.hstack(parts, format="csr")
    return np.hstack([part.toarray() if sp.issparse(part) else part for part in parts])


def _in_blocks(parts: list[Entries], rows: tuple[int, ...]) -> Entries:
    """A Dask array, every block of which holds whole rows."""
    import dask.array as da

    arrays = [
        part.rechunk((rows, -1)) if is_dask(part) else da.from_array(part, chunks=(rows, -1), asarray=False)
        for part in parts
    ]
    dtype = np.result_type(*(array.dtype for array in arrays))
    width, empty = sum(array.shape[1] for array in arrays), np.empty((0, 0), dtype)
    meta = sp.csr_array(empty) if any(sp.issparse(array._meta) for array in arrays) else empty
    return da.map_blocks(_row_blocks, *arrays, dtype=dtype, chunks=(rows, (width,)), meta=meta)


def _row_blocks(*blocks: object) -> Entries:
    return laid([block if sp.issparse(block) else np.asarray(block) for block in blocks])


def _tensors(parts: list[Entries], first: Entries) -> Entries:
    """A tensor on the device of the first one."""
    torch = sys.modules["torch"]
    on = [part if is_tensor(part) else torch.as_tensor(_dense(part)) for part in parts]
    if not all(map(is_sparse, on)):
        on = [part.to_dense() if is_sparse(part) else part for part in on]
    else:
        on = [part.to_sparse_coo() for part in on]
    dtype = reduce(torch.promote_types, (part.dtype for part in on))
    return torch.cat([part.to(first.device, dtype) for part in on], 1)


def _dense(part: Entries) -> Array:
    return part.toarray() if sp.issparse(part) else np.ascontiguousarray(part)


Given = Mapping[str, MatrixLike]


@dataclass(frozen=True)
class Table:
    """One of several tables."""

    name: str  # what it is called
    # first, last: its columns among all, from the first to before the last
    first: int
    last: int
    scale: float  # what it is multiplied by in the fit
    columns: tuple[str, ...] | None = None  # their names, None where they have none

    @property
    def at(self) -> slice:
        return slice(self.first, self.last)


@dataclass(frozen=True, eq=False)
class Joined:
    """Tables side by side."""

    X: Entries  # (rows of all, columns of all), NaN where a table has no such row
    tables: tuple[Table, ...]  # what each is
    rows: tuple[str, ...] | None  # names of the rows, None where they have none

    @property
    def division(self) -> Division:
        """The tables as parts of columns."""
        places = tuple(np.arange(table.first, table.last) for table in self.tables)
        return Division(tuple(table.name for table in self.tables), places, across=True)


def is_tables(X: object) -> bool:
    """Tell whether X is several tables by name."""
    return isinstance(X, Mapping) and not sp.issparse(X)  # SciPy's matrix of keys is a dict


def join(given: Given, known: tuple[Table, ...] = (), strict: bool = True) -> Joined:
    """Lay tables side by side; rows that have names are matched by them, others by their place.

    `known` are those of the fit, of which any may be given; empty in the fit itself. `strict` refuses entries below
    zero and infinite ones here, where their table is known.
    """
    fitted = {table.name: table for table in known}
    strange = [name for name in given if known and name not in fitted]
    if not given or strange:
        raise ValueError(
            f"tables {strange} are none of the fit's: it had {', '.join(fitted)}."
            if strange
            else "No table was given: name at least one."
        )
    read = {name: _read(name, table) for name, table in given.items()}
    rows = _rows({name: table.rows for name, table in read.items()}, {n: t.X.shape[0] for n, t in read.items()})
    parts, tables, first = [], [], 0
    for name, table in read.items():
        X, width = table.X, table.X.shape[1]
        if strict and not is_elsewhere(X):
            _check(name, X)
        if name in fitted and width != fitted[name].last - fitted[name].first:
            expected = fitted[name].last - fitted[name].first
            raise ValueError(f"table {name!r} has {width} columns, but {expected} in the fit.")
        scale = fitted[name].scale if name in fitted else _unit(X)
        parts.append(_placed(_wide_enough(X, scale), table.rows, rows) * scale)
        tables.append(Table(name, first, first + width, scale, table.columns))
        first += width
    return Joined(laid(parts), tuple(tables), rows)


def _read(name: str, table: Entries) -> Tabular:
    """A table with numbers in rows and columns, as `fit` would take them."""
    if is_tensor(table):
        return Tabular(table.detach())
    read = tabular(table)
    X = read.X if hasattr(read.X, "dtype") else np.asarray(read.X)
    X = X if is_elsewhere(X) else structured(X)
    if X.dtype.kind not in "fiubOUS":
        raise ValueError(f"table {name!r} holds {X.dtype}, which is no real number: give numbers >= 0.")
    try:
        X = X.astype(np.float64) if X.dtype.kind not in "fiub" else X
    except (TypeError, ValueError) as error:
        raise ValueError(f"table {name!r} is not all numbers: {error}.") from None
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"table {name!r} has shape {X.shape}: give rows and columns.")
    return replace(read, X=X)


def _check(name: str, X: object) -> None:
    """Refuse entries that a fit would refuse, in the words of the table: there they would stand in another column."""
    try:
        check_entries(X, "a fit")
    except ValueError as error:
        raise ValueError(f"table {name!r}: {error}") from None


def _wide_enough(X: Entries, scale: float) -> Entries:
    """X in float64 where its unit is beyond float32, of which what is scaled would not be a number."""
    return X if is_elsewhere(X) or scale == unit_scale(1.0 / scale, np.float32) else X.astype(np.float64)


def _rows(names: dict[str, tuple[str, ...] | None], sizes: dict[str, int]) -> tuple[str, ...] | None:
    """All rows in the order in which tables name them."""
    unnamed = [name for name, rows in names.items() if rows is None]
    if unnamed:
        if len(set(sizes.values())) > 1:
            numbers = ", ".join(f"{name} {size}" for name, size in sizes.items())
            raise ValueError(
                f"tables share rows, but have different numbers of them ({numbers}): give frames with the "
                "names of rows as index, or rows of NaN."
            )
        return next((rows for rows in names.values() if rows is not None), None)
    for name, rows in names.items():
        if rows is not None and len(set(rows)) < len(rows):
            raise ValueError(f"table {name!r} has two rows of one name: rows are matched by their names.")
    _check_common(names)
    return tuple(dict.fromkeys(label for rows in names.values() for label in rows or ()))


def _check_common(names: dict[str, tuple[str, ...] | None]) -> None:
    """Refuse a table none of whose rows is in another: nothing would tie its components to theirs."""
    for name, rows in names.items():
        others = {label for other, found in names.items() if other != name for label in found or ()}
        if rows and others and not others.intersection(rows):
            raise ValueError(
                f"table {name!r} has no row in common with the others: its first is named {rows[0]!r}, another's "
                f"{min(others)!r}. Rows are matched by their names: give all tables the same ones."
            )


def _placed(X: Entries, own: tuple[str, ...] | None, rows: tuple[str, ...] | None) -> Entries:
    """A table with all rows, NaN where it has none."""
    if is_elsewhere(X):  # and has no names
        return X
    X = X if sp.issparse(X) else np.asarray(X, dtype=np.result_type(getattr(X, "dtype", float), np.float32))
    if own is None or rows is None or own == rows:
        return X
    X, place = X.toarray() if sp.issparse(X) else X, {label: i for i, label in enumerate(rows)}
    found = np.full((len(rows), X.shape[1]), np.nan, X.dtype)
    found[[place[label] for label in own]] = X
    return found


def _unit(X: object) -> float:
    found, count = total(X)
    mean = found / max(count, 1)
    return unit_scale(mean, np.dtype(np.float64)) if np.isfinite(mean) and mean > 0 else 1.0


def losses_of_tables(betas: object, division: Division) -> tuple[Omega, ...]:
    """Read the losses of every table: one each by name, or the same for all."""
    if not isinstance(betas, Mapping):
        return (as_losses(betas),) * len(division)
    if set(betas) != set(division.labels):
        raise ValueError(f"betas names the tables {', '.join(betas)}, but X has {', '.join(division.labels)}.")
    if any(is_unsized(loss, Huber) for loss in betas.values()):
        raise ValueError("Huber('auto') is not found for tables: name its delta, in the unit of the table.")
    return tuple((as_loss(betas[name]),) for name in division.labels)


def refuse_names_of_tables(betas: object) -> None:
    """Refuse losses by names of tables where X is one matrix."""
    if isinstance(betas, Mapping):
        named = ", ".join(map(str, betas))
        raise ValueError(
            f"betas names the tables {named}, but X is one matrix: give X by their names, or betas as a list."
        )


def refuse_matrix(X: object, tables: tuple[Table, ...] | None) -> None:
    """Refuse one matrix for a model of several tables, whose units it does not tell."""
    if tables and not is_tables(X):
        named = ", ".join(str(table.name) for table in tables)
        raise ValueError(f"the model is of the tables {named}, and X is one matrix: give some of them by name, a dict.")


def joined_weights(given: WeightsLike | Given, joined: Joined, inverse: bool) -> WeightsLike:
    """Lay weights of entries side by side; tables without any count once.

    inverse : they are uncertainties, in the unit of the table
    """
    if given is None or not isinstance(given, Mapping):
        return given
    kind, names = "uncertainty" if inverse else "entry_weight", [table.name for table in joined.tables]
    strange = [name for name in given if name not in names]
    if strange:
        raise ValueError(f"{kind} names {strange[0]!r}, which is no table: X has {', '.join(map(str, names))}.")
    parts = []
    for table in joined.tables:
        own = real_numbers(f"{kind} of table {table.name!r}", given.get(table.name, 1.0))
        shape = (joined.X.shape[0], table.last - table.first)
        try:
            parts.append(np.broadcast_to(own * (table.scale if inverse and table.name in given else 1.0), shape))
        except ValueError:
            raise ValueError(f"{kind} of table {table.name!r} has shape {own.shape}, and the table {shape}.") from None
    return np.hstack(parts)


def adopt_tables(model: BaseEstimator, joined: Joined | None) -> None:
    """Set what a model says of its tables: components and losses in the unit of each."""
    model.tables_ = None if joined is None else joined.tables
    if joined is None:
        return
    scales = {table.name: table.scale for table in joined.tables}
    factors = np.array([1.0 / scales[part.label] for part in model.omega_])
    degrees = [part.base.degree for part in model.omega_]
    for name in ("losses_", "references_"):
        values = zip(getattr(model, name), factors, degrees, strict=True)
        setattr(model, name, np.array([float(rescaled(value, f, d)) for value, f, d in values]))
    model.row_names_ = joined.rows
    model.feature_names_in_ = np.array(
        [f"{table.name}: {name}" for table in joined.tables for name in _columns(table)], dtype=object
    )


def _columns(table: Table) -> list[str]:
    return list(table.columns or map(str, range(1, table.last - table.first + 1)))


def table_components(model: BaseEstimator) -> dict[str, Array]:
    """Return the components of every table, (r, columns), in its unit."""
    return {table.name: model.components_[:, table.at] / table.scale for table in model.tables_}


def encoded_tables(model: BaseEstimator, given: Given, encoder: Encoder) -> Array:
    """Compute W of new rows from some of the tables, by the encoder of the model for all of them."""
    joined = join(given, model.tables_, strict=model.negatives == "raise")
    read = received(joined.X, reading_of(model, None, None), type(model).__name__)
    if read.observed is not None:
        raise ValueError(
            "transform of tables takes no sparse tables whose stored entries alone count: give dense ones, NaN where "
            "nothing is known."
        )
    joined = replace(joined, X=read.X)
    fitted = {table.name: table for table in model.tables_}
    columns = np.concatenate([np.arange(fitted[t.name].first, fitted[t.name].last) for t in joined.tables])
    order = {table.name: index for index, table in enumerate(joined.tables)}
    kept = [k for k, part in enumerate(model.omega_) if part.label in order]
    omega = tuple(replace(model.omega_[k].raw, index=order[model.omega_[k].label]) for k in kept)
    objective = replace(encoder.objective, omega=omega, references=model.row_references_[kept])
    weights = simplex.uniform(len(kept))
    placement, X = place(joined.X, model.device, as_solver(model.solver).precision), Received(joined.X)
    data, asked = placement.open(X, model.mean_), replace(encoder.of_columns(columns), objective=objective)
    places = [np.arange(table.first, table.last) for table in joined.tables]
    parted = Parted(data, tuple(Piece(at, open_part(data, X, at, True)[0], across=True) for at in places))
    space = parted.T.space
    return placement.hand_back(space.deliver(space.put(replace(asked, weights=weights).rows(parted).T)))
