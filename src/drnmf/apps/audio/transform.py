"""The short-time Fourier transform, forward and back, in chunks of frames: memory does not grow with the length."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.fft import irfft, next_fast_len
from scipy.signal import ShortTimeFFT
from scipy.signal.windows import hamming

from drnmf.apps.audio.recording import Recording, open_recording
from drnmf.numerics import Array, Vector
from drnmf.parameters.fields import check_integer

Complex = NDArray[np.complex128]
Ends = Literal["all", "centred", "inside"]
"""Frames that are taken: all that touch the recording, those centred in it, or those that lie inside it whole."""
CHUNK_ENTRIES = 1 << 21
"""Complex numbers that a chunk of frames may have (32 MB)."""

WINDOW_SECONDS = 0.064
"""Length of the analysis window where none is asked for, measured on mixtures of known sources (docs/audio.md)."""

SINGLE_PRECISION_ENTRIES = 1 << 24
"""A spectrogram with more entries than this is kept in float32: half the memory, and far finer than any noise."""


@dataclass(frozen=True)
class Transform:
    """Take a Hamming window of `window` samples every `hop`, as SciPy's ShortTimeFFT has it.

    The Hamming window is the paper's; it has no zero, so every hop up to the window can be inverted. With ends="all"
    frames reach over both ends of the recording (zeros outside), so every sample comes back, the first and the last
    too.

    Parameters
    ----------
    window, hop : int
        Samples of a frame, and from one frame to the next.
    rate : float
        Samples per second.
    symmetric : bool
        The window of the paper's experiments, whose first and last values are equal; a periodic one otherwise.
    ends : {"all", "centred", "inside"}
        Which frames there are. "centred" begins with a frame centred on the first sample, "inside" with one that
        begins there; both drop the last incomplete one, and are for analysis only.
    """

    window: int
    hop: int
    rate: float
    symmetric: bool = False
    ends: Ends = "all"

    def __post_init__(self) -> None:
        check_integer("window", self.window, 2)
        check_integer("hop", self.hop, 1)
        if self.hop > self.window:
            raise ValueError(f"hop={self.hop} is longer than window={self.window}: samples between would be lost.")

    @cached_property
    def stft(self) -> ShortTimeFFT:
        window = np.hamming(self.window) if self.symmetric else hamming(self.window, sym=False)
        return ShortTimeFFT(window, self.hop, self.rate, phase_shift=None)

    @property
    def bins(self) -> int:
        return self.window // 2 + 1

    @property
    def frequencies(self) -> Vector:
        """Hertz of every bin."""
        return np.asarray(self.stft.f)

    def frames(self, length: int) -> int:
        """Count the frames of a recording of `length` samples."""
        if self.ends == "all":
            return int(self.stft.p_num(length))
        return 1 + (length - 2 * self._first - self.window) // self.hop

    def times(self, length: int) -> Vector:
        """Compute the seconds of the middle of every frame."""
        if self.ends == "all":
            return np.asarray(self.stft.t(length))
        middle = self._first + int(self.stft.m_num_mid)
        return np.asarray((middle + self.hop * np.arange(self.frames(length))) / self.rate)

    @property
    def _first(self) -> int:
        """Sample at which the first frame starts; negative where it reaches over the beginning."""
        half = int(self.stft.m_num_mid)
        return {"all": int(self.stft.p_min) * self.hop - half, "centred": -half, "inside": 0}[self.ends]

    def chunk(self, copies: int) -> int:
        """Choose how many frames to work on at once when each needs `copies` spectra."""
        return max(8, CHUNK_ENTRIES // (self.bins * copies))

    def analyse(self, recording: Recording, chunk: int) -> Iterator[Complex]:
        """Yield the transform, chunk by chunk: (channels, bins, frames of the chunk)."""
        left = self.frames(recording.length)
        source = recording.blocks()
        buffer = np.zeros((-self._first, recording.channels))
        while left:
            count = min(chunk, left)
            needed = (count - 1) * self.hop + self.window
            pieces, have = [buffer], len(buffer)
            while have < needed:
                block = next(source, None)
                if block is None:
                    block = np.zeros((needed - have, recording.channels))
                pieces.append(block)
                have += len(block)
            buffer = np.concatenate(pieces)
            samples = np.ascontiguousarray(buffer[:needed].T)
            yield self.stft.stft(samples, 0, count, k_offset=int(self.stft.m_num_mid))
            buffer = buffer[count * self.hop :]
            left -= count
        for block in source:  # what no frame reaches: nothing but a check that the file ends where it said
            buffer = block

    def synthesise(self, chunks: Iterator[Complex], length: int) -> Iterator[Vector]:
        """Add overlapping frames with the dual window: chunks (..., bins, frames) to blocks (..., samples)."""
        dual = np.asarray(self.stft.dual_win)
        position, tail = self._first, None
        for spectra in chunks:
            count = spectra.shape[-1]
            pieces = irfft(np.moveaxis(spectra, -2, -1), n=self.window, axis=-1) * dual
            block = np.zeros((*spectra.shape[:-2], (count - 1) * self.hop + self.window))
            if tail is not None:
                block[..., : tail.shape[-1]] = tail
            for p in range(count):
                block[..., p * self.hop : p * self.hop + self.window] += pieces[..., p, :]
            ready, tail = block[..., : count * self.hop], block[..., count * self.hop :].copy()
            yield from _within(ready, position, length)
            position += count * self.hop
        if tail is not None:
            yield from _within(tail, position, length)


def _within(block: Vector, start: int, length: int) -> Iterator[Vector]:
    """Yield the part of a block that lies in 0 .. length; the block starts at `start`."""
    low, high = max(0, -start), min(block.shape[-1], length - start)
    if low < high:
        yield block[..., low:high]


@dataclass(frozen=True)
class Spectrogram:
    """X = mean over channels of |STFT|^power, (bins, frames), and where it comes from."""

    X: Array
    recording: Recording
    transform: Transform
    power: int

    @property
    def frequencies(self) -> Vector:
        return self.transform.frequencies

    @property
    def times(self) -> Vector:
        return self.transform.times(self.recording.length)


def window_and_hop(rate: float, window: int | None = None, hop: int | None = None) -> tuple[int, int]:
    """Choose what was not given: a window of `WINDOW_SECONDS`, and a hop of a quarter of the window.

    The window is a multiple of four and of a length whose Fourier transform is fast.

    >>> window_and_hop(16000), window_and_hop(44100), window_and_hop(16000, 512)
    ((1024, 256), (2880, 720), (512, 128))
    """
    if window is None:
        window = 4 * int(next_fast_len(max(1, round(rate * WINDOW_SECONDS / 4))))
    return window, max(1, window // 4) if hop is None else hop


def spectrogram(
    source: str | os.PathLike[str] | ArrayLike | Recording,
    *,
    rate: float | None = None,
    window: int | None = None,
    hop: int | None = None,
    power: int = 1,
    symmetric: bool = False,
    ends: Ends = "all",
    progress: Callable[[float], None] | None = None,
) -> Spectrogram:
    """Compute the spectrogram of a recording, a nonnegative matrix of shape (window // 2 + 1, frames).

    Parameters
    ----------
    source : a file name, or samples of shape (length,) or (length, channels) with their `rate`
    power : 1 for magnitudes, 2 for powers; several channels are averaged after that
    window, hop : samples of the analysis window, and from one frame to the next; see `window_and_hop`
    symmetric, ends : window and frames, see `Transform`
    progress : called with the fraction done

    Returns
    -------
    spectrogram : Spectrogram

    Examples
    --------
    >>> spectrogram(np.ones(1000), rate=8000, window=64, hop=16).X.shape
    (33, 66)
    >>> spectrogram(np.ones(75200), rate=16000, window=256, hop=128, symmetric=True, ends="inside").X.shape
    (129, 586)
    """
    recording = open_recording(source, rate)
    window, hop = window_and_hop(recording.rate, window, hop)
    transform = Transform(window, hop, recording.rate, symmetric, ends)
    if power not in (1, 2):
        raise ValueError(f"power={power!r} is not known: 1 takes magnitudes, 2 powers.")
    if recording.length < window:
        raise ValueError(
            f"{recording.name} has {recording.length} samples, less than one window of {window}: "
            "take a longer recording or a smaller window."
        )
    frames = transform.frames(recording.length)
    X = np.empty(
        (transform.bins, frames), np.float32 if transform.bins * frames > SINGLE_PRECISION_ENTRIES else np.float64
    )
    done = 0
    for spectra in transform.analyse(recording, transform.chunk(2 * recording.channels)):
        size = np.abs(spectra)
        X[:, done : done + spectra.shape[-1]] = (size if power == 1 else size**2).mean(axis=0)
        done += spectra.shape[-1]
        if progress is not None:
            progress(done / frames)
    if not X.any():
        raise ValueError(f"{recording.name} is silent: every sample is zero, so there is nothing to separate.")
    return Spectrogram(X, recording, transform, power)
