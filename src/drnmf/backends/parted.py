r"""X whose losses may be of parts of it: of groups of rows, of tables of columns, or of every row by itself.

An objective f(D) with f concave is lowered by a step under its slope at the current point, f'(D~) D, and a sum of
rho(D_i) over rows by one under the weights rho'(D~_i) of the rows. So a sweep gives N and P times slopes and weights,
and whoever asks sees losses like any others: rules, policies, references and certificates know nothing of parts.
"""

from __future__ import annotations

import hashlib
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from drnmf.backends.base import Ask, Data, Layer, Observed, Space, Sweep, zero_of
from drnmf.backends.host.dense import HostMatrix
from drnmf.backends.observed import Outer, pieces, product
from drnmf.backends.tiles import Tiled, entry_losses, observed_tile, tiles_of
from drnmf.backends.weighted import Tally, Weighted, shares_curvature
from drnmf.losses.base import Loss, Omega, base_of, is_quadratic
from drnmf.losses.part import Part, Rowwise, in_blocks
from drnmf.numerics import Array, Indices, Vector, as_float64, beside, identity_limit, model_floor, namespace, to_host

if TYPE_CHECKING:
    from drnmf.backends.host.native import NativeDense

_NOTHING = Tally(0.0, 0.0, 0.0, 0, 0)


@dataclass(frozen=True, eq=False)
class Piece:
    """Some rows (columns) of X."""

    at: Any  # which, as indices or a slice
    data: Any  # they alone, in the unit of X; None where a block of X has none of them
    across: bool = False  # whether they are columns of X

    @cached_property
    def T(self) -> Piece:
        return Piece(self.at, None if self.data is None else self.data.T, not self.across)

    @cached_property
    def squares(self) -> Vector:
        """The squared norm of every column of the part."""
        return self.data.starts.squared_norms()

    @cached_property
    def squared_norm(self) -> float:
        """That of the part."""
        return 0.0 if self.data is None else float(self.squares.sum())


@dataclass(frozen=True, eq=False)
class Stack:
    """X with the rows of part after part, which the compiled extension sweeps in one pass."""

    data: NativeDense  # that X, in memory of its own or as it was
    bounds: tuple[int, ...]  # where parts begin, and the end
    order: Indices | None = None  # its rows in X; None where they are in order already
    turned: bool = False  # whether this is X transposed

    @cached_property
    def T(self) -> Stack:
        return replace(self, data=self.data.T, turned=not self.turned)

    def part(self, k: int) -> Array:
        """Return the entries of a part, as they are in memory."""
        return self.data.X[self.bounds[k] : self.bounds[k + 1]]

    @cached_property
    def part_of(self) -> Indices:
        """The part of every row of X."""
        sizes = np.diff(self.bounds)
        of: Indices = np.repeat(np.arange(len(sizes)), sizes)
        return of if self.order is None else of[self._back]

    def apart(self, together: Array) -> Array:
        """Give every part its own columns of N or P, which have one part each, and zeros elsewhere."""
        whole = np.zeros((len(self.bounds) - 1, *together.shape[1:]), together.dtype)
        whole[self.part_of, :, np.arange(len(self.part_of))] = together[0].T
        return whole

    @cached_property
    def _back(self) -> Any:
        return slice(None) if self.order is None else np.argsort(self.order)

    def scaled(self, factor: float) -> Stack:
        """Return the same of X times a power of four."""
        return replace(self, data=self.data.scaled(factor))

    def sweep(self, W: Array, H: Array, ask: Ask, coefficients: Vector, squared_norms: Vector) -> Sweep:
        """Sweep the parts, each by itself, with factors in the order of X (`NativeDense.sweep_parts`)."""
        ranges = self.bounds, self.turned, coefficients, squared_norms
        if self.order is None:
            return self.data.sweep_parts(W, H, ask, *ranges)
        if not self.turned:
            return self.data.sweep_parts(_contiguous(W.T[:, self.order]).T, H, ask, *ranges)
        swept = self.data.sweep_parts(W, _contiguous(H[:, self.order]), ask, *ranges)
        back = self._back
        Q = None if swept.Q is None else swept.Q[:, back]
        return replace(swept, N=swept.N[..., back], P=swept.P[..., back], Q=Q)


@dataclass(frozen=True, eq=False)
class Parted(Layer):
    """A Data that also answers for losses of its parts (`Part`) and of its rows (`Rowwise`).

    Where X is in blocks of rows every block takes itself apart. Their losses add up, but not functions of them: slopes
    of these are found over all blocks first, where they depend on losses, in a pass of its own.

    Attributes
    ----------
    data : X as a whole
    pieces : the parts that a `Part` names by its index
    turned : whether this is X transposed, so that its rows are columns here
    stack : the parts side by side, where one pass may answer for all
    """

    pieces: tuple[Piece, ...] = ()
    turned: bool = False
    stack: Stack | None = None

    compressed = property(attrgetter("data.compressed"))
    observed = property(attrgetter("data.observed"))

    @cached_property
    def T(self) -> Parted:
        stack = None if self.stack is None else self.stack.T
        flipped = Parted(self.data.T, tuple(piece.T for piece in self.pieces), not self.turned, stack)
        flipped.__dict__["T"] = self
        return flipped

    starts = property(attrgetter("data.starts"))

    @property
    def space(self) -> Space:
        return self._swept.space if self._in_blocks else self.data.space

    @property
    def _in_blocks(self) -> bool:
        return not (self.data.space.whole and self.data.T.space.whole)

    @cached_property
    def _swept(self) -> Any:
        """X in blocks that take themselves apart."""
        if self.turned:
            return self.T._swept.T
        return self.data.parted([piece.at for piece in self.pieces], self._tables)

    @cached_property
    def whole(self) -> Piece:
        """All of X as a part."""
        return Piece(slice(None), self.data)

    def weigh(self, observed: Observed, mean: float | None) -> Data:
        if self.pieces:
            raise ValueError("Entries are weighed before X is taken apart into groups or tables.")
        return Parted(self.data.weigh(observed, mean), (), self.turned)

    def scaled(self, factor: float) -> Data:
        parts = tuple(
            piece if piece.data is None else replace(piece, data=piece.data.scaled(factor)) for piece in self.pieces
        )
        stack = None if self.stack is None else self.stack.scaled(factor)
        return Parted(self.data.scaled(factor), parts, self.turned, stack)

    def digest(self) -> str:
        whole = hashlib.sha256(self.data.digest().encode())
        for piece in self.pieces:
            whole.update(np.ascontiguousarray(np.arange(max(self.shape))[piece.at], dtype=np.int64).tobytes())
        return whole.hexdigest()

    def sweep(self, W: Any, H: Any, ask: Ask) -> Sweep:
        if self._in_blocks:
            return self._swept.sweep(W, H, replace(ask, omega=in_blocks(ask.omega, self._levels(W, H, ask))))
        if not any(isinstance(loss, Part | Rowwise) for loss in ask.omega):
            return self.data.sweep(W, H, ask)
        alike = self._alike(ask)
        if alike and self._by_columns:
            return self._once(W, H, ask)
        if self._one_pass(ask, alike):
            return self._side_by_side(W, H, ask, alike)
        found = _Sum.begin(H, ask, alike)
        owners: dict[Any, list[int]] = {}
        for slot, loss in enumerate(ask.omega):
            owners.setdefault(_owner(loss), []).append(slot)
        for owner, slots in owners.items():
            self._add(found, W, H, ask, owner, slots)
        return Sweep(found.losses, found.N, found.P, found.Q, found.gram)

    def _levels(self, W: Any, H: Any, ask: Ask) -> Vector | None:
        """Compute the losses of the parts over all blocks, where slopes that are needed depend on them."""
        curved = any(isinstance(loss, Part) and loss.root for loss in ask.omega)
        idle = ask.parts is None and ask.curvature is None
        if not curved or idle or (self._by_columns and self._alike(ask)):
            return None
        raw = tuple(loss.raw if isinstance(loss, Part) else loss for loss in ask.omega)
        return self.space.read(self._swept.sweep(W, H, Ask(in_blocks(raw), None)))[0].losses

    @cached_property
    def _tables(self) -> bool:
        """Whether parts are columns of X."""
        return any(piece.across != self.turned for piece in self.pieces)

    @property
    def _by_columns(self) -> bool:
        """Whether weights of objectives are weights of the columns of this side, and not of the rows."""
        return self.turned != self._tables

    def _alike(self, ask: Ask) -> bool:
        """Whether one curvature serves all columns: beta = 2 throughout, under weights of rows or of columns alone."""
        if ask.curvature is None or ask.sized or ask.observed is not None or not self._shares_curvature:
            return False  # of several blocks under weights, all have to answer alike
        if not is_quadratic(ask.omega):
            return False
        of_rows = not self._tables and (self._by_columns or self._weighs_rows)
        return of_rows or all(_rho(loss) is None for loss in ask.omega)

    @cached_property
    def _shares_curvature(self) -> bool:
        """Whether each part has one curvature for all columns under beta = 2."""
        every = (self.data, *(piece.data for piece in self.pieces if piece.data is not None))
        return all(map(shares_curvature, every))

    @cached_property
    def _weighs_rows(self) -> bool:
        """Whether beta = 2 under weights of rows keeps one curvature: on the host alone."""
        raw = self.data.data if isinstance(self.data, Weighted) else self.data
        return isinstance(raw, HostMatrix)

    def _once(self, W: Any, H: Any, ask: Ask) -> Sweep:
        """Sweep all columns together: each is minimised under its own weight, which changes nothing."""
        swept = self.data.sweep(W, H, Ask((base_of(ask.omega[0]),), np.ones(1), False, np.ones(1)))
        losses = self.sweep(W, H, Ask(ask.omega, None)).losses if ask.losses else np.full(len(ask.omega), np.nan)
        return replace(swept, losses=losses)

    def _one_pass(self, ask: Ask, alike: bool) -> bool:
        """Whether one pass of the compiled extension answers for all groups, each under one and the same loss."""
        omega, stack = ask.omega, self.stack
        if stack is None or ask.sized or ask.observed is not None:
            return False
        if tuple(loss.index if isinstance(loss, Part) else -1 for loss in omega) != tuple(range(len(self.pieces))):
            return False
        bases = {loss.base for loss in omega if isinstance(loss, Part)}
        if len(bases) > 1 or not stack.data.takes(*bases):
            return False
        # slopes of roots are known when the pass is over, which is too late for a sum of curvatures
        return ask.curvature is None or alike or not any(isinstance(o, Part) and o.root for o in omega)

    def _side_by_side(self, W: Any, H: Any, ask: Ask, alike: bool) -> Sweep:
        """Sweep all groups in one pass, and take each by the slope of its objective."""
        assert self.stack is not None
        parts, stack = [loss for loss in ask.omega if isinstance(loss, Part)], self.stack
        turned = self.turned
        c = np.ones(len(parts)) if ask.curvature is None or alike else ask.curvature * [one.slope(0.0) for one in parts]
        rooted = ask.parts is not None and any(one.root for one in parts)
        asked = Ask(
            (parts[0].base,),
            None if ask.parts is None else "separate",
            ask.losses or rooted,
            None if ask.curvature is None else np.ones(1),
            into=ask.into,
        )
        swept = stack.sweep(W, H, asked, c, np.array([piece.data.squared_norm for piece in self.pieces]))
        pairs = list(zip(parts, swept.losses.tolist(), strict=True))
        swept = replace(swept, losses=np.array([part.value(loss) for part, loss in pairs]))
        if ask.parts is None:
            return swept
        slopes = np.array([part.slope(loss) for part, loss in pairs])
        factors = slopes if ask.weights is None else ask.weights * slopes
        by = factors[stack.part_of] if turned else factors[:, None, None]
        N, P, gram = swept.N, swept.P, swept.gram
        for part in (N, P) if len(P) else (N,):
            np.multiply(part, by, out=part, casting="same_kind")
        if gram is not None and not turned:
            gram = gram * by
        if ask.weights is not None and not turned:
            N, P = (part.sum(0)[None] if len(part) else part for part in (N, P))
            gram = None if gram is None else gram.sum(0)
        if ask.weights is None and turned:
            N, P = stack.apart(N), stack.apart(P)
        return replace(swept, N=N, P=P, gram=gram)

    def _add(self, found: _Sum, W: Any, H: Any, ask: Ask, owner: tuple[int, Loss], slots: list[int]) -> None:
        """Add what the objectives of one base loss on one part say."""
        index, base = owner
        part = self.whole if index < 0 else self.pieces[index]
        if part.data is None:
            found.losses[slots] = 0.0
            return
        if part.across:
            H = _contiguous(H[:, part.at])
        elif index >= 0:
            W = _contiguous(W.T[:, part.at]).T
        sweeps = [_Objective(slot, ask.omega[slot]) for slot in slots]
        rowwise = any(one.rho is not None for one in sweeps)
        if not rowwise:
            swept = _alone(part.data, W, H, base, ask, losses=True, alike=found.gram is not None)
            loss = float(part.data.space.read(swept)[0].losses[0])
            for one in sweeps:
                found.add(ask, one.slot, swept, one.slope(loss), part)
                found.losses[one.slot] = one.value(loss)
            return
        plain = _alone(part.data, W, H, base, ask, losses=False) if self.turned and ask.parts is not None else None
        rows = _Rows.of(part, W, H, base, plain) if self.turned else _Rows.of(part.T, H.T, W.T, base)
        weights = {one.slot: one.weights(rows) for one in sweeps}
        for one in sweeps:
            found.losses[one.slot] = one.total(rows)
        if ask.empty or (ask.parts is None and ask.curvature is None):
            return
        if self.turned:  # every column has one weight: one sweep serves all
            plain = _alone(part.data, W, H, base, ask, losses=False) if plain is None else plain
            for slot, weight in weights.items():
                found.add(ask, slot, plain, _like(weight, H), part)
            return
        alike = found.gram is not None
        together = ask.weights is not None and (ask.curvature is None or ask.curvature is ask.weights)
        if together:
            assert ask.weights is not None
            total = np.sum([float(ask.weights[slot]) * weight for slot, weight in weights.items()], axis=0)
            found.add(ask, slots[0], _under(part.data, W, H, base, ask, total, alike), 1.0, part, weighed=True)
            return
        for slot, weight in weights.items():
            found.add(ask, slot, _under(part.data, W, H, base, ask, weight, alike), 1.0, part)

    def row_slopes(self, W: Any, H: Any, omega: Omega, coefficients: Vector) -> dict[Loss, Vector]:
        """Compute how much every row counts in a step under each loss of entries that objectives are made of.

        That is, for every base loss, the derivative of sum_o c_o f_o in the loss of a row, (m,) float64.
        """
        A, B = self.T.space.put(W.T), self.space.put(H)
        if self._in_blocks:
            known = in_blocks(omega, self._levels(A.T, B, Ask(omega)))
            every = self._swept.of_rows(partial(_row_slopes, known, coefficients), A.T, B)
            return dict(zip(dict.fromkeys(map(base_of, omega)), every, strict=True))
        found: dict[Loss, Vector] = {}
        raw = tuple(loss.raw if isinstance(loss, Part) else loss for loss in omega)
        rooted = any(isinstance(loss, Part) and loss.root for loss in omega)
        values = self.space.read(self.sweep(A.T, B, Ask(raw, None)))[0].losses.tolist() if rooted else [0.0] * len(raw)
        for loss, c, value in zip(omega, coefficients, values, strict=True):
            index, base = _owner(loss)
            part = self.whole if index < 0 else self.pieces[index]
            rows = found.setdefault(base, np.zeros(self.shape[0]))
            if part.data is None:
                continue
            F, G = (A, _contiguous(B[:, part.at])) if part.across else (_contiguous(A[:, part.at]), B)
            one, at = _Objective(0, loss), slice(None) if part.across else part.at
            rows[at] += float(c) * (
                one.slope(value) if one.rho is None else one.weights(_Rows.of(part.T, G.T, F, base))
            )
        return found


def _row_slopes(omega: Omega, coefficients: Vector, data: Parted, A: Array, H: Array) -> Array:
    """Those of the rows of one block, (base losses, rows)."""
    return np.stack(list(data.row_slopes(A.T, H, omega, coefficients).values()))


def _owner(loss: Loss) -> tuple[int, Loss]:
    """Which part a loss is of, -1 for all of X, and the loss of an entry that it is made of."""
    return loss.index if isinstance(loss, Part) else -1, base_of(loss)


def _rho(loss: Loss) -> Rowwise | None:
    """What a loss makes of those of rows, where it is of rows."""
    inner = loss.base if isinstance(loss, Part) else loss
    return inner if isinstance(inner, Rowwise) else None


@dataclass
class _Sum:
    """An answer while it grows; gram is for where all columns share their curvature, and P and Q are not made."""

    losses: Vector
    N: Any
    P: Any
    Q: Any = None
    gram: Any = None

    @classmethod
    def begin(cls, H: Any, ask: Ask, alike: bool) -> _Sum:
        r, n = H.shape
        losses, N = np.full(len(ask.omega), np.nan), _zeros(H, (ask.slots, r, n))
        if alike:
            gram = as_float64(_zeros(H, (ask.slots, r, r) if ask.slots > 1 else (r, r)))
            return cls(losses, N, N[:0], None, gram)
        Q = None if ask.curvature is None else _zeros(H, (r * (r + 1) // 2, n))
        return cls(losses, N, _zeros(H, N.shape), Q)

    def add(self, ask: Ask, slot: int, swept: Sweep, factor: Any, part: Piece, weighed: bool = False) -> None:
        """Add a sweep of one loss times a factor, a number or one for every column.

        weighed : the factor of the objective is in it already
        """
        columns = part.at if part.across else slice(None)
        if ask.parts is not None:
            to, c = (slot, 1.0) if ask.weights is None else (0, 1.0 if weighed else float(ask.weights[slot]))
            self.N[to][:, columns] += c * factor * swept.N[0]
            if self.gram is not None:
                gram = self.gram if self.gram.ndim == 2 else self.gram[to]
                gram += c * factor * swept.gram
                return
            self.P[to][:, columns] += c * factor * swept.P[0]
        if ask.curvature is not None:
            c = 1.0 if weighed else float(ask.curvature[slot])
            self.Q[:, columns] += c * factor * swept.Q


@dataclass(frozen=True)
class _Objective:
    """A loss of Omega, taken apart: a function of the loss of a part, or of those of its rows."""

    slot: int
    loss: Loss

    @property
    def rho(self) -> Rowwise | None:
        return _rho(self.loss)

    def value(self, loss: float) -> float:
        return self.loss.value(loss) if isinstance(self.loss, Part) else loss

    def slope(self, loss: float) -> float:
        return self.loss.slope(loss) if isinstance(self.loss, Part) else 1.0

    def _sum(self, rows: _Rows) -> float:
        values = rows.losses if self.rho is None else self.rho.values(rows.losses)
        return float(rows.weights @ values)

    def total(self, rows: _Rows) -> float:
        """Compute the objective from the losses of rows."""
        return self.value(self._sum(rows))

    def weights(self, rows: _Rows) -> Vector:
        """Compute how much each row counts in a step."""
        slopes = np.ones_like(rows.losses) if self.rho is None else self.rho.slopes(rows.losses)
        return self.slope(self._sum(rows)) * slopes


@dataclass(frozen=True)
class _Rows:
    """The loss of every row of a part, as if it counted once, and how much it counts."""

    losses: Vector
    weights: Vector

    @classmethod
    def of(cls, part: Piece, W: Any, H: Any, base: Loss, swept: Sweep | None = None) -> _Rows:
        """Compute them where rows are columns; a sweep at the same point may be at hand."""
        data = part.data
        losses, weights = column_losses(part, W, H, base, swept), np.ones(data.shape[1])
        known = None if data.observed is None else pieces(data.observed)
        if known is not None and known.columns is not None:  # a row of weight two is a row that is there twice
            weights = np.asarray(to_host(known.columns), dtype=np.float64)
            losses = np.divide(losses, weights, out=np.zeros_like(losses), where=weights > 0)
        return cls(losses, weights)


def row_losses(data: Data, W: Any, H: Any, base: Loss) -> Vector:
    """Compute the loss of every row of X, as if each counted once, under the loss of an entry."""
    A, B = data.T.space.put(W.T), data.space.put(H)
    if isinstance(data, Parted) and data._in_blocks:
        found: Vector = data._swept.of_rows(partial(_block_losses, base), A.T, B)
        return found
    whole = data.whole if isinstance(data, Parted) else Piece(slice(None), data)
    return _Rows.of(whole.T, B.T, A, base).losses


def _block_losses(base: Loss, data: Data, A: Array, H: Array) -> Vector:
    return row_losses(data, A.T, H, base)


def column_losses(part: Piece, W: Any, H: Any, loss: Loss, swept: Sweep | None = None) -> Vector:
    """Compute the loss of every column at V = WH, under the weights of the entries, in float64.

    swept : a sweep under that loss at the same point, where one was made
    """
    data: Any = part.data
    raw: Tiled = data.data if isinstance(data, Weighted) else data
    if loss.free_part == "gram" and data.observed is None and isinstance(H, np.ndarray):
        N = raw.sweep(W, H, Ask((loss,), "separate", False, np.ones(1))).N if swept is None else swept.N
        return _quadratic(raw, W, H, N[0], part.squares, loss)
    found = []
    with products_of(H):
        for J in tiles_of(raw):
            V = namespace(H).clip(W @ H[:, J], model_floor(data.dtype), None)
            found.append(_tile_losses(data, raw, J, V, loss))
    return np.concatenate(found)


def _tile_losses(data: Any, raw: Tiled, J: slice, V: Any, loss: Loss) -> Vector:
    if data.observed is not None:
        X, M = observed_tile(raw, J, data.observed)
        terms = entry_losses(data, X, M, V, (loss,))[0]
    else:
        X, zero = raw.tile(J), zero_of(data, (loss,))
        terms = loss.terms(namespace(V).where(X == 0, zero, X) if zero else X, V)
    return np.asarray(to_host(terms.sum(0)), dtype=np.float64)


def _quadratic(data: Any, W: Array, H: Array, N: Array, squares: Vector, loss: Loss) -> Vector:
    """1/2 (|x|^2 - 2 h'W'x + h'W'W h) with N = W'X; entry by entry where that has lost its digits."""
    rows, columns = as_float64(W), as_float64(H)
    found = 0.5 * (squares - 2.0 * (columns * N).sum(0) + (columns * (rows.T @ rows @ columns)).sum(0))
    lost = found <= identity_limit(data.dtype) * squares
    for J in tiles_of(data) if lost.any() else ():
        if lost[J].any():
            found[J] = np.where(lost[J], _tile_losses(data, data, J, W @ H[:, J], loss), found[J])
    return found


def _alone(data: Data, W: Any, H: Any, loss: Loss, ask: Ask, losses: bool, alike: bool = False) -> Sweep:
    """Sweep under one loss, its parts and its whole curvature as they are.

    alike : all columns share it
    """
    curvature = np.ones(1) if alike else None
    plain = Ask((loss,), None if ask.parts is None else "separate", losses, curvature, held_out=ask.held_out)
    if alike or ask.curvature is None:
        return data.sweep(W, H, plain)
    if loss.free_part == "gram" and data.observed is None:  # the same in every column
        return replace(data.sweep(W, H, plain), Q=_packed(W, H))
    curved = replace(plain, curvature=np.ones(1))
    return data.under_weights(W, H, curved) if isinstance(data, Weighted) else data.sweep(W, H, curved)


def _under(data: Any, W: Any, H: Any, loss: Loss, ask: Ask, rows: Vector, alike: bool = False) -> Sweep:
    """Sweep under one loss and weights of the rows, as `_alone` does without."""
    raw = data.data if isinstance(data, Weighted) else data
    outer = Outer(rows, np.ones(data.shape[1])).placed(raw.beside)
    weighted = Weighted(raw, product(data.observed, outer), _NOTHING)  # type: ignore[arg-type]
    plain = Ask((loss,), None if ask.parts is None else "separate", False)
    if ask.curvature is None:
        return weighted.sweep(W, H, plain)
    curved = replace(plain, curvature=np.ones(1))
    return weighted.sweep(W, H, curved) if alike else weighted.under_weights(W, H, curved)


def _packed(W: Any, H: Any) -> Any:
    """W'W, packed, for every column."""
    k, l = np.tril_indices(W.shape[1])
    gram = (W.T @ W)[k, l]
    return gram[:, None] * _like(np.ones(H.shape[1]), H)


def products_of(F: Any) -> AbstractContextManager[None]:
    """Compute products of factors in their own precision."""
    if isinstance(F, np.ndarray):
        return nullcontext()
    from drnmf.backends.torch.space import full_precision

    return full_precision()


def _contiguous(F: Any) -> Any:
    return np.ascontiguousarray(F) if isinstance(F, np.ndarray) else F.contiguous()


def _zeros(like: Any, shape: tuple[int, ...]) -> Any:
    return np.zeros(shape, like.dtype) if isinstance(like, np.ndarray) else like.new_zeros(shape)


def _like(vector: Vector, F: Any) -> Any:
    """A vector in the dtype of a factor, where it lives."""
    return namespace(F).asarray(beside(vector, F), dtype=F.dtype)


def rowwise(omega: Omega) -> bool:
    """Tell whether a set of losses has one of rows."""
    return any(isinstance(loss, Rowwise) for loss in omega)
