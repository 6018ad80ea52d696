"""Put the code that a page of the documentation names into the page: real classes, never retyped.

A page marks the place, and whatever stands between the two comments is replaced:

    <!-- include src/drnmf/losses/base.py Loss -->
    <!-- end include -->

The name is that of a class, a function or a table at the top level of the file; without one the whole file is taken.
Run ``python tools/include_code.py docs/extending.md`` after the code has changed; a test compares.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
MARKED = re.compile(r"^<!-- include (\S+)(?: (\w+))? -->\n.*?^<!-- end include -->$", flags=re.MULTILINE | re.DOTALL)


def code_of(path: str, name: str | None) -> str:
    """Return the source of one definition of a file, with its decorators and the text below a table."""
    text = (ROOT / path).read_text(encoding="utf-8")
    if name is None:
        return text.rstrip("\n")
    for node in ast.parse(text).body:
        if name in _names(node):
            decorators = getattr(node, "decorator_list", [])
            first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
            return "\n".join(text.splitlines()[first - 1 : node.end_lineno])
    raise ValueError(f"{path} defines no {name}.")


def _names(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {target.id for target in targets if isinstance(target, ast.Name)}


def expanded(page: str) -> str:
    """Return the text of a page with the present code at every mark.

    The fence says ``py``, not ``python``: code of the package is shown, and blocks of the reader's own are run.
    """

    def include(mark: re.Match[str]) -> str:
        path, name = mark[1], mark[2]
        head = f"<!-- include {path}{f' {name}' if name else ''} -->"
        return f"{head}\n```py\n{code_of(path, name)}\n```\n<!-- end include -->"

    return MARKED.sub(include, page)


def main(paths: list[str]) -> None:
    for path in map(Path, paths):
        path.write_text(expanded(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
