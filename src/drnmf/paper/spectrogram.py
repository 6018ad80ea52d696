"""Recordings as magnitude spectrograms, with the two recipes of section 5.3."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from drnmf.numerics import Vector


def read_wav(path: Path) -> tuple[Vector, int]:
    """(samples in [-1, 1], rate) of a WAV file; several channels are averaged."""
    from scipy.io import wavfile

    try:
        rate, samples = wavfile.read(path)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} cannot be read as WAV ({error}).") from None
    signal = np.asarray(samples, dtype=np.float64)
    if samples.dtype == np.uint8:
        signal = (signal - 128.0) / 128.0
    elif np.issubdtype(samples.dtype, np.integer):
        signal /= float(np.iinfo(samples.dtype).max) + 1.0
    return (signal.mean(axis=1) if signal.ndim == 2 else signal), int(rate)


def magnitude_spectrogram(signal: Vector, window: int = 256, hop: int | None = None, pad: bool = False) -> Vector:
    """|STFT| of shape (window // 2 + 1, frames): symmetric Hamming window, last incomplete frame dropped.

    hop : half a window unless given
    pad : half a window of zeros at both ends (the qualitative study); else none (the table)

    >>> magnitude_spectrogram(np.ones(75200)).shape, magnitude_spectrogram(np.ones(75200), 512, pad=True).shape
    ((129, 586), (257, 294))
    """
    step = window // 2 if hop is None else hop
    if pad:
        signal = np.concatenate([np.zeros(window // 2), signal, np.zeros(window // 2)])
    if signal.size < window:
        raise ValueError(f"The recording has {signal.size} samples, fewer than one window of {window}.")
    frames = np.lib.stride_tricks.sliding_window_view(signal, window)[::step]
    return np.ascontiguousarray(np.abs(np.fft.rfft(frames * np.hamming(window), axis=1)).T)
