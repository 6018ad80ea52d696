"""A look at the real data, where it is there: sizes, the SPA start's effect, the score of the recording."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from drnmf.apps.audio.evaluation import recording_onsets
from drnmf.apps.paper import datasets, mary_figure, paper, runner, table_audio
from drnmf.apps.paper.fits import Options
from drnmf.apps.paper.runner import EXPERIMENTS
from drnmf.runs.read import read_table


def test_spectrograms_have_the_papers_sizes(real_data: Path) -> None:
    for item in datasets.present(real_data, "audio"):
        if item.entry.role == "own":
            assert table_audio.spectrogram(item.path).shape == (129, paper.AUDIO[item.entry.paper][0])
    path = real_data / "audio" / "piano_Mary.wav"
    if not path.exists():
        pytest.skip("piano_Mary.wav is not in the data folder")
    X, rate = mary_figure.clean(path)
    assert X.shape == (257, 294)
    onsets = recording_onsets(X, 7, mary_figure.WINDOW / 2 / rate)
    np.testing.assert_allclose(np.diff(onsets), 0.6, atol=0.05)


@pytest.mark.usefixtures("unpainted")
def test_a_small_data_set_comes_near_the_paper(
    real_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("tr23.npz", "tr23.labels.npy")
    if not (real_data / "documents" / names[0]).exists():
        pytest.skip("tr23 is not in the data folder")
    (tmp_path / "data" / "documents").mkdir(parents=True)
    for name in names:
        (tmp_path / "data" / "documents" / name).symlink_to((real_data / "documents" / name).resolve())
    experiment = EXPERIMENTS["table-documents"]
    runner.run([experiment], Options(tmp_path / "data", max_iter=200), tmp_path / "out")
    runner.render([experiment], tmp_path / "out")
    row = read_table(tmp_path / "out" / "table-documents.csv")[0]
    assert row["rank"] == "6"
    assert float(row["dr_kl_excess"]) == pytest.approx(float(row["dr_fro_excess"]), abs=0.5)
    assert float(row["fro_kl_excess"]) == pytest.approx(float(row["paper_fro_kl_excess"]), rel=0.25)
