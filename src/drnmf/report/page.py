"""The page: one file with its style, its scripts and its data, and a policy that forbids it every request."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from html import escape
from importlib.resources import files
from pathlib import Path

from drnmf.files import write_text
from drnmf.loading import needs
from drnmf.report import sections
from drnmf.report.charts import Chart
from drnmf.report.parts import kind_of
from drnmf.report.words import duration, found_in, headline, interval_headline, losses_headline, unconverged
from drnmf.runs import schema
from drnmf.runs.read import Run, compared, read_run

BEGINNING = '<!DOCTYPE html><html lang="en" data-theme="light">'
"""How every page begins, and how one is recognised."""


def plotly_script() -> str:
    """Read plotly.js from the plotly package."""
    plotly = needs("plotly.offline", "report", "for a report")
    return str(plotly.get_plotlyjs()).replace("</script", "<\\/script")


def write_report(folder: str | os.PathLike[str], out: str | os.PathLike[str] | None = None) -> Path:
    """Write the report of a run folder, which has at least a summary.json: one self-contained page.

    It is `out`, or report.html in the folder. What exists and is no report is left alone, with an error.
    """
    run = read_run(Path(folder))
    target = Path(out) if out is not None else Path(folder) / schema.REPORT
    _refuse_other_file(target)
    try:
        page = render(run)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise ValueError(
            f"{folder} cannot be shown: its files do not fit together ({reason}). Undo the edit, or run the command "
            "again."
        ) from error
    write_text(target, page)
    return target


def _refuse_other_file(target: Path) -> None:
    """Leave a file alone that is no page of ours."""
    if not target.exists():
        return
    with open(target, "rb") as stream:
        ours = stream.read(len(BEGINNING)) == BEGINNING.encode()
    if not ours:
        raise FileExistsError(f"{target} exists and is no report of a run: choose another --out, or remove it.")


def render(run: Run) -> str:
    """Render the page as text."""
    scripts = [plotly_script(), _resource("app.js")]
    made = sections.all_of(run)
    parts: dict[str, Chart] = {}
    for _, drawn in made:
        parts |= drawn
    return "".join(
        [
            BEGINNING + '<head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_policy(scripts)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(_title(run))}</title><style>{_resource('style.css')}</style></head><body>",
            _header(run),
            f"<main>{_hero(run)}{''.join(html for html, _ in made)}",
            "<footer>Made by drnmf. This page is one file and asks nothing of the network.</footer></main>",
            f'<script type="application/json" id="charts">{_json(parts)}</script>',
            *(f"<script>{script}</script>" for script in scripts),
            "</body></html>\n",
        ]
    )


def _resource(name: str) -> str:
    return files("drnmf.report").joinpath(name).read_text(encoding="utf-8")


def _policy(scripts: list[str]) -> str:
    """Forbid every request, and every script but those of the page, known by their hashes."""
    hashes = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "media-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _json(content: object) -> str:
    """Write JSON that cannot end its script element."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _title(run: Run) -> str:
    name = run.data.get("file")
    kind = kind_of(run).title
    return f"{kind}: {name}" if name else kind


def _header(run: Run) -> str:
    summary, data = run.summary, run.data
    chips = []
    if data.get("shape"):
        chips.append(" × ".join(f"{int(n):,}" for n in data["shape"]))
    rank = run.H.shape[0] if run.H is not None else summary.get("parameters", {}).get("n_components")
    if "discovery" in summary:
        rank = summary["discovery"]["rank"]
    if rank is not None:
        chips.append(f"rank {rank}")
    comparison = sections.comparison_of(run)
    omega = run.omega or (compared(comparison) if comparison else ())
    if run.table(schema.COVERAGE) and omega:
        chips.append(f"beta {omega[0].beta:g} to {omega[-1].beta:g}")
    elif omega:
        chips.append(", ".join(loss.name for loss in omega))
    if isinstance(summary.get("seconds"), int | float):
        chips.append(duration(float(summary["seconds"])))
    items = "".join(f"<li>{escape(str(chip))}</li>" for chip in chips)
    button = '<button type="button" id="theme">Dark</button>'
    return (
        f'<header class="top"><div><h1>{escape(_title(run))}</h1><ul class="chips">{items}</ul></div>{button}</header>'
    )


def _hero(run: Run) -> str:
    own, effort = kind_of(run).headline, found_in(run.summary)
    first, second = interval_headline(run.table(schema.COVERAGE), run.summary.get("bound"), effort)
    if not first:
        first, second = own(run) if own is not None else headline(sections.comparison_of(run), effort)
    if not first and "discovery" in run.summary:
        first = run.summary["discovery"]["finding"]
    if not first:
        first, second = losses_headline(run.summary, None if run.H is None else run.H.shape[0])
    first = first or f"{_title(run)}: done."
    first = " ".join(filter(None, (first, unconverged(run.summary, run.table(schema.FRONT)))))
    more = f"<p>{_whole_names(second)}</p>" if second else ""
    return f'<div class="hero"><p id="headline">{_whole_names(first)}</p>{more}</div>'


def _whole_names(text: str) -> str:
    """Escape text, and let no line end inside the name of a method."""
    return re.sub(r"[\w=.()]+-NMF", r'<span class="nb">\g<0></span>', escape(text))
