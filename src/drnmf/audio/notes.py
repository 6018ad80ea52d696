"""Notes in a factorization: the pitch of each spectrum, and the melody that the activations play."""

from __future__ import annotations

import numpy as np

from drnmf.numerics import Array, Vector

CLICK = "click"


def template(pitch: float, frequencies: Vector, harmonics: int = 6) -> Vector:
    """Build a comb of harmonics at `pitch` on the bins of a spectrum, of unit norm."""
    width = 1.5 * (frequencies[1] - frequencies[0])
    comb = np.zeros_like(frequencies)
    for k in range(1, harmonics + 1):
        comb += np.exp(-0.5 * ((frequencies - k * pitch) / (0.5 * width)) ** 2) / k
    return comb / np.linalg.norm(comb)


def flatness(spectrum: Array) -> float:
    """Compute the geometric over the arithmetic mean: near 1 for noise and clicks, near 0 for tones."""
    s = np.maximum(np.asarray(spectrum, dtype=np.float64), np.finfo(np.float64).tiny)
    return float(np.exp(np.log(s / s.mean()).mean()))


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
