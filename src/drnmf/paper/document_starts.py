"""SPA starts of the document experiments: the one of the table, and others that the paper's words allow."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import scipy.sparse as sp

from drnmf.algorithms.initialize import lifted, nonnegative_least_squares, spa_factors, successive_projection
from drnmf.backends.host.single_blas import single_blas
from drnmf.backends.open import open_data
from drnmf.numerics import Vector, factor_floor
from drnmf.paper import datasets
from drnmf.paper.datasets import Dataset, Documents
from drnmf.paper.fits import Start

Factors = tuple[Vector, Vector]


@lru_cache(maxsize=1)
def load(dataset: Dataset) -> Documents:
    """Counts and classes; the last data set is kept."""
    return datasets.load_documents(dataset)


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
        return VARIANTS[variant](load(dataset))


def start_of(dataset: Dataset, lift: float, variant: str = "words") -> Start:
    """SPA's factors, lifted, and floored as every start is."""
    documents = load(dataset)
    floor = factor_floor(float(documents.X.mean()), documents.rank)
    W, H = lifted(*_factors(dataset, variant), lift)
    return np.maximum(W, floor), np.maximum(H, floor)
