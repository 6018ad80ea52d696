"""Kernels compiled side by side, before they are needed.

A kernel takes one to three seconds to compile where it was not compiled on this machine before, and a fit needs some
eight of them: each side of X, each loss alone for its reference, all of them together. Compiled as they come up they
would stand in a row; here the first sweep has all of them compiled at once, in threads.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import torch

from drnmf.backends.base import zero_of
from drnmf.backends.observed import Pieces
from drnmf.backends.torch.fused import GROUP, INTERPRETED, Call, compile_launch, kinds_of_weights, prepared
from drnmf.backends.torch.kernels import kernels_of
from drnmf.backends.torch.triton_descent import descend
from drnmf.losses.base import Omega

THREADS = 8  # kernels compiled at a time


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
