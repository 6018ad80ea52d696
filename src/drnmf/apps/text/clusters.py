"""Documents to clusters by the paper's rule, and how well clusters match classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

from drnmf.numerics import Array

Labels = NDArray[np.int64]


def assign(X: Any, H: Array) -> Labels:
    """Assign every document to a cluster: argmax_k X(i,:) H(k,:)' / ||H(k,:)|| (section 5.2).

    Parameters
    ----------
    X : (documents, words), dense or sparse
    H : (topics, words)

    Returns
    -------
    clusters : (documents,) of int64

    Examples
    --------
    >>> assign(np.array([[1.0, 0], [0, 2]]), np.array([[0.0, 3], [5, 0]])).tolist()
    [1, 0]
    """
    norms = np.linalg.norm(np.asarray(H, dtype=np.float64), axis=1)
    directions = H / np.maximum(norms, np.finfo(np.float64).tiny)[:, None]
    return np.asarray(np.asarray(X @ directions.T).argmax(axis=1), dtype=np.int64)


def clustering_accuracy(labels: ArrayLike, clusters: ArrayLike) -> float:
    """Compute the fraction of documents in the right place under the best matching of clusters with classes.

    Parameters
    ----------
    labels, clusters : (documents,), the class and the cluster of every document

    Returns
    -------
    accuracy : float, at best 1

    Examples
    --------
    >>> clustering_accuracy([0, 0, 1, 1], [1, 1, 0, 1])
    0.75
    """
    table = np.asarray(contingency_matrix(labels, clusters))
    rows, columns = linear_sum_assignment(-table)
    return float(table[rows, columns].sum() / table.sum())


@dataclass(frozen=True)
class Scores:
    """Accuracy (the paper's), normalised mutual information and adjusted Rand index, each at best 1."""

    accuracy: float
    nmi: float
    ari: float


def score(labels: ArrayLike, clusters: ArrayLike) -> Scores:
    """Compute accuracy, NMI and ARI of one clustering.

    Parameters
    ----------
    labels, clusters : (documents,), the class and the cluster of every document

    Returns
    -------
    scores : Scores
    """
    return Scores(
        clustering_accuracy(labels, clusters),
        float(normalized_mutual_info_score(labels, clusters)),
        float(adjusted_rand_score(labels, clusters)),
    )
