"""A document-term matrix with its vocabulary, counted from texts or given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer

from drnmf.backends.entries import check_structure
from drnmf.inputs.check import check_entries
from drnmf.text.reading import Documents


@dataclass(frozen=True)
class Corpus:
    """X (documents x words, CSR), the words of its columns, the documents of its rows.

    kept : the places in the input of the documents that have words; the others are named in `empty`
    labels : a class per row of X, or None
    """

    X: Any
    vocabulary: tuple[str, ...]
    names: tuple[str, ...]
    kept: NDArray[np.int64]
    empty: tuple[str, ...] = ()
    labels: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()

    def with_labels(self, labels: Sequence[str]) -> Corpus:
        """The corpus with a class for every document of the input, empty ones included."""
        total = len(self.kept) + len(self.empty)
        if len(labels) != total:
            raise ValueError(f"There are {len(labels)} labels for {total} documents: give one per document, in order.")
        return replace(self, labels=tuple(str(labels[i]) for i in self.kept))


def _drop_empty(X: Any, vocabulary: tuple[str, ...], names: tuple[str, ...], notes: tuple[str, ...]) -> Corpus:
    X = sp.csr_array(X)
    filled = np.asarray(X.sum(axis=1)).ravel() > 0
    kept = np.flatnonzero(filled)
    if kept.size == 0:
        raise ValueError("Every document is empty: none holds a word of the vocabulary.")
    empty = tuple(names[i] for i in np.flatnonzero(~filled))
    if empty:
        notes += (f"{len(empty)} documents hold no word of the vocabulary and were left out (the first: {empty[0]}).",)
        X = X[kept]
    return Corpus(X.astype(np.float64), vocabulary, tuple(names[i] for i in kept), kept, empty, None, notes)


def count_words(
    documents: Documents | Sequence[str],
    *,
    min_df: int | float = 1,
    max_df: int | float = 1.0,
    max_features: int | None = None,
    stop_words: str | None = "english",
) -> Corpus:
    """Count the words of documents (lower case, two letters or more) with scikit-learn's CountVectorizer.

    min_df, max_df : leave out words in fewer or more documents (a number, or a share below 1)
    stop_words : "english", or None to keep every word

    >>> count_words(["Some rain", "rain, rain"], stop_words=None).X.toarray().tolist()
    [[1.0, 1.0], [2.0, 0.0]]
    """
    if not isinstance(documents, Documents):
        documents = Documents(tuple(str(i + 1) for i in range(len(documents))), tuple(documents))
    counter = CountVectorizer(min_df=min_df, max_df=max_df, max_features=max_features, stop_words=stop_words)
    try:
        X = counter.fit_transform(documents.texts)
    except ValueError as error:
        raise ValueError(
            f"No vocabulary could be made from {len(documents.texts)} documents ({error}): lower min_df, raise max_df, "
            "keep the stop words, or check that the documents hold text."
        ) from None
    corpus = _drop_empty(X, tuple(counter.get_feature_names_out().tolist()), documents.names, documents.notes)
    return corpus if documents.labels is None else corpus.with_labels(documents.labels)


def corpus_from_matrix(X: Any, vocabulary: Sequence[str], names: Sequence[str] | None = None) -> Corpus:
    """A corpus from counts (documents x words) and the words of the columns."""
    check_structure(X)
    X = sp.csr_array(X) if sp.issparse(X) else np.atleast_2d(np.asarray(X))
    if X.shape[1] != len(vocabulary):
        hint = " (it seems to be transposed)" if X.shape[0] == len(vocabulary) else ""
        raise ValueError(
            f"The matrix has {X.shape[1]} columns and the vocabulary {len(vocabulary)} words{hint}: "
            "rows are documents, columns are words."
        )
    check_entries(X, "topics")
    rows = tuple(names) if names is not None else tuple(str(i + 1) for i in range(X.shape[0]))
    return _drop_empty(X, tuple(vocabulary), rows, ())
