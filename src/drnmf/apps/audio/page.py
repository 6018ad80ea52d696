"""The pages of `drnmf separate` and `drnmf demo`: players, frequencies and seconds, the demo's table."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from html import escape
from pathlib import Path
from urllib.parse import quote

import numpy as np

from drnmf.apps.audio.recording import soundfile
from drnmf.apps.audio.transform import spectrogram
from drnmf.losses.names import as_loss
from drnmf.numerics import Vector
from drnmf.report.charts import CELLS, Chart, chart, grouped_bars, heat, numbers, pool
from drnmf.report.parts import NOTHING, Kind, Section, Side, place, section, sides_of_matrix, table
from drnmf.report.words import duration, join, percent
from drnmf.runs import schema
from drnmf.runs.read import Run

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


def frame_times(run: Run) -> Vector:
    """Compute the seconds of every column of H in an audio run."""
    audio = run.summary["audio"]
    frames = run.H.shape[1] if run.H is not None else 0
    hop = float(audio["hop"]) / float(audio["rate"])
    first = float(audio.get("first_frame_seconds", 0.0))
    return np.asarray(first + hop * np.arange(frames), dtype=np.float64)


def sounds(run: Run) -> Section:
    audio = run.summary.get("audio")
    if not isinstance(audio, dict) or run.W is None or run.H is None:
        return NOTHING
    files = [audio["mixture"], *(g["file"] for g in audio.get("groups", [])), *(c["file"] for c in audio["components"])]
    files = [name for name in files if (run.folder / name).is_file()]
    if not files:
        return NOTHING
    how = plan(run.folder, files)
    cards = []
    if audio["mixture"] in files:
        cards.append(_card(run, audio["mixture"], "Mixture", how, None))
    for s, group in enumerate(audio.get("groups", []), start=1):
        if group["file"] in files:
            members = [int(k) for k in group["members"]]
            listing = f"component{'s' if len(members) > 1 else ''} {', '.join(map(str, members))}"
            title = f"{group.get('name') or f'Source {s}'} ({listing})"
            cards.append(_card(run, group["file"], title, how, [k - 1 for k in members]))
    for k, component in enumerate(audio["components"], start=1):
        if component["file"] in files:
            title = f"Component {k}" + (f": {component['name']}" if component.get("name") else "")
            cards.append(_card(run, component["file"], title, how, [k - 1]))
    note = "Every source is the mixture through a mask, so the components add up to the mixture."
    if not how.whole:
        note += f" The players hold the first {duration(how.seconds)}; the files beside this page are whole."
    quieter = -20 * np.log10(how.gain)
    if quieter >= 0.05:  # less is not heard, and would read as 0.0
        note += f" The players are turned down by {quieter:.1f} dB, all alike, so that none clips."
    body = f'<div class="cards">{"".join(cards)}</div>'
    if audio.get("measures"):
        body += _measures(audio["measures"])
    if audio["mixture"] not in files:
        return section("Listen", note, body), {}
    picture = place("spectrogram", "Spectrogram of the mixture, in dB below its largest entry")
    return section("Listen", note, body + picture), {"spectrogram": spectrogram_image(run)}


def spectrogram_image(run: Run) -> Chart:
    """Draw the recording over seconds and kilohertz, in the window of the run."""
    audio = run.summary["audio"]
    seen = spectrogram(run.folder / audio["mixture"], window=audio["window"], hop=audio["hop"])
    small, high, wide = pool(seen.X, 2 * CELLS)
    z = 20.0 * np.log10(np.maximum(small / max(float(small.max()), np.finfo(np.float64).tiny), 1e-4))
    image = heat(z, -80, 0) | {
        "x": numbers(seen.times[::wide], 5),
        "y": numbers(seen.frequencies[::high] / 1000.0, 5),
        "hovertemplate": "%{x} s, %{y} kHz: %{z} dB<extra></extra>",
        "colorbar": {"thickness": 9, "len": 0.9, "outlinewidth": 0, "ticksuffix": " dB"},
    }
    drawn = chart([image], "seconds", "kHz", (330, 290))
    for axis in ("xaxis", "yaxis"):
        drawn["layout"][axis] |= {"showgrid": False}
    return drawn


def _card(run: Run, name: str, title: str, how: Embedding, members: list[int] | None) -> str:
    assert run.W is not None
    assert run.H is not None
    audio = run.summary["audio"]
    total = float(audio["seconds"])
    H = np.asarray(run.H, dtype=np.float64)
    W = np.asarray(run.W, dtype=np.float64)
    chosen = list(range(H.shape[0])) if members is None else members
    spectrum = (W[:, chosen] * H[chosen].sum(axis=1)).sum(axis=1)
    activation = (W[:, chosen].sum(axis=0)[:, None] * H[chosen]).sum(axis=0)
    times, end = frame_times(run), min(how.seconds, total)
    shown = activation[(times >= 0) & (times <= end)]
    pictures = spark(shown / max(shown.max(), 1e-300), "seek", "0 s", f"{end:.3g} s", "activation")
    limit = f"{audio['rate'] / 2000:g} kHz"
    pictures += spark(decibels(spectrum), "spectrum", "0 Hz", limit, "spectrum, 60 dB")
    head = f'<div class="bar"><h3>{escape(title)}</h3>{link(name)}</div>'
    return f'<div class="card">{head}{player(run.folder / name, how, title)}{pictures}</div>'


def _measures(rows: list[schema.Measured]) -> str:
    cells = []
    for row in rows:
        measures = (_decibel(value) for value in (row["sdr"], row["sir"], row["sar"]))
        cells.append([str(row["reference"]), ", ".join(map(str, row["components"])), *measures])
    head = ("reference", "components", "SDR (dB)", "SIR (dB)", "SAR (dB)")
    return f"<h3>Against the references</h3>{table(head, cells, (2, 3, 4))}"


def _decibel(value: float | None) -> str:
    return "infinite" if value is None or not np.isfinite(float(value)) else f"{float(value):.2f}"


def demo(run: Run) -> Section:
    summary = run.summary.get("demo")
    if not isinstance(summary, dict):
        return NOTHING
    losses = [as_loss(beta).name for beta in summary["betas"]]
    rows = []
    for row in summary["rows"]:
        above, heard = (percent(float(s) - 1.0) for s in row["scaled_losses"]), f"{row['right']}/{row['strokes']}"
        rows.append([row["noise"].capitalize(), row["method"], *above, row["notes"], row["melody"], heard])
    head = ["recording", "method", *losses, "components", "melody heard", "right"]
    numeric = (*range(2, 2 + len(losses)), len(head) - 1)
    note = (
        f"The tune is {summary['score']}. Noise was added to its spectrogram; the table shows how far each method is "
        "above the best error of each loss, what its components are, and which note it hears at each stroke."
    )
    body = place("noises") + table(head, rows, numeric)
    return section("Three noises", note, body), {"noises": noise_bars(summary["rows"])}


def noise_bars(rows: list[schema.DemoRow]) -> Chart:
    """Draw the largest excess of each method in each noise of the demo."""
    noises = list(dict.fromkeys(str(row["noise"]) for row in rows))
    methods = list(dict.fromkeys(str(row["method"]) for row in rows))
    worst = {(row["noise"], row["method"]): max(map(float, row["scaled_losses"])) for row in rows}
    excess = np.array([[100.0 * (worst[noise, method] - 1.0) for noise in noises] for method in methods])
    groups = ["no<br>noise" if noise == "clean" else f"{noise.capitalize()}<br>noise" for noise in noises]
    return grouped_bars(groups, methods, excess)


def demo_headline(run: Run) -> tuple[str, str]:
    """Say how far every method is from the best over all noises of the demo, and what it heard."""
    demo = run.summary.get("demo")
    if demo is None:
        return "", ""
    worst: dict[str, float] = {}
    right: dict[str, int] = {}
    for row in demo["rows"]:
        name = str(row["method"])
        worst[name] = max(worst.get(name, 0.0), max(map(float, row["scaled_losses"])) - 1.0)
        right[name] = right.get(name, 0) + int(row["right"])
    strokes = sum(int(row["strokes"]) for row in demo["rows"] if row["method"] == "DR-NMF")
    first = f"In every noise, DR-NMF stays within {percent(worst['DR-NMF'])} of the best error found for each loss."
    others = [f"{name} alone is up to {percent(worst[name])} off" for name in worst if name != "DR-NMF"]
    heard = ", ".join(f"{name} {count}" for name, count in right.items())
    return first, f"{join(others)}. Notes heard right, of {strokes}: {heard}."


def sides(run: Run) -> tuple[Side, Side]:
    """Draw spectra over frequencies and activations over seconds."""
    audio = run.summary.get("audio")
    if audio is None or run.W is None:
        return sides_of_matrix(run)
    spectra = np.arange(run.W.shape[0], dtype=np.float64) * (float(audio["rate"]) / float(audio["window"]))
    return (
        Side("Spectra (columns of W)", spectra, "Hz", decibels=True),
        Side("Activations (rows of H)", frame_times(run), "seconds"),
    )


SEPARATION = Kind("Separation", (sounds,), sides)
DEMO = Kind("Demo", (demo, sounds), sides, demo_headline)
