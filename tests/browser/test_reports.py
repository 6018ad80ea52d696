"""Reports of every kind in a real Chromium: drawn, silent on the console and the network, right in sound, inert."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from drnmf.apps.audio import demo, page
from drnmf.cli import app

pytest.importorskip("plotly")
sf = pytest.importorskip("soundfile")

KINDS = ("demo", "separate", "topics", "fit", "pareto", "table", "interval", "discover")
SCREENS = {"desktop": (1400, 900), "phone": (390, 844)}
THEMES = {
    "sea": "ship harbour wave captain sail anchor island storm crew voyage",
    "garden": "rose seed soil spade tomato blossom compost bee apple harvest",
    "music": "piano violin melody concert rhythm choir tempo chord singer stage",
}


def _run(*words: object) -> None:
    arguments = [str(word) for word in words]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["drnmf", *arguments])
        result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output


def _texts(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    folder.mkdir()
    labels = []
    for theme, words in THEMES.items():
        for i in range(20):
            weights = rng.dirichlet(np.full(10, 0.7))
            own, other = rng.choice(words.split(), 60, p=weights), rng.choice(" ".join(THEMES.values()).split(), 6)
            (folder / f"{theme}-{i:02d}.txt").write_text(" ".join([*own, *other]))
            labels.append(theme)
    (folder.parent / "labels.txt").write_text("\n".join(labels) + "\n")
    return folder


@pytest.fixture(scope="module")
def reports(browser, tmp_path_factory) -> dict[str, Path]:
    """A run of every kind; file names, document names and words try to be markup."""
    place = tmp_path_factory.mktemp("browser")
    rng = np.random.default_rng(0)
    W, H = rng.gamma(0.6, 1.0, (120, 5)), rng.gamma(0.6, 1.0, (5, 90))
    np.save(place / "X.npy", (W @ H + 0.02) * rng.gamma(4.0, 0.25, (120, 90)))
    out = {kind: place / kind for kind in KINDS}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "STARTS", 3)
        _run("demo", "--out", out["demo"], "--quiet")
    mixture = place / "<script>document.title='taken'</script>.wav".replace("/", "∕")
    shutil.copy(out["demo"] / "mixture" / "mixture.wav", mixture)
    shared = ("--quiet", "--max-iter", 150)
    _run(
        "separate",
        mixture,
        "--rank",
        5,
        "--window",
        512,
        "--hop",
        256,
        "--group",
        "3",
        "--out",
        out["separate"],
        *shared,
    )
    texts = _texts(place / "texts")
    (texts / "sea-00.txt").rename(texts / "sea-00<img src=x onerror=document.title='taken'>.txt")
    _run(
        "topics", texts, "--rank", 3, "--max-df", 0.9, "--labels", place / "labels.txt", "--out", out["topics"], *shared
    )
    _run("fit", place / "X.npy", "--rank", 5, "--betas", "0,1,2", "--out", out["fit"], *shared)
    _run("pareto", place / "X.npy", "--rank", 5, "--betas", "0,1", "--out", out["pareto"], *shared)
    names = "".join(f",{'<b>tumour</b>' if j == 3 else 'a rather long name of tumour'} {j}" for j in range(90))
    rows = "".join(f"type {i}," + ",".join(map(repr, row)) + "\n" for i, row in enumerate((W @ H + 0.02).tolist()))
    (place / "table.csv").write_text(f"{names}\n{rows}")
    six = ("--betas", "0,0.5,1,1.5,2,3")
    _run("fit", place / "table.csv", "--rank", 5, *six, "--out", out["table"], *shared)
    _run("fit", place / "table.csv", "--rank", 5, "--betas", "0..2", "--out", out["interval"], *shared)
    _discovered(place, out["discover"])
    return out


def _discovered(place: Path, out: Path) -> None:
    """Counts of three known profiles, one of whose names is markup."""
    rng = np.random.default_rng(0)
    known = np.repeat(np.eye(3), 12, axis=1) * rng.gamma(2.0, 1.0, 36) + 0.02
    X = rng.poisson(rng.gamma(0.4, 60.0, (50, 3)) @ known).T
    names = "".join(f",{'<b>tumour</b>' if j == 3 else 'tumour'} {j}" for j in range(50))
    rows = "".join(f"type {i}," + ",".join(map(str, row)) + "\n" for i, row in enumerate(X.tolist()))
    (place / "catalog.csv").write_text(f"{names}\n{rows}")
    rows = "".join(f"type {i}," + ",".join(map(repr, row)) + "\n" for i, row in enumerate(known.T.tolist()))
    (place / "known.csv").write_text(f",one,<b>two</b>,three\n{rows}")
    words = ("--profiles", "rows", "--reference", place / "known.csv", "--ranks", "2:5", "--runs", 4, "--max-iter", 150)
    _run("discover", place / "catalog.csv", *words, "--out", out, "--quiet")


COLLISIONS = """[...document.querySelectorAll('.chart')].flatMap(chart => ['.xtick text', '.ytick text', '.bartext',
  '.legendtext'].flatMap(kind => {
    const texts = [...chart.querySelectorAll(kind)].filter(t => t.textContent && !(t.getAttribute('transform') || '')
      .match(/rotate\\(-?(?!0[,)])\\d/)).map(t => [t.textContent, t.getBoundingClientRect()]);
    const wide = (p, q) => Math.min(p.right, q.right) - Math.max(p.left, q.left);
    const high = (p, q) => Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
    return texts.flatMap(([a, p], i) => texts.slice(i + 1).filter(([b, q]) => wide(p, q) > 1 && high(p, q) > 4)
      .map(([b]) => `${chart.id} ${kind}: ${a} / ${b}`));
  }))"""
"""Labels of a chart that lie on one another; those at an angle have boxes that say little."""


def wait(page, condition: str, seconds: float = 30.0) -> None:
    """Until a condition holds. Playwright's own wait evaluates text in the page, which the page's policy forbids."""
    for _ in range(int(seconds / 0.05)):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never came true: {condition}")


class Opened:
    """A page and everything it said or asked for."""

    def __init__(self, browser, path: Path, screen: str, theme: str) -> None:
        width, height = SCREENS[screen]
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=theme, device_scale_factor=1 if width > 500 else 2
        )
        self.page = self.context.new_page()
        self.console: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.console.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.console.append(f"error: {error}"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("dialog", lambda dialog: self.console.append(f"dialog: {dialog.message}"))
        self.page.goto(path.as_uri())
        wait(self.page, "document.documentElement.dataset.ready === 'yes'")

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("screen", list(SCREENS))
@pytest.mark.parametrize("kind", KINDS)
def test_a_report_draws_and_keeps_to_itself(browser, reports, screenshots, kind, screen, theme):
    path = reports[kind] / "report.html"
    with Opened(browser, path, screen, theme) as opened:
        page = opened.page
        assert opened.console == []
        assert [url for url in opened.requests if not url.startswith(("data:", "blob:"))] == [path.as_uri()]
        charts = page.evaluate(
            "[...document.querySelectorAll('.chart')].map(c => [c.id, c.dataset.drawn, c.querySelectorAll("
            "'.trace, .heatmaplayer image, .bars .point, .scatterlayer path').length, c.clientWidth])"
        )
        assert charts
        assert all(drawn == "yes" and marks > 0 and width > 250 for _, drawn, marks, width in charts), charts
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == ("rgb(16, 20, 26)" if theme == "dark" else "rgb(246, 247, 249)")
        assert page.evaluate("document.title") != "taken"
        assert page.evaluate(COLLISIONS) == []
        if screenshots is not None:
            page.screenshot(path=screenshots / f"{kind}-{screen}-{theme}.png", full_page=True)


@pytest.mark.parametrize("kind", ["demo", "separate"])
def test_players_have_the_right_duration_and_play(browser, reports, kind):
    with Opened(browser, reports[kind] / "report.html", "desktop", "light") as opened:
        page = opened.page
        wait(page, "[...document.querySelectorAll('audio')].every(a => a.readyState >= 1)")
        found = page.evaluate("[...document.querySelectorAll('audio')].map(a => [a.duration, +a.dataset.seconds])")
        files = sorted(reports[kind].rglob("*.wav"))
        assert len(found) == len(files)
        expected = sf.info(files[0]).duration
        assert all(abs(real - expected) < 0.001 and abs(stated - expected) < 0.001 for real, stated in found)
        first, second = page.locator("audio").nth(0), page.locator("audio").nth(1)
        first.evaluate("async a => { a.muted = true; await a.play(); }")
        wait(page, "document.querySelector('audio').currentTime > 0.05")
        second.evaluate("async a => { a.muted = true; await a.play(); }")
        assert first.evaluate("a => a.paused")
        page.locator(".spark.seek").nth(1).click()
        assert abs(second.evaluate("a => a.currentTime / a.duration") - 0.5) < 0.2
        assert opened.console == []


def test_long_recordings_as_mp3_have_the_right_duration(browser, reports, monkeypatch, tmp_path):
    from drnmf.report import write_report

    monkeypatch.setattr(page, "WAV_BYTES", 1000)
    path = write_report(reports["separate"], tmp_path / "report.html")
    with Opened(browser, path, "desktop", "light") as opened:
        wait(opened.page, "[...document.querySelectorAll('audio')].every(a => a.readyState >= 1)")
        found = opened.page.evaluate(
            "[...document.querySelectorAll('audio')].map(a => [a.duration, +a.dataset.seconds])"
        )
        assert all(abs(real - stated) < 0.1 for real, stated in found)
        assert opened.console == []


def test_names_are_on_the_axes_and_in_the_lists(browser, reports):
    with Opened(browser, reports["table"] / "report.html", "desktop", "light") as opened:
        page = opened.page
        assert page.locator(".card h3").all_inner_texts() == [f"component_{k + 1}" for k in range(5)]
        ticks = page.locator("#factor-h .xtick text").all_text_contents()
        assert all(tick.startswith("a rather long") and tick.endswith("…") for tick in ticks)
        assert 5 < len(ticks) <= 14
        assert page.locator("#factor-w .xtick text").first.text_content() == "type 0"
        assert page.evaluate("document.getElementById('factor-h').data[0].x[4]") == "a rather long name of tumour 4"
        assert page.locator(".words b b").count() == 0  # a name that is markup is text


def test_the_page_of_a_discovery(browser, reports):
    with Opened(browser, reports["discover"] / "report.html", "desktop", "light") as opened:
        page = opened.page
        assert page.locator("#headline").inner_text().startswith("3 stable components of 3, under ")
        titles = page.locator("h2").all_inner_texts()
        assert titles[:5] == [
            "How many components", "What noise", "The components", "Where they occur", "Where they do not fit",
        ]  # fmt: skip
        assert page.locator(".profiles .bar h3").count() == 3
        assert sorted(page.locator(".profiles .bar h3").all_inner_texts()) == ["<b>two</b>", "one", "three"]
        whiskers = page.evaluate("document.getElementById('profile-1').data[0].error_y.array")
        assert len(whiskers) == 36
        assert max(whiskers) > 0
        # rank 5 is left out where rank 4 predicts clearly worse than rank 3
        assert page.evaluate("document.getElementById('rank-stable').data[0].x")[:3] == [2, 3, 4]
        assert page.locator("h3 b, .words b b").count() == 0  # names that are markup are text


def test_the_page_of_an_interval(browser, reports):
    with Opened(browser, reports["interval"] / "report.html", "desktop", "light") as opened:
        page = opened.page
        assert page.locator("#headline").inner_text().startswith("For every beta from 0 to 2, DR-NMF is within ")
        curve, fitted, bound = page.evaluate("document.getElementById('coverage').data.map(trace => trace.y)")
        assert len(curve) >= 81 > len(fitted) >= 3
        assert max(curve) <= bound[0]


def test_switches(browser, reports):
    with Opened(browser, reports["fit"] / "report.html", "desktop", "light") as opened:
        page = opened.page
        button = page.locator("button[data-scale-of=losses]")
        kind = "document.getElementById('losses')._fullLayout.yaxis.type"
        before = page.evaluate(kind)
        button.click()
        wait(page, f"{kind} !== '{before}'")
        button.click()
        wait(page, f"{kind} === '{before}'")
        colour = "document.getElementById('losses')._fullData[1].line.color"
        light = page.evaluate(colour)
        page.locator("#theme").click()
        wait(page, f"{colour} !== '{light}'")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        page.emulate_media(color_scheme="light")
        assert opened.console == []


def test_hover_shows_values(browser, reports):
    with Opened(browser, reports["fit"] / "report.html", "desktop", "light") as opened:
        page = opened.page
        chart = page.locator("#losses .nsewdrag").first
        chart.scroll_into_view_if_needed()
        box = chart.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=4)
        page.wait_for_selector("#losses .hoverlayer .legend, #losses .hoverlayer .hovertext")
        shown = page.locator("#losses .hoverlayer").evaluate("layer => layer.textContent")
        assert all(name in shown for name in ("IS", "KL", "Fro", "maximum"))


def test_hostile_names_are_shown_and_inert(browser, reports):
    with Opened(browser, reports["separate"] / "report.html", "desktop", "light") as opened:
        assert "<script>document.title=" in opened.page.locator("h1").inner_text()
        assert opened.page.evaluate("document.title").startswith("Separation: <script>")
    with Opened(browser, reports["topics"] / "report.html", "desktop", "light") as opened:
        assert opened.page.locator("img").count() == 0
        assert opened.page.evaluate("document.title") == "Topics: texts"


def test_an_injected_script_would_not_run(browser, reports, tmp_path):
    """The policy in the page itself: a script that is not the page's own does nothing."""
    text = (reports["fit"] / "report.html").read_text(encoding="utf-8")
    path = tmp_path / "report.html"
    path.write_text(
        text.replace(
            "<main>", "<main><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">", 1
        )
    )
    with Opened(browser, path, "desktop", "light") as opened:
        assert opened.page.evaluate("document.title") != "taken"
        assert any("Content Security Policy" in line for line in opened.console)
