"""Small and middling tables of many kinds: what defaults are judged on.

Some come with scikit-learn, some are drawn from a seed, and those of DRNMF_DATA join where it is set.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from algorithms import spectrogram
from harness import DATA
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_linnerud, load_wine

Table = tuple[str, Any]


def tables() -> list[Table]:
    """Every table, by name."""
    return [*_bundled(), *_drawn(), *_of_the_data()]


def _bundled() -> Iterator[Table]:
    """Tables of scikit-learn, as they are: columns differ by factors of a thousand."""
    yield "wine", load_wine().data
    yield "breast cancer", load_breast_cancer().data
    yield "iris", load_iris().data
    yield "linnerud", load_linnerud().data
    yield "digits", load_digits().data
    yield "diabetes", load_diabetes(scaled=False).data
    yield "breast cancer, unit columns", load_breast_cancer().data / load_breast_cancer().data.mean(axis=0)


def _drawn() -> Iterator[Table]:
    """Tables with a planted rank under four noises, faces-like images, and noise alone."""
    rng = np.random.default_rng(0)
    mean = rng.gamma(0.5, size=(300, 12)) @ rng.gamma(0.5, size=(12, 200))
    yield "planted Gaussian", np.clip(mean + 0.2 * mean.mean() * rng.normal(size=mean.shape), 0.0, None)
    yield "planted Poisson", rng.poisson(5.0 * mean).astype(float)
    yield "planted Gamma", mean * rng.gamma(25.0, 1 / 25.0, size=mean.shape)
    yield "planted Bernoulli", (rng.uniform(size=mean.shape) < 1.0 - np.exp(-mean)).astype(float)
    grid = np.linspace(-1.0, 1.0, 32)
    centres, widths = rng.uniform(-1, 1, (40, 2)), rng.uniform(0.05, 0.4, 40)
    bumps = np.exp(-((grid[:, None, None] - centres[:, 0]) ** 2 + (grid[None, :, None] - centres[:, 1]) ** 2) / widths)
    yield "faces-like", rng.gamma(0.3, size=(400, 40)) @ bumps.reshape(-1, 40).T
    yield "uniform", rng.uniform(size=(200, 300))
    yield "ratings-like", sp.random_array((600, 400), density=0.05, rng=rng, format="csr")


def _of_the_data() -> Iterator[Table]:
    """Word counts, spectrograms, catalogues, spectra and air of the folder of data sets."""
    if DATA is None:
        print("DRNMF_DATA is not set: the tables of the folder of data sets are left out.")
        return
    for name in ("tr11", "tr23", "tr41", "hitech", "classic", "newsgroups3_politics"):
        yield name, sp.load_npz(DATA / "documents" / f"{name}.npz").astype(float)
    for name in ("piano_Mary", "sisec_wdrums", "isse_bass_drum", "tamy_voice_guitar"):
        magnitudes = spectrogram(DATA / "audio" / f"{name}.wav")
        yield f"{name} magnitude", magnitudes
        yield f"{name} power", magnitudes**2
    for name in ("SBS_set1.Realistic", "SBS_set1.Moderate", "indel_set1.Realistic"):
        yield name, _catalogue(DATA / "signatures" / f"{name}.catalog.csv")
    yield "rank5 Poisson", _first_of(DATA / "rank5" / "poisson.npz")
    yield "Samson", _samson(DATA / "hyperspectral" / "Samson.mat")


def _catalogue(path: Any) -> Any:
    """The counts of a catalogue: columns of text stand first."""
    import pandas as pd

    return pd.read_csv(path).select_dtypes("number").to_numpy(float)


def _first_of(path: Any) -> Any:
    """The first matrix of a stack."""
    with np.load(path) as stored:
        return np.asarray(stored["X"][0], dtype=float)


def _samson(path: Any) -> Any:
    import scipy.io

    stored = scipy.io.loadmat(path)
    return np.clip(np.asarray(stored["Y"], dtype=float), 0.0, None)
