"""Topics: DR-NMF of a document-term matrix from an SPA start, clusters by the paper's rule, their scores, the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from html import escape

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

from drnmf.apps.text.counting import Corpus
from drnmf.estimators.comparison import Comparison, compare
from drnmf.estimators.models import DRNMF
from drnmf.numerics import Array, Entries, Vector
from drnmf.parameters.fields import check_integer
from drnmf.report.findings import listed_parts
from drnmf.report.parts import NOTHING, Kind, Section, Side, section, table
from drnmf.runs import schema
from drnmf.runs.read import Run

Labels = NDArray[np.int64]


def assign(X: Entries, H: Array) -> Labels:
    """Assign every document to a cluster: argmax_k X(i,:) H(k,:)' / ||H(k,:)|| (section 5.2).

    Parameters
    ----------
    X : (documents, words), dense or sparse
    H : (topics, words)

    Returns
    -------
    clusters : (documents,) of int64

    Examples
    --------
    >>> assign(np.array([[1.0, 0], [0, 2]]), np.array([[0.0, 3], [5, 0]])).tolist()
    [1, 0]
    """
    norms = np.linalg.norm(np.asarray(H, dtype=np.float64), axis=1)
    directions = H / np.maximum(norms, np.finfo(np.float64).tiny)[:, None]
    return np.asarray(np.asarray(X @ directions.T).argmax(axis=1), dtype=np.int64)


def clustering_accuracy(labels: ArrayLike, clusters: ArrayLike) -> float:
    """Compute the fraction of documents in the right place under the best matching of clusters with classes.

    Parameters
    ----------
    labels, clusters : (documents,), the class and the cluster of every document

    Returns
    -------
    accuracy : float, at best 1

    Examples
    --------
    >>> clustering_accuracy([0, 0, 1, 1], [1, 1, 0, 1])
    0.75
    """
    counts = np.asarray(contingency_matrix(labels, clusters))
    rows, columns = linear_sum_assignment(-counts)
    return float(counts[rows, columns].sum() / counts.sum())


@dataclass(frozen=True)
class Scores:
    """Accuracy (the paper's), normalised mutual information and adjusted Rand index, each at best 1."""

    accuracy: float
    nmi: float
    ari: float


def score(labels: ArrayLike, clusters: ArrayLike) -> Scores:
    """Compute accuracy, NMI and ARI of one clustering, from the class and the cluster of every document."""
    return Scores(
        clustering_accuracy(labels, clusters),
        float(normalized_mutual_info_score(labels, clusters)),
        float(adjusted_rand_score(labels, clusters)),
    )


@dataclass(frozen=True)
class Topics:
    """Topics of a corpus: W (documents x topics), H (topics x words), and the fits they were compared with."""

    corpus: Corpus
    comparison: Comparison

    @property
    def W(self) -> Array:
        return self.comparison.robust.W

    @property
    def H(self) -> Array:
        return self.comparison.robust.H

    @property
    def shares(self) -> Vector:
        """(documents, topics), the fraction of a document's words that each topic accounts for; rows sum to one."""
        return shares_of(self.W, self.H)

    def top_words(self, topic: int, count: int = 10) -> list[tuple[str, float]]:
        """List the words with the largest part of a topic (its row of H, from 0), and that part as a fraction.

        Words that the topic has none of, or no more than rounding, are not listed.
        """
        row = np.asarray(self.H[topic], dtype=np.float64)
        parts, best = row / max(float(row.sum()), np.finfo(np.float64).tiny), np.argsort(-row, kind="stable")[:count]
        least = np.finfo(np.float64).eps
        return [(self.corpus.vocabulary[j], float(parts[j])) for j in best if parts[j] > least]

    def scores(self) -> dict[str, Scores]:
        """Score every method by accuracy, NMI and ARI against the corpus's labels, by the paper's rule for clusters."""
        if self.corpus.labels is None:
            raise ValueError("The corpus has no labels to compare with.")
        return {m.name: score(self.corpus.labels, assign(self.corpus.X, m.H)) for m in self.comparison.methods}


def shares_of(W: Array, H: Array) -> Vector:
    """Compute the fraction of each document's words that each topic accounts for, (documents, topics).

    >>> shares_of(np.array([[1.0, 1.0]]), np.array([[1.0, 2.0], [1.0, 0.0]])).tolist()
    [[0.75, 0.25]]
    """
    mass = np.asarray(W, dtype=np.float64) * np.asarray(H, dtype=np.float64).sum(axis=1)[None, :]
    return mass / np.maximum(mass.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)


def fit_topics(corpus: Corpus, model: DRNMF | int | str) -> Topics:
    """Fit topics to a corpus by DR-NMF.

    Parameters
    ----------
    corpus : Corpus
    model : what is fitted, with zeros floored; a number of topics, or "auto", is short for one under losses that
        keep a sparse matrix sparse, ``DRNMF(r, betas=(1, 2), init="spa", max_iter=200, tol=1e-5,
        random_state=0)``

    Returns
    -------
    topics : Topics

    Raises
    ------
    ValueError
        Where there are more topics than documents or words.
    """
    if not isinstance(model, DRNMF):
        model = DRNMF(model, betas=(1, 2), init="spa", max_iter=200, tol=1e-5, random_state=0)
    rank, smallest = model.n_components, min(corpus.X.shape)
    if rank != "auto" and check_integer("n_components", rank, 1) > smallest:
        raise ValueError(
            f"{rank} topics cannot be told apart in {corpus.X.shape[0]} documents with {corpus.X.shape[1]} words: "
            f"ask for at most {smallest}."
        )
    return Topics(corpus, compare(replace(model, zeros="floor"), corpus.X))


def topics(run: Run) -> Section:
    rows = run.table(schema.TOPICS)
    if not rows:
        return NOTHING
    by_topic: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        by_topic.setdefault(row["topic"], []).append(row)
    info = run.summary.get("topics", {})
    cards = []
    for topic, words in by_topic.items():
        items = listed_parts([(w["word"], float(w["weight"])) for w in words[:10]])
        share = info.get("shares", {}).get(topic)
        size = f"<small>{100 * float(share):.0f}% of all words</small>" if share is not None else ""
        typical = info.get("typical", {}).get(topic, [])
        listing = "".join(f"<li>{escape(str(name))}</li>" for name in typical)
        more = f"<details><summary>Most typical documents</summary><ul>{listing}</ul></details>" if typical else ""
        title = f'<div class="bar"><h3>Topic {escape(topic)}</h3>{size}</div>'
        cards.append(f'<div class="card">{title}<ol class="words">{items}</ol>{more}</div>')
    note = "The words with the largest share of each topic."
    body = f'<div class="cards">{"".join(cards)}</div>'
    if info.get("scores"):
        body += _scores(info["scores"])
    return section("Topics", note, body), {}


def _scores(scores: Mapping[str, Mapping[str, float]]) -> str:
    keys = ("accuracy", "nmi", "ari")
    rows = [[name, *(f"{float(values[key]):.3f}" for key in keys)] for name, values in scores.items()]
    return f"<h3>Against the labels</h3>{table(('method', 'accuracy', 'NMI', 'ARI'), rows, (1, 2, 3))}"


def sides(run: Run) -> tuple[Side, Side]:
    """Name documents and words along the factors."""
    return (
        Side("W, one row per component", run.row_names, "document"),
        Side("H, one row per component", run.column_names, "word"),
    )


TOPICS = Kind("Topics", (topics,), sides)
