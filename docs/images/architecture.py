"""Draw architecture.svg: the walk of X to a result. Run it in this folder; it needs nothing but Python."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path

WIDTH, LEFT, BOX = 520, 20, 480
INK, SOFT, LINE = "#1b2733", "#51606e", "#8796a5"
FILLS = {"input": "#eef2f6", "fit": "#e3eefb", "loop": "#fdf3df", "backend": "#e4f3e8", "result": "#f3e9f7"}


def text(x: float, y: float, words: str, size: int = 14, color: str = INK, weight: str = "400") -> str:
    """Write one line."""
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{color}" font-weight="{weight}">{escape(words)}</text>'


def box(y: float, height: float, kind: str, title: str, room: str, *lines: str, x: float = LEFT, w: float = BOX) -> str:
    """Draw a box with its title, the room it is in, and a few lines."""
    parts = [
        f'<rect x="{x}" y="{y}" width="{w}" height="{height}" rx="8" fill="{FILLS[kind]}" stroke="{LINE}"/>',
        text(x + 14, y + 24, title, 16, weight="700"),
        f'<text x="{x + w - 14}" y="{y + 24}" font-size="13" fill="{SOFT}" text-anchor="end">{escape(room)}</text>',
    ]
    parts += [text(x + 14, y + 47 + 20 * i, line) for i, line in enumerate(lines)]
    return "\n".join(parts)


def path(d: str) -> str:
    """Draw a line that ends in an arrow."""
    return f'<path d="{d}" fill="none" stroke="{INK}" stroke-width="1.6" marker-end="url(#head)"/>'


def arrow(x: float, start: float, end: float) -> str:
    """Draw a vertical arrow."""
    return path(f"M {x} {start} V {end}")


def picture() -> Iterator[str]:
    """Yield the elements from top to bottom."""
    middle, right = LEFT + BOX / 2, LEFT + BOX
    kinds = "an array, sparse matrix, tensor or Dask array:"
    yield box(16, 82, "input", "X -> Problem", "problem/", kinds, "checked once, placed, in a unit of its own")
    yield arrow(middle, 98, 124)
    steps = (
        "starts: W and H to begin from",
        "references: the best of each loss alone",
        "runs from every start; the best is kept",
    )
    yield box(124, 102, "fit", "solve(problems, runner)", "solve/", *steps)
    yield arrow(middle, 226, 252)
    steps = (
        "sweep, step H",
        "sweep, step W",
        "move the weights of the losses",
        "a row of the trace; a checkpoint; stop?",
    )
    yield box(252, 122, "loop", "One loop", "algorithms/", *steps)
    for y, who in ((299, "Rule"), (319, "Rule, transposed"), (339, "Policy")):
        yield text(290, y, who, weight="700")
    yield path(f"M {right - 58} 359 h 36 v -60 h -22")
    yield arrow(150, 374, 418)
    yield text(162, 401, "Ask", weight="700")
    yield arrow(330, 418, 374)
    yield text(342, 401, "Sweep: losses, N, P", weight="700")
    layouts = ("host: NumPy, compiled; torch: GPU; dask: blocks", "tiles.py: any array library, the oracle")
    sees = ("the only code that sees X: one pass gives", "every loss and every part of the gradient")
    yield box(418, 122, "backend", "Data and Space", "backends/", *sees, *layouts)
    yield arrow(middle, 566, 540)
    yield box(566, 60, "backend", "Loss", "losses/", "terms, parts, curvature: entry by entry")
    yield path(f"M {LEFT} 314 h -10 v 374 h 8")
    names = ("attributes of an estimator, a front, a model file,", "a run folder and its page")
    yield box(650, 82, "result", "Result", "estimators/, cli/, report/", *names)


def main() -> None:
    height = 748
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="Helvetica, Arial, DejaVu Sans, sans-serif" role="img" aria-label="The walk of X to a result">'
    )
    marker = (
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M 0 0 L 8 4 L 0 8 z" fill="{INK}"/></marker></defs>'
    )
    body = [head, marker, f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>', *picture(), "</svg>"]
    Path(__file__).with_suffix(".svg").write_text("\n".join(body) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
