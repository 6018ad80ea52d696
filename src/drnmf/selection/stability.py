"""Do runs from different starts find the same components?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from scipy.optimize import linear_sum_assignment

from drnmf.algorithms.result import Result
from drnmf.numerics import Vector
from drnmf.problem.device import as_numpy


def agreement(runs: Sequence[Result]) -> float:
    """Compute the mean cosine of the components H of every two runs, matched one to one."""
    components = [unit_rows(np.asarray(as_numpy(run.H), dtype=np.float64)) for run in runs]
    return float(np.mean([matched(a, b).mean() for a, b in combinations(components, 2)]))


def unit_rows(H: Vector) -> Vector:
    """Scale every row to length one; a row of zeros stays.

    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    length = np.linalg.norm(H, axis=1, keepdims=True)
    return H / np.where(length > 0, length, 1.0)


def matched(a: Vector, b: Vector) -> Vector:
    """Compute the cosines of rows of unit length, matched so that their sum is largest.

    >>> matched(np.eye(2), np.eye(2)[::-1]).tolist()
    [1.0, 1.0]
    """
    cosines = a @ b.T
    return np.asarray(cosines[linear_sum_assignment(-cosines)])
