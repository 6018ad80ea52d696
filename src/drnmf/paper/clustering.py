"""Documents into clusters, and how well those match known classes (section 5.2)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from drnmf.numerics import Array


def closest_topic(X: Any, H: Array) -> NDArray[np.intp]:
    """For every row i of X the topic k that maximises X(i,:) H(k,:)' / ||H(k,:)||; an empty topic never wins."""
    norms = np.linalg.norm(H, axis=1)
    directions = H / np.where(norms > 0, norms, 1.0)[:, None]
    return np.asarray(X @ directions.T).argmax(axis=1)


def accuracy(classes: NDArray[np.int64], clusters: NDArray[np.intp]) -> float:
    """Largest share of rows, over all matchings of clusters with classes, that lie in the class of their cluster.

    >>> accuracy(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 1]))
    0.75
    """
    names, index = np.unique(classes, return_inverse=True)
    table = np.zeros((names.size, int(clusters.max()) + 1))
    np.add.at(table, (index, clusters), 1)
    rows, columns = linear_sum_assignment(table, maximize=True)
    return float(table[rows, columns].sum() / classes.size)
