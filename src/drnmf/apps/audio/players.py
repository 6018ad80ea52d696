"""Players and small pictures for audio runs: everything is inside the page."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from html import escape
from pathlib import Path
from urllib.parse import quote

import numpy as np

from drnmf.apps.audio.recording import soundfile
from drnmf.numerics import Vector

WAV_BYTES = 5_000_000
"""Up to this much sound goes into the page as 16-bit WAV, exact to the sample; more is compressed."""
PAGE_BYTES = 24_000_000
"""About the most sound a page carries; of longer recordings the beginning is taken, and the page says so."""
MP3_RATES = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)
_MP3_BYTES_PER_SECOND = 16_000


@dataclass(frozen=True)
class Embedding:
    """How a run's sounds go into its page: format, seconds of each, and one gain that keeps all from clipping."""

    mp3: bool
    seconds: float
    whole: bool
    gain: float


def plan(folder: Path, files: list[str]) -> Embedding:
    """Choose the embedding from the lengths and peaks of the files, all alike."""
    package = soundfile()
    infos = [package.info(str(folder / name)) for name in files]
    rate, length = infos[0].samplerate, max(info.frames for info in infos)
    seconds = length / rate
    wav_rate = sum(2 * min(info.channels, 2) * info.samplerate for info in infos)
    mp3 = wav_rate * seconds > WAV_BYTES and rate in MP3_RATES
    per_second = len(files) * _MP3_BYTES_PER_SECOND if mp3 else wav_rate
    kept = min(seconds, PAGE_BYTES / per_second)
    peak = max(_peak(folder / name, kept) for name in files)
    return Embedding(mp3, kept, kept >= seconds, min(1.0, 0.999 / peak) if peak > 0 else 1.0)


def _peak(path: Path, seconds: float) -> float:
    with soundfile().SoundFile(str(path)) as stream:
        peak, left = 0.0, int(seconds * stream.samplerate)
        while left > 0 and len(block := stream.read(min(1 << 18, left))):
            peak = max(peak, float(np.abs(block).max()))
            left -= len(block)
    return peak


def player(path: Path, how: Embedding, title: str) -> str:
    """Make an <audio> element with the sound in it."""
    package = soundfile()
    with package.SoundFile(str(path)) as stream:
        samples = stream.read(round(how.seconds * stream.samplerate), always_2d=True)[:, :2] * how.gain
        rate = stream.samplerate
    memory = io.BytesIO()
    if how.mp3:
        package.write(memory, samples, rate, format="MP3", subtype="MPEG_LAYER_III")
    else:
        package.write(memory, samples, rate, format="WAV", subtype="PCM_16")
    kind = "audio/mpeg" if how.mp3 else "audio/wav"
    content = base64.b64encode(memory.getvalue()).decode("ascii")
    exact = f"{len(samples) / rate:.6f}"
    return (
        f'<audio controls preload="metadata" aria-label="{escape(title)}" data-seconds="{exact}" '
        f'src="data:{kind};base64,{content}"></audio>'
    )


def link(name: str) -> str:
    """Make a link to a file of the run folder, for readers who have the folder beside the page."""
    return f'<small><a href="{escape(quote(name))}">WAV</a></small>'


def spark(values: Vector, kind: str, left: str, right: str, caption: str) -> str:
    """Draw a small filled curve in SVG. values : (n,) in [0, 1]; kind : "spectrum", or "seek" for activations."""
    values = np.clip(np.asarray(values, dtype=np.float64), 0.0, 1.0)
    if len(values) > 400:
        edges = np.linspace(0, len(values), 401).astype(int)[:-1]
        values = np.maximum.reduceat(values, edges)
    xs = np.linspace(0.0, 100.0, len(values)) if len(values) > 1 else np.array([0.0])
    points = " ".join(f"{x:.2f},{100 - 96 * v:.1f}" for x, v in zip(xs, values, strict=True))
    mark = "<i></i>" if kind == "seek" else ""
    return (
        f'<figure><div class="spark {kind}"><svg viewBox="0 0 100 100" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(caption)}"><path class="area" d="M0,100 L{points} L100,100 Z"/>'
        f'<path class="edge" d="M{points}"/></svg>{mark}</div>'
        f"<figcaption><span>{escape(left)}</span><span>{escape(caption)}</span><span>{escape(right)}</span>"
        "</figcaption></figure>"
    )


def decibels(spectrum: Vector, span: float = 60.0) -> Vector:
    """Scale a spectrum to [0, 1]: 1 at its peak, 0 at `span` dB below."""
    s = np.asarray(spectrum, dtype=np.float64)
    return np.clip(1.0 + 20.0 * np.log10(np.maximum(s / max(s.max(), 1e-300), 1e-12)) / span, 0.0, 1.0)
