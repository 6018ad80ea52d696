"""The group of every sample, from a file or from its label."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

GroupsFile = Annotated[
    Path | None, typer.Option("--groups", help="Table of two columns, label and group of every sample.")
]
GroupsBefore = Annotated[
    str | None, typer.Option("--groups-before", help="The group is the part of a label before this text (::).")
]


def read_groups(path: Path | None, before: str | None, labels: Sequence[str] | None) -> list[str] | None:
    """Find the group of every sample.

    Parameters
    ----------
    path : a table of labels and groups, comma, semicolon or tab between them, in any order; None where there is none
    before : what stands between the group and the rest of a label; None where labels do not tell
    labels : of the samples

    Raises
    ------
    ValueError
        Where labels are missing, named twice with two groups, or do not hold the text.
    """
    if path is None and before is None:
        return None
    option = "--groups" if path is not None else "--groups-before"
    if path is not None and before is not None:
        raise ValueError("--groups and --groups-before both name the groups: give one of the two.")
    if labels is None:
        raise ValueError(f"{option} needs samples with labels, and X has none: give a table with names.")
    if path is None:
        assert before is not None
        return [_before(label, before) for label in labels]
    known = _table(path)
    missing = [label for label in labels if label not in known]
    if missing:
        shown = ", ".join(map(repr, missing[:5]))
        raise ValueError(f"--groups {path} names no group for {len(missing)} of {len(labels)} samples: {shown}.")
    return [known[label] for label in labels]


def _before(label: str, text: str) -> str:
    group, found, _ = label.partition(text)
    if not found:
        raise ValueError(f"--groups-before {text}: the label {label!r} does not hold it.")
    return group


def _table(path: Path) -> dict[str, str]:
    with path.open(encoding="utf-8-sig", newline="") as stream:
        head = stream.readline()
        stream.seek(0)
        between = max("\t;,", key=head.count)
        rows = [row for row in csv.reader(stream, delimiter=between) if row]
    known: dict[str, str] = {}
    for number, row in enumerate(rows, 1):
        if len(row) != 2:
            raise ValueError(f"--groups {path}: line {number} has {len(row)} cells: write label and group.")
        label, group = (cell.strip() for cell in row)
        if known.setdefault(label, group) != group:
            raise ValueError(f"--groups {path}: {label!r} is in two groups, {known[label]!r} and {group!r}.")
    return known
