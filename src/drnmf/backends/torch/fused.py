"""How the Triton kernel of dense sweeps is called: shapes, splits, pieces, and what is cheaper outside the pass over X.

Nothing here waits for the GPU.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import torch
import triton
from triton.tools.tensor_descriptor import TensorDescriptor

from drnmf.backends.base import zero_of
from drnmf.backends.observed import Pieces
from drnmf.backends.torch.kernels import Kernel, kernels_of
from drnmf.backends.torch.triton_dense import dense_sweep, split_factor
from drnmf.backends.torch.triton_descent import descend
from drnmf.losses.base import Omega
from drnmf.numerics import model_floor, power_ceiling

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
GROUP = 3  # losses of one pass
WAVES = 4  # programs per slot of the GPU: enough that the last wave matters little
SMALL = 1 << 20  # entries of X under which rounding errors do not average out and accuracy costs nothing
LARGE = 1 << 22  # entries of X from which several launches pay where one cannot use the bulk copies of the GPU
ALIGNED = 16  # bytes, of everything that a tensor descriptor counts from
SHORT = 256  # rows under which a sum of bfloat16 products does not average its rounding errors out

Tensor: TypeAlias = torch.Tensor


class Blocks(NamedTuple):
    """Sizes of a program: its tile of X, its warps, its copies under way, components of one chunk of N and P.

    registers : of a thread at most; 168 lets three programs run on one processor
    """

    own: int
    other: int
    warps: int
    stages: int
    components: int
    registers: int | None = None


# Chosen on an H200 by trial; by the padded number of components.
BLOCKS = {
    16: Blocks(64, 64, 4, 3, 16, 168),
    32: Blocks(64, 64, 4, 3, 32, 168),
    64: Blocks(64, 64, 4, 3, 64, 255),
    128: Blocks(64, 32, 4, 2, 64),
    256: Blocks(64, 32, 4, 2, 64),
}


@cache
def processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


@cache
def has_tensor_copies(device: torch.device) -> bool:
    """The bulk tensor copies of Hopper and later (the interpreter plays them)."""
    return device.type == "cpu" or torch.cuda.get_device_capability(device)[0] >= 9


def _described(X: Tensor, own_first: bool, block_own: int, block_other: int) -> tuple[TensorDescriptor, int] | None:
    """X (L, O) behind a tensor descriptor, and where X begins in it; None where its rows start at uneven distances.

    A descriptor begins, its rows follow one another, and copies begin at multiples of 16 bytes. Where X begins between
    two of them the descriptor begins at the one before.
    """
    matrix, block = (X, [block_other, block_own]) if own_first else (X.T, [block_own, block_other])
    (rows, columns), size, offset = matrix.shape, matrix.element_size(), matrix.storage_offset()
    shift = matrix.data_ptr() % ALIGNED // size
    even = matrix.stride(1) == 1 and matrix.stride(0) * size % ALIGNED == 0
    if not even or offset < shift or not has_tensor_copies(X.device):
        return None
    whole = matrix.as_strided((rows, columns + shift), matrix.stride(), offset - shift)
    return TensorDescriptor.from_tensor(whole, block), shift


def interleaved(X: Tensor) -> int:
    """Count the classes of rows of X whose starts are multiples of 16 bytes apart: every k-th row is in one class.

    The rows of each class can be behind a tensor descriptor, where all of them cannot. One where that does not pay.
    """
    along, across = sorted(X.stride())
    if along != 1 or X.numel() < LARGE or not has_tensor_copies(X.device):
        return 1
    return ALIGNED // math.gcd(ALIGNED, across * X.element_size())


def _pieces(F: Tensor, R: int, shift: int) -> tuple[Tensor, int]:
    """A factor (r, L) as bfloat16 pieces, (3 * padded, R), which begin at row `shift`, and the padded length.

    Factors (runs, r, L) of several runs one after another.
    """
    (r, L), runs = F.shape[-2:], F.shape[:-2].numel()
    padded = triton.cdiv(shift + L, 128) * 128
    pieces = torch.empty((runs * 3 * padded, R), dtype=torch.bfloat16, device=F.device)
    block = min(128, max(16, 4096 // R))  # divides the padding
    split_factor[(padded // block, runs)](
        F, F.stride(-2), pieces, L, r, shift, padded, HARDWARE=not INTERPRETED, R=R, B=block
    )
    return pieces, padded


class Call(NamedTuple):
    """What a pass over X is asked; one launch takes at most three losses.

    kernels : (id, parameter) of every loss
    weights : (p,) float32 on the device, or None for every part on its own
    scale : what X is multiplied by
    zero : what a zero of X counts as, 0.0 to leave it
    fast : the precision called "tf32"
    seen : weights of the entries, on the device; None where all count once
    """

    kernels: tuple[Kernel, ...]
    weights: Tensor | None
    losses: bool
    scale: float
    zero: float
    fast: bool
    seen: Pieces | None = None

    @property
    def known(self) -> bool:
        """Whether no P needs a pass over X: `dense.add_free_parts` has those of beta = 1 and 2."""
        return self.seen is None and all(b in {1.0, 2.0} for b, _ in self.kernels)


def sweep_dense(X: Tensor, other: Tensor, own: Tensor, call: Call) -> tuple[Tensor | None, Tensor, Tensor]:
    """Losses (p,) float64, N and P (slots, r, O) at V = other' own for X (L, O) of any strides; float32 factors.

    other : (r, L), own : (r, O)
    Without weights of the entries P of beta = 1 and 2 is left at zero here: `dense.add_free_parts` adds it.
    """
    kernels, weights = call.kernels, call.weights
    wanted = call.losses or weights is None  # sums without losses are for loops: nobody else is worth a kernel
    found = []
    for at in (slice(i, i + GROUP) for i in range(0, len(kernels), GROUP)):
        part = call._replace(kernels=kernels[at], weights=None if weights is None else weights[at], losses=wanted)
        found.append(_over_classes(X, other, own, part))
    totals = torch.cat([f[0] for f in found]) if call.losses else None
    if weights is None or len(found) == 1:
        return totals, torch.cat([f[1] for f in found]), torch.cat([f[2] for f in found])
    return totals, torch.stack([f[1] for f in found]).sum(0), torch.stack([f[2] for f in found]).sum(0)


Found = tuple[Tensor, Tensor, Tensor]  # losses, N, P


def _over_classes(X: Tensor, other: Tensor, own: Tensor, call: Call) -> Found:
    """One pass over X, class by class of its rows where these start at uneven distances (odd numbers of columns)."""
    step = interleaved(X)
    if step == 1:
        return _weighed(X, other, own, call)
    if X.stride(1) == 1:  # the classes divide L
        found = [
            _weighed(X[j::step], other[:, j::step].contiguous(), own, _within(call, slice(j, None, step), slice(None)))
            for j in range(step)
        ]
        losses, N, P = (torch.stack(parts).sum(0) for parts in zip(*found, strict=True))
        return losses, N, P
    found = [
        _weighed(X[:, j::step], other, own[:, j::step].contiguous(), _within(call, slice(None), slice(j, None, step)))
        for j in range(step)
    ]
    slots = found[0][1].shape[0]
    N, P = (torch.empty((slots, *own.shape), dtype=own.dtype, device=own.device) for _ in range(2))
    for j, (_, n, p) in enumerate(found):
        N[:, :, j::step], P[:, :, j::step] = n, p
    return torch.stack([f[0] for f in found]).sum(0), N, P


def _within(call: Call, rows: slice, columns: slice) -> Call:
    """The same of some rows and columns of X."""
    return call if call.seen is None else call._replace(seen=call.seen.within(rows, columns))


def _weighed(X: Tensor, other: Tensor, own: Tensor, call: Call) -> Found:
    """One launch; the weight of one loss alone is applied afterwards, so that it shares a kernel with no weight."""
    if call.weights is None or len(call.kernels) > 1:
        return _run(X, other, own, call)
    losses, N, P = _run(X, other, own, call._replace(weights=None))
    return losses, N.mul_(call.weights[0]), P.mul_(call.weights[0])


def _run(X: Tensor, other: Tensor, own: Tensor, call: Call) -> Found:
    launch = _launch(X, other, own, call)
    dense_sweep[launch.grid](*launch.arguments, **launch.options)
    totals, N, P = launch.found
    if N.shape[0] == 1:
        return totals.sum(1), N[0], P[0]
    return totals.sum(1), N.sum(0), P.sum(0)


def sweep_runs(X: Tensor, other: Tensor, own: Tensor, call: Call) -> Found:
    """Losses (runs, p) float64, N and P (runs, slots, r, O) of several runs, at V = other' own for each.

    X is (runs, L, O), or (1, L, O) where all runs see the same; other (runs, r, L) and own (runs, r, O) are contiguous;
    the call has weights (runs, p), or none.
    """
    launch = _launch(X, other, own, call)
    dense_sweep[launch.grid](*launch.arguments, **launch.options)
    totals, N, P = launch.found
    losses = totals.view(len(call.kernels), len(own), -1).sum(-1).T
    return losses, N.sum(1), P.sum(1)


def prepared(X: Tensor, rank: int, call: Call) -> Launch:
    """The launch of a pass over X, or over one class of its rows, with factors that hold nothing."""
    step = interleaved(X)
    view = X[::step] if X.stride(1) == 1 else X[:, ::step]
    other, own = (torch.empty((rank, k), dtype=torch.float32, device=X.device) for k in view.shape)
    every = slice(None, None, step)
    some = (every, slice(None)) if X.stride(1) == 1 else (slice(None), every)
    return _launch(view, other, own, _within(call, *some))


def compile_launch(launch: Launch) -> None:
    """Compile the kernel of a launch, without running it."""
    dense_sweep.warmup(*launch.arguments, grid=launch.grid, **launch.options)


class Launch(NamedTuple):
    """A kernel ready to be launched, and the tensors it will write."""

    grid: tuple[int, int, int]
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    found: Found


def _launch(X: Tensor, other: Tensor, own: Tensor, call: Call) -> Launch:
    """Choose shapes and splits of one pass over X, or of one for each of several runs, which have an axis in front."""
    (L, width), r, device, kernels, weights = X.shape[-2:], own.shape[-2], X.device, call.kernels, call.weights
    lead = tuple(own.shape[:-2])
    runs = math.prod(lead)
    R = max(16, triton.next_power_of_2(r))
    shape = BLOCKS[R]
    block_own, block_other, components = shape.own, shape.other, shape.components
    own_first = X.stride(-1) <= X.stride(-2)
    described = None if lead else _described(X, own_first, block_own, block_other)
    tma = described is not None
    matrix, shift = (X, 0) if described is None else described
    values = _described_like(call.seen, shift, own_first, block_own, block_other) if tma else None
    before, ahead = (shift, 0) if own_first else (0, shift)  # of the own side, and of the other
    length = ahead + L
    blocks, tiles = triton.cdiv(before + width, block_own), triton.cdiv(length, block_other)
    chunks = triton.cdiv(r, components)
    splits = max(1, min(tiles // 2, WAVES * 2 * processors(device) // (blocks * chunks * runs)))
    chunk = triton.cdiv(tiles, splits) * block_other
    slots = 1 if weights is not None else len(kernels)
    N = torch.empty((*lead, splits, slots, r, width), dtype=torch.float32, device=device)
    P = torch.empty_like(N)
    totals = torch.empty((len(kernels), runs * blocks * splits), dtype=torch.float64, device=device)
    pieces, padded = _pieces(other, R, ahead)
    accurate = not call.fast or L < SHORT
    registers = (
        shape.registers if call.seen is None else None
    )  # weights need more: fewer programs at a time, but no spills
    ids, parameters = zip(*kernels, *[(0.0, 0.0)] * (GROUP - len(kernels)), strict=True)
    ceiling = power_ceiling("float32")
    arguments = (
        matrix,
        shift,
        X.stride(-1),
        X.stride(-2),
        own,
        own.stride(-2),
        TensorDescriptor.from_tensor(pieces, [block_other, R]) if tma else pieces,
        TensorDescriptor.from_tensor(pieces, [block_other, components]) if tma else pieces,
        padded, totals if weights is None else weights, N, P, totals, width, length, r, r * width,
        blocks, X.stride(0) if lead and len(X) > 1 else 0, len(kernels) if lead and weights is not None else 0, chunk,
        1.0, model_floor("float32"), ceiling, call.scale, call.zero, *(min(a, ceiling) for a in parameters),
        *_weights_of_entries(call.seen, X, values),
    )  # fmt: skip
    options = {
        "B0": ids[0], "B1": ids[1], "B2": ids[2], "COUNT": len(kernels),
        "WEIGHTED": weights is not None, "POSITIVE": not call.known, "LOSSES": call.losses,
        "ZEROS": call.zero != 0.0, "MASK": length % block_other != 0 or ahead > 0, "SMALL": L * width < SMALL,
        "EXACT": accurate, "ACCURATE": accurate, "HARDWARE": not INTERPRETED, "TMA": tma, "OWN_FIRST": own_first,
        "RUNS": bool(lead), **kinds_of_weights(call.seen, values is not None),
        "R": R, "RC": components, "BO": block_own, "BL": block_other, "STAGES": shape.stages,
        "num_warps": shape.warps, "num_stages": shape.stages, "maxnreg": registers,
    }  # fmt: skip
    return Launch((runs * blocks, splits, chunks), arguments, options, (totals, N, P))


def _described_like(
    seen: Pieces | None, shift: int, own_first: bool, block_own: int, block_other: int
) -> TensorDescriptor | None:
    """The weights of every entry behind a descriptor; None where they do not lie in memory as X does."""
    if seen is None or seen.values is None:
        return None
    described = _described(seen.values, own_first, block_own, block_other)
    return described[0] if described is not None and described[1] == shift else None


def _weights_of_entries(seen: Pieces | None, X: Tensor, described: TensorDescriptor | None) -> tuple[object, ...]:
    """Arguments of the kernel: X itself stands where there is nothing, and is not read there."""
    if seen is None:
        return X, 0, 0, X, X, X, X, 1
    values, mask = seen.values, seen.mask
    strides = (0, 0) if values is None else (values.stride(1), values.stride(0))
    outer = [X if one is None else one.contiguous() for one in (seen.rows, seen.columns)]
    classes = (X, X, 1) if mask is None else (mask.rows.contiguous(), mask.columns.contiguous(), mask.classes)
    return described or (X if values is None else values), *strides, *outer, *classes


def kinds_of_weights(seen: Pieces | None, described: bool = False) -> dict[str, object]:
    """Tell the compiler which weights of entries there are."""
    if seen is None:
        return {"OBSERVED": False, "VALUES": 0, "OUTER": False, "HIDDEN": 0}
    values = 0 if seen.values is None else 1 + described
    hidden = 0 if seen.mask is None else 1 + seen.mask.inverted
    return {"OBSERVED": True, "VALUES": values, "OUTER": seen.rows is not None, "HIDDEN": hidden}


THREADS = 8
"""Kernels compiled at a time. One takes one to three seconds where it was not compiled on this machine before, and a
fit needs some eight of them: each side of X, each loss alone for its reference, all of them together. Compiled as they
come up they would stand in a row, so the first sweep has all of them compiled at once, in threads."""


class _Kind(NamedTuple):
    """What tells kernels apart, beside the side and the mix of parts."""

    omega: Omega
    rank: int
    shape: tuple[int, int]
    strides: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    zeros: bool
    fast: bool
    weights: tuple[Any, ...]


_compiled: set[_Kind] = set()


def compile_beside(data: Any, omega: Omega, rank: int, seen: Pieces | None) -> None:
    """Compile what sweeps of a `TorchDense` under these losses will need, and under those met that contain them."""
    if INTERPRETED or _kind(data, omega, rank, seen) in _compiled:
        return
    wider = [met for met in data.met if set(omega) <= set(met)]
    sets = {omega, *wider, *((loss,) for met in wider for loss in met)}
    new = [some for some in sets if len(some) <= GROUP and _kind(data, some, rank, seen) not in _compiled]
    launches = [prepared(X, rank, call) for some in new for X, call in _calls(data, some, seen)]
    with ThreadPoolExecutor(THREADS) as pool:
        futures = [
            pool.submit(_descend_once, data.device, rank),
            *(pool.submit(compile_launch, one) for one in launches),
        ]
    for future in futures:
        future.exception()  # what cannot be compiled says so where it is launched
    _compiled.update(_kind(side, some, rank, seen) for some in new for side in (data, data.T))
    _compiled.add(_kind(data, omega, rank, seen))


def _kind(data: Any, omega: Omega, rank: int, seen: Pieces | None) -> _Kind:
    X, weights = data.X, tuple(kinds_of_weights(seen).values())
    return _Kind(omega, rank, data.shape, X.stride(), X.dtype, data.device, data.zeros > 0, data.fast, weights)


def _descend_once(device: torch.device, rank: int) -> None:
    """Take a step of the second-order rules on one column, which compiles their kernel."""
    column = torch.ones((rank, 1), dtype=torch.float32, device=device)
    descend(column, column, torch.eye(rank, device=device), 0.0, 1)


def _calls(data: Any, omega: Omega, seen: Pieces | None) -> list[tuple[torch.Tensor, Call]]:
    """Both sides of X, with the parts apart and, where there are several losses, added up."""
    kernels, zero = kernels_of(omega), zero_of(data, omega)
    apart = Call(kernels, None, True, data.scale, zero, data.fast, seen)
    calls = [(data.X, apart), (data.X.T, apart._replace(seen=None if seen is None else seen.T))]
    if len(omega) > 1:
        weights = torch.empty(len(omega), dtype=torch.float32, device=data.device)
        calls += [(X, call._replace(weights=weights)) for X, call in calls]
    return calls
