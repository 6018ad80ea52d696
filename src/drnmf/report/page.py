"""The page: one file with style, scripts, data, and a policy that forbids it every request; and its sections.

Everything that comes from a run is escaped here, once.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from itertools import combinations
from pathlib import Path

from drnmf.files import write_text
from drnmf.loading import needs
from drnmf.losses.names import from_text
from drnmf.report import charts, findings
from drnmf.report.charts import Chart
from drnmf.report.parts import NOTHING, Section, kind_of, place, section
from drnmf.report.words import duration, found_in, headline, interval_headline, losses_headline, unconverged
from drnmf.runs import schema
from drnmf.runs.read import Run, compared, read_run
from drnmf.runs.schema import column, loss_keys

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
    shown = all_of(run)
    parts: dict[str, Chart] = {}
    for _, drawn in shown:
        parts |= drawn
    return "".join(
        [
            BEGINNING + '<head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_policy(scripts)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(_title(run))}</title><style>{_resource('style.css')}</style></head><body>",
            _header(run),
            f"<main>{_hero(run)}{''.join(html for html, _ in shown)}",
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
    comparison = comparison_of(run)
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
        first, second = own(run) if own is not None else headline(comparison_of(run), effort)
    if not first and "discovery" in run.summary:
        first = run.summary["discovery"]["finding"]
    if not first:
        first, second = losses_headline(run.summary, None if run.H is None else run.H.shape[0])
    if "discovery" in run.summary:
        second = " ".join((*run.summary["discovery"]["cautions"], *filter(None, (second,))))
    first = first or f"{_title(run)}: done."
    first = " ".join(filter(None, (first, unconverged(run.summary, run.table(schema.FRONT)))))
    more = f"<p>{_whole_names(second)}</p>" if second else ""
    return f'<div class="hero"><p id="headline">{_whole_names(first)}</p>{more}</div>'


def _whole_names(text: str) -> str:
    """Escape text, and let no line end inside the name of a method."""
    return re.sub(r"[\w=.()]+-NMF", r'<span class="nb">\g<0></span>', escape(text))


def comparison_of(run: Run) -> schema.Comparison | None:
    """Read comparison.json, or the same off a front: its corners are the single-objective fits."""
    if run.comparison is not None:
        return run.comparison
    rows = run.table(schema.FRONT)
    if not rows:
        return None
    keys = loss_keys(rows[0])
    methods = []
    for key in keys:
        corner = [r for r in rows if r["kind"] == "front" and float(r[column("weight", key)]) > 1.0 - 1e-9]
        if corner:
            methods.append((f"{from_text(key).name}-NMF", corner[0]))
    methods += [("DR-NMF", row) for row in rows if row["kind"] == "dr"]
    return {
        "losses": keys,
        "methods": [
            {
                "name": title,
                "losses": [float(row[column("loss", key)]) for key in keys],
                "scaled_losses": [float(row[column("scaled_loss", key)]) for key in keys],
            }
            for title, row in methods
        ],
    }


def comparison(run: Run) -> Section:
    beside = comparison_of(run)
    if beside is None or kind_of(run).headline is not None:
        return NOTHING
    note = (
        "How far each factorization is above the best error found for each loss. A fit under one loss is at or near "
        "the best of its own and pays in the others; DR-NMF keeps the largest excess as small as it can."
    )
    chart = charts.comparison_bars(beside)
    return section("How close to the best", note, place("comparison")), {"comparison": chart}


def coverage(run: Run) -> Section:
    rows, bound = run.table(schema.COVERAGE), run.summary.get("bound")
    if not rows or bound is None:
        return NOTHING
    note = (
        "How far DR-NMF is above the best error found for every beta of the interval. The marks are the betas that "
        "were fitted; the line is what no beta of the interval exceeds."
    )
    return section("Every loss of the interval", note, place("coverage")), {
        "coverage": charts.coverage_curve(rows, float(bound))
    }


def curves(run: Run) -> Section:
    if run.trace is None or len(run.trace.seconds) < 2:
        return NOTHING
    parts = {"losses": charts.loss_curves(run.trace, run.omega, "regret" if run.regrets else "error / best error")}
    body = place("losses")
    note = "The error after every iteration."
    if len(run.omega) > 1:
        parts |= {"weights": charts.weight_curves(run.trace, run.omega), "gap": charts.gap_curve(run.trace)}
        body += f'<div class="pair">{place("weights", "Weights of the losses")}{place("gap", "Gap")}</div>'
        each = (
            "Each part's regret, how far it is from its best alone on the way to its simplest model"
            if run.regrets
            else "Each error over the best one found for its loss"
        )
        note = (
            f"{each}, and their maximum, which DR-NMF brings down. Below: the "
            "weight that each loss was given on the way, and the gap between the maximum and the weighted sum, which "
            "is zero at the solution."
        )
    if run.trace.penalty.any():
        parts["penalty"] = charts.penalty_curve(run.trace)
        body += place("penalty", "Penalties")
        note += " What is minimised is that plus the penalties, whose sum has a curve of its own."
    other = "Linear" if parts["losses"]["layout"]["yaxis"]["type"] == "log" else "Log"
    button = f'<button type="button" data-scale-of="losses">{other} scale</button>'
    return section("How it got there", note, body, button), parts


def factors(run: Run) -> Section:
    if run.W is None or run.H is None:
        return NOTHING
    sides = kind_of(run).sides(run)
    left, right = (
        charts.factor_image(factor, side.decibels, side.places, side.title)
        for factor, side in zip((run.W.T, run.H), sides, strict=True)
    )
    body = f'<div class="pair">{place("factor-w", sides[0].caption)}{place("factor-h", sides[1].caption)}</div>'
    note = "X is about W times H. Every component is shown relative to its largest entry; large factors are pooled."
    return section("The factors", note, body), {"factor-w": left, "factor-h": right}


def front(run: Run) -> Section:
    rows = run.table(schema.FRONT)
    if not rows:
        return NOTHING
    pairs = combinations(loss_keys(rows[0]), 2)
    parts = {f"front-{i}": charts.front_chart(rows, a, b) for i, (a, b) in enumerate(pairs)}
    places = "".join(place(name) for name in parts)
    body = places if len(parts) == 1 else f'<div class="pair">{places}</div>'
    note = "What one loss costs in terms of another. The star is DR-NMF, where the largest of the errors is smallest."
    return section("The Pareto front", note, body), parts


_SHOWN_ABOVE = ("audio", "topics", "demo", "discovery", "quality", "field", "files")
_OF_SEVERAL = ("references", "scaled_losses", "weights", "gap")


def made(run: Run) -> Section:
    summary: dict[str, object] = dict(run.summary)
    command = str(summary.pop("command", ""))
    single = len(run.summary.get("losses", ())) == 1  # nothing to compare with: its reference is one, its weight too
    for name in (*_SHOWN_ABOVE, *(_OF_SEVERAL if single else ())):
        summary.pop(name, None)
    summary.pop("notes", None)
    notes = run.summary.get("notes", [])
    rows = "".join(f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in _flat(summary))
    again = ""
    if command:
        button = '<button type="button" data-copy="command">Copy</button>'
        again = f'<div class="bar"><h3>To do it again</h3>{button}</div><pre id="command">{escape(command)}</pre>'
    remarks = "".join(f"<li>{escape(note)}</li>" for note in notes)
    remarks = f"<h3>Remarks</h3><ul>{remarks}</ul>" if remarks else ""
    body = f'{again}{remarks}<div class="scroll"><table class="made">{rows}</table></div>'
    return section("How it was made", "Parameters, data, versions and time.", body), {}


def _flat(content: Mapping[str, object]) -> list[tuple[str, str]]:
    """Write one line per entry; a nested record becomes "name value" pairs on its line."""
    return [(key.replace("_", " "), _text(_named(key, value))) for key, value in content.items() if value is not None]


def _named(key: str, value: object) -> object:
    """Name the values of records that have one per loss."""
    if key in ("losses", "references", "scaled_losses", "weights") and isinstance(value, dict):
        return {from_text(loss).name: item for loss, item in value.items()}
    return value


def _text(value: object) -> str:
    if isinstance(value, dict):
        pairs = (f"{k.replace('_', ' ')} {_text(_named(k, item))}" for k, item in value.items() if item is not None)
        return " · ".join(pairs)
    if isinstance(value, list):
        return ", ".join(_text(item) for item in value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def all_of(run: Run) -> list[Section]:
    """Make the sections in the order of the page: what was found first, then how."""
    own = coverage, comparison, front, curves, factors, made
    results = *findings.FIRST, *kind_of(run).sections, *findings.LAST
    return [make(run) for make in (*results, *own)]
