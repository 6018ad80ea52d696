"""Make the pictures of reports that the documentation shows, from runs of the present code on data made here.

    make pictures

Needs Chromium (Debian: apt-get install chromium, or name one in DRNMF_CHROMIUM). Writes docs/images/report-*.png.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, sync_playwright

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
KINDS = ("discover", "separate", "topics")
HEIGHT = 1420
WORDS = {
    "sea": "harbour wave captain sail anchor island storm crew voyage salt",
    "kitchen": "bread oven butter recipe onion salt oil spoon pepper soup",
    "music": "piano violin melody concert rhythm choir tempo chord singer stage",
}


def table(path: Path, X: Any, row: str, column: str) -> None:
    """Write counts with names of rows and columns."""
    lines = [",".join(["", *(f"{column} {j + 1}" for j in range(X.shape[1]))])]
    lines += [",".join([f"{row} {i + 1}", *map(str, values)]) for i, values in enumerate(X.tolist())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def catalogue(path: Path) -> None:
    """Counts of 96 kinds in 120 samples: five profiles, negative-binomial noise of size 30."""
    rng = np.random.default_rng(0)
    mean = rng.gamma(0.4, 3000.0, (120, 5)) @ rng.dirichlet(np.full(96, 0.2), 5)
    table(path, rng.negative_binomial(30, 30 / (30 + mean)), "sample", "kind")


def texts(folder: Path) -> None:
    """Sixty texts, each about one of three subjects and a little about the others."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    everything = " ".join(WORDS.values()).split()
    for subject, words in WORDS.items():
        for i in range(20):
            own = rng.choice(words.split(), 60, p=rng.dirichlet(np.full(10, 0.7)))
            text = " ".join([*own, *rng.choice(everything, 6)])
            (folder / f"{subject}-{i:02d}.txt").write_text(text, encoding="utf-8")


def runs(place: Path) -> dict[str, Path]:
    """One run of every kind that has a page, and where its page is."""
    catalogue(place / "catalogue.csv")
    texts(place / "texts")
    drnmf(place, "demo")
    shutil.copy(place / "demo" / "mixture" / "mixture.wav", place / "tune.wav")
    drnmf(place, "discover", "catalogue.csv", "--ranks", "2:10")
    drnmf(place, "separate", "tune.wav", "--rank", "4", "--window", "512", "--hop", "256")
    drnmf(place, "topics", "texts", "--rank", "3", "--max-df", "0.9")
    return {kind: place / kind / "report.html" for kind in KINDS}


def drnmf(place: Path, command: str, *words: str) -> None:
    """Run one command of this package; its results go into a folder of its name."""
    call = [sys.executable, "-m", "drnmf", command, *words, "--out", command, "--quiet"]
    subprocess.run(call, cwd=place, check=True)


def shot(browser: Browser, page: Path, width: int, height: int, theme: Any, path: Path) -> None:
    """Take a picture of the top of a page."""
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
    opened = context.new_page()
    opened.goto(page.resolve().as_uri())
    opened.wait_for_selector("html[data-ready=yes]")
    opened.screenshot(path=path)
    context.close()


def main() -> None:
    names = ("chromium", "chromium-browser", "google-chrome")
    chromium = os.environ.get("DRNMF_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if chromium is None:
        sys.exit("No Chromium here: install it (Debian: apt-get install chromium) or name it in DRNMF_CHROMIUM.")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        pages = runs(Path(folder))
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for kind, page in pages.items():
            shot(browser, page, 1200, HEIGHT, "dark" if kind == "separate" else "light", IMAGES / f"report-{kind}.png")


if __name__ == "__main__":
    main()
