"""Section 5.2, table: KL-NMF, Fro-NMF and DR-NMF of word counts from the SPA start, r = number of classes."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from drnmf.algorithms.initialize import lifted, spa_factors
from drnmf.apps.paper import datasets, experiment, paper
from drnmf.apps.paper.datasets import Dataset, load_documents
from drnmf.apps.paper.experiment import Experiment, Row
from drnmf.apps.paper.fits import Comparison, Facts, Fit, Options, Plan, Results, Saved, Start, Unit, excesses
from drnmf.apps.text.topics import assign, clustering_accuracy
from drnmf.backends.core import single_blas
from drnmf.backends.open import open_data
from drnmf.numerics import LIFT, Vector, factor_floor
from drnmf.report.figures import COLOURS, figure, log_axis

NAME = "table-documents"
BETAS = (1.0, 2.0)
SINGLES = ("kl", "fro")
OURS_MEASURES = ("ours_acc_dr", "ours_dr_kl_excess", "ours_dr_fro_excess")


@lru_cache(maxsize=1)
def start_of(dataset: Dataset) -> Start:
    """SPA picks r words: W = X(:, K), H by nonnegative least squares; lifted, and floored as every start is."""
    documents = load_documents(dataset)
    floor = factor_floor(float(documents.X.mean()), documents.rank)
    with single_blas():
        W, H = lifted(*spa_factors(open_data(documents.X), documents.rank, np.random.RandomState(0)), LIFT)
    return np.maximum(W, floor), np.maximum(H, floor)


def units(dataset: Dataset, options: Options) -> list[Unit]:
    """Plan KL-NMF, Fro-NMF and DR-NMF (and the library's default) of one data set."""

    def saved(fit: Fit, _: Vector) -> Saved:
        documents = load_documents(dataset)
        return fit.summary(accuracy=100.0 * clustering_accuracy(documents.labels, assign(documents.X, fit.H)))

    compared = Comparison(
        dataset.stem, SINGLES, BETAS, lambda: (load_documents(dataset).X, start_of(dataset)), saved, options
    )
    settings = options.settings(data=dataset.digest, lift=LIFT)
    return compared.units(settings)


def measures(results: Results, prefix: str, ours: bool) -> dict[str, float]:
    """Accuracies of the three methods, and how far each is above the best of the other loss, all in percent."""
    methods = (*SINGLES, "dr", "ours") if ours else (*SINGLES, "dr")
    accuracies = {
        "ours_acc_dr" if method == "ours" else f"acc_{method}": results(f"{prefix}/{method}").values["accuracy"]
        for method in methods
    }
    return accuracies | excesses(results, prefix, SINGLES, ours)


def with_paper(row: Facts) -> Facts:
    """The row beside the paper's, where the data set is the paper's."""
    entry = datasets.DOCUMENTS[row["dataset"]]
    if entry.role != "substitute":
        row |= {f"paper_{m}": v for m, v in zip(paper.DOCUMENT_MEASURES, paper.DOCUMENTS[entry.paper][1], strict=True)}
    return row


def plan(options: Options) -> Plan:
    """Three fits (four with ours) per data set."""
    folder = datasets.check_folder(options.data)
    here = datasets.present(folder, "documents")
    rows = [{"dataset": dataset.stem, "rank": load_documents(dataset).rank} for dataset in here]
    facts = {"rows": rows, **experiment.data_facts(folder, "documents")}
    return Plan([unit for dataset in here for unit in units(dataset, options)], facts)


def table(results: Results) -> list[Facts]:
    """One row per data set beside the paper's, then the average over the paper's own data sets that are here."""
    rows: list[Facts] = [
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
    """table-documents.csv and a dot plot."""
    rows, theirs = table(results), tuple(f"paper_{measure}" for measure in paper.DOCUMENT_MEASURES)
    extra = OURS_MEASURES if results.facts["ours"] else ()
    experiment.write_csv(out / f"{NAME}.csv", ("dataset", "rank", *paper.DOCUMENT_MEASURES, *theirs, *extra), rows)
    if rows:
        _draw_rows(rows, out)


def _draw_rows(rows: list[Facts], out: Path) -> None:
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
        cells = [cell for measure in measures for cell in experiment.difference(row, measure)]
        shown = (experiment.show(row[name]) for name in extra)
        lines.append([row["dataset"], row["rank"], role, *cells, *shown])
    return experiment.markdown(columns, lines, left=1)


def section(rows: list[Row], facts: Facts, folder: Path) -> str:
    """Row by row: paper, ours, difference."""
    ours = facts["ours"]
    remarks = datasets.remarks(datasets.DOCUMENTS, [row["dataset"] for row in rows if row["dataset"] != "average"])
    return (
        f"SPA start lifted by {LIFT:g} of the mean. {experiment.algorithm_line(facts)} The average is over the paper's "
        f"own data sets that are here, in both columns; over all fifteen the paper has "
        f"{', '.join(map(str, paper.DOCUMENTS_AVERAGE))}.\n\nClustering accuracy (%):\n\n"
        + _comparison(rows, paper.DOCUMENT_MEASURES[:3], OURS_MEASURES[:1] if ours else ())
        + '\nPercent above the single-objective error ("Fro: KL" is the KL error of Fro-NMF):\n\n'
        + _comparison(rows, paper.DOCUMENT_MEASURES[3:], OURS_MEASURES[1:] if ours else ())
        + remarks
    )


EXPERIMENT = Experiment(NAME, "Sparse documents (section 5.2)", plan, draw, section, (NAME,))
