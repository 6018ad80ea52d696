"""drnmf transform on every kind of run: new rows with names, new texts, a new recording."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import drnmf
from drnmf.apps.text.command import STOP_WORDS
from drnmf.apps.text.counting import LANGUAGES, count_words, stop_words_of
from drnmf.cli import app

WORDS = {"sea": "ship wave sail anchor storm", "garden": "rose seed soil spade bee"}
QUICK = ("--max-iter", "60", "--quiet", "--no-report")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    return tmp_path


def run(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(word) for word in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return re.sub(r"\s+", " ", result.output)


def table(path: str) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture
def texts(here: Path) -> Path:
    rng = np.random.default_rng(0)
    folder = here / "texts"
    folder.mkdir()
    for theme, words in WORDS.items():
        for i in range(8):
            suffix = ".md" if i % 2 else ".txt"
            drawn = " ".join(rng.choice(words.split(), 20))
            (folder / f"{theme}-{i}{suffix}").write_text(f"{drawn} the and 2021 2022 2021 h2o")
    return folder


def test_new_rows_keep_their_names(here: Path) -> None:
    X = np.random.default_rng(0).gamma(2.0, 1.0, (14, 6))
    frame = pd.DataFrame(X, index=[f"row {i}" for i in range(14)], columns=list("abcdef"))
    frame.iloc[:10].to_csv("old.csv")
    frame.iloc[10:].to_csv("new.csv")
    run("fit", "old.csv", "--rank", 2, *QUICK)
    assert "new-W.npy and new-W.csv" in run("transform", "old-drnmf", "new.csv")
    W = np.load("new-W.npy")
    rows = table("new-W.csv")
    assert [row["label"] for row in rows] == ["row 10", "row 11", "row 12", "row 13"]
    np.testing.assert_array_equal([[float(row["component_1"]), float(row["component_2"])] for row in rows], W)
    assert "exists" in run("transform", "old-drnmf", "new.csv", code=1)
    run("transform", "old-drnmf", "new.csv", "--overwrite")
    Path("new-W.csv").write_text("mine\n1\n")
    assert "no table that drnmf wrote" in run("transform", "old-drnmf", "new.csv", "--overwrite", code=1)
    assert Path("new-W.csv").read_text() == "mine\n1\n"
    frame.iloc[10:].T.to_csv("turned.csv")
    run("transform", "old-drnmf", "turned.csv", "--transpose", "--out", "again.npy")
    np.testing.assert_array_equal(np.load("again.npy"), W)
    assert "is the input itself" in run("transform", "old-drnmf", "turned.csv", "--out", "turned.npy", code=1)


@pytest.mark.parametrize("weighing", [(), ("--tf-idf",)])
def test_new_texts_get_the_topics_of_a_run(texts: Path, weighing: tuple[str, ...]) -> None:
    run("topics", "texts", "--rank", 2, "--max-df", 0.9, *weighing, *QUICK)
    names = json.loads(Path("texts-topics/names.json").read_text())
    assert names["columns"] == sorted(" ".join(WORDS.values()).split())
    old = {row["document"]: row["best_topic"] for row in table("texts-topics/documents.csv")}
    Path("new").mkdir()
    Path("new/a.txt").write_text("Ship, wave and storm: waves")
    Path("new/b.md").write_text("# nothing known")
    Path("new/c.txt").write_text("a bee, a rose, a spade")
    assert "1 documents hold no word" in run("transform", "texts-topics", "new")
    rows = table("new-W.csv")
    assert [row["document"] for row in rows] == ["a.txt", "b.md", "c.txt"]
    assert [row["best_topic"] for row in rows] == [old["sea-0.txt"], "", old["garden-1.md"]]
    W = np.load("new-W.npy")
    assert W.shape == (3, 2)
    assert not W[1].any()
    assert float(rows[0][f"topic_{rows[0]['best_topic']}"]) > 0.8
    run("transform", "texts-topics", "texts", "--out", "same.npy")  # the texts of the run themselves
    same = [row["best_topic"] for row in table("same.csv")]
    assert same == list(old.values())
    model = drnmf.load("texts-topics/model.npz")
    np.save("counts.npy", np.random.default_rng(0).gamma(1.0, 1.0, (2, 10)))
    run("transform", "texts-topics", "counts.npy")
    np.testing.assert_array_equal(np.load("counts-W.npy"), model.transform(np.load("counts.npy")))


def test_numbers_stop_words_and_starts(texts: Path) -> None:
    def vocabulary(*arguments: object) -> set[str]:
        run("topics", "texts", "--rank", 2, "--max-df", 1, "--out", "out", "--overwrite", *arguments, *QUICK)
        return set(Path("out/vocabulary.txt").read_text().split())

    plain = vocabulary()
    assert "h2o" in plain
    assert not plain & {"2021", "2022", "the", "and"}
    assert vocabulary("--keep-numbers") - plain == {"2021", "2022"}
    assert vocabulary("--stop-words", "none") - plain == {"the", "and"}
    Path("mine.txt").write_text("Ship\nwave\n")
    assert plain - vocabulary("--stop-words", "mine.txt") == {"ship", "wave"}
    assert "neither a file nor one of english, german" in run(
        "topics", "texts", "--rank", 2, "--stop-words", "nowhere.txt", code=2
    )
    vocabulary("--n-init", 3, "--tf-idf")
    parameters = json.loads(Path("out/summary.json").read_text())["parameters"]
    assert (parameters["n_init"], parameters["init"]) == (3, "random")
    assert "SPA gives one start only" in run("topics", "texts", "--rank", 2, "--n-init", 2, "--init", "spa", code=2)


@pytest.mark.parametrize("language", LANGUAGES)
def test_stop_words_of_languages(language: str) -> None:
    words = stop_words_of(language)
    assert words is not None
    assert len(words) > 90
    assert all(word == word.lower() for word in words)
    text = f"{words[0]} {words[-1]} Straßenbahn"
    assert count_words([text, text], stop_words=words).vocabulary == ("straßenbahn",)
    assert (*LANGUAGES, "none") == STOP_WORDS


def test_tf_idf_is_that_of_scikit_learn() -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    documents = ["rain rain sun", "sun wind", "wind wind snow"]
    found = count_words(documents, stop_words=None, tf_idf=True)
    expected = TfidfVectorizer()
    np.testing.assert_allclose(found.X.toarray(), expected.fit_transform(documents).toarray())
    np.testing.assert_allclose(found.idf, expected.idf_)


def test_a_new_recording_is_split_by_the_spectra_of_a_run(here: Path) -> None:
    sf = pytest.importorskip("soundfile")
    time = np.arange(16000) / 8000

    def tones(first: object, second: object) -> np.ndarray:
        low, high = np.sin(2 * np.pi * 400 * time), np.sin(2 * np.pi * 1500 * time)
        return 0.4 * low * first + 0.3 * high * second + 1e-3 * np.random.default_rng(0).normal(size=16000)

    sf.write("old.wav", tones(time < 1.2, time > 0.8), 8000)
    sf.write("new.wav", tones(time > 1.5, time < 0.5), 8000)
    run("separate", "old.wav", "--rank", 2, "--window", 256, "--hop", 64, "--group", "1/2", "--betas", "KL,Fro", *QUICK)
    run("transform", "old-sources", "new.wav")
    old, new = Path("old-sources"), Path("new-sources")
    np.testing.assert_array_equal(np.load(new / "W.npy"), np.load(old / "W.npy"))
    H = np.load(new / "H.npy")
    low = int(np.load(old / "W.npy")[:20].sum(axis=0).argmax())  # the component of the low tone
    part = H / H.sum(axis=1, keepdims=True)
    frames = H.shape[1]
    assert part[low, int(0.7 * frames) :].sum() > 0.9
    assert part[1 - low, : int(0.3 * frames)].sum() > 0.9
    parts = sum(sf.read(new / f"component_{k}.wav")[0] for k in (1, 2))
    np.testing.assert_allclose(parts, sf.read("new.wav")[0], atol=1e-4)
    summary = json.loads((new / "summary.json").read_text())
    assert summary["kind"] == "separate"
    assert [group["members"] for group in summary["audio"]["groups"]] == [[1], [2]]
    run("report", new)
    assert "old-sources" in (new / "report.html").read_text()
    run("transform", new, "old.wav", "--out", "again")  # a run like any other
    assert "exists" in run("transform", old, "new.wav", code=1)
    sf.write("slow.wav", tones(1, 1), 4000)
    assert "4000 samples a second, but old-sources was made from 8000" in run("transform", old, "slow.wav", code=1)
    assert not Path("slow-sources").exists()


def test_a_table_as_target_is_a_table(here: Path) -> None:
    X = np.random.default_rng(0).gamma(2.0, 1.0, (12, 9))
    np.save("X.npy", X)
    run("fit", "X.npy", "--rank", "2", "--out", "run", *QUICK)
    assert "in W.csv" in run("transform", "run", "X.npy", "--out", "W.csv")
    W = [[float(row["1"]), float(row["2"])] for row in table("W.csv")]
    np.testing.assert_array_equal(W, drnmf.load("run/model.npz").transform(X))
    run("transform", "run", "X.npy", "--out", "W.csv", "--overwrite")
