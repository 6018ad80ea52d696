"""Mutation types of single bases, however they are spelt."""

from __future__ import annotations

import re
from collections.abc import Iterable

_APART = re.compile(r"^([CT])>([ACGT])[\s:_,-]*([ACGT])\1([ACGT])$")
_WHOLE = re.compile(r"^[ACGT]\[([CT]>[ACGT])\][ACGT]$")

SUBSTITUTIONS = ("C>A", "C>G", "C>T", "T>A", "T>C", "T>G")
"""The six substitutions in the order of the field."""


def spelt(label: str) -> str:
    """Write a mutation type as COSMIC does, whichever way it is written; any other label stays as it is.

    >>> spelt("C>A ACG"), spelt("A[C>A]G"), spelt("height")
    ('A[C>A]G', 'A[C>A]G', 'height')
    """
    parts = _APART.match(label.strip())
    return f"{parts[3]}[{parts[1]}>{parts[2]}]{parts[4]}" if parts else label.strip()


def substitution(label: str) -> str | None:
    """Return the substitution of a mutation type; None for any other label.

    >>> substitution("C>A ACG"), substitution("height")
    ('C>A', None)
    """
    parts = _WHOLE.match(spelt(label))
    return parts[1] if parts else None


def are_mutations(labels: Iterable[str] | None) -> bool:
    """Tell whether labels are mutation types, every one of them.

    >>> are_mutations(["C>A ACG", "A[C>A]A"]), are_mutations(["C>A ACG", "height"]), are_mutations(None)
    (True, False, False)
    """
    listed = list(labels or ())
    return len(listed) > 1 and all(substitution(label) is not None for label in listed)
