"""The page: what it says, what it holds, that nothing of the user's runs in it, and the switch on the commands."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from drnmf.apps.audio import page as audio_page
from drnmf.cli import app
from drnmf.losses.beta import Beta
from drnmf.report import charts, write_report
from drnmf.report.charts import factor_image, pool
from drnmf.report.words import headline, percent

pytest.importorskip("plotly")
sf = pytest.importorskip("soundfile")
HOSTILE = "<script>alert(1)</script>"


def run(*words: object) -> object:
    return CliRunner().invoke(app, [str(word) for word in words])


class Page(HTMLParser):
    """Tags and text of a page; what is inside scripts and styles does not count as text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._inside = ""
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._inside = tag if tag in ("script", "style") else self._inside

    def handle_endtag(self, tag):
        self._inside = "" if tag == self._inside else self._inside

    def handle_data(self, data):
        if not self._inside:
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)

    @property
    def charts(self) -> dict:
        block = re.search(r'<script type="application/json" id="charts">(.*?)</script>', self.source, re.S)
        return json.loads(block.group(1))


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Path]:
    """One small run of every kind, with names that would like to be markup."""
    place = tmp_path_factory.mktemp("runs")
    rng = np.random.default_rng(0)
    np.save(place / "X.npy", rng.gamma(1.0, 1.0, (40, 3)) @ rng.gamma(1.0, 1.0, (3, 30)) + 0.05)
    time = np.arange(12000) / 8000
    sound = 0.4 * np.sin(2 * np.pi * 440 * time) * (time < 0.8) + 0.3 * np.sin(2 * np.pi * 900 * time) * (time > 0.5)
    tune = place / "<img src=x onerror=alert(2)>.wav"
    sf.write(tune, sound + 1e-3 * rng.normal(size=12000), 8000)
    texts = place / "texts"
    texts.mkdir()
    for i in range(12):
        name = "<svg onload=alert(3)>.txt" if i == 0 else f"{i}.txt"
        words = ("cat dog cow " if i % 2 else "rain sun wind ") * (5 if i else 50)
        (texts / name).write_text(words + f" {HOSTILE} scriptalert1script")
    commands = {
        "fit": ("fit", place / "X.npy", "--rank", 3, "--betas", "0,1", "--max-iter", 60),
        "pareto": ("pareto", place / "X.npy", "--rank", 3, "--betas", "0,1,2", "--points", 3, "--max-iter", 30),
        "separate": ("separate", tune, "--rank", 3, "--window", 256, "--hop", 64, "--max-iter", 30, "--group", 2),
        "topics": ("topics", texts, "--rank", 2, "--max-df", 1, "--max-iter", 30),
    }
    out = {}
    for name, words in commands.items():
        out[name] = place / name
        result = run(*words, "--out", out[name], "--quiet")
        assert result.exit_code == 0, result.output
    return out


@pytest.mark.parametrize("kind", ["fit", "pareto", "separate", "topics"])
def test_every_command_leaves_one_self_contained_page(runs, kind):
    path = runs[kind] / "report.html"
    page = Page(path)
    assert path.stat().st_size < 6_000_000
    assert "DR-NMF is within" in page.text
    for tag, attributes in page.tags:
        for name in ("src", "href", "action", "data", "poster"):
            value = attributes.get(name) or ""
            assert not re.match(r"(?i)(https?:|//|file:|javascript:)", value), (tag, value)
        assert not [name for name in attributes if name.startswith("on")]
        assert tag not in ("link", "iframe", "object", "embed", "img", "base")
    assert "default-src 'none'" in page.source
    assert page.charts
    places = {attributes.get("id") for tag, attributes in page.tags if attributes.get("class") == "chart"}
    assert places == set(page.charts)
    for word in ("seed", "versions", "seconds", "To do it again", "sha256"):
        assert word in page.text


def test_what_the_pages_hold(runs):
    assert {"comparison", "losses", "weights", "gap", "factor-w", "factor-h"} <= set(
        Page(runs["fit"] / "report.html").charts
    )
    pareto = Page(runs["pareto"] / "report.html")
    assert {"front-0", "front-1", "front-2", "comparison"} <= set(pareto.charts)
    assert [t["name"] for t in pareto.charts["comparison"]["data"]] == ["IS-NMF", "KL-NMF", "Fro-NMF", "DR-NMF"]
    assert any(trace["name"] == "DR-NMF" for trace in pareto.charts["front-0"]["data"])
    sounds = Page(runs["separate"] / "report.html")
    assert sounds.count("audio") == 1 + 2 + 3
    assert all(float(a["data-seconds"]) == 1.5 for tag, a in sounds.tags if tag == "audio")
    assert all(f"Component {k}" in sounds.text for k in (1, 2, 3))
    assert "Component 0" not in sounds.text
    heat = sounds.charts["spectrogram"]["data"][0]
    assert heat["y"][-1] == pytest.approx(4.0, rel=0.2)  # kHz: half of the rate
    assert np.shape(heat["z"]) == (len(heat["y"]), len(heat["x"]))
    topics = Page(runs["topics"] / "report.html")
    assert "Topic 1" in topics.text
    assert "Topic 0" not in topics.text
    assert "rain" in topics.text


@pytest.mark.parametrize("kind", ["separate", "topics"])
def test_names_that_look_like_markup_are_text(runs, kind):
    page = Page(runs[kind] / "report.html")
    wanted = {"separate": "<img src=x onerror=alert(2)>.wav", "topics": "<svg onload=alert(3)>.txt"}[kind]
    assert wanted in page.text
    assert not [tag for tag, attributes in page.tags if "onerror" in attributes or "onload" in attributes]
    assert "img" not in {tag for tag, _ in page.tags}


def test_hostile_content_everywhere_in_a_run_is_text(runs, tmp_path):
    """Every string of the run's files, keys and values alike, replaced by markup."""
    folder = tmp_path / "run"
    shutil.copytree(runs["topics"], folder)
    bad = f"\"'{HOSTILE}</style></pre><img src=x onerror=alert(4)>"
    summary = json.loads((folder / "summary.json").read_text())
    summary |= {bad: bad, "notes": [bad], "command": bad, "parameters": {bad: [bad]}}
    summary["input"] |= {"file": bad, bad: bad}
    summary["topics"]["typical"] = {"1": [bad]}
    summary["topics"]["scores"] = {bad: {"accuracy": 1, "nmi": 1, "ari": 1}}
    (folder / "summary.json").write_text(json.dumps(summary))
    compared = json.loads((folder / "comparison.json").read_text())
    compared["methods"][0]["name"] = bad
    (folder / "comparison.json").write_text(json.dumps(compared))
    escaped = bad.replace('"', '""')
    (folder / "topics.csv").write_text(f'topic,rank,word,weight\n0,1,"{escaped}",0.5\n"{escaped}",1,b,0.5\n')
    page = Page(write_report(folder))
    assert page.count("script") == 3
    assert page.count("img") == 0
    assert page.count("style") == 1
    assert page.text.count(HOSTILE) >= 8
    assert page.charts["comparison"]["data"][0]["name"] == bad
    block = re.search(r'<script type="application/json" id="charts">(.*?)</script>', page.source, re.S)
    assert "<" not in block.group(1)


def test_the_page_can_be_made_again_elsewhere(runs, tmp_path):
    result = run("report", runs["fit"], "--out", tmp_path / "page.html")
    assert result.exit_code == 0
    assert "MB" in result.output
    assert (tmp_path / "page.html").read_text() == (runs["fit"] / "report.html").read_text()


def test_no_report_and_missing_plotly(tmp_path, monkeypatch):
    np.save(tmp_path / "X.npy", np.random.default_rng(0).uniform(0.1, 1, (9, 8)))
    words = (
        "fit",
        tmp_path / "X.npy",
        "--rank",
        2,
        "--max-iter",
        3,
        "--quiet",
        "--overwrite",
        "--out",
        tmp_path / "out",
    )
    assert run(*words, "--no-report").exit_code == 0
    assert not (tmp_path / "out" / "report.html").exists()
    assert (tmp_path / "out" / "comparison.json").exists()
    from drnmf.cli import results

    monkeypatch.setattr(results, "find_spec", lambda name: None)
    without = run(*words)
    assert without.exit_code == 0
    assert "pip install 'drnmf[report]'" in without.output
    assert not (tmp_path / "out" / "report.html").exists()
    asked = run(*words, "--report")
    assert asked.exit_code == 1
    assert "plotly is not installed" in asked.output


def test_results_survive_a_page_that_fails(tmp_path, monkeypatch):
    np.save(tmp_path / "X.npy", np.random.default_rng(0).uniform(0.1, 1, (9, 8)))
    monkeypatch.setattr("drnmf.report.write_report", lambda folder: 1 / 0)
    result = run("fit", tmp_path / "X.npy", "--rank", 2, "--max-iter", 3, "--quiet", "--out", tmp_path / "out")
    assert result.exit_code == 0
    assert "could not be written" in result.output
    assert (tmp_path / "out" / "W.npy").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("summary.json", None, "no summary.json"), ("summary.json", "{", "is damaged"),
        ("summary.json", "[]", "is damaged"),
        ("trace.csv", "iteration,seconds\n1,x\n", "is damaged"), ("W.npy", "not numpy", "is damaged"),
        ("comparison.json", "{", "is damaged"),
    ],
)  # fmt: skip
def test_damaged_runs_are_refused(runs, tmp_path, name, content, message):
    folder = tmp_path / "run"
    shutil.copytree(runs["fit"], folder)
    (folder / "report.html").unlink()
    (folder / name).unlink() if content is None else (folder / name).write_text(content)
    result = run("report", folder)
    assert result.exit_code == 1
    assert message in re.sub(r"\s+", " ", result.output)
    assert not (folder / "report.html").exists()
    assert run("report", tmp_path / "nowhere").exit_code == 1


def test_the_headline_says_how_hard_was_looked_and_whether_the_fit_converged(tmp_path):
    np.save(tmp_path / "X.npy", np.random.default_rng(0).gamma(1.0, size=(30, 20)) + 0.1)
    options = ("--rank", 3, "--betas", "0,1", "--n-init", 2, "--report", "--quiet")
    for name, most in (("short", 5), ("whole", 3000)):
        out = run("fit", tmp_path / "X.npy", *options, "--max-iter", most, "--out", tmp_path / name)
        assert out.exit_code == 0, out.output
    short, whole = (Page(tmp_path / name / "report.html").text for name in ("short", "whole"))
    assert "found (2 starts). The fit had not converged after 5 iterations: a larger --max-iter" in short
    assert "found (2 starts)" in whole
    assert "not converged" not in whole
    front = run("pareto", tmp_path / "X.npy", *options, "--points", 2, "--max-iter", 5, "--out", tmp_path / "front")
    assert front.exit_code == 0, front.output
    assert "3 of the 3 points had not converged" in Page(tmp_path / "front" / "report.html").text


def test_the_headline():
    methods = [
        {"name": "IS-NMF", "losses": [1, 1], "scaled_losses": [1.0, 1.4]},
        {"name": "KL-NMF", "losses": [1, 1], "scaled_losses": [3.118, 1.0]},
        {"name": "DR-NMF", "losses": [1, 1], "scaled_losses": [1.0893, 1.0891]},
    ]
    first, second = headline({"losses": ["0", "1"], "methods": methods}, "found (5 starts)")
    assert first == "DR-NMF is within 9% of the best IS error and 9% of the best KL error found (5 starts)."
    assert second == "KL-NMF alone would be 212% off in IS and IS-NMF alone would be 40% off in KL."
    assert headline(None) == ("", "")
    assert [percent(v) for v in (-1e-3, 0.0004, 0.012, 0.5, 12.3456)] == ["0%", "0%", "1%", "50%", "1,230%"]


def test_images_are_pooled_by_their_largest_entry():
    big = np.random.default_rng(0).uniform(size=(7, 9001))
    small, high, wide = pool(big, 2000)
    assert small.size <= 2000
    assert small.max() == big.max()
    assert (high, wide) != (1, 1)
    chart = factor_image(np.random.default_rng(0).uniform(size=(200, 4000)), True, None, "x")
    assert len(json.dumps(chart)) < 300_000
    assert len(factor_image(np.zeros((2, 3)), False, None, "x")["data"][0]["z"]) == 2


def test_long_recordings_are_compressed_and_cut(runs, tmp_path, monkeypatch):
    monkeypatch.setattr(audio_page, "WAV_BYTES", 1000)
    monkeypatch.setattr(audio_page, "PAGE_BYTES", 6 * 16_000)
    folder = tmp_path / "run"
    shutil.copytree(runs["separate"], folder)
    page = Page(write_report(folder))
    assert "The players hold the first 1 s" in page.text
    sounds = [a for tag, a in page.tags if tag == "audio"]
    assert all(a["src"].startswith("data:audio/mpeg") and float(a["data-seconds"]) == 1.0 for a in sounds)


def lightness(colour: str) -> np.ndarray:
    """A colour #rrggbb in CIE Lab."""
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    f = np.cbrt(to_xyz @ linear / [0.95047, 1.0, 1.08883])
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("betas", [(0, 0.5, 1, 1.5, 2, 3), (0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2), (0.5, 3, 4, 5)])
@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_colours_of_neighbouring_losses_differ(betas, theme):
    style = (Path(charts.__file__).parent / "style.css").read_text()
    values = dict(re.findall(r"(--[\w-]+): (#[0-9a-f]{6})", style.split("}")[theme]))
    names = [
        charts.loss_colour(Beta(float(beta)), i).removeprefix("var(").removesuffix(")") for i, beta in enumerate(betas)
    ]
    assert len(set(names)) == len(names)
    colours = [lightness(values[name]) for name in names]
    for one, other in pairwise(colours):
        assert np.linalg.norm(one - other) > 30


def test_the_page_of_an_interval(tmp_path):
    X = np.random.default_rng(0).gamma(1.0, 1.0, (20, 15)) + 0.1
    np.save(tmp_path / "X.npy", X)
    done = run(
        "fit", tmp_path / "X.npy", "-r", 3, "--betas", "0.5..2", "--max-iter", 40, "--out", tmp_path / "out", "--quiet"
    )
    assert done.exit_code == 0, done.output
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["iterations"] <= 40
    page = Page(tmp_path / "out" / "report.html")
    assert f"For every beta from 0.5 to 2, DR-NMF is within {percent(summary['bound'] - 1)} of" in page.text
    curve, fitted, bound = page.charts["coverage"]["data"]
    assert fitted["x"] == [float(key) for key in summary["losses"]]
    assert bound["y"] == [pytest.approx(100 * (summary["bound"] - 1), rel=1e-5)] * 2
    assert max(curve["y"]) <= bound["y"][0]


def test_errors_of_very_different_size_get_a_logarithmic_axis():
    rows = [
        {"kind": "front", "dominated": "False", "weight_0": str(w), "weight_1": str(1 - w), "scaled_loss_0": str(a),
         "scaled_loss_1": str(b)}
        for w, a, b in ((1, 1, 3), (0, 1e12, 1))
    ]  # fmt: skip
    layout = charts.front_chart(rows, "0", "1")["layout"]
    assert layout["xaxis"]["type"] == "log"
    assert "type" not in layout["yaxis"]


def test_names_that_repeat_have_places_of_their_own():
    image = factor_image(np.ones((2, 4)), False, ["a", "b", "a", "c" * 30], "row")
    assert len(set(image["data"][0]["x"])) == 4
    assert image["layout"]["xaxis"]["ticktext"] == ["a", "b", "a", "c" * 15 + "…"]


def test_a_gain_that_nobody_hears_is_not_mentioned(runs, monkeypatch):
    for gain, said in ((0.9999, False), (0.5, True)):
        how = audio_page.Embedding(False, 1.0, True, gain)
        monkeypatch.setattr(audio_page, "plan", lambda *arguments, how=how: how)
        page = write_report(runs["separate"]).read_text()
        assert ("turned down by" in page) == said
        assert "0.0 dB" not in page


@pytest.mark.parametrize(("betas", "words"), [("1", "a KL error of"), ("0.5", "a beta 0.5 error of"), ("0", "an IS")])
def test_a_page_of_one_loss_shows_the_loss_itself(tmp_path, betas, words):
    np.save(tmp_path / "X.npy", 1e6 * np.random.default_rng(0).uniform(0.1, 1, (20, 12)))
    out = tmp_path / "one"
    command = ("fit", tmp_path / "X.npy", "--rank", 3, "--betas", betas, "--out", out, "--quiet", "--max-iter", 40)
    assert run(*command, "--tol", "0").exit_code == 0
    page, summary = Page(out / "report.html"), json.loads((out / "summary.json").read_text())
    first = re.search(r'id="headline">(.*?)</p>', page.source).group(1)
    assert first.startswith(f"3 components leave {words}")
    assert f"{summary['losses'][betas]:.4g}" in first
    assert "It ended after 40 iterations." in page.text
    chart = page.charts["losses"]
    assert chart["layout"]["yaxis"]["title"]["text"].endswith(" error")
    assert chart["data"][0]["y"][-1] == pytest.approx(summary["losses"][betas], rel=1e-5)
    for phrase in ("best error", "best one found", "scaled losses", "Stopped after"):
        assert phrase not in page.text
