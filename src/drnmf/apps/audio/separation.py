"""Separation: DR-NMF of the spectrogram, then Wiener masks on the mixture's own transform."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.cluster.hierarchy import cut_tree, fcluster, linkage

from drnmf.apps.audio.recording import Recording, open_recording, soundfile
from drnmf.apps.audio.transform import Complex, Transform, spectrogram
from drnmf.estimators.comparison import Comparison, compare
from drnmf.estimators.models import DRNMF
from drnmf.numerics import Array, Vector
from drnmf.parameters.fields import check_integer
from drnmf.selection.matching import assign, cosine

Groups = tuple[tuple[int, ...], ...]

SIMILAR = 0.6
"""Automatic grouping joins components whose similarity is above this."""


def parse_groups(text: str, rank: int) -> Groups | int | None:
    """Read how components are to be grouped: "1,3/2,4" (given), "3" (that many, by similarity) or "auto" (None).

    Text counts components from 1, as files and pages do; what comes back are their positions, from 0.

    >>> parse_groups("1,3/2,4", 4), parse_groups("2", 4), parse_groups("auto", 4)
    (((0, 2), (1, 3)), 2, None)
    """
    text = text.strip()
    if text == "auto":
        return None
    try:
        groups = tuple(tuple(int(item) for item in part.split(",")) for part in text.split("/"))
    except ValueError:
        raise ValueError(f"group={text!r} is not understood: use auto, a number, or lists such as 1,3/2,4.") from None
    if len(groups) == 1 and len(groups[0]) == 1:
        if not 1 <= groups[0][0] <= rank:
            raise ValueError(f"group={text} asks for {groups[0][0]} sources of {rank} components: use 1 to {rank}.")
        return groups[0][0]
    return check_groups(tuple(tuple(k - 1 for k in group) for group in groups), rank)


def check_groups(groups: Groups, rank: int) -> Groups:
    """Check that no component is in two groups; what was left out becomes a group of its own, at the end."""
    named = [k for group in groups for k in group]
    strange = sorted({k for k in named if not 0 <= k < rank})
    if strange:
        raise ValueError(f"group names component {strange[0] + 1}, but there are {rank}, numbered 1 to {rank}.")
    twice = sorted({k for k in named if named.count(k) > 1})
    if twice:
        raise ValueError(f"group names component {twice[0] + 1} twice: a component belongs to one source.")
    rest = tuple(sorted(set(range(rank)) - set(named)))
    return (*groups, rest) if rest else groups


def similarity(W: Array, H: Array) -> Vector:
    """Compute the mean of the cosines of two spectra and of two activations, (r, r), from 0 to 1."""
    spectra, activations = (np.asarray(F, dtype=np.float64) for F in (np.asarray(W).T, H))
    return 0.5 * (cosine(spectra, spectra) + cosine(activations, activations))


def group_components(W: Array, H: Array, count: int | None = None) -> Groups:
    """Group components by similarity (average linkage).

    Parameters
    ----------
    W, H : spectra (bins, r) and activations (r, frames)
    count : how many groups; None makes as many as SIMILAR leaves apart

    Returns
    -------
    groups : tuple of tuples of positions, from 0

    Examples
    --------
    >>> spectra = np.array([[1.0, 1, 0], [0, 0, 1]])
    >>> group_components(spectra, np.array([[1.0, 0], [1, 0.1], [0, 1]]))
    ((0, 1), (2,))
    """
    rank = np.shape(H)[0]
    if rank == 1:
        return ((0,),)
    distance = np.maximum(1.0 - similarity(W, H), 0.0)
    tree = linkage(distance[np.triu_indices(rank, 1)], method="average")
    # Where distances tie, fcluster makes fewer groups than it is asked for.
    labels = fcluster(tree, 1.0 - SIMILAR, criterion="distance") if count is None else cut_tree(tree, count)[:, 0]
    members: dict[int, list[int]] = {}
    for k, name in enumerate(labels):
        members.setdefault(int(name), []).append(k)
    return tuple(sorted(tuple(group) for group in members.values()))


def match_components(likeness: Vector) -> Groups:
    """Group components by how much each of r resembles each of s references, (r, s).

    Every reference first gets the component of the best one-to-one assignment, so none is left empty (where r >= s);
    every other component joins the reference it resembles most.
    """
    rank, count = likeness.shape
    if rank < count:
        raise ValueError(f"{rank} components cannot make {count} sources: raise the rank.")
    best = assign(likeness)
    owner = np.where(best >= 0, best, likeness.argmax(axis=1))
    return tuple(tuple(int(k) for k in np.flatnonzero(owner == s)) for s in range(count))


ENCODINGS = {"float32": "FLOAT", "pcm16": "PCM_16", "pcm24": "PCM_24"}
"""Sample formats of the WAV files written, and libsndfile's names for them."""


def masks(W: Array, H: Array) -> Vector:
    """Compute the Wiener masks w_k h_k / (WH), (r, bins, frames): nonnegative, summing to one everywhere."""
    parts = np.asarray(W.T, dtype=np.float64)[:, :, None] * np.asarray(H, dtype=np.float64)[:, None, :]
    total = parts.sum(axis=0)
    parts /= np.where(total > 0, total, 1.0)
    parts[:, total <= 0] = 1.0 / len(parts)
    return parts


def source_blocks(recording: Recording, transform: Transform, W: Array, H: Array) -> Iterator[Vector]:
    """Yield the components of a recording, block by block: (r, channels, samples). They sum to the recording.

    Every channel is masked by the same masks and keeps its own phase.
    """
    rank = H.shape[0]

    def spectra() -> Iterator[Complex]:
        done = 0
        for mixture in transform.analyse(recording, transform.chunk(2 * rank * recording.channels)):
            activations = H[:, done : done + mixture.shape[-1]]
            yield masks(W, activations)[:, None] * mixture[None]
            done += mixture.shape[-1]

    return transform.synthesise(spectra(), recording.length)


@dataclass(frozen=True)
class Separation:
    """Sources and the model behind them.

    Attributes
    ----------
    sources : (sources, length), or (sources, length, channels) with several channels; they sum to the recording
    groups : the components of each source
    W, H : spectra (bins, r) and activations (r, frames)
    model : the fitted DRNMF; `comparison` holds the single-objective fits too
    """

    sources: Vector
    groups: Groups
    W: Array
    H: Array
    rate: float
    transform: Transform
    comparison: Comparison

    @property
    def model(self) -> DRNMF:
        return self.comparison.model


def choose_groups(group: str | int | Groups | None, W: Array, H: Array) -> Groups:
    """Make the groups asked for: None keeps every component on its own, a number or "auto" goes by similarity."""
    rank = H.shape[0]
    if group is None:
        return tuple((k,) for k in range(rank))
    wanted = parse_groups(group, rank) if isinstance(group, str) else group
    if wanted is None or isinstance(wanted, int):
        return group_components(W, H, wanted if wanted is None else check_integer("group", wanted, 1))
    return check_groups(tuple(tuple(part) for part in wanted), rank)


def separate(
    source: str | os.PathLike[str] | ArrayLike | Recording,
    model: DRNMF | int | str,
    *,
    rate: float | None = None,
    window: int | None = None,
    hop: int | None = None,
    power: int = 1,
    group: str | int | Groups | None = None,
) -> Separation:
    """Split a recording into sources that sum to it.

    Everything is kept in memory; the command `drnmf separate` streams from file to files instead.

    Parameters
    ----------
    source : a file name, or samples of shape (length,) or (length, channels) with their `rate`
    model : what is fitted, with zeros of the spectrogram floored; a number of components, or "auto", is short for one
        under losses that suit sound, ``DRNMF(r, betas=(0, 1), max_iter=200, tol=1e-5, random_state=0)``
    window, hop : samples of the analysis window, and from one frame to the next; None takes 0.064 seconds and a quarter
        of the window
    power : 1 factorises magnitudes, 2 powers. Several channels are averaged into one spectrogram, and every channel
        is then masked on its own
    group : None, "auto", a number of sources, "1,3/2,4" (components, from 1), or positions, such as ((0, 2), (1, 3))

    Returns
    -------
    separation : Separation

    Examples
    --------
    >>> time = np.arange(4000) / 8000
    >>> separate(np.sin(2764.6 * time), DRNMF(1, max_iter=5), rate=8000, window=256, hop=64).sources.shape
    (1, 4000)
    """
    recording = open_recording(source, rate)
    seen = spectrogram(recording, window=window, hop=hop, power=power)
    if not isinstance(model, DRNMF):
        model = DRNMF(model, betas=(0, 1), max_iter=200, tol=1e-5, random_state=0)
    if model.n_components != "auto" and isinstance(group, str):
        parse_groups(group, check_integer("n_components", model.n_components, 1))
    comparison = compare(replace(model, zeros="floor"), seen.X)
    W, H = comparison.robust.W, comparison.robust.H
    groups = choose_groups(group, W, H)
    parts = [
        np.stack([block[list(members)].sum(axis=0) for members in groups])
        for block in source_blocks(recording, seen.transform, W, H)
    ]
    sources = np.moveaxis(np.concatenate(parts, axis=-1), 1, 2)
    sources = np.ascontiguousarray(sources[:, :, 0] if recording.channels == 1 else sources)
    return Separation(sources, groups, W, H, recording.rate, seen.transform, comparison)


@dataclass(frozen=True)
class Written:
    """What `write_sources` left in a folder, as paths relative to it, and the gain it had to take."""

    components: tuple[str, ...]
    groups: tuple[str, ...]
    mixture: str
    gain: float


def write_sources(
    folder: Path,
    recording: Recording,
    transform: Transform,
    W: Array,
    H: Array,
    groups: Groups | None,
    encoding: str = "float32",
    progress: Callable[[float], None] | None = None,
) -> Written:
    """Write one WAV per component into `folder`, one per group into groups/, the mixture into mixture/.

    Integer encodings would clip what leaves [-1, 1]: a first pass finds the largest sample of all these files, and
    one common gain (stated in the answer, 1 where nothing clips) keeps their sum and balance.
    """
    if encoding not in ENCODINGS:
        raise ValueError(f"encoding={encoding!r} is not known: use one of {sorted(ENCODINGS)}.")
    gain = 1.0 if encoding == "float32" else _common_gain(recording, transform, W, H, groups, encoding)
    digits = len(str(H.shape[0]))
    components = tuple(f"component_{k:0{digits}d}.wav" for k in range(1, H.shape[0] + 1))
    named = tuple(f"groups/source_{s:0{digits}d}.wav" for s in range(1, len(groups or ()) + 1))
    names = (*components, *named, "mixture/mixture.wav")
    done = 0
    with _Files(folder, names, recording, ENCODINGS[encoding]) as files:
        for block in source_blocks(recording, transform, W, H):
            for name, samples in zip(names, _outputs(block, groups), strict=True):
                files.write(name, gain * samples)
            done += block.shape[-1]
            if progress is not None:
                progress(done / recording.length)
    return Written(components, named, names[-1], gain)


def _outputs(block: Vector, groups: Groups | None) -> Iterator[Vector]:
    """Yield the samples (length, channels) of every file: components, groups, mixture."""
    for part in block:
        yield part.T
    for members in groups or ():
        yield block[list(members)].sum(axis=0).T
    yield block.sum(axis=0).T


def _common_gain(
    recording: Recording, transform: Transform, W: Array, H: Array, groups: Groups | None, encoding: str
) -> float:
    peak = 0.0
    for block in source_blocks(recording, transform, W, H):
        peak = max(peak, *(float(np.abs(samples).max()) for samples in _outputs(block, groups)))
    limit = 1.0 - 2.0 ** (1 - int(encoding.removeprefix("pcm")))
    return min(1.0, limit / peak)


class _Files:
    """WAV files written side by side; RF64 where a WAV could not hold the length."""

    def __init__(self, folder: Path, names: tuple[str, ...], recording: Recording, subtype: str) -> None:
        self._package = soundfile()
        self._folder, self._names, self._subtype = folder, names, subtype
        self._rate, self._channels = round(recording.rate), recording.channels
        big = recording.length * recording.channels * 4 > 0xFFFF0000
        self._format = "RF64" if big else "WAV"
        self._open: dict[str, Any] = {}

    def __enter__(self) -> _Files:
        for name in self._names:
            path = self._folder / name
            path.parent.mkdir(exist_ok=True)
            self._open[name] = self._package.SoundFile(
                str(path), "w", self._rate, self._channels, self._subtype, format=self._format
            )
        return self

    def write(self, name: str, samples: Vector) -> None:
        self._open[name].write(np.ascontiguousarray(samples))

    def __exit__(self, *_: object) -> None:
        for stream in self._open.values():
            stream.close()
