"""The fits of the document table, from SPA starts with clustering accuracy, and what they depend on.

The studies: the lift of the SPA start, SPA's details, and small entries of WH.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.algorithms.initialize import lifted, nonnegative_least_squares, spa_factors, successive_projection
from drnmf.apps.paper import datasets, paper
from drnmf.apps.paper.datasets import Dataset, Documents, load_documents
from drnmf.apps.paper.experiment import Row, markdown, number, show, write_csv
from drnmf.apps.paper.fits import Comparison, Fit, Options, Start, excess, fit_single, references
from drnmf.apps.paper.store import Lookup, Results, Saved, Unit, Watch
from drnmf.apps.text.topics import assign, clustering_accuracy
from drnmf.backends.open import open_data
from drnmf.backends.single_blas import single_blas
from drnmf.numerics import LIFT, Array, Vector, factor_floor
from drnmf.runs.read import read_table

BETAS = (1.0, 2.0)
SINGLES = ("kl", "fro")
OURS_MEASURES = ("ours_acc_dr", "ours_dr_kl_excess", "ours_dr_fro_excess")

Factors = tuple[Vector, Vector]


def words(documents: Documents) -> Factors:
    """SPA picks r words: W = X(:, K), H by nonnegative least squares."""
    return spa_factors(open_data(documents.X), documents.rank, np.random.RandomState(0))


def few_sweeps(documents: Documents) -> Factors:
    """The same words, least squares stopped after ten sweeps."""
    W, _ = words(documents)
    return W, nonnegative_least_squares(W.T @ W, (documents.X.T @ W).T, sweeps=10)


def normalised_words(documents: Documents) -> Factors:
    """SPA picks among words scaled to sum one, so that rare words can be picked."""
    X = documents.X
    sums = np.asarray(X.sum(axis=0)).ravel()
    scaled = sp.csr_matrix(X @ sp.diags(1.0 / np.where(sums > 0, sums, 1.0)))
    W = X[:, successive_projection(open_data(scaled), documents.rank)].toarray()
    return W, nonnegative_least_squares(W.T @ W, (X.T @ W).T)


def rows(documents: Documents) -> Factors:
    """SPA picks r documents: H = X(K, :), W by nonnegative least squares."""
    X = documents.X
    H = X[successive_projection(open_data(sp.csr_matrix(X.T)), documents.rank)].toarray()
    return nonnegative_least_squares(H @ H.T, (X @ H.T).T).T, H


VARIANTS: dict[str, Callable[[Documents], Factors]] = {
    "words": words,
    "ten-sweeps": few_sweeps,
    "normalised-words": normalised_words,
    "documents": rows,
}
"""Name -> SPA start; the first is the table's."""


@lru_cache(maxsize=1)
def _factors(dataset: Dataset, variant: str) -> Factors:
    with single_blas():
        return VARIANTS[variant](load_documents(dataset))


def start_of(dataset: Dataset, lift: float, variant: str = "words") -> Start:
    """SPA's factors, lifted, and floored as every start is."""
    documents = load_documents(dataset)
    floor = factor_floor(float(documents.X.mean()), documents.rank)
    W, H = lifted(*_factors(dataset, variant), lift)
    return np.maximum(W, floor), np.maximum(H, floor)


def cost_of(documents: Documents) -> float:
    """Estimate the time of a fit against that of a dense entry of rank 10."""
    return 3.0 * documents.X.nnz * documents.rank / 10.0


def units(
    dataset: Dataset, prefix: str, options: Options, lift: float = LIFT, variant: str = "words", ours: bool = False
) -> list[Unit]:
    """Plan KL-NMF, Fro-NMF and DR-NMF (and the library's default) of one data set from one start."""

    def saved(fit: Fit, _: Vector) -> Saved:
        documents = load_documents(dataset)
        return fit.summary(accuracy=100.0 * clustering_accuracy(documents.labels, assign(documents.X, fit.H)))

    compared = Comparison(
        prefix, SINGLES, BETAS, lambda: (load_documents(dataset).X, start_of(dataset, lift, variant)), saved, options
    )
    settings = options.settings(data=dataset.digest, lift=lift, **({} if variant == "words" else {"start": variant}))
    return compared.units(settings, cost_of(load_documents(dataset)), ours)


def measures(results: Results, prefix: str, ours: bool) -> dict[str, float]:
    """Accuracies of the three methods, and how far each is above the best of the other loss, all in percent."""
    e = references(results, prefix, SINGLES)
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


def with_paper(row: dict[str, Any]) -> dict[str, Any]:
    """The row beside the paper's, where the data set is the paper's."""
    entry = datasets.DOCUMENTS[row["dataset"]]
    if entry.role != "substitute":
        row |= {f"paper_{m}": v for m, v in zip(paper.DOCUMENT_MEASURES, paper.DOCUMENTS[entry.paper][1], strict=True)}
    return row


_CHUNK = 1 << 17
LIFTS = (1e-2, 1e-4, 0.0)
"""Fractions of the mean added to SPA's factors, beside the library's own LIFT, to show what the choice does."""
FLOORS = (0.0, 1e-12, 1e-8, 1e-6, 1e-4)
"""Values below which WH is raised before its KL error is taken, to show how few entries decide that error."""
STUDY_SETS = ("classic", "hitech", "tr11", "tr23", "tr41")
"""Data sets small enough to run for every lift and floor."""
START_SETS = ("hitech", "tr11", "tr23", "tr41")
"""The smallest of them, run for every SPA variant as well."""


def study_units(dataset: Dataset, options: Options) -> list[Unit]:
    """Plan the fits of one data set for every floor, lift and SPA variant."""
    planned = [_floor_unit(dataset, options)]
    for lift in LIFTS:
        planned += units(dataset, f"{dataset.stem}/lift-{lift:g}", options, lift)
    for variant in list(VARIANTS)[1:] if dataset.stem in START_SETS else ():
        planned += units(dataset, f"{dataset.stem}/start-{variant}", options, variant=variant)
    return planned


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
    """Fro-NMF once more, for its KL error with WH raised to several floors, and the fraction of counts raised."""

    def compute(lookup: Lookup, watch: Watch) -> Saved:
        X = load_documents(dataset).X
        fit = fit_single(X, start_of(dataset, LIFT), 2.0, BETAS, options, watch)
        return Saved({"losses": [floored_kl(X, fit.W, fit.H, floor) for floor in FLOORS]})

    settings = options.settings(data=dataset.digest, lift=LIFT, floors=FLOORS)
    return Unit(f"{dataset.stem}/floor", settings, 3.0 * load_documents(dataset).X.nnz, compute)


def lift_table(results: Results) -> list[dict[str, Any]]:
    """How the table depends on the lift: one row per data set and lift, largest first."""
    rows = []
    for stem in results.facts["studied"]:
        for lift in sorted({LIFT, *LIFTS}, reverse=True):
            prefix = stem if lift == LIFT else f"{stem}/lift-{lift:g}"
            rows.append(with_paper({"dataset": stem, "lift": lift, **measures(results, prefix, False)}))
    return rows


def start_table(results: Results) -> list[dict[str, Any]]:
    """How the table depends on SPA's details: one row per data set and variant, the table's own first."""
    rows = []
    for stem in (name for name in results.facts["studied"] if name in START_SETS):
        for variant in VARIANTS:
            prefix = stem if variant == "words" else f"{stem}/start-{variant}"
            rows.append(with_paper({"dataset": stem, "start": variant, **measures(results, prefix, False)}))
    return rows


def floor_table(results: Results) -> list[dict[str, Any]]:
    """The KL error of Fro-NMF over that of KL-NMF, with small entries of WH raised: one row per data set and floor."""
    rows = []
    for stem in results.facts["studied"]:
        e, printed = (
            references(results, stem, SINGLES)[0],
            paper.DOCUMENTS[stem][1][paper.DOCUMENT_MEASURES.index("fro_kl_excess")],
        )
        for floor, loss in zip(FLOORS, results(f"{stem}/floor").values["losses"], strict=True):
            row = {"dataset": stem, "floor": floor, "fro_kl_excess": excess(loss, e)}
            rows.append(row | {"paper_fro_kl_excess": printed})
    return rows


def write_studies(results: Results, out: Path, name: str) -> None:
    """NAME-lift.csv, NAME-starts.csv and NAME-floor.csv."""
    columns = (*paper.DOCUMENT_MEASURES, *(f"paper_{measure}" for measure in paper.DOCUMENT_MEASURES))
    write_csv(out / f"{name}-lift.csv", ("dataset", "lift", *columns), lift_table(results))
    write_csv(out / f"{name}-starts.csv", ("dataset", "start", *columns), start_table(results))
    floors = ("dataset", "floor", "fro_kl_excess", "paper_fro_kl_excess")
    write_csv(out / f"{name}-floor.csv", floors, floor_table(results))


def study_section(folder: Path, name: str) -> str:
    """The studies on the page: floors as a table, the others as their CSV files, which are long."""
    return (
        f"\nHow the numbers depend on the lift of the SPA start is in {name}-lift.csv, how they depend on SPA's "
        f"details in {name}-starts.csv (the table picks *words*; *ten-sweeps* stops the least squares early, "
        "*normalised-words* scales the words to sum one first, *documents* picks rows of X).\n"
        "\nThe KL error of Fro-NMF above KL-NMF's (%) when entries of WH below a floor count as the floor:\n\n"
        + _floors(read_table(folder / f"{name}-floor.csv"))
    )


def _floors(rows: list[Row]) -> str:
    names = list(dict.fromkeys(row["dataset"] for row in rows))
    lines = []
    for name in names:
        mine = [row for row in rows if row["dataset"] == name]
        lines.append(
            [name, *(show(number(row["fro_kl_excess"])) for row in mine), show(number(mine[0]["paper_fro_kl_excess"]))]
        )
    return markdown(("data set", *(f"floor {floor:g}" for floor in FLOORS), "paper"), lines)
