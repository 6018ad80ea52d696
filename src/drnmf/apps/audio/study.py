"""IS-, KL- and DR-NMF on the tune, clean and with noise on its spectrogram: errors, notes, sources, SDR."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from drnmf.apps.audio.grouping import Groups, match_components
from drnmf.apps.audio.metrics import measure
from drnmf.apps.audio.notes import name_components, play_back
from drnmf.apps.audio.separation import masks
from drnmf.apps.audio.synthesis import PITCHES, Tune, add_noise
from drnmf.apps.audio.transform import Complex, Transform
from drnmf.estimators.comparison import Comparison, Method, compare
from drnmf.estimators.robust import DRNMF
from drnmf.numerics import Array, Vector

WINDOW, HOP = 512, 256
RANKS = {"clean": 4, "poisson": 4, "gamma": 5}
"""The paper's choices: three notes and the hammer, and one component to spare under Gamma noise."""


@dataclass(frozen=True)
class Heard:
    """What one method made of the tune. `right` counts the strokes whose note is the one in the score."""

    method: Method
    names: tuple[str, ...]
    melody: tuple[str, ...]
    right: int


@dataclass(frozen=True)
class Study:
    """One noise: X, the transform of the noisy recording, the three fits and what they heard."""

    tune: Tune
    noise: str
    X: Array
    spectra: Complex
    transform: Transform
    comparison: Comparison
    heard: tuple[Heard, ...]

    @property
    def recording(self) -> Vector:
        """The noisy recording: the noisy magnitudes with the phase of the tune."""
        return _resynthesise(self.spectra, self.transform, self.tune.mixture.size)

    def sources(self, method: Method, groups: Groups) -> Vector:
        """Compute the method's sources, (s, length), by Wiener masks on the noisy recording."""
        weights = masks(method.W, method.H)
        parts = [weights[list(members)].sum(axis=0) * self.spectra for members in groups]
        return np.stack([_resynthesise(part, self.transform, self.tune.mixture.size) for part in parts])

    def match(self, method: Method) -> Groups:
        """Assign components to the true sources that their part of the spectrogram resembles most."""
        truth = np.abs(self.transform.stft.stft(self.tune.sources))
        parts = masks(method.W, method.H) * self.X
        like = np.einsum("kfn,sfn->ks", parts, truth)
        size = np.linalg.norm(parts, axis=(1, 2))[:, None] * np.linalg.norm(truth, axis=(1, 2))[None, :]
        return match_components(like / np.maximum(size, np.finfo(np.float64).tiny))

    def sdr(self, method: Method, filter_length: int = 512) -> Vector:
        """Measure the SDR of every true source, in decibels."""
        return measure(self.tune.sources, self.sources(method, self.match(method)), filter_length).sdr


def _resynthesise(spectra: Complex, transform: Transform, length: int) -> Vector:
    return np.concatenate(list(transform.synthesise(iter([spectra]), length)), axis=-1)


def study(tune: Tune, noise: str, *, betas: Any = (0, 1), seed: int = 0, max_iter: int = 200, n_init: int = 3) -> Study:
    """Fit the tune's magnitude spectrogram with `noise` added, under every beta alone and under all of them."""
    transform = Transform(WINDOW, HOP, float(tune.rate))
    clean = transform.stft.stft(tune.mixture)
    X = add_noise(np.abs(clean), noise, seed)
    model = DRNMF(
        RANKS[noise], betas=betas, max_iter=max_iter, tol=0.0, zeros="floor", random_state=seed, n_init=n_init
    )
    found = compare(model, X)
    heard = tuple(_listen(method, transform, tune) for method in found.methods)
    return Study(tune, noise, X, X * np.exp(1j * np.angle(clean)), transform, found, heard)


def _listen(method: Method, transform: Transform, tune: Tune) -> Heard:
    names = name_components(method.W, transform.frequencies, PITCHES)
    melody = play_back(method.W, method.H, names, tune.onsets, transform.times(tune.mixture.size))
    right = sum(a == b for a, b in zip(melody, tune.melody, strict=True))
    return Heard(method, names, melody, right)
