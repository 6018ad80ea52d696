"""Sources and components held against what is known of a recording: its sources, or the notes of its score.

SDR, SIR and SAR are those of BSS Eval (fast_bss_eval), in bounded memory as far as these measures allow.

Notes have two measures. `name_components` and `play_back` ask which note is heard at each onset of a tune whose onsets
are known; `listen` finds onsets in the activations as well, and holds them against a score. The tolerances are part of
the second measure, so they stand here with their reasons.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.signal import find_peaks

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


CLICK = "click"

PITCH_TOLERANCE = 2.0 ** (1 / 24) - 1
"""Half a semitone (2.9%): neighbours on the keyboard do not overlap."""

TIME_TOLERANCE = 0.1
"""Seconds between an onset found and the recording's own; the notes are 0.6 s apart."""

APART = 0.3
"""Two onsets of one component are at least this many seconds apart: half the distance of two notes."""

SUSTAIN = 0.2
"""A note's onset lifts the mean of the following 0.2 s; a hammer's click of two or three frames hardly does."""

RISE = 0.25
"""A rise counts from a quarter of the component's largest."""

HAMMER_SHARE = 0.7
"""A component without a note is the hammer when it clicks at this fraction of all notes, and seldom elsewhere."""

SILENT = 0.01
"""A component with less than this fraction of the loudest one's contribution ||w_k|| ||h_k|| is silent."""


def template(pitch: float, frequencies: Vector, harmonics: int = 6) -> Vector:
    """Build a comb of harmonics at `pitch` on the bins of a spectrum, of unit norm."""
    width = 1.5 * (frequencies[1] - frequencies[0])
    comb = np.zeros_like(frequencies)
    for k in range(1, harmonics + 1):
        comb += np.exp(-0.5 * ((frequencies - k * pitch) / (0.5 * width)) ** 2) / k
    return comb / np.linalg.norm(comb)


def name_components(W: Array, frequencies: Vector, pitches: dict[str, float]) -> tuple[str, ...]:
    """Name every column of W by a note, or "click": the comb that fits best, unless none fits well."""
    combs = np.stack([template(pitch, frequencies) for pitch in pitches.values()])
    spectra = np.asarray(W, dtype=np.float64)
    spectra = spectra / np.maximum(np.linalg.norm(spectra, axis=0), np.finfo(np.float64).tiny)
    scores = combs @ spectra
    names = list(pitches)
    return tuple(
        names[int(scores[:, k].argmax())] if scores[:, k].max() > 0.5 else CLICK for k in range(spectra.shape[1])
    )


def play_back(W: Array, H: Array, names: tuple[str, ...], onsets: Vector, times: Vector) -> tuple[str, ...]:
    """Find the melody: at each onset, the note whose components' energy rises most."""
    size = np.linalg.norm(np.asarray(W, dtype=np.float64), axis=0)[:, None] * np.asarray(H, dtype=np.float64)
    notes = sorted(set(names) - {CLICK})
    heard = []
    for onset in onsets:
        before = size[:, (times > onset - 0.12) & (times < onset - 0.04)].mean(axis=1)
        after = size[:, (times > onset + 0.06) & (times < onset + 0.25)].mean(axis=1)
        rise = {note: sum((after - before)[k] for k in range(len(names)) if names[k] == note) for note in notes}
        heard.append(max(rise, key=lambda note: rise[note]) if rise else "-")
    return tuple(heard)


@dataclass(frozen=True)
class Hearing:
    """What was heard in one factorization.

    labels : a note, "hammer", "other" or "silent" for every component
    onsets : note -> seconds
    found, false : onsets that the score has and was given; onsets that it does not have
    """

    labels: tuple[str, ...]
    onsets: dict[str, list[float]]
    found: int
    false: int


def spectral_peak(spectrum: Array, spacing: float) -> float:
    """Frequency of the largest bin, refined by a parabola through the logarithms of it and its neighbours."""
    k = int(np.argmax(spectrum[1:-1])) + 1
    a, b, c = np.log(np.maximum(np.asarray(spectrum[k - 1 : k + 2], dtype=np.float64), np.finfo(np.float64).tiny))
    bend = a - 2.0 * b + c
    return float((k + (0.5 * (a - c) / bend if bend < 0 else 0.0)) * spacing)


def recording_onsets(X: Array, count: int, frame: float) -> Vector:
    """Seconds of the `count` strongest rises of the spectrogram as a whole, at least APART from one another."""
    flux = np.maximum(np.diff(X, axis=1, prepend=0.0), 0.0).sum(axis=0)
    peaks, _ = find_peaks(np.concatenate([[0.0], flux, [0.0]]), distance=max(1, round(APART / frame)))
    peaks = peaks - 1
    return np.sort(peaks[np.argsort(-flux[peaks])][:count]) * frame


def _rises(activation: Vector, frame: float, sustain: float) -> Vector:
    """Seconds at which the mean of the next `sustain` seconds rises above that of the three frames before."""
    width = max(1, round(sustain / frame))
    padded = np.concatenate([np.zeros(3), activation, np.zeros(width)])
    total = np.concatenate([[0.0], np.cumsum(padded)])
    t = np.arange(activation.size) + 3
    strength = (total[t + width] - total[t]) / width - (total[t] - total[t - 3]) / 3.0
    least, apart = RISE * strength.max(initial=0.0) + np.finfo(np.float64).tiny, max(1, round(APART / frame))
    peaks, _ = find_peaks(np.concatenate([[0.0], strength, [0.0]]), height=least, distance=apart)
    return (peaks - 1) * frame


def pitches(W: Array, H: Array, spacing: float, notes: Mapping[str, float]) -> list[str]:
    """The note of every component by the peak of its spectrum; of several at one note the loudest has it."""
    loudness = np.linalg.norm(W, axis=0) * np.linalg.norm(H, axis=1)
    labels = ["silent" if loud < SILENT * loudness.max() else "" for loud in loudness]
    for k in np.argsort(-loudness):
        if labels[k]:
            continue
        peak = spectral_peak(W[:, k], spacing)
        for note, frequency in notes.items():
            if note not in labels and abs(peak / frequency - 1.0) <= PITCH_TOLERANCE:
                labels[k] = note
    return labels


def _matched(heard: Vector, wanted: Sequence[float]) -> tuple[int, int]:
    """(how many of the wanted times have a found one near, how many found ones have none)."""
    near = np.abs(np.asarray(heard)[:, None] - np.asarray(wanted)[None, :]) <= TIME_TOLERANCE
    return int(near.any(axis=0).sum()), int((~near.any(axis=1)).sum())


def listen(
    W: Array, H: Array, spacing: float, frame: float, score: Sequence[str], times: Vector, notes: Mapping[str, float]
) -> Hearing:
    """Label the components of (W, H) and hold their onsets against the score.

    spacing, frame : Hz per row of W, seconds per column of H
    score, times : note and second of every onset of the recording
    """
    labels, onsets, found, false = pitches(W, H, spacing, notes), dict[str, list[float]](), 0, 0
    for k, label in enumerate(labels):
        activation = np.asarray(H[k], dtype=np.float64)
        if label in notes:
            heard = _rises(activation, frame, SUSTAIN)
            onsets[label] = [round(float(t), 3) for t in heard]
            hits, wrong = _matched(heard, [t for note, t in zip(score, times, strict=True) if note == label])
            found, false = found + hits, false + wrong
        elif not label:
            hits, wrong = _matched(_rises(activation, frame, 2 * frame), times.tolist())
            labels[k] = "hammer" if hits >= HAMMER_SHARE * len(times) and wrong <= hits / 2 else "other"
    return Hearing(tuple(labels), onsets, found, false)
