"""Names that a spreadsheet would run as formulas: an apostrophe before them says that they are text."""

from __future__ import annotations

import re

_FORMULA = re.compile(r"'*\s*(?:[=@]|[+-](?:[^\W\d_].*[(!|]|.*\|.*!))", re.DOTALL)
"""= and @, signs before a call or a reference, and signs before a command ("-2+3+cmd|' /C calc'!A0"); apostrophes
before them count too, so that reading takes away exactly the one that writing put there."""


def guarded(name: str) -> str:
    """Put an apostrophe before a name that a spreadsheet would run; other names stay as they are.

    >>> [guarded(name) for name in ("=1+1", "@SUM(A1)", "+cmd|' /C calc'!A0", "+", "-1", "A>C", "+/- error")]
    ["'=1+1", "'@SUM(A1)", "'+cmd|' /C calc'!A0", '+', '-1', 'A>C', '+/- error']
    """
    return f"'{name}" if _FORMULA.match(name) else name


def unguarded(name: str) -> str:
    """Invert `guarded`.

    >>> unguarded("'=1+1"), unguarded("'tis")
    ('=1+1', "'tis")
    """
    return name[1:] if name.startswith("'") and _FORMULA.match(name) else name
