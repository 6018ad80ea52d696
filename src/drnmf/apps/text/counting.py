"""A document-term matrix with its vocabulary, counted from texts or given, and the words that are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer, TfidfTransformer
from sklearn.preprocessing import normalize

from drnmf.apps.text.reading import Documents
from drnmf.backends.entries import check_structure
from drnmf.numerics import Entries, Vector
from drnmf.problem.check import check_entries


def _lists() -> dict[str, list[str]]:
    """Read the stop words of every language: blocks with its name first, apart by an empty line."""
    text = files("drnmf.apps.text").joinpath("stop_words.txt").read_text(encoding="utf-8")
    return {name: words for name, *words in map(str.split, text.split("\n\n"))}


_LISTS = _lists()
LANGUAGES = ("english", *_LISTS)
"""Languages whose stop words are known."""


def stop_words_of(choice: str) -> list[str] | None:
    """Find the words to leave out: those of a language of `LANGUAGES`, or of a text file with a word per line.

    "none" keeps every word; anything else is refused.

    >>> "und" in stop_words_of("german"), stop_words_of("none")
    (True, None)
    """
    if choice == "none":
        return None
    if choice == "english":
        return sorted(ENGLISH_STOP_WORDS)
    if choice in _LISTS:
        return _LISTS[choice]
    if not Path(choice).is_file():
        raise ValueError(f"{choice!r} is neither a file nor one of {', '.join((*LANGUAGES, 'none'))}.")
    try:
        text = Path(choice).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{choice} is not UTF-8 text ({error.reason} at byte {error.start}).") from None
    return sorted({word.lower() for word in text.split()})


_WORDS = r"(?u)\b\w\w+\b"
_WITH_A_LETTER = r"(?u)\b(?=\w*[^\W\d_])\w\w+\b"


@dataclass(frozen=True)
class Corpus:
    """X (documents x words, CSR), the words of its columns, the documents of its rows."""

    # X, vocabulary, names: the counts, the words of the columns, the names of the documents
    X: Entries
    vocabulary: tuple[str, ...]
    names: tuple[str, ...]
    kept: NDArray[np.int64]  # the places in the input of the documents that have words; the others are named in `empty`
    empty: tuple[str, ...] = ()
    labels: tuple[str, ...] | None = None  # a class per row of X, or None
    notes: tuple[str, ...] = ()
    idf: Vector | None = None  # the weights of the words where X is weighed by tf-idf, else None

    def with_labels(self, labels: Sequence[str]) -> Corpus:
        """Return the corpus with a class for every document of the input, empty ones included."""
        total = len(self.kept) + len(self.empty)
        if len(labels) != total:
            raise ValueError(f"There are {len(labels)} labels for {total} documents: give one per document, in order.")
        return replace(self, labels=tuple(str(labels[i]) for i in self.kept))


def _drop_empty(X: Entries, vocabulary: tuple[str, ...], names: tuple[str, ...], notes: tuple[str, ...]) -> Corpus:
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
    stop_words: str | Sequence[str] | None = "english",
    numbers: bool = False,
    tf_idf: bool = False,
) -> Corpus:
    """Count the words of documents (lower case, two characters or more) with scikit-learn's CountVectorizer.

    Parameters
    ----------
    documents : texts, or what `read_documents` returned
    min_df, max_df : leave out words in fewer or more documents (a number, or a fraction below 1)
    max_features : the most words to keep
    stop_words : "english", words to leave out, or None to keep every word
    numbers : count words without a letter too, such as 2021
    tf_idf : weigh the counts by scikit-learn's TfidfTransformer: rare words count more, and all documents alike

    Returns
    -------
    corpus : Corpus

    Raises
    ------
    ValueError
        Where no word is left, or no document has one.

    Examples
    --------
    >>> count_words(["Some rain", "rain, rain"], stop_words=None).X.toarray().tolist()
    [[1.0, 1.0], [2.0, 0.0]]
    """
    if not isinstance(documents, Documents):
        documents = Documents(tuple(str(i + 1) for i in range(len(documents))), tuple(documents))
    kept = {"min_df": min_df, "max_df": max_df, "max_features": max_features}
    without = stop_words if stop_words is None or isinstance(stop_words, str) else list(stop_words)
    counter = CountVectorizer(token_pattern=_WORDS if numbers else _WITH_A_LETTER, stop_words=without, **kept)
    try:
        X = counter.fit_transform(documents.texts)
    except ValueError as error:
        raise ValueError(
            f"No vocabulary could be made from {len(documents.texts)} documents ({error}): lower min_df, raise max_df, "
            "keep the stop words, or check that the documents hold text."
        ) from None
    idf = None
    if tf_idf:
        weigher = TfidfTransformer().fit(X)
        X, idf = weigher.transform(X), np.asarray(weigher.idf_)
    corpus = _drop_empty(X, tuple(counter.get_feature_names_out().tolist()), documents.names, documents.notes)
    corpus = replace(corpus, idf=idf)
    return corpus if documents.labels is None else corpus.with_labels(documents.labels)


def count_known_words(documents: Documents, vocabulary: Sequence[str], idf: Vector | None = None) -> Corpus:
    """Count the words of new documents in the columns of an earlier corpus; one document at least must have one."""
    counter = CountVectorizer(vocabulary=list(vocabulary), token_pattern=_WORDS)
    X = sp.csr_array(counter.transform(documents.texts), dtype=np.float64)
    if idf is not None:
        X = normalize(X @ sp.diags_array(np.asarray(idf, dtype=np.float64)))
    return replace(_drop_empty(X, tuple(vocabulary), documents.names, documents.notes), idf=idf)


def corpus_from_matrix(X: Entries, vocabulary: Sequence[str], names: Sequence[str] | None = None) -> Corpus:
    """Make a corpus from counts and the words of the columns; documents without names are numbered from 1."""
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
