"""Section 5.2, table: KL-NMF, Fro-NMF and DR-NMF of word counts from the SPA start, r = number of classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from drnmf.numerics import LIFT, Array, Vector
from drnmf.paper import datasets, paper
from drnmf.paper.clustering import accuracy, closest_topic
from drnmf.paper.datasets import Dataset
from drnmf.paper.document_starts import VARIANTS, load, start_of
from drnmf.paper.experiment import Experiment, algorithm_line, data_facts, missing_list, settings_facts
from drnmf.paper.figures import COLOURS, figure, log_axis
from drnmf.paper.fits import OURS, Fit, Options, excess, fit_robust, fit_single, identity
from drnmf.paper.store import Lookup, Plan, Results, Saved, Unit, Watch
from drnmf.paper.tables import Row, difference, markdown, number, read_csv, show, write_csv

NAME = "table-documents"
LIFTS_NAME = f"{NAME}-lift"
FLOORS_NAME = f"{NAME}-floor"
STARTS_NAME = f"{NAME}-starts"
BETAS = (1.0, 2.0)
_CHUNK = 1 << 17
OURS_MEASURES = ("ours_acc_dr", "ours_dr_kl_excess", "ours_dr_fro_excess")
LIFTS = (1e-2, 1e-4, 0.0)
"""Shares of the mean added to SPA's factors, beside the library's own LIFT, to show what the choice does."""
FLOORS = (0.0, 1e-12, 1e-8, 1e-6, 1e-4)
"""Values below which WH is raised before its KL error is taken, to show how few entries decide that error."""
STUDY_SETS = ("classic", "hitech", "tr11", "tr23", "tr41")
"""Data sets small enough to run for every lift and floor."""
START_SETS = ("hitech", "tr11", "tr23", "tr41")
"""The smallest of them, run for every SPA variant as well."""


def references(lookup: Lookup, prefix: str) -> Vector:
    """e_beta of Omega = {1, 2} from the single-objective fits from the same start."""
    return np.array([lookup(f"{prefix}/kl").values["losses"][0], lookup(f"{prefix}/fro").values["losses"][1]])


def _units(
    dataset: Dataset, prefix: str, options: Options, lift: float = LIFT, variant: str = "words", ours: bool = False
) -> list[Unit]:
    settings = options.settings(data=dataset.digest, lift=lift, **({} if variant == "words" else {"start": variant}))
    documents = load(dataset)
    cost = 3.0 * documents.X.nnz * documents.rank / 10.0  # against a dense entry of rank 10

    def saved(fit: Fit) -> Saved:
        clusters = closest_topic(load(dataset).X, fit.H)
        return fit.summary(accuracy=100.0 * accuracy(load(dataset).labels, clusters))

    def single(beta: float) -> Any:
        def compute(lookup: Lookup, watch: Watch) -> Saved:
            return saved(fit_single(load(dataset).X, start_of(dataset, lift, variant), beta, BETAS, options, watch))

        return compute

    def robust(algorithm: tuple[str, str] | None) -> Any:
        def compute(lookup: Lookup, watch: Watch) -> Saved:
            e = references(lookup, prefix)
            return saved(
                fit_robust(load(dataset).X, start_of(dataset, lift, variant), BETAS, e, options, watch, algorithm)
            )

        return compute

    units = [
        Unit(f"{prefix}/kl", settings, cost, single(1.0)),
        Unit(f"{prefix}/fro", settings, cost, single(2.0)),
        Unit(f"{prefix}/dr", settings, cost, robust(None)),
    ]
    if ours:
        units.append(Unit(f"{prefix}/ours", settings | {"ours": identity(OURS)}, cost, robust(OURS)))
    return units


def floored_kl(X: Any, W: Array, H: Array, floor: float) -> float:
    """D_1(X, V) with V = max(WH, floor) at the counts and V = WH elsewhere (where a floor is no matter)."""
    rows, columns = X.nonzero()
    total = float(W.sum(axis=0) @ H.sum(axis=1))
    for begin in range(0, rows.size, _CHUNK):
        part = slice(begin, begin + _CHUNK)
        x, exact = X.data[part], np.einsum("ik,ki->i", W[rows[part]], H[:, columns[part]])
        v = np.maximum(exact, max(floor, np.finfo(np.float64).tiny))
        total += float(np.sum(x * np.log(x / v) - x + v - exact))
    return total


def _floor_unit(dataset: Dataset, options: Options) -> Unit:
    """Fro-NMF once more, for its KL error with WH raised to several floors, and the share of counts raised."""

    def compute(lookup: Lookup, watch: Watch) -> Saved:
        X = load(dataset).X
        fit = fit_single(X, start_of(dataset, LIFT), 2.0, BETAS, options, watch)
        return Saved({"losses": [floored_kl(X, fit.W, fit.H, floor) for floor in FLOORS]})

    settings = options.settings(data=dataset.digest, lift=LIFT, floors=FLOORS)
    return Unit(f"{dataset.stem}/floor", settings, 3.0 * load(dataset).X.nnz, compute)


def plan(options: Options) -> Plan:
    """Three fits (four with ours) per data set; for a few, three more per lift and SPA variant, one for the floors."""
    folder = datasets.check_folder(options.data)
    here = datasets.present(folder, "documents")
    rows, studied = [], []
    units: list[Unit] = []
    for dataset in here:
        rows.append({"dataset": dataset.stem, "rank": load(dataset).rank})
        units += _units(dataset, dataset.stem, options, ours=options.ours)
        if dataset.stem in STUDY_SETS:
            studied.append(dataset.stem)
            units.append(_floor_unit(dataset, options))
            for lift in LIFTS:
                units += _units(dataset, f"{dataset.stem}/lift-{lift:g}", options, lift)
            for variant in list(VARIANTS)[1:] if dataset.stem in START_SETS else ():
                units += _units(dataset, f"{dataset.stem}/start-{variant}", options, variant=variant)
    return Plan(units, {"rows": rows, "studied": studied, **settings_facts(options), **data_facts(folder, "documents")})


def _measures(results: Results, prefix: str, ours: bool) -> dict[str, float]:
    e = references(results, prefix)
    kl, fro, dr = (results(f"{prefix}/{name}").values for name in ("kl", "fro", "dr"))
    found = {
        "acc_kl": kl["accuracy"],
        "acc_fro": fro["accuracy"],
        "acc_dr": dr["accuracy"],
        "fro_kl_excess": excess(fro["losses"][0], e[0]),
        "dr_kl_excess": excess(dr["losses"][0], e[0]),
        "kl_fro_excess": excess(kl["losses"][1], e[1]),
        "dr_fro_excess": excess(dr["losses"][1], e[1]),
    }
    if ours:
        mine = results(f"{prefix}/ours").values
        values = mine["accuracy"], excess(mine["losses"][0], e[0]), excess(mine["losses"][1], e[1])
        found |= dict(zip(OURS_MEASURES, values, strict=True))
    return found


def _with_paper(row: dict[str, Any]) -> dict[str, Any]:
    entry = datasets.DOCUMENTS[row["dataset"]]
    if entry.role != "substitute":
        row |= {f"paper_{m}": v for m, v in zip(paper.DOCUMENT_MEASURES, paper.DOCUMENTS[entry.paper][1], strict=True)}
    return row


def table(results: Results) -> list[dict[str, Any]]:
    """One row per data set beside the paper's, then the average over the paper's own data sets that are here."""
    rows: list[dict[str, Any]] = [
        _with_paper({**row, **_measures(results, row["dataset"], results.facts["ours"])})
        for row in results.facts["rows"]
    ]
    own = [row for row in rows if datasets.DOCUMENTS[row["dataset"]].role == "own"]
    if own:
        average = {
            name: float(np.mean([row[name] for row in own])) for name in own[0] if name not in ("dataset", "rank")
        }
        rows.append({"dataset": "average", **average})
    return rows


def lift_table(results: Results) -> list[dict[str, Any]]:
    """How the table depends on the lift: one row per data set and lift, largest first."""
    rows = []
    for stem in results.facts["studied"]:
        for lift in sorted({LIFT, *LIFTS}, reverse=True):
            prefix = stem if lift == LIFT else f"{stem}/lift-{lift:g}"
            rows.append(_with_paper({"dataset": stem, "lift": lift, **_measures(results, prefix, False)}))
    return rows


def start_table(results: Results) -> list[dict[str, Any]]:
    """How the table depends on SPA's details: one row per data set and variant, the table's own first."""
    rows = []
    for stem in (name for name in results.facts["studied"] if name in START_SETS):
        for variant in VARIANTS:
            prefix = stem if variant == "words" else f"{stem}/start-{variant}"
            rows.append(_with_paper({"dataset": stem, "start": variant, **_measures(results, prefix, False)}))
    return rows


def floor_table(results: Results) -> list[dict[str, Any]]:
    """The KL error of Fro-NMF over that of KL-NMF, with small entries of WH raised: one row per data set and floor."""
    rows = []
    for stem in results.facts["studied"]:
        e, printed = (
            references(results, stem)[0],
            paper.DOCUMENTS[stem][1][paper.DOCUMENT_MEASURES.index("fro_kl_excess")],
        )
        for floor, loss in zip(FLOORS, results(f"{stem}/floor").values["losses"], strict=True):
            rows.append({
                "dataset": stem, "floor": floor, "fro_kl_excess": excess(loss, e), "paper_fro_kl_excess": printed,
            })  # fmt: skip
    return rows


def draw(results: Results, out: Path) -> None:
    """table-documents.csv, the studies beside it (-lift, -starts, -floor) and a dot plot."""
    rows, measures = table(results), paper.DOCUMENT_MEASURES
    theirs = tuple(f"paper_{measure}" for measure in measures)
    extra = OURS_MEASURES if results.facts["ours"] else ()
    write_csv(out / f"{NAME}.csv", ("dataset", "rank", *measures, *theirs, *extra), rows)
    write_csv(out / f"{LIFTS_NAME}.csv", ("dataset", "lift", *measures, *theirs), lift_table(results))
    write_csv(out / f"{STARTS_NAME}.csv", ("dataset", "start", *measures, *theirs), start_table(results))
    columns = ("dataset", "floor", "fro_kl_excess", "paper_fro_kl_excess")
    write_csv(out / f"{FLOORS_NAME}.csv", columns, floor_table(results))
    if rows:
        _draw_rows(rows, out)


def _draw_rows(rows: list[dict[str, Any]], out: Path) -> None:
    panels = {
        "Clustering accuracy (%)": (
            ("KL-NMF", "acc_kl", "KL"), ("Fro-NMF", "acc_fro", "Frobenius"), ("DR-NMF", "acc_dr", "DR"),
        ),
        "KL error above KL-NMF's (%)": (("Fro-NMF", "fro_kl_excess", "Frobenius"), ("DR-NMF", "dr_kl_excess", "DR")),
        "Frobenius error above Fro-NMF's (%)": (("KL-NMF", "kl_fro_excess", "KL"), ("DR-NMF", "dr_fro_excess", "DR")),
    }  # fmt: skip
    with figure(out, NAME, 1, 3, figsize=(11.5, 2.0 + 0.3 * len(rows)), sharey=True) as (_, axes):
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


_TITLES = {
    "acc_kl": "KL", "acc_fro": "Fro", "acc_dr": "DR",
    "fro_kl_excess": "Fro: KL", "dr_kl_excess": "DR: KL", "kl_fro_excess": "KL: Fro", "dr_fro_excess": "DR: Fro",
}  # fmt: skip


def _comparison(rows: list[Row], measures: tuple[str, ...], extra: tuple[str, ...]) -> str:
    columns = ["data set", "r", "status"]
    for measure in measures:
        columns += [f"{_TITLES[measure]} paper", "ours", "diff."]
    columns += ["default " + _TITLES[name.removeprefix("ours_")] for name in extra]
    lines = []
    for row in rows:
        role = "" if row["dataset"] == "average" else datasets.DOCUMENTS[row["dataset"]].role
        cells = [cell for measure in measures for cell in difference(row, measure)]
        lines.append([row["dataset"], row["rank"], role, *cells, *(show(number(row[name])) for name in extra)])
    return markdown(columns, lines, left=1)


def section(rows: list[Row], facts: dict[str, Any], folder: Path) -> str:
    """Row by row: paper, ours, difference; then the lift."""
    ours = facts["ours"]
    remarks = [
        f"- `{row['dataset']}` ({entry.role}, for {entry.paper}): {entry.remark}."
        for row in rows
        if row["dataset"] != "average" and (entry := datasets.DOCUMENTS[row["dataset"]]).remark
    ]
    text = (
        f"SPA start lifted by {LIFT:g} of the mean. {algorithm_line(facts)} The average is over the paper's own data "
        f"sets that are here, in both columns; over all fifteen the paper has "
        f"{', '.join(map(str, paper.DOCUMENTS_AVERAGE))}.\n\nClustering accuracy (%):\n\n"
        + _comparison(rows, paper.DOCUMENT_MEASURES[:3], OURS_MEASURES[:1] if ours else ())
        + '\nPercent above the single-objective error ("Fro: KL" is the KL error of Fro-NMF):\n\n'
        + _comparison(rows, paper.DOCUMENT_MEASURES[3:], OURS_MEASURES[1:] if ours else ())
        + ("\n" + "\n".join(remarks) + "\n" if remarks else "")
    )
    if facts["studied"]:
        text += "\nHow the numbers depend on the lift of the SPA start:\n\n"
        text += _study(read_csv(folder / f"{LIFTS_NAME}.csv"), "lift")
        text += (
            "\nHow they depend on SPA's details (the table picks *words*; *ten-sweeps* stops the least squares early, "
            "*normalised-words* scales the words to sum one first, *documents* picks rows of X):\n\n"
        )
        text += _study(read_csv(folder / f"{STARTS_NAME}.csv"), "start")
        text += "\nThe KL error of Fro-NMF above KL-NMF's (%) when entries of WH below a floor count as the floor:\n\n"
        text += _floors(read_csv(folder / f"{FLOORS_NAME}.csv"))
    return text + missing_list(facts)


def _study(rows: list[Row], choice: str) -> str:
    """Every data set under every choice, the paper's row last."""
    lines = []
    for name in dict.fromkeys(row["dataset"] for row in rows):
        mine = [row for row in rows if row["dataset"] == name]
        lines += [[name, row[choice], *(show(number(row[m])) for m in paper.DOCUMENT_MEASURES)] for row in mine]
        lines.append([name, "paper", *(show(number(mine[0][f"paper_{m}"])) for m in paper.DOCUMENT_MEASURES)])
    return markdown(("data set", choice, *(_TITLES[m] for m in paper.DOCUMENT_MEASURES)), lines, left=2)


def _floors(rows: list[Row]) -> str:
    names = list(dict.fromkeys(row["dataset"] for row in rows))
    lines = []
    for name in names:
        mine = [row for row in rows if row["dataset"] == name]
        lines.append(
            [name, *(show(number(row["fro_kl_excess"])) for row in mine), show(number(mine[0]["paper_fro_kl_excess"]))]
        )
    return markdown(("data set", *(f"floor {floor:g}" for floor in FLOORS), "paper"), lines)


EXPERIMENT = Experiment(NAME, "Sparse documents (section 5.2)", plan, draw, section, (NAME,))
