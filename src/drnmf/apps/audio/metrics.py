"""How well sources were separated: SDR, SIR and SAR of BSS Eval (fast_bss_eval)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from drnmf.numerics import Vector


@dataclass(frozen=True)
class Measures:
    """Decibels per reference; `order[s]` is the estimate that was matched with reference s."""

    sdr: Vector
    sir: Vector
    sar: Vector
    order: tuple[int, ...]


def _package() -> Any:
    try:
        import fast_bss_eval
    except ImportError as error:
        raise ImportError(f"SDR, SIR and SAR need fast_bss_eval ({error}): pip install 'drnmf[audio]'") from None
    return fast_bss_eval


def measure(references: Vector, estimates: Vector, filter_length: int = 512) -> Measures:
    """Measure SDR, SIR and SAR of estimated sources (Vincent et al. 2006).

    As is usual, the estimates are put in the order that gives the best SIR.

    Parameters
    ----------
    references, estimates : (s, length), sources by rows
    filter_length : taps of the filter that a reference may pass through without a penalty (512 is the usual choice)

    Returns
    -------
    measures : Measures, in decibels per reference

    Raises
    ------
    ValueError
        Where numbers or lengths differ, or a source is silent.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.normal(size=(2, 4000))
    >>> found = measure(truth, np.array([[1, 0.1], [0.1, 1]]) @ truth, 8)
    >>> bool(abs(found.sdr[0] - 20) < 1)
    True
    """
    truth, guess = np.atleast_2d(references), np.atleast_2d(estimates)
    if truth.shape != guess.shape:
        raise ValueError(
            f"{len(truth)} references of {truth.shape[-1]} samples do not compare with {len(guess)} estimates of "
            f"{guess.shape[-1]}: their number and length must agree."
        )
    for name, rows in (("reference", truth), ("estimate", guess)):
        silent = np.flatnonzero(~rows.any(axis=1))
        if silent.size:
            raise ValueError(f"{name} {silent[0]} is silent: SDR is not defined for it.")
    with np.errstate(divide="ignore", invalid="ignore"):
        found = _package().bss_eval_sources(
            truth, guess, filter_length=filter_length, compute_permutation=True, use_cg_iter=None
        )
    sdr, sir, sar = (np.asarray(values, dtype=np.float64) for values in found[:3])
    return Measures(sdr, sir, sar, tuple(int(k) for k in found[3]))
