"""The commands of the field pages on real data, next to the number that each page gives: skipped without DRNMF_DATA."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

Run = Callable[..., str]


def data(name: str) -> Path:
    """A file of the data folder; the test is skipped where it is not here."""
    folder = os.environ.get("DRNMF_DATA")
    if folder is None:
        pytest.skip("DRNMF_DATA names no folder of data sets")
    path = Path(folder, name)
    if not path.exists():
        pytest.skip(f"{path} is not here")
    return path


def test_air_meets_the_q_of_the_epa(here: Path, drnmf: Run) -> None:
    X, U = data("air/Baltimore_con.txt"), data("air/Baltimore_unc.txt")
    drnmf(
        "fit", X, "--uncertainty", U, "--betas", 2, "--rank", 6, "--n-init", 5, "--quiet", "--no-report", "--out", "r"
    )
    found = json.loads(Path("r/summary.json").read_text())["quality"]
    assert found["Q"] / found["entries"] < 1.083  # ESAT: 1.082 and 1.128


def test_unmixing_finds_the_spectra(here: Path, drnmf: Run) -> None:
    from scipy.io import loadmat

    path = data("hyperspectral/Samson.mat")
    asked = (
        "--variable",
        "Y",
        "--transpose",
        "--image",
        "95x95",
        "--rank",
        3,
        "--betas",
        2,
        "--penalty",
        "volume:auto",
    )
    drnmf("fit", path, *asked, "--quiet", "--no-report", "--out", "r")
    H, truth = np.load("r/H.npy"), loadmat(path)["GT"]
    truth = truth if len(truth) == 3 else truth.T
    H, truth = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (H, truth))
    angles = np.arccos(np.clip(H @ truth.T, 0.0, 1.0))
    assert len(set(angles.argmin(axis=0))) == 3
    assert angles.min(axis=0).max() < 0.065


def test_cells_end_below_the_published_loss(here: Path, drnmf: Run) -> None:
    drnmf("fit", data("cells/pbmc_facs.npz"), "--rank", 6, "--betas", 1, "--quiet", "--no-report", "--out", "r")
    (loss,) = json.loads(Path("r/summary.json").read_text())["losses"].values()
    assert loss < 5_423_942  # fastTopics


def test_topics_have_the_accuracy_of_the_paper(here: Path, drnmf: Run) -> None:
    import scipy.sparse as sp

    path, labels = data("documents/reviews.npz"), data("documents/reviews.labels.npy")
    Path("words.txt").write_text("\n".join(f"w{j}" for j in range(sp.load_npz(path).shape[1])) + "\n")
    drnmf(
        "topics",
        path,
        "--vocabulary",
        "words.txt",
        "--rank",
        5,
        "--labels",
        labels,
        "--quiet",
        "--no-report",
        "--out",
        "r",
    )
    scores = json.loads(Path("r/summary.json").read_text())["topics"]["scores"]
    for name, paper in (("KL-NMF", 75.65), ("Fro-NMF", 51.19), ("DR-NMF", 74.88)):
        assert 100 * scores[name]["accuracy"] == pytest.approx(paper, abs=1.0)


def test_a_recording_is_as_near_to_both_losses_as_in_the_paper(here: Path, drnmf: Run) -> None:
    pytest.importorskip("soundfile")
    asked = ("--rank", 10, "--window", 256, "--hop", 128, "--quiet", "--no-report", "--out", "r")
    drnmf("separate", data("audio/piano_Mary.wav"), *asked)
    robust = json.loads(Path("r/comparison.json").read_text())["methods"][-1]
    assert max(robust["scaled_losses"]) - 1 < 0.097 + 0.027
