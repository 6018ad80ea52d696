"""Section 5.2, table: KL-NMF, Fro-NMF and DR-NMF of word counts from the SPA start, r = number of classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from drnmf.apps.paper import datasets, paper
from drnmf.apps.paper import document_studies as studies
from drnmf.apps.paper.document_studies import OURS_MEASURES, measures, units, with_paper
from drnmf.apps.paper.experiment import (
    Experiment,
    Row,
    algorithm_line,
    data_facts,
    difference,
    markdown,
    missing_list,
    number,
    settings_facts,
    show,
    write_csv,
)
from drnmf.apps.paper.fits import Options
from drnmf.apps.paper.store import Plan, Results, Unit
from drnmf.numerics import LIFT
from drnmf.report.figures import COLOURS, figure, log_axis

NAME = "table-documents"


def plan(options: Options) -> Plan:
    """Three fits (four with ours) per data set; for a few, three more per lift and SPA variant, one for the floors."""
    folder = datasets.check_folder(options.data)
    rows, studied = [], []
    planned: list[Unit] = []
    for dataset in datasets.present(folder, "documents"):
        rows.append({"dataset": dataset.stem, "rank": datasets.load_documents(dataset).rank})
        planned += units(dataset, dataset.stem, options, ours=options.ours)
        if dataset.stem in studies.STUDY_SETS:
            studied.append(dataset.stem)
            planned += studies.study_units(dataset, options)
    facts = {"rows": rows, "studied": studied, **settings_facts(options), **data_facts(folder, "documents")}
    return Plan(planned, facts)


def table(results: Results) -> list[dict[str, Any]]:
    """One row per data set beside the paper's, then the average over the paper's own data sets that are here."""
    rows: list[dict[str, Any]] = [
        with_paper({**row, **measures(results, row["dataset"], results.facts["ours"])}) for row in results.facts["rows"]
    ]
    own = [row for row in rows if datasets.DOCUMENTS[row["dataset"]].role == "own"]
    if own:
        average = {
            name: float(np.mean([row[name] for row in own])) for name in own[0] if name not in ("dataset", "rank")
        }
        rows.append({"dataset": "average", **average})
    return rows


def draw(results: Results, out: Path) -> None:
    """table-documents.csv, the studies beside it (-lift, -starts, -floor) and a dot plot."""
    rows, theirs = table(results), tuple(f"paper_{measure}" for measure in paper.DOCUMENT_MEASURES)
    extra = OURS_MEASURES if results.facts["ours"] else ()
    write_csv(out / f"{NAME}.csv", ("dataset", "rank", *paper.DOCUMENT_MEASURES, *theirs, *extra), rows)
    studies.write_studies(results, out, NAME)
    if rows:
        _draw_rows(rows, out)


def _draw_rows(rows: list[dict[str, Any]], out: Path) -> None:
    accuracies = (("KL-NMF", "acc_kl", "KL"), ("Fro-NMF", "acc_fro", "Frobenius"), ("DR-NMF", "acc_dr", "DR"))
    panels = {
        "Clustering accuracy (%)": accuracies,
        "KL error above KL-NMF's (%)": (("Fro-NMF", "fro_kl_excess", "Frobenius"), ("DR-NMF", "dr_kl_excess", "DR")),
        "Frobenius error above Fro-NMF's (%)": (("KL-NMF", "kl_fro_excess", "KL"), ("DR-NMF", "dr_fro_excess", "DR")),
    }
    with figure(out, NAME, 1, 3, size=(11.5, 2.0 + 0.3 * len(rows)), sharey=True) as (axes,):
        y = np.arange(len(rows))[::-1]
        for ax, (title, group) in zip(axes, panels.items(), strict=True):
            for label, measure, colour in group:
                ax.plot([row[measure] for row in rows], y, "o", ms=5, color=COLOURS[colour], label=label)
                known = [i for i, row in enumerate(rows) if f"paper_{measure}" in row]
                printed = [rows[i][f"paper_{measure}"] for i in known]
                ax.plot(printed, y[known], "D", ms=8, mfc="none", mec=COLOURS[colour], label=f"{label}, paper")
            ax.set_xlabel(title)
            ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=len(group), fontsize=8)
        for ax in axes[1:]:
            ax.set_xscale("log")
            log_axis(ax.xaxis)
        axes[0].set_yticks(y, [row["dataset"] for row in rows])


def _comparison(rows: list[Row], measures: tuple[str, ...], extra: tuple[str, ...]) -> str:
    columns = ["data set", "r", "status"]
    for measure in measures:
        columns += [f"{paper.DOCUMENT_TITLES[measure]} paper", "ours", "diff."]
    columns += ["default " + paper.DOCUMENT_TITLES[name.removeprefix("ours_")] for name in extra]
    lines = []
    for row in rows:
        role = "" if row["dataset"] == "average" else datasets.DOCUMENTS[row["dataset"]].role
        cells = [cell for measure in measures for cell in difference(row, measure)]
        lines.append([row["dataset"], row["rank"], role, *cells, *(show(number(row[name])) for name in extra)])
    return markdown(columns, lines, left=1)


def section(rows: list[Row], facts: dict[str, Any], folder: Path) -> str:
    """Row by row: paper, ours, difference; then the lift."""
    ours = facts["ours"]
    remarks = datasets.remarks(datasets.DOCUMENTS, [row["dataset"] for row in rows if row["dataset"] != "average"])
    text = (
        f"SPA start lifted by {LIFT:g} of the mean. {algorithm_line(facts)} The average is over the paper's own data "
        f"sets that are here, in both columns; over all fifteen the paper has "
        f"{', '.join(map(str, paper.DOCUMENTS_AVERAGE))}.\n\nClustering accuracy (%):\n\n"
        + _comparison(rows, paper.DOCUMENT_MEASURES[:3], OURS_MEASURES[:1] if ours else ())
        + '\nPercent above the single-objective error ("Fro: KL" is the KL error of Fro-NMF):\n\n'
        + _comparison(rows, paper.DOCUMENT_MEASURES[3:], OURS_MEASURES[1:] if ours else ())
        + remarks
    )
    if facts["studied"]:
        text += studies.study_section(folder, NAME)
    return text + missing_list(facts)


EXPERIMENT = Experiment(NAME, "Sparse documents (section 5.2)", plan, draw, section, (NAME,))
