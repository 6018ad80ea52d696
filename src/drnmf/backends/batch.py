"""X as several runs see it at once: every sweep of a batch is one for all of its runs.

Factors then have an axis of runs in front, (runs, r, n), and so has whatever is made of them. A sweep over a small X is
shorter than what it costs to begin one on a GPU; begun once for all runs it costs each of them next to nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from drnmf.backends.base import Ask, Data, Space, Sweep
from drnmf.losses.base import Omega
from drnmf.numerics import Array

LARGEST = 1 << 20
"""Entries of X from which a run fills a GPU by itself."""
MOST_ENTRIES = 1 << 26
"""Entries of X that all runs of a batch see together."""
MOST_RUNS = 128

Index = NDArray[np.intp]


class Batch(Protocol):
    """X for several runs, the same for all or one for each."""

    @property
    def T(self) -> Batch:
        """X transposed."""
        ...

    @property
    def space(self) -> Space:
        """Where the factors of this side live."""
        ...

    def take(self, at: Index) -> Batch:
        """Return X for some of the runs.

        Parameters
        ----------
        at : which

        Returns
        -------
        batch : Batch
        """
        ...

    def stack(self, blocks: Sequence[Array]) -> Array:
        """Put one block (r, n) of every run into the space, (runs, r, n).

        Parameters
        ----------
        blocks : one for every run, in NumPy or of the space

        Returns
        -------
        stacked : (runs, r, n) in the form of the space
        """
        ...

    def sweep(self, W: Array, H: Array, ask: Ask) -> Sweep:
        """Answer `Data.sweep` for every run.

        Parameters
        ----------
        W : (runs, m, r)
        H : (runs, r, n)
        ask : weights of parts and curvature may be (p, runs)

        Returns
        -------
        sweep : losses (runs, p), N and P (runs, slots, r, n), gram (runs, r, r), which `Space.read` completes
        """
        ...


def largest_batch(entries: int) -> int:
    """Say how many runs of an X with so many entries to make at once; one where X is large.

    >>> largest_batch(96 * 540), largest_batch(10**7)
    (128, 1)
    """
    return 1 if entries > LARGEST else min(MOST_RUNS, MOST_ENTRIES // max(1, entries))


def batch_kind(data: Data) -> Hashable:
    """Say what matrices must have in common for their runs to be made at once.

    None where they cannot be: X must be dense, small and without gaps, on a device of torch.
    """
    if "torch" not in sys.modules:
        return None
    from drnmf.backends.torch.dense import TorchDense

    if not isinstance(data, TorchDense) or data.observed is not None or largest_batch(data.X.numel()) == 1:
        return None
    return data.shape, data.working, data.device, data.fused, data.fast


def batch_of(data: Sequence[Data], omega: Omega) -> Batch:
    """Return the matrices of several runs, all of one `batch_kind`, as one.

    Parameters
    ----------
    data : one for every run
    omega : the losses that will be asked for
    """
    from drnmf.backends.torch.batch import TorchBatch

    return TorchBatch.of(data, omega)
