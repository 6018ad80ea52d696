"""A data folder with the layout of the real one, made small enough to run in moments."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.io import wavfile

from drnmf.apps.paper import pareto_figure, weights_figure

RATE = 16000


def write_documents(path: Path, classes: int, seed: int) -> None:
    """Counts in which every class has words of its own."""
    rng = np.random.RandomState(seed)
    labels = np.repeat(np.arange(classes), 8).astype(np.int32)
    topics = 0.05 + 2.0 * np.kron(np.eye(classes), np.ones((1, 6)))
    path.parent.mkdir(parents=True, exist_ok=True)
    sp.save_npz(path, sp.csr_matrix(rng.poisson(topics[labels]).astype(np.int32)))
    np.save(path.with_name(f"{path.stem}.labels.npy"), labels)


def write_tune(path: Path, seconds: float = 0.5) -> None:
    """Two tones after one another, and a little noise so that no entry of the spectrogram is zero."""
    rng, t = np.random.RandomState(0), np.arange(round(seconds * RATE)) / RATE
    tone = np.where(t < seconds / 2, np.sin(2 * np.pi * 330 * t), np.sin(2 * np.pi * 262 * t))
    path.parent.mkdir(parents=True, exist_ok=True)
    wavfile.write(path, RATE, np.int16(8000 * tone + 50 * rng.standard_normal(t.size)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Documents: two of the paper's own, a variant and a substitute. Audio: one of each."""
    data = tmp_path / "data"
    for stem, classes in (("classic", 4), ("tr23", 3), ("tr11_cluto", 3), ("newsgroups3_politics", 3)):
        write_documents(data / "documents" / f"{stem}.npz", classes, seed=classes)
    for stem in ("piano_Mary", "isse_bass_drum", "sisec_nodrums"):
        write_tune(data / "audio" / f"{stem}.wav")
    write_tune(data / "audio" / "holiday.wav")
    return data


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The synthetic experiments at a size for tests."""
    monkeypatch.setattr(weights_figure, "SHAPE", (20, 15))
    monkeypatch.setattr(weights_figure, "RANK", 3)
    monkeypatch.setattr(pareto_figure, "SHAPE", (20, 15))
    monkeypatch.setattr(pareto_figure, "RANK", 3)


@pytest.fixture
def unpainted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are set up but not painted, where a test looks at something else."""
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda self, path, **kwargs: path.touch())


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The real data folder, where there is one."""
    root = Path(__file__).resolve().parents[3]
    for candidate in (os.environ.get("DRNMF_DATA"), root.parent / "shared" / "data"):
        if candidate and Path(candidate).is_dir():
            return Path(candidate)
    pytest.skip("no data folder: set DRNMF_DATA to one that holds documents/ and audio/")
