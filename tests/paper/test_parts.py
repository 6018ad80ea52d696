"""The parts the experiments are made of: the paper's numbers, data folder, spectrogram, clusters, notes, noise."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.io import wavfile

from drnmf.paper import datasets, paper
from drnmf.paper.clustering import accuracy, closest_topic
from drnmf.paper.noise import add_noise
from drnmf.paper.notes import listen, pitches, recording_onsets, spectral_peak
from drnmf.paper.pareto_figure import ray
from drnmf.paper.spectrogram import magnitude_spectrogram, read_wav
from drnmf.paper.weights_figure import settles_below


def test_the_papers_averages_follow_from_its_rows() -> None:
    columns = np.array([measures for _, measures in paper.DOCUMENTS.values()])
    np.testing.assert_allclose(columns.mean(axis=0), paper.DOCUMENTS_AVERAGE, atol=0.006)
    means = np.array([[mean for mean, _ in measures] for _, measures in paper.AUDIO.values()])
    np.testing.assert_allclose(means.mean(axis=0), (148.71, 10.75, 179.05, 10.75), atol=0.01)


def test_every_data_set_of_the_paper_has_a_place_to_come_from() -> None:
    assert set(datasets.WHERE) == set(paper.DOCUMENTS) | set(paper.AUDIO)
    assert {e.paper for e in datasets.DOCUMENTS.values()} == set(paper.DOCUMENTS)
    assert {e.paper for e in datasets.AUDIO.values()} == set(paper.AUDIO)


def test_present_missing_and_unknown(folder: Path) -> None:
    stems = [d.stem for d in datasets.present(folder, "documents")]
    assert stems == ["classic", "tr23", "tr11_cluto", "newsgroups3_politics"]
    assert [d.entry.role for d in datasets.present(folder, "audio")] == ["own", "variant", "substitute"]
    assert len(datasets.missing(folder, "documents")) == 13
    assert "syntBassDrum" in datasets.missing(folder, "audio")  # the other cut is not the data set
    assert datasets.unknown(folder, "audio") == ["holiday.wav"]


@pytest.mark.parametrize("name", ["NG20", "tr45"])
def test_a_data_set_that_a_user_adds_is_picked_up_by_the_papers_name(folder: Path, name: str) -> None:
    for suffix in (".npz", ".labels.npy"):
        (folder / "documents" / f"classic{suffix}").rename(folder / "documents" / f"{name}{suffix}")
    assert [d.stem for d in datasets.present(folder, "documents") if d.stem == name and d.entry.role == "own"] == [name]


def test_bad_data_folders_are_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="DRNMF_DATA"):
        datasets.check_folder(None)
    with pytest.raises(FileNotFoundError, match="is not a folder"):
        datasets.check_folder(folder / "nowhere")
    (folder / "documents" / "classic.labels.npy").unlink()
    with pytest.raises(FileNotFoundError, match=r"classic\.labels\.npy is not"):
        datasets.present(folder, "documents")


def test_labels_must_match_the_documents(folder: Path) -> None:
    np.save(folder / "documents" / "classic.labels.npy", np.zeros(3, dtype=np.int32))
    with pytest.raises(ValueError, match="32 documents but 3 classes"):
        datasets.load_documents(datasets.present(folder, "documents")[0])


@pytest.mark.parametrize(("window", "pad"), [(256, False), (512, True), (16, True)])
def test_spectrogram_is_the_definition(window: int, pad: bool) -> None:
    signal = np.random.RandomState(0).standard_normal(1500)
    X = magnitude_spectrogram(signal, window, pad=pad)
    padded = np.concatenate([np.zeros(window // 2), signal, np.zeros(window // 2)]) if pad else signal
    j, hop = X.shape[1] - 1, window // 2
    frame = padded[j * hop : j * hop + window] * np.hamming(window)
    k = np.arange(window // 2 + 1)[:, None]
    direct = np.abs(np.exp(-2j * np.pi * k * np.arange(window) / window) @ frame)
    np.testing.assert_allclose(X[:, j], direct, atol=1e-9)
    assert X.shape == (window // 2 + 1, 1 + (padded.size - window) // hop)


def test_a_recording_shorter_than_a_window_is_refused() -> None:
    with pytest.raises(ValueError, match="fewer than one window"):
        magnitude_spectrogram(np.ones(100))


@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.uint8, np.float32])
def test_wav_formats_read_alike(tmp_path: Path, dtype: type) -> None:
    wave = 0.5 * np.sin(np.arange(400) / 7)
    if dtype is np.uint8:
        stored = np.round(wave * 128 + 128).astype(dtype)
    elif dtype is np.float32:
        stored = wave.astype(dtype)
    else:
        stored = np.round(wave * (np.iinfo(dtype).max + 1.0)).astype(dtype)
    wavfile.write(tmp_path / "a.wav", 8000, np.stack([stored, stored], axis=1))
    signal, rate = read_wav(tmp_path / "a.wav")
    assert rate == 8000
    np.testing.assert_allclose(signal, wave, atol=0.01)


def test_a_file_that_is_no_wav_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(b"not a recording")
    with pytest.raises(ValueError, match="cannot be read as WAV"):
        read_wav(tmp_path / "a.wav")


def test_accuracy_is_the_maximum_over_permutations() -> None:
    rng = np.random.RandomState(0)
    classes, clusters = rng.randint(4, size=60), rng.randint(4, size=60)
    best = max(np.mean(np.array(p)[clusters] == classes) for p in permutations(range(4)))
    assert accuracy(classes, clusters) == pytest.approx(best)
    assert accuracy(classes + 7, classes) == 1.0


def test_closest_topic_does_not_depend_on_the_topics_scale() -> None:
    rng = np.random.RandomState(0)
    X, H = sp.csr_matrix(rng.poisson(1.0, (20, 9)).astype(float)), rng.uniform(size=(3, 9))
    np.testing.assert_array_equal(closest_topic(X, H), closest_topic(X, H * np.array([[1e-3], [1.0], [1e3]])))
    direct = [max(range(3), key=lambda k: row @ H[k] / np.linalg.norm(H[k])) for row in X.toarray()]
    np.testing.assert_array_equal(closest_topic(X, H), direct)
    assert not (closest_topic(X, np.vstack([H, np.zeros((1, 9))])) == 3).any()


@pytest.mark.parametrize("betas", [(0.0,), (1.0,), (0.0, 2.0)])
def test_noise_has_the_level_asked_for(betas: tuple[float, ...]) -> None:
    X = np.random.RandomState(0).uniform(5, 6, (50, 40))
    noisy = add_noise(X, betas, 0.1, np.random.RandomState(1))
    assert np.linalg.norm(noisy - X) == pytest.approx(0.1 * np.linalg.norm(X))
    assert add_noise(X, betas, 5.0, np.random.RandomState(1)).min() >= 0


def test_settles_below_asks_for_good() -> None:
    assert settles_below(np.array([3.0, 1.0, 2.0, 1.0]), 1.5) == 3
    assert settles_below(np.array([1.0, 1.0]), 1.5) == 0
    assert settles_below(np.array([1.0, 2.0]), 1.5) is None


def test_rays_lead_from_one_end_of_the_front_to_the_other() -> None:
    ends = np.array([[2.0, 6.0], [3.0, 4.0]])  # e = (2, 4); ends at (1, 1.5) and (1.5, 1)
    np.testing.assert_allclose(ray(ends, 0.5), [1.0, 1.0])
    first, last = ray(ends, 0.0), ray(ends, 1.0)
    assert first[0] * 1.5 == pytest.approx(first[1] * 1.0)
    assert last[0] * 1.0 == pytest.approx(last[1] * 1.5)


FRAME, SPACING = 0.016, 31.25
NOTES = {"C4": 261.6, "E4": 329.6}


def _bump(frequency: float) -> np.ndarray:
    return np.exp(-0.5 * ((np.arange(257) * SPACING - frequency) / 30.0) ** 2) + 1e-6


def _decay(times: list[float], seconds: float = 2.4, length: float = 0.3) -> np.ndarray:
    t = np.arange(round(seconds / FRAME)) * FRAME
    return sum((np.where(t >= s, np.exp(-(t - s) / length), 0.0) for s in times), np.zeros_like(t))


def test_peak_between_bins() -> None:
    assert spectral_peak(_bump(329.6), SPACING) == pytest.approx(329.6, rel=1e-3)


def test_listening_to_a_known_tune() -> None:
    score, times = ("E4", "C4", "E4"), np.array([0.0, 0.6, 1.2])
    W = np.stack([_bump(262), _bump(330), _bump(330), _bump(2000)], axis=1)
    H = np.stack([_decay([0.6]), _decay([0.0, 1.2]), 0.05 * _decay([0.3]), _decay(times.tolist(), length=0.02)])
    heard = listen(W, H, SPACING, FRAME, score, times, NOTES)
    assert heard.labels == ("C4", "E4", "other", "hammer")
    assert (heard.found, heard.false) == (3, 0)
    X = W @ H
    np.testing.assert_allclose(recording_onsets(X, 3, FRAME), times, atol=2 * FRAME)
    wrong = listen(W, H[[1, 0, 2, 3]], SPACING, FRAME, score, times, NOTES)
    assert (wrong.found, wrong.false) == (0, 3)


def test_the_louder_of_two_components_has_the_note() -> None:
    W = np.stack([_bump(330), _bump(330)], axis=1)
    assert pitches(W, np.array([[1.0], [2.0]]), SPACING, NOTES) == ["", "E4"]
    assert pitches(W, np.array([[2.0], [1.0]]), SPACING, NOTES) == ["E4", ""]


def test_a_silent_component_is_no_hammer() -> None:
    W = np.stack([_bump(330), np.full(257, 1e-16)], axis=1)
    H = np.stack([_decay([0.0]), np.zeros(150)])
    assert listen(W, H, SPACING, FRAME, ("E4",), np.array([0.0]), NOTES).labels == ("E4", "silent")
