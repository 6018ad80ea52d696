"""A tune whose sources are known, E D C D E E E from decaying harmonics with clicks, and what IS-, KL- and DR-NMF make
of it, clean and with noise on its spectrogram: errors, notes, sources, SDR.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drnmf.apps.audio.evaluation import measure, name_components, play_back
from drnmf.apps.audio.separation import Groups, masks, match_components
from drnmf.apps.audio.transform import Complex, Transform
from drnmf.estimators.comparison import Comparison, Method, compare
from drnmf.estimators.models import DRNMF
from drnmf.numerics import Array, Vector
from drnmf.synthetic import NOISES, with_noise

RATE = 16000
PITCHES = {"C": 261.626, "D": 293.665, "E": 329.628}
"""Hertz of the notes of the fourth octave that the tune uses."""
MELODY = ("E", "D", "C", "D", "E", "E", "E")
NOTE_SECONDS = 0.6
HISS = -70.0
"""Decibels (of full scale) of white noise under everything: no recording is digitally silent between its notes."""
NOISE_LEVELS = {"clean": 0.0, "poisson": 0.6, "gamma": 0.4}
"""||N|| / ||X|| of the noise added to a spectrogram, as in section 5.3 of the paper."""
NOISE_BETAS = {"poisson": 1.0, "gamma": 0.0}
"""The losses that these noises belong to."""


@dataclass(frozen=True)
class Tune:
    """A recording with its truth: `sources` (s, length) in the order of `names`, and the hiss of the room."""

    names: tuple[str, ...]
    sources: Vector
    onsets: Vector
    melody: tuple[str, ...]
    hiss: Vector
    rate: int = RATE

    @property
    def mixture(self) -> Vector:
        return self.sources.sum(axis=0) + self.hiss


def synthesise_tune(seed: int = 0, melody: tuple[str, ...] = MELODY, rate: int = RATE) -> Tune:
    """Synthesise the tune, about five seconds; the seed moves loudness, timbre, timing and the click a little.

    A note is twelve harmonics that start together and die away, the higher ones sooner, on strings that are a little
    stiff; the click is a burst of noise of some milliseconds, the same for every note, as a hammer's would be.

    >>> tune = synthesise_tune()
    >>> tune.names, tune.sources.shape
    (('C', 'D', 'E', 'click'), (4, 76800))
    """
    rng = np.random.default_rng(seed)
    names = (*sorted(set(melody)), "click")
    length = round(rate * (NOTE_SECONDS * len(melody) + 0.6))
    sources = np.zeros((len(names), length))
    timbres = {name: rng.uniform(0.6, 1.0, 12) for name in names[:-1]}
    phases = {name: rng.uniform(0, 2 * np.pi, 12) for name in names[:-1]}
    hit = rng.normal(size=round(0.03 * rate)) * np.exp(-np.arange(round(0.03 * rate)) / (0.006 * rate))
    onsets = np.array([0.05 + NOTE_SECONDS * i + rng.uniform(-0.01, 0.01) for i in range(len(melody))])
    for name, onset in zip(melody, onsets, strict=True):
        start = round(onset * rate)
        time = np.arange(min(round(1.2 * rate), length - start)) / rate
        loudness = rng.uniform(0.8, 1.0)
        note = loudness * _note(PITCHES[name], time, timbres[name], phases[name], rate)
        sources[names.index(name), start : start + len(time)] += note
        sources[-1, start : start + len(hit)] += 0.5 * loudness * hit
    sources *= 0.5 / np.abs(sources.sum(axis=0)).max()
    return Tune(names, sources, onsets, tuple(melody), 10 ** (HISS / 20) * rng.normal(size=length), rate)


def _note(pitch: float, time: Vector, timbre: Vector, phases: Vector, rate: int) -> Vector:
    """Compute sum_k a_k exp(-t / tau_k) sin(2 pi f_k t + phi_k), faded in over 5 ms and damped at the end."""
    sound = np.zeros_like(time)
    for k in range(1, 13):
        frequency = k * pitch * np.sqrt(1.0 + 2e-4 * k**2)
        if frequency < 0.45 * rate:
            decay = 0.45 / np.sqrt(k)
            sound += (
                timbre[k - 1] / k**1.3 * np.exp(-time / decay) * np.sin(2 * np.pi * frequency * time + phases[k - 1])
            )
    release = np.clip((time[-1] - time) / 0.05, 0.0, 1.0)
    return sound * np.minimum(time / 0.005, 1.0) * release


def add_noise(X: Array, kind: str, seed: int = 0) -> Array:
    """Add the noise of section 5.3 to X: N scaled to 0.6 ||X|| (Poisson) or 0.4 ||X|| ("Gamma").

    poisson : entries of the Poisson distribution of parameter 1
    gamma : X times entries of the normal distribution, as the paper has it; what falls below zero becomes zero

    >>> X = np.ones((3, 4))
    >>> bool(np.isclose(np.linalg.norm(add_noise(X, "poisson") - X), 0.6 * np.linalg.norm(X)))
    True
    """
    if kind not in NOISE_LEVELS:
        raise ValueError(f"noise {kind!r} is not known: use one of {list(NOISE_LEVELS)}.")
    if kind == "clean":
        return X
    noise = NOISES[NOISE_BETAS[kind]](X, np.random.default_rng(seed))
    return with_noise(X, noise, NOISE_LEVELS[kind]).astype(X.dtype)


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


def study(
    tune: Tune, noise: str, *, betas: tuple[float, ...] = (0, 1), seed: int = 0, max_iter: int = 200, n_init: int = 3
) -> Study:
    """Fit the tune's magnitude spectrogram with `noise` added, under every beta alone and under all of them."""
    transform = Transform(WINDOW, HOP, float(tune.rate))
    clean = transform.stft.stft(tune.mixture)
    X = add_noise(np.abs(clean), noise, seed)
    model = DRNMF(
        RANKS[noise], betas=betas, max_iter=max_iter, tol=0.0, zeros="floor", random_state=seed, n_init=n_init
    )
    comparison = compare(model, X)
    heard = tuple(_listen(method, transform, tune) for method in comparison.methods)
    return Study(tune, noise, X, X * np.exp(1j * np.angle(clean)), transform, comparison, heard)


def _listen(method: Method, transform: Transform, tune: Tune) -> Heard:
    names = name_components(method.W, transform.frequencies, PITCHES)
    melody = play_back(method.W, method.H, names, tune.onsets, transform.times(tune.mixture.size))
    right = sum(a == b for a, b in zip(melody, tune.melody, strict=True))
    return Heard(method, names, melody, right)
