"""Messages of the library in the words of the command line: `--zeros floor` where Python says zeros='floor'."""

from __future__ import annotations

import re

_FLAGS = {
    "n_components": "--rank", "n_topics": "--rank", "random_state": "--seed", "column": "--column",
    "encoding": "--encoding", "group": "--group", "method": "--method", "variable": "--variable",
} | {
    name: "--" + name.replace("_", "-")
    for name in (
        "betas", "weights", "policy", "update", "init", "max_iter", "tol", "n_init", "max_time", "zeros", "device",
        "precision", "checkpoint", "checkpoint_every", "min_df", "max_df", "max_features", "stop_words", "window",
        "hop", "power", "labels", "delimiter", "sheet", "transpose",
    )
}  # fmt: skip
"""Parameters of the library -> options of the commands."""

_WORDS = ("betas", "tol", *(name for name in _FLAGS if "_" in name))
"""Parameters whose name is no word of its own: they are options wherever they stand."""

_IN_PYTHON = re.compile(r" \([^()]*\bin Python\)")
_VALUE = r"""'[^']*'|"[^"]*"|\([^()]*\)|\[[^\[\]]*\]|[-+\w]+(?:\.\w+)*"""
_GIVEN = re.compile(rf"(?<![-\w])({'|'.join(_FLAGS)})=({_VALUE})")
_NAMED = re.compile(rf"(?<![-\w./])({'|'.join(_WORDS)})(?![-\w=/]|\.\w)")


def in_options(text: str) -> str:
    """Write options where a message of the library has parameters, and leave out what it says to Python alone.

    >>> in_options("raise max_iter, or set tol=0")
    'raise --max-iter, or set --tol 0'
    >>> in_options("Pass zeros='floor', betas=(0, 1) or --labels 2 (labels=2 in Python).")
    'Pass --zeros floor, --betas 0,1 or --labels 2.'
    """
    text = _GIVEN.sub(lambda found: f"{_FLAGS[found[1]]} {_value(found[2])}", _IN_PYTHON.sub("", text))
    return _NAMED.sub(lambda found: _FLAGS[found[1]], text)


def _value(text: str) -> str:
    """Write a value as one types it: no quotes, no brackets, no spaces after commas."""
    if text[0] in "([":
        return ",".join(item.strip().strip("'\"") for item in text[1:-1].split(",") if item.strip())
    return text.strip("'\"")
