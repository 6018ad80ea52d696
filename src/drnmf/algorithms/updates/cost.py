"""What an iteration of second order costs, by which the default rule chooses its curvature.

With E entries of X that a sweep visits, S columns of all blocks together and r components, an iteration takes about, in
nanoseconds,

    plain    400,000 + E (8 + 0.2 r) + 25 S r                two sweeps, and what Python adds
    own      plain + E r (r + 1) 0.08 / s + 5.4 S r^2        that of every column, good for s steps, and its model
    shared   plain + 950,000 + 86 S r                        one for all columns, scaled to each in NumPy

(one core with AVX2, docs/development/performance.md; only ratios matter). To the same loss the own curvature needs 1.7
to 2.8 times fewer iterations.
"""

from __future__ import annotations

from drnmf.numerics import OWN_GAIN


def own_pays(rank: int, entries: int, columns: int, serves: int) -> bool:
    """Tell whether a curvature for every column is worth what it costs.

    Parameters
    ----------
    rank : r
    entries : of X that a sweep visits
    columns : of all blocks together
    serves : steps that one curvature serves

    Examples
    --------
    >>> own_pays(30, 60 * 80, 60 + 80, 3), own_pays(30, 2000 * 500, 2000 + 500, 3)
    (True, False)
    """
    plain = 4e5 + entries * (8.0 + 0.2 * rank) + 25.0 * columns * rank
    own = plain + entries * rank * (rank + 1) * 0.08 / serves + 5.4 * columns * rank**2
    shared = plain + 9.5e5 + 86.0 * columns * rank
    return own <= OWN_GAIN * shared
