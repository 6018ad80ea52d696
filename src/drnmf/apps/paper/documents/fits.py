"""The fits of the document experiments: from SPA starts, with clustering accuracy, and what a table says of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.algorithms.initialize import lifted, nonnegative_least_squares, spa_factors, successive_projection
from drnmf.apps.paper import datasets, paper
from drnmf.apps.paper.datasets import Dataset, Documents, load_documents
from drnmf.apps.paper.fits import Comparison, Fit, Options, Start, excess, references
from drnmf.apps.paper.store import Results, Saved, Unit
from drnmf.apps.text.clusters import assign, clustering_accuracy
from drnmf.backends.open import open_data
from drnmf.backends.single_blas import single_blas
from drnmf.numerics import LIFT, Vector, factor_floor

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
