"""The site of the documentation in a real Chromium, from its files: silent on the network, and searchable."""

from __future__ import annotations

from pathlib import Path

import pytest

SITE = Path(__file__).parents[2] / "build" / "docs" / "html"
SCREENS = {"desktop": (1400, 900), "phone": (390, 844)}
PAGES = (
    "index.html", "install.html", "quickstart.html", "guide.html", "estimators.html", "command-line.html",
    "gallery/index.html", "gallery/quickstart.html", "gallery/separate_a_tune.html", "gallery/hyperspectral.html",
    "api/generated/index.html", "api/generated/drnmf.DRNMF.html", "developer.html",
    "architecture.html", "extending.html",
)  # fmt: skip

pytestmark = pytest.mark.skipif(not (SITE / "index.html").exists(), reason="the site was not built: make docs")


@pytest.fixture(params=SCREENS)
def opened(request, browser):
    """A function that opens a page and returns it with what it asked for and complained about."""
    width, height = SCREENS[request.param]
    context = browser.new_context(viewport={"width": width, "height": height}, offline=True)
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda sent: asked.append(sent.url))
    page.on("requestfailed", lambda sent: asked.append(f"failed: {sent.url}"))
    page.on("pageerror", lambda error: asked.append(f"error: {error}"))

    def open_page(name: str):
        page.goto((SITE / name).as_uri())
        page.wait_for_load_state("load")
        return page, asked

    yield request.param, open_page
    context.close()


@pytest.mark.parametrize("name", PAGES)
def test_pages_open_without_a_network_and_fit_the_screen(opened, name: str, screenshots: Path | None) -> None:
    screen, open_page = opened
    page, asked = open_page(name)
    page.wait_for_timeout(300)  # formulas and menus are drawn after loading
    assert [url for url in asked if not url.startswith(("file://", "data:", "blob:"))] == []
    assert page.inner_text("h1").strip()
    too_wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert too_wide <= 1, f"{too_wide} pixels to the right of the screen"
    broken = page.evaluate("[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)")
    assert broken == []
    if screenshots is not None:
        page.screenshot(path=screenshots / f"site-{screen}-{name.replace('/', '-')}.png", full_page=True)


def test_formulas_are_drawn(opened) -> None:
    page, _ = opened[1]("quickstart.html")
    page.wait_for_selector("mjx-container", timeout=30_000)


def test_search_finds_pages_and_public_names(opened) -> None:
    page, asked = opened[1]("index.html")
    for words, wanted in (("pareto_front", "pareto_front"), ("hyperspectral", "hyperspectral")):
        page.goto((SITE / "search.html").as_uri() + f"?q={words}")
        page.wait_for_selector("#search-results li a", timeout=30_000)
        links = page.eval_on_selector_all("#search-results li a", "links => links.map(link => link.href)")
        assert any(wanted in link for link in links), links
    assert [url for url in asked if not url.startswith(("file://", "data:", "blob:"))] == []
