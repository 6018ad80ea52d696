"""Words: reading, counting, topics, clusters, and the command `drnmf topics`."""

from __future__ import annotations

import csv
import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from drnmf.apps.text import count_words, fit_topics, read_documents
from drnmf.apps.text.counting import corpus_from_matrix
from drnmf.apps.text.topics import assign, clustering_accuracy, score
from drnmf.cli import app
from drnmf.estimators.models import DRNMF

THEMES = ("cat dog horse cow sheep", "rain sun wind cloud storm", "piano violin drum flute harp")


def documents(per_theme: int = 12, seed: int = 0) -> tuple[list[str], list[str]]:
    """Texts of three themes with a few words of the others, and their themes."""
    rng = np.random.default_rng(seed)
    texts, labels = [], []
    for theme, words in enumerate(THEMES):
        for _ in range(per_theme):
            own, other = rng.choice(words.split(), 30), rng.choice(" ".join(THEMES).split(), 3)
            texts.append(" ".join([*own, *other]))
            labels.append(f"theme{theme}")
    return texts, labels


def run(*words: object) -> object:
    return CliRunner().invoke(app, ["topics", *(str(word) for word in words)])


def flat(text: str) -> str:
    return re.sub(r"[\s│]+", " ", text)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "texts"
    (place / "sub").mkdir(parents=True)
    texts, labels = documents()
    for i, text in enumerate(texts):
        (place / "sub" / f"doc{i:02d}.txt").write_text(text)
    (tmp_path / "labels.txt").write_text("\n".join(labels) + "\n")
    return place


def test_the_command_on_a_folder(folder, tmp_path):
    result = run(
        folder,
        "--rank",
        3,
        "--labels",
        tmp_path / "labels.txt",
        "--max-df",
        1,
        "--out",
        tmp_path / "out",
        "--no-report",
    )
    assert result.exit_code == 0, result.output
    for name in ("KL-NMF", "Fro-NMF", "DR-NMF", "accuracy", "NMI", "ARI"):
        assert name in result.output
    with open(tmp_path / "out" / "topics.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    found = {frozenset(r["word"] for r in rows if r["topic"] == str(k) and int(r["rank"]) <= 5) for k in range(1, 4)}
    assert found == {frozenset(words.split()) for words in THEMES}
    with open(tmp_path / "out" / "documents.csv", newline="") as stream:
        shares = list(csv.DictReader(stream))
    assert [row["document"] for row in shares][:2] == ["sub/doc00.txt", "sub/doc01.txt"]
    assert all(abs(sum(float(row[f"topic_{k}"]) for k in range(1, 4)) - 1) < 1e-4 for row in shares)
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["topics"]["scores"]["DR-NMF"] == {"accuracy": 1.0, "nmi": 1.0, "ari": 1.0}
    assert len((tmp_path / "out" / "vocabulary.txt").read_text().split()) == 15
    assert (tmp_path / "out" / "model.npz").is_file()


@pytest.mark.parametrize("kind", ["jsonl", "csv", "tsv", "parquet"])
def test_the_command_on_columns(tmp_path, kind):
    texts, labels = documents(6)
    texts[1] = 'cat "dog"\tcow,\nhorse sheep cat'
    path = tmp_path / f"data.{kind}"
    if kind == "jsonl":
        path.write_text(
            "".join(
                json.dumps({"id": i, "text": t, "class": c}) + "\n"
                for i, (t, c) in enumerate(zip(texts, labels, strict=True))
            )
        )
    elif kind == "parquet":
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.table({"text": texts, "class": labels}), path)
    else:
        with open(path, "w", newline="", encoding="utf-8-sig") as stream:
            writer = csv.writer(stream, delimiter="\t" if kind == "tsv" else ",")
            writer.writerows([("text", "class"), *zip(texts, labels, strict=True)])
    words = (
        path,
        "--rank",
        3,
        "--column",
        "text",
        "--labels",
        "class",
        "--max-df",
        1,
        "--out",
        tmp_path / "out",
        "--no-report",
    )
    result = run(*words)
    assert result.exit_code == 0, result.output
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["topics"]["scores"]["DR-NMF"]["accuracy"] == 1.0
    missing = run(path, "--rank", 3, "--column", "texte", "--out", tmp_path / "no")
    assert missing.exit_code == 1
    assert "no column 'texte'" in flat(missing.output)
    assert run(path, "--rank", 3, "--out", tmp_path / "no").exit_code == 1
    assert not (tmp_path / "no").exists()


def test_the_command_on_a_matrix(tmp_path):
    texts, labels = documents()
    corpus = count_words(texts, stop_words=None)
    sp.save_npz(tmp_path / "X.npz", sp.csr_matrix(corpus.X))
    (tmp_path / "words.txt").write_text("\n".join(corpus.vocabulary) + "\n")
    np.save(tmp_path / "labels.npy", np.array([int(label[-1]) for label in labels]))
    words = (
        tmp_path / "X.npz",
        "--rank",
        3,
        "--vocabulary",
        tmp_path / "words.txt",
        "--labels",
        tmp_path / "labels.npy",
    )
    result = run(*words, "--out", tmp_path / "out", "--no-report", "--quiet")
    assert result.exit_code == 0, result.output
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["topics"]["scores"]["DR-NMF"]["accuracy"] == 1.0
    bare = run(tmp_path / "X.npz", "--rank", 3, "--out", tmp_path / "no")
    assert bare.exit_code == 1
    assert "--vocabulary" in bare.output


def test_encoding_problems_are_counted(tmp_path):
    (tmp_path / "a.txt").write_bytes("café crème café".encode("latin-1"))
    (tmp_path / "b.txt").write_bytes("café crème".encode("utf-16"))
    (tmp_path / "c.txt").write_bytes("café crème".encode("utf-8-sig"))
    found = read_documents(tmp_path)
    assert len(found.notes) == 1
    assert "1 documents hold bytes that are not utf-8" in found.notes[0]
    assert found.texts[1] == found.texts[2] == "café crème"
    assert read_documents(tmp_path, encoding="latin-1").texts[0] == "café crème café"
    with pytest.raises(ValueError, match="not known"):
        read_documents(tmp_path, encoding="klingon")


def test_empty_documents_are_counted_and_listed(folder, tmp_path):
    (folder / "sub" / "doc00.txt").write_text("")
    (folder / "sub" / "doc07.txt").write_text("zebra")
    words = (
        folder,
        "--rank",
        3,
        "--labels",
        tmp_path / "labels.txt",
        "--max-df",
        1,
        "--out",
        tmp_path / "out",
        "--no-report",
    )
    result = run(*words)
    assert result.exit_code == 0, result.output
    assert "2 documents hold no word of the vocabulary" in flat(result.output)
    with open(tmp_path / "out" / "documents.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 36
    assert [row["document"] for row in rows if row["best_topic"] == ""] == ["sub/doc00.txt", "sub/doc07.txt"]
    assert [row["document"] for row in rows] == sorted(row["document"] for row in rows)


def _bad(tmp_path: Path, kind: str) -> tuple[list[object], str]:
    place = tmp_path / "in"
    place.mkdir()
    if kind == "no texts":
        return [place], "holds no .txt or .md files"
    if kind == "empty vocabulary":
        (place / "a.txt").write_text("the and of")
        return [place], "No vocabulary could be made"
    if kind == "all empty":
        (place / "a.txt").write_text("")
        return [place], "No vocabulary could be made"
    if kind == "missing":
        return [place / "nowhere"], "does not exist"
    if kind == "suffix":
        (place / "a.docx").write_text("x")
        return [place / "a.docx"], "suffix that is not known"
    if kind == "bad json":
        (place / "a.jsonl").write_text('{"text": "a b"}\n{"text": \n')
        return [place / "a.jsonl", "--column", "text"], "line 2: not JSON"
    if kind == "json without objects":
        (place / "a.jsonl").write_text("[1]\n")
        return [place / "a.jsonl", "--column", "text"], "line 1: list instead of an object"
    if kind == "short row":
        (place / "a.csv").write_text("id,text\n1,a b\n2\n")
        return [place / "a.csv", "--column", "text"], "line 3: 1 cells, the header has 2"
    if kind == "empty csv":
        (place / "a.csv").write_text("text\n")
        return [place / "a.csv", "--column", "text"], "holds no documents"
    if kind == "bad parquet":
        (place / "a.parquet").write_text("PAR1")
        return [place / "a.parquet", "--column", "text"], "cannot be read as parquet"
    if kind == "labels do not fit":
        for i in range(4):
            (place / f"{i}.txt").write_text("cat dog rain sun")
        (tmp_path / "in" / "labels").write_text("a\nb\n")
        return [place, "--labels", place / "labels", "--max-df", 1], "2 labels for 4 documents"
    if kind == "labels missing":
        (place / "a.txt").write_text("cat dog")
        return [place, "--labels", "nowhere.txt"], "--labels nowhere.txt does not exist"
    if kind == "too many topics":
        for i in range(4):
            (place / f"{i}.txt").write_text("cat dog rain sun")
        return [place, "--rank", 9, "--max-df", 1], "9 topics cannot be told apart"
    if kind == "vocabulary does not fit":
        np.save(place / "X.npy", np.ones((3, 2)))
        (place / "words.txt").write_text("a\nb\nc\n")
        return [place / "X.npy", "--vocabulary", place / "words.txt"], "seems to be transposed"
    np.save(place / "X.npy", -np.ones((3, 3)))
    (place / "words.txt").write_text("a\nb\nc\n")
    return [place / "X.npy", "--vocabulary", place / "words.txt"], "Negative values"


@pytest.mark.parametrize(
    "kind",
    [
        "no texts", "empty vocabulary", "all empty", "missing", "suffix", "bad json", "json without objects",
        "short row", "empty csv", "bad parquet", "labels do not fit", "labels missing", "too many topics",
        "vocabulary does not fit",
        "negative counts",
    ],
)  # fmt: skip
def test_bad_input_is_refused_and_nothing_is_written(tmp_path, kind):
    words, message = _bad(tmp_path, kind)
    result = run(*words, *([] if "--rank" in words else ["--rank", 2]), "--out", tmp_path / "out", "--quiet")
    assert result.exit_code == 1
    assert message in flat(result.output)
    assert "Traceback" not in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_a_topic_model_in_python():
    texts, labels = documents()
    found = fit_topics(count_words(texts, stop_words=None).with_labels(labels), 3)
    np.testing.assert_allclose(found.shares.sum(axis=1), 1.0)
    assert found.scores()["KL-NMF"].accuracy == 1.0
    assert all(sum(weight for _, weight in found.top_words(k, 99)) == pytest.approx(1.0) for k in range(3))
    apart = fit_topics(count_words(["rain cloud rain"] * 4 + ["bread oven"] * 4, stop_words=None), 2)
    listed = [{word for word, _ in apart.top_words(k)} for k in range(2)]
    assert sorted(map(sorted, listed)) == [["bread", "oven"], ["cloud", "rain"]]  # no word that a topic has none of
    assert found.comparison.robust.scaled.max() < max(m.scaled.max() for m in found.comparison.methods[:-1]) + 1e-9
    with pytest.raises(ValueError, match="no labels"):
        fit_topics(count_words(texts, stop_words=None), DRNMF(3, max_iter=3)).scores()


def test_a_matrix_may_have_empty_rows():
    corpus = corpus_from_matrix(np.array([[1, 0], [0, 0], [0, 2]]), ["a", "b"], ["x", "y", "z"])
    assert (corpus.names, corpus.empty, corpus.kept.tolist()) == (("x", "z"), ("y",), [0, 2])
    assert corpus.with_labels(["p", "q", "r"]).labels == ("p", "r")


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30))
def test_accuracy_is_the_best_over_permutations(pairs):
    labels, clusters = np.array(pairs).T
    best = max(np.mean(np.array(order)[clusters] == labels) for order in itertools.permutations(range(4)))
    assert clustering_accuracy(labels, clusters) == pytest.approx(best)


def test_the_rule_is_the_papers():
    rng = np.random.default_rng(0)
    X, H = rng.poisson(1.0, (20, 9)), rng.uniform(size=(4, 9))
    expected = [max(range(4), key=lambda k: X[i] @ H[k] / np.linalg.norm(H[k])) for i in range(20)]
    assert assign(X, H).tolist() == expected
    assert assign(sp.csr_array(X.astype(float)), H).tolist() == expected
    scaled = H * np.array([[1e-3], [1.0], [1e3], [2.0]])
    assert assign(X, scaled).tolist() == expected  # the scale of a topic does not matter
    assert 4 not in assign(X, np.vstack([H, np.zeros((1, 9))]))  # an empty topic has no documents
    assert score([0, 0, 1, 1], [1, 1, 0, 0]).ari == 1.0
