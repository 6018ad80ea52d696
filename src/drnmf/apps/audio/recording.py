"""Recordings: files that libsndfile reads, or arrays; read block by block, refused with reasons."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
from numpy.typing import ArrayLike

from drnmf.loading import needs
from drnmf.numerics import Vector
from drnmf.parameters.fields import check_number


def soundfile() -> ModuleType:
    """Import the soundfile package, or say how to get it."""
    return needs("soundfile", "audio", "to read and write sound files")


@dataclass(frozen=True)
class Recording:
    """A recording of `length` samples per channel, on disk (`path`) or in memory (`samples`, (length, channels))."""

    name: str
    rate: float
    length: int
    channels: int
    path: Path | None = None
    samples: Vector | None = None
    encoding: str = "array"

    @property
    def seconds(self) -> float:
        return self.length / self.rate

    def blocks(self, size: int = 1 << 16) -> Iterator[Vector]:
        """Yield the samples in order, float64 of shape (at most size, channels), each block checked to be finite."""
        start = 0
        for block in self._raw_blocks(size):
            if not np.isfinite(block).all():
                i, channel = np.argwhere(~np.isfinite(block))[0]
                raise ValueError(
                    f"{self.name}: sample {start + int(i)} of channel {int(channel)} is {block[i, channel]}: "
                    "remove or interpolate samples that are NaN or infinite."
                )
            start += len(block)
            yield block
        if start != self.length:
            raise ValueError(f"{self.name} announces {self.length} samples and holds {start}: it may be cut short.")

    def _raw_blocks(self, size: int) -> Iterator[Vector]:
        if self.samples is not None:
            for start in range(0, self.length, size):
                yield self.samples[start : start + size]
            return
        package = soundfile()
        try:
            with package.SoundFile(self.path) as stream:
                while len(block := stream.read(size, dtype="float64", always_2d=True)):
                    yield block
        except package.SoundFileError as error:
            raise ValueError(f"{self.name} cannot be read to its end: {error}") from None

    def read(self) -> Vector:
        """Return all samples, (length, channels)."""
        return self.samples if self.samples is not None else np.concatenate(list(self.blocks()))

    def channel_mean(self) -> Vector:
        """Average the channels, (length,): what SDR, SIR and SAR are measured on, and what the paper analyses."""
        return np.concatenate([block.mean(axis=1) for block in self.blocks()])


def open_recording(source: str | os.PathLike[str] | ArrayLike | Recording, rate: float | None = None) -> Recording:
    """Open a recording; a file is read later, block by block.

    Parameters
    ----------
    source : a file name, or samples of shape (length,) or (length, channels)
    rate : samples per second, for samples only

    Returns
    -------
    recording : Recording

    Raises
    ------
    ValueError
        Where the file is no recording, or the samples are no real numbers.
    """
    if isinstance(source, Recording):
        return source
    if isinstance(source, str | os.PathLike):
        if rate is not None:
            raise ValueError("rate is for samples given as an array; a file states its own.")
        return _open_file(Path(source))
    if rate is None:
        raise ValueError("Samples given as an array need their rate, for example rate=44100.")
    samples = np.asarray(source)
    if not (np.issubdtype(samples.dtype, np.floating) or np.issubdtype(samples.dtype, np.integer)):
        raise ValueError(f"Samples have dtype {samples.dtype}: give real numbers.")
    if samples.ndim not in (1, 2) or 0 in samples.shape:
        raise ValueError(f"Samples have shape {samples.shape}: give (length,) or (length, channels), none of them 0.")
    samples = samples.reshape(len(samples), -1).astype(np.float64)
    rate = check_number("rate", rate, 0.0, strict=True)
    return Recording("samples", rate, samples.shape[0], samples.shape[1], samples=samples)


def _open_file(path: Path) -> Recording:
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: name one recording.")
    package = soundfile()
    try:
        info = package.info(str(path))
    except package.SoundFileError as error:
        raise ValueError(
            f"{path} is not a recording that libsndfile reads ({error}): WAV, FLAC, OGG, MP3, AIFF and others are."
        ) from None
    if info.frames <= 0:
        raise ValueError(f"{path} holds no samples.")
    encoding = f"{info.format} {info.subtype}"
    return Recording(path.name, float(info.samplerate), info.frames, info.channels, path=path, encoding=encoding)
