"""Small and middling tables of many kinds: what defaults are judged on.

Some come with scikit-learn, some are drawn from a seed, and those of DRNMF_DATA join where it is set.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from algorithms import spectrogram
from harness import DATA
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_linnerud, load_wine

Table = tuple[str, Any]

MORE = (
    "la1", "reviews", "PCAWG.96", "liver-326", "Baltimore air", "Baton Rouge air",
    *(f"{name} {kind}" for name in ("piano_Bertin", "sisec_nodrums", "ShanHur_sunrise_excerpt")
      for kind in ("magnitude", "power")),
)  # fmt: skip


def tables(only: Collection[str] | None = None, more: bool = False) -> list[Table]:
    """Return every table by name, or those of some names: no other file is read then.

    more : those too that take long, or have gaps, which not every peer takes
    """
    some = [name for name in _files() if more or name not in MORE] if only is None else only
    return [table for table in (*_bundled(), *_drawn(), *_of_the_data(some)) if only is None or table[0] in only]


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


def _of_the_data(only: Collection[str]) -> Iterator[Table]:
    """Word counts, spectrograms, catalogues, spectra and air of the folder of data sets; what is absent is left out."""
    if DATA is None:
        print("DRNMF_DATA is not set: the tables of the folder of data sets are left out.")
        return
    for name, (read, path) in _files().items():
        if name not in only:
            continue
        if (DATA / path).exists():
            yield name, read(DATA / path)
        else:
            print(f"{name} is left out: there is no {path} in DRNMF_DATA.")


def _files() -> dict[str, tuple[Callable[[Path], Any], str]]:
    """Name of a table -> how it is read, and from where."""
    documents = ("tr11", "tr23", "tr41", "hitech", "classic", "newsgroups3_politics", "la1", "reviews")
    recordings = (
        "piano_Mary", "sisec_wdrums", "isse_bass_drum", "tamy_voice_guitar", "piano_Bertin", "sisec_nodrums",
        "ShanHur_sunrise_excerpt",
    )  # fmt: skip
    catalogues = ("SBS_set1.Realistic", "SBS_set1.Moderate", "indel_set1.Realistic")
    found: dict[str, tuple[Callable[[Path], Any], str]] = {}
    found |= {name: (_counts, f"documents/{name}.npz") for name in documents}
    for name in recordings:
        found[f"{name} magnitude"] = spectrogram, f"audio/{name}.wav"
        found[f"{name} power"] = _power, f"audio/{name}.wav"
    found |= {name: (_catalogue, f"signatures/{name}.catalog.csv") for name in catalogues}
    found |= {name: (_catalogue, f"signatures/{name}.tsv") for name in ("PCAWG.96", "liver-326")}
    found["Baltimore air"] = _air, "air/Baltimore_con.txt"
    found["Baton Rouge air"] = _air, "air/BatonRouge_con.csv"
    found["rank5 Poisson"] = _first_of, "rank5/poisson.npz"
    found["Samson"] = _samson, "hyperspectral/Samson.mat"
    return found


def _counts(path: Path) -> Any:
    return sp.load_npz(path).astype(float)


def _power(path: Path) -> Any:
    return spectrogram(path) ** 2


def _air(path: Path) -> Any:
    """Concentrations, NaN where a day has none."""
    from drnmf.matrices.files import read_matrix

    return np.asarray(read_matrix(path).X, dtype=float)


def _catalogue(path: Path) -> Any:
    """The counts of a catalogue: columns of text stand first, in a .tsv one column of labels or numbers."""
    import pandas as pd

    tabs = path.suffix == ".tsv"
    table = pd.read_csv(path, sep="\t", index_col=0) if tabs else pd.read_csv(path)
    return table.select_dtypes("number").to_numpy(float)


def _first_of(path: Path) -> Any:
    """The first matrix of a stack."""
    with np.load(path) as stored:
        return np.asarray(stored["X"][0], dtype=float)


def _samson(path: Path) -> Any:
    import scipy.io

    stored = scipy.io.loadmat(path)
    return np.clip(np.asarray(stored["Y"], dtype=float), 0.0, None)
