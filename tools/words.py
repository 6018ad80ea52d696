"""Count the words of every page of the site: `make docs`, then `python tools/words.py`.

What the article of a page shows is counted, tables and code too; the API reference and the changelog, which nobody
reads through, are not. `--most 40000` fails where the sum is above.
"""

from __future__ import annotations

import argparse
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

LEFT_OUT = re.compile(r"^(api/|_|genindex|search|py-modindex|changelog|gallery/sg_)")
"""Pages that are looked up, not read."""
VOID = {"br", "img", "hr", "input", "meta", "link", "col", "source", "wbr", "area"}


class Words(HTMLParser):
    """The words of the <article> of a page, and how many of them stand in code blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.code: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            while self.open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if "article" in self.open and not {"script", "style"} & set(self.open):
            (self.code if "pre" in self.open else self.text).append(data)


def count(pieces: list[str]) -> int:
    """Count what has a letter or a digit and no space in it."""
    return len(re.findall(r"\S*\w\S*", "".join(pieces)))


def main() -> None:
    """Print a table, the longest pages first, and the sums."""
    parser = argparse.ArgumentParser(description="Count the words of every page of the site.")
    parser.add_argument("site", nargs="?", type=Path, default=Path("build/docs/html"))
    parser.add_argument("--most", type=int, help="fail where text has more words than this")
    options = parser.parse_args()
    rows = []
    for path in sorted(options.site.rglob("*.html")):
        name = path.relative_to(options.site).with_suffix("").as_posix()
        if not LEFT_OUT.match(name):
            page = Words()
            page.feed(path.read_text(encoding="utf-8"))
            rows.append((count(page.text), count(page.code), name))
    if not rows:
        sys.exit(f"{options.site} holds no pages: build them with `make docs`.")
    print("| page | words | words of code |\n|---|---|---|")
    for text, code, name in sorted(rows, reverse=True):
        print(f"| {name} | {text} | {code} |")
    total = sum(text for text, _, _ in rows)
    print(f"| **all** | {total} | {sum(code for _, code, _ in rows)} |")
    if options.most is not None and total > options.most:
        sys.exit(f"{total} words are more than {options.most}.")


if __name__ == "__main__":
    main()
