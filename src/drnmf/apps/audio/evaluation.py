"""Separated sources against reference recordings: SDR, SIR and SAR of BSS Eval (fast_bss_eval), in bounded memory
as far as these measures allow.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from drnmf.apps.audio.recording import Recording, open_recording
from drnmf.apps.audio.separation import Groups, masks, match_components
from drnmf.apps.audio.transform import Transform
from drnmf.loading import needs
from drnmf.numerics import Array, Vector


@dataclass(frozen=True)
class Measures:
    """Decibels per reference; `order[s]` is the estimate that was matched with reference s."""

    sdr: Vector
    sir: Vector
    sar: Vector
    order: tuple[int, ...]


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
        measured = needs("fast_bss_eval", "audio", "for SDR, SIR and SAR").bss_eval_sources(
            truth, guess, filter_length=filter_length, compute_permutation=True, use_cg_iter=None
        )
    sdr, sir, sar = (np.asarray(values, dtype=np.float64) for values in measured[:3])
    return Measures(sdr, sir, sar, tuple(int(k) for k in measured[3]))


def open_references(paths: Sequence[str | os.PathLike[str]], mixture: Recording) -> tuple[Recording, ...]:
    """Open reference recordings; refuse those that do not fit the mixture in rate and length."""
    recordings = tuple(open_recording(path) for path in paths)
    for reference in recordings:
        if (reference.rate, reference.length) != (mixture.rate, mixture.length):
            raise ValueError(
                f"{reference.name} has {reference.length} samples at {reference.rate:g} Hz, the mixture "
                f"{mixture.length} at {mixture.rate:g} Hz: references must be as long as the mixture, sample by sample."
            )
    return recordings


def match_references(
    mixture: Recording, references: Sequence[Recording], transform: Transform, W: Array, H: Array
) -> Groups:
    """Group components, one group per reference: each component joins the reference it resembles most.

    It knows the truth, so what is measured afterwards is how well the components could be put together.
    """
    rank, count = H.shape[0], len(references)
    if rank < count:
        raise ValueError(f"{rank} components cannot make {count} sources: raise the rank.")
    inner, parts, truths = np.zeros((rank, count)), np.zeros(rank), np.zeros(count)
    chunk = transform.chunk(2 * rank * mixture.channels)
    streams = [transform.analyse(recording, chunk) for recording in (mixture, *references)]
    done = 0
    for mixed, *others in zip(*streams, strict=True):
        width = mixed.shape[-1]
        part = masks(W, H[:, done : done + width]) * np.abs(mixed).mean(axis=0)
        size = np.stack([np.abs(other).mean(axis=0) for other in others])
        inner += np.einsum("kfn,sfn->ks", part, size)
        parts += (part**2).sum(axis=(1, 2))
        truths += (size**2).sum(axis=(1, 2))
        done += width
    scale = np.sqrt(parts[:, None] * truths[None, :])
    return match_components(inner / np.maximum(scale, np.finfo(np.float64).tiny))
