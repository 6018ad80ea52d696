"""What an iteration of second order costs, by which the default rule chooses its curvature.

With E entries of X, S columns of all blocks together and r components, an iteration takes about, in nanoseconds,

    plain    E (3 + 0.2 r)                                 two sweeps
    own      plain + E r (r + 1) 0.08 / s + S r^2 0.64     that of every column, good for s steps, and its model
    shared   plain + S r 60 + 200,000                      one for all columns, scaled to each in NumPy

(one core with AVX-512, benchmarks/native.py and the timings of docs/development/performance.md; only ratios matter).
To the same loss the own curvature needs 1.75 to 2.1 times fewer iterations.
"""

from __future__ import annotations

from drnmf.numerics import OWN_GAIN


def own_pays(rank: int, entries: int, columns: int, serves: int) -> bool:
    """Tell whether a curvature for every column is worth what it costs.

    Parameters
    ----------
    rank : r
    entries : of X
    columns : of all blocks together
    serves : steps that one curvature serves

    Examples
    --------
    >>> own_pays(30, 60 * 80, 60 + 80, 3), own_pays(30, 2000 * 500, 2000 + 500, 3)
    (True, False)
    """
    plain = entries * (3.0 + 0.2 * rank)
    own = plain + entries * rank * (rank + 1) * 0.08 / serves + columns * rank**2 * 0.64
    shared = plain + columns * rank * 60.0 + 2e5
    return own <= OWN_GAIN * shared
