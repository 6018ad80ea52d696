"""The losses that the Triton kernels know, and how those name them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drnmf.backends.base import Ask
from drnmf.backends.observed import pieces
from drnmf.losses.base import Omega
from drnmf.losses.beta import Beta
from drnmf.losses.negative_binomial import NegativeBinomial

NEGATIVE_BINOMIAL = -1.0  # in the place of a beta, which is never negative
MOST_COMPONENTS = 256
"""The last row of `fused.BLOCKS`: plain torch serves larger ranks."""

Kernel = tuple[float, float]
"""The id of a loss, a constant of compilation (beta, or the id of a family), and a parameter known at run time."""

KERNELS: dict[type, Callable[[Any], Kernel]] = {
    Beta: lambda loss: (loss.beta, 0.0),
    NegativeBinomial: lambda loss: (NEGATIVE_BINOMIAL, loss.a),
}


def takes(ask: Ask, rank: int) -> bool:
    """Tell whether the kernels can answer; the tiles answer what they decline.

    Losses alone are asked for a few times in a fit: that is no reason to compile a kernel.
    """
    known = rank <= MOST_COMPONENTS and all(type(loss) in KERNELS for loss in ask.omega)
    return known and ask.parts is not None and (ask.observed is None or pieces(ask.observed) is not None)


def kernels_of(omega: Omega) -> tuple[Kernel, ...]:
    """Name the losses in the words of the kernels."""
    return tuple(KERNELS[type(loss)](loss) for loss in omega)
