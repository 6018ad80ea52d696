"""Components into sources: given, by similarity, or by what resembles a reference."""

from __future__ import annotations

import numpy as np
from scipy.cluster.hierarchy import cut_tree, fcluster, linkage
from scipy.optimize import linear_sum_assignment

from drnmf.numerics import Array, Vector

Groups = tuple[tuple[int, ...], ...]

SIMILAR = 0.6
"""Automatic grouping joins components whose similarity is above this."""


def parse_groups(text: str, rank: int) -> Groups | int | None:
    """Read how components are to be grouped: "1,3/2,4" (given), "3" (that many, by similarity) or "auto" (None).

    Text counts components from 1, as files and pages do; what comes back are their positions, from 0.

    >>> parse_groups("1,3/2,4", 4), parse_groups("2", 4), parse_groups("auto", 4)
    (((0, 2), (1, 3)), 2, None)
    """
    text = text.strip()
    if text == "auto":
        return None
    try:
        groups = tuple(tuple(int(item) for item in part.split(",")) for part in text.split("/"))
    except ValueError:
        raise ValueError(f"group={text!r} is not understood: use auto, a number, or lists such as 1,3/2,4.") from None
    if len(groups) == 1 and len(groups[0]) == 1:
        if not 1 <= groups[0][0] <= rank:
            raise ValueError(f"group={text} asks for {groups[0][0]} sources of {rank} components: use 1 to {rank}.")
        return groups[0][0]
    return check_groups(tuple(tuple(k - 1 for k in group) for group in groups), rank)


def check_groups(groups: Groups, rank: int) -> Groups:
    """Check that no component is in two groups; what was left out becomes a group of its own, at the end."""
    named = [k for group in groups for k in group]
    strange = sorted({k for k in named if not 0 <= k < rank})
    if strange:
        raise ValueError(f"group names component {strange[0] + 1}, but there are {rank}, numbered 1 to {rank}.")
    twice = sorted({k for k in named if named.count(k) > 1})
    if twice:
        raise ValueError(f"group names component {twice[0] + 1} twice: a component belongs to one source.")
    rest = tuple(sorted(set(range(rank)) - set(named)))
    return (*groups, rest) if rest else groups


def _cosines(rows: Array) -> Vector:
    unit = np.asarray(rows, dtype=np.float64)
    unit = unit / np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    return unit @ unit.T


def similarity(W: Array, H: Array) -> Vector:
    """Compute the mean of the cosines of two spectra and of two activations, (r, r), from 0 to 1."""
    return 0.5 * (_cosines(np.asarray(W).T) + _cosines(H))


def group_components(W: Array, H: Array, count: int | None = None) -> Groups:
    """Group components by similarity (average linkage).

    Parameters
    ----------
    W, H : spectra (bins, r) and activations (r, frames)
    count : how many groups; None makes as many as SIMILAR leaves apart

    Returns
    -------
    groups : tuple of tuples of positions, from 0

    Examples
    --------
    >>> spectra = np.array([[1.0, 1, 0], [0, 0, 1]])
    >>> group_components(spectra, np.array([[1.0, 0], [1, 0.1], [0, 1]]))
    ((0, 1), (2,))
    """
    rank = np.shape(H)[0]
    if rank == 1:
        return ((0,),)
    distance = np.maximum(1.0 - similarity(W, H), 0.0)
    tree = linkage(distance[np.triu_indices(rank, 1)], method="average")
    # Where distances tie, fcluster makes fewer groups than it is asked for.
    labels = fcluster(tree, 1.0 - SIMILAR, criterion="distance") if count is None else cut_tree(tree, count)[:, 0]
    found: dict[int, list[int]] = {}
    for k, name in enumerate(labels):
        found.setdefault(int(name), []).append(k)
    return tuple(sorted(tuple(group) for group in found.values()))


def match_components(likeness: Vector) -> Groups:
    """Group components by how much each of r resembles each of s references, (r, s).

    Every reference first gets the component of the best one-to-one assignment, so none is left empty (where r >= s);
    every other component joins the reference it resembles most.
    """
    rank, count = likeness.shape
    if rank < count:
        raise ValueError(f"{rank} components cannot make {count} sources: raise the rank.")
    owner = likeness.argmax(axis=1)
    first, second = linear_sum_assignment(-likeness)
    owner[first] = second
    return tuple(tuple(int(k) for k in np.flatnonzero(owner == s)) for s in range(count))
