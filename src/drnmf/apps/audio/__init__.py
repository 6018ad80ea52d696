"""Recordings in, sources out: spectrograms, separation by Wiener masks, grouping and measures.

>>> import numpy as np
>>> from drnmf.apps.audio import separate
>>> time = np.arange(8000) / 8000
>>> mixture = np.sin(2 * np.pi * 440 * time) * (time < 0.5) + np.sin(2 * np.pi * 880 * time) * (time >= 0.5)
>>> result = separate(mixture, 2, rate=8000, window=256, hop=64)
>>> bool(np.allclose(result.sources.sum(axis=0), mixture))
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from drnmf.loading import lazily

if TYPE_CHECKING:
    from drnmf.apps.audio.recording import open_recording
    from drnmf.apps.audio.separation import separate
    from drnmf.apps.audio.transform import spectrogram

__all__ = ["open_recording", "separate", "spectrogram"]

__getattr__ = lazily(
    __name__, {"recording": ("open_recording",), "separation": ("separate",), "transform": ("spectrogram",)}
)
