"""The pages of `drnmf separate` and `drnmf demo`: players, frequencies and seconds, the demo's table."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from drnmf.apps.audio import players
from drnmf.apps.audio.transform import spectrogram
from drnmf.losses.names import as_loss
from drnmf.numerics import Vector
from drnmf.report.charts import CELLS, HEAT, Chart, grouped_bars, numbers, pool
from drnmf.report.kinds import Kind, Side, sides_of_matrix
from drnmf.report.parts import NOTHING, Section, place, section, table
from drnmf.report.words import duration, join, percent
from drnmf.runs import schema
from drnmf.runs.read import Run


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
    how = players.plan(run.folder, files)
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
    heat = {
        "type": "heatmap", "x": numbers(seen.times[::wide], 5), "y": numbers(seen.frequencies[::high] / 1000.0, 5),
        "z": [numbers(row, 3) for row in z], "colorscale": HEAT, "zmin": -80, "zmax": 0,
        "hovertemplate": "%{x} s, %{y} kHz: %{z} dB<extra></extra>",
        "colorbar": {"thickness": 9, "len": 0.9, "outlinewidth": 0, "ticksuffix": " dB"},
    }  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": "seconds"}, "showgrid": False},
        "yaxis": {"title": {"text": "kHz"}, "showgrid": False},
    }
    return {"data": [heat], "layout": layout, "height": 330, "phone": 290}


def _card(run: Run, name: str, title: str, how: players.Embedding, members: list[int] | None) -> str:
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
    pictures = players.spark(shown / max(shown.max(), 1e-300), "seek", "0 s", f"{end:.3g} s", "activation")
    limit = f"{audio['rate'] / 2000:g} kHz"
    pictures += players.spark(players.decibels(spectrum), "spectrum", "0 Hz", limit, "spectrum, 60 dB")
    head = f'<div class="bar"><h3>{escape(title)}</h3>{players.link(name)}</div>'
    return f'<div class="card">{head}{players.player(run.folder / name, how, title)}{pictures}</div>'


def _measures(rows: list[dict[str, Any]]) -> str:
    cells = []
    for row in rows:
        measures = (_decibel(row[key]) for key in ("sdr", "sir", "sar"))
        cells.append([str(row["reference"]), ", ".join(map(str, row["components"])), *measures])
    head = ("reference", "components", "SDR (dB)", "SIR (dB)", "SAR (dB)")
    return f"<h3>Against the references</h3>{table(head, cells, (2, 3, 4))}"


def _decibel(value: Any) -> str:
    return "infinite" if value is None or not np.isfinite(float(value)) else f"{float(value):.2f}"


def demo(run: Run) -> Section:
    found = run.summary.get("demo")
    if not isinstance(found, dict):
        return NOTHING
    losses = [as_loss(beta).name for beta in found["betas"]]
    rows = [
        [
            row["noise"].capitalize(), row["method"], *(percent(float(s) - 1.0) for s in row["scaled_losses"]),
            row["notes"], row["melody"], f"{row['right']}/{row['strokes']}",
        ]
        for row in found["rows"]
    ]  # fmt: skip
    head = ["recording", "method", *losses, "components", "melody heard", "right"]
    numeric = (*range(2, 2 + len(losses)), len(head) - 1)
    note = (
        f"The tune is {found['score']}. Noise was added to its spectrogram; the table shows how far each method is "
        "above the best error of each loss, what its components are, and which note it hears at each stroke."
    )
    body = place("noises") + table(head, rows, numeric)
    return section("Three noises", note, body), {"noises": noise_bars(found["rows"])}


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
