"""The sections of runs on sound and on words: players, topics, the demo's table."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

from drnmf.losses.names import as_loss
from drnmf.numerics import Vector
from drnmf.report import charts, sound
from drnmf.report.components import bars
from drnmf.report.parts import NOTHING, Section, place, section, table
from drnmf.report.words import duration, loss_name, percent
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
    how = sound.plan(run.folder, files)
    cards = []
    if audio["mixture"] in files:
        cards.append(_card(run, audio["mixture"], "Mixture", how, None))
    for s, group in enumerate(audio.get("groups", [])):
        if group["file"] in files:
            members = [int(k) for k in group["members"]]
            listing = f"component{'s' if len(members) > 1 else ''} {', '.join(map(str, members))}"
            title = f"{group.get('name') or f'Source {s}'} ({listing})"
            cards.append(_card(run, group["file"], title, how, members))
    for k, component in enumerate(audio["components"]):
        if component["file"] in files:
            title = f"Component {k}" + (f": {component['name']}" if component.get("name") else "")
            cards.append(_card(run, component["file"], title, how, [k]))
    note = "Every source is the mixture through a mask, so the components add up to the mixture."
    if not how.whole:
        note += f" The players hold the first {duration(how.seconds)}; the files beside this page are whole."
    quieter = -20 * np.log10(how.gain)
    if quieter >= 0.05:  # less is not heard, and would read as 0.0
        note += f" The players are turned down by {quieter:.1f} dB, all alike, so that none clips."
    body = f'<div class="cards">{"".join(cards)}</div>'
    if audio.get("measures"):
        body += _measures(audio["measures"])
    return section("Listen", note, body), {}


def _card(run: Run, name: str, title: str, how: sound.Embedding, members: list[int] | None) -> str:
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
    pictures = sound.spark(shown / max(shown.max(), 1e-300), "seek", "0 s", f"{end:.3g} s", "activation")
    limit = f"{audio['rate'] / 2000:g} kHz"
    pictures += sound.spark(sound.decibels(spectrum), "spectrum", "0 Hz", limit, "spectrum, 60 dB")
    head = f'<div class="bar"><h3>{escape(title)}</h3>{sound.link(name)}</div>'
    return f'<div class="card">{head}{sound.player(run.folder / name, how, title)}{pictures}</div>'


def _measures(rows: list[dict[str, Any]]) -> str:
    cells = []
    for row in rows:
        measures = (_decibel(row[key]) for key in ("sdr", "sir", "sar"))
        cells.append([str(row["reference"]), ", ".join(map(str, row["components"])), *measures])
    head = ("reference", "components", "SDR (dB)", "SIR (dB)", "SAR (dB)")
    return f"<h3>Against the references</h3>{table(head, cells, (2, 3, 4))}"


def _decibel(value: Any) -> str:
    return "infinite" if value is None or not np.isfinite(float(value)) else f"{float(value):.2f}"


def topics(run: Run) -> Section:
    rows = run.table(schema.TOPICS)
    if not rows:
        return NOTHING
    by_topic: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        by_topic.setdefault(row["topic"], []).append(row)
    info = run.summary.get("topics", {})
    cards = []
    for topic, words in by_topic.items():
        items = bars([(w["word"], float(w["weight"])) for w in words[:10]])
        share = info.get("shares", {}).get(topic)
        size = f"<small>{100 * float(share):.0f}% of all words</small>" if share is not None else ""
        typical = info.get("typical", {}).get(topic, [])
        listing = "".join(f"<li>{escape(str(name))}</li>" for name in typical)
        more = f"<details><summary>Most typical documents</summary><ul>{listing}</ul></details>" if typical else ""
        title = f'<div class="bar"><h3>Topic {escape(topic)}</h3>{size}</div>'
        cards.append(f'<div class="card">{title}<ol class="words">{items}</ol>{more}</div>')
    note = "The words with the largest share of each topic."
    body = f'<div class="cards">{"".join(cards)}</div>'
    if info.get("scores"):
        body += _scores(info["scores"])
    return section("Topics", note, body), {}


def _scores(scores: Mapping[str, Mapping[str, float]]) -> str:
    keys = ("accuracy", "nmi", "ari")
    rows = [[name, *(f"{float(values[key]):.3f}" for key in keys)] for name, values in scores.items()]
    return f"<h3>Against the labels</h3>{table(('method', 'accuracy', 'NMI', 'ARI'), rows, (1, 2, 3))}"


def demo(run: Run) -> Section:
    found = run.summary.get("demo")
    if not isinstance(found, dict):
        return NOTHING
    losses = [loss_name(as_loss(beta)) for beta in found["betas"]]
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
    return section("Three noises", note, body), {"noises": charts.noise_bars(found["rows"])}
