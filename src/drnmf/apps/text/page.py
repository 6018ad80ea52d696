"""The page of `drnmf topics`: the words and the documents of every topic."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from drnmf.report.components import listed_parts
from drnmf.report.parts import NOTHING, Kind, Section, Side, section, table
from drnmf.runs import schema
from drnmf.runs.read import Run


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
        items = listed_parts([(w["word"], float(w["weight"])) for w in words[:10]])
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


def sides(run: Run) -> tuple[Side, Side]:
    """Name documents and words along the factors."""
    return (
        Side("W, one row per component", run.row_names, "document"),
        Side("H, one row per component", run.column_names, "word"),
    )


TOPICS = Kind("Topics", (topics,), sides)
