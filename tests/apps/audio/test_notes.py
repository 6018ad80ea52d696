"""The notes that components play, and when."""

from __future__ import annotations

import numpy as np
import pytest

from drnmf.apps.audio.evaluation import listen, pitches, recording_onsets, spectral_peak

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
