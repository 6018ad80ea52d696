"""A real browser, where there is one: DRNMF_CHROMIUM names it, else chromium or google-chrome on the PATH."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--autoplay-policy=no-user-gesture-required",
]  # fmt: skip


def find_browser() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return os.environ.get("DRNMF_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = find_browser()
    if path is None:
        pytest.skip("no Chromium here: install it (Debian: apt-get install chromium) or name it in DRNMF_CHROMIUM")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=path, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def screenshots() -> Path | None:
    """Where pictures go: the folder in DRNMF_SCREENSHOTS; None takes none."""
    name = os.environ.get("DRNMF_SCREENSHOTS")
    if not name:
        return None
    folder = Path(name)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
