"""Separated sources against reference recordings, in bounded memory as far as the measures allow."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from drnmf.apps.audio.grouping import Groups, match_components
from drnmf.apps.audio.recording import Recording, open_recording
from drnmf.apps.audio.separation import masks
from drnmf.apps.audio.transform import Transform
from drnmf.numerics import Array


def open_references(paths: Sequence[str | os.PathLike[str]], mixture: Recording) -> tuple[Recording, ...]:
    """Open reference recordings; refuse those that do not fit the mixture in rate and length."""
    found = tuple(open_recording(path) for path in paths)
    for reference in found:
        if (reference.rate, reference.length) != (mixture.rate, mixture.length):
            raise ValueError(
                f"{reference.name} has {reference.length} samples at {reference.rate:g} Hz, the mixture "
                f"{mixture.length} at {mixture.rate:g} Hz: references must be as long as the mixture, sample by sample."
            )
    return found


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
