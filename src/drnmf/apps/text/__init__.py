"""Documents in, topics out: reading, counting words, DR-NMF from an SPA start, and how well classes are found.

>>> from drnmf.apps.text import count_words, fit_topics
>>> texts = ["cat dog cat", "dog cat", "rain sun rain", "sun rain"] * 3
>>> found = fit_topics(count_words(texts, stop_words=None), 2)
>>> sorted(sorted(word for word, _ in found.top_words(k, 2)) for k in range(2))
[['cat', 'dog'], ['rain', 'sun']]
"""

from typing import TYPE_CHECKING

from drnmf.loading import lazily

if TYPE_CHECKING:
    from drnmf.apps.text.counting import (
        LANGUAGES,
        Corpus,
        corpus_from_matrix,
        count_known_words,
        count_words,
        stop_words_of,
    )
    from drnmf.apps.text.reading import Documents, read_documents
    from drnmf.apps.text.topics import Scores, Topics, assign, clustering_accuracy, fit_topics, score, shares_of

__all__ = [
    "LANGUAGES",
    "Corpus",
    "Documents",
    "Scores",
    "Topics",
    "assign",
    "clustering_accuracy",
    "corpus_from_matrix",
    "count_known_words",
    "count_words",
    "fit_topics",
    "read_documents",
    "score",
    "shares_of",
    "stop_words_of",
]

__getattr__ = lazily(
    __name__,
    {
        "counting": (
            "LANGUAGES",
            "Corpus",
            "corpus_from_matrix",
            "count_known_words",
            "count_words",
            "stop_words_of",
        ),
        "reading": ("Documents", "read_documents"),
        "topics": ("Scores", "Topics", "assign", "clustering_accuracy", "fit_topics", "score", "shares_of"),
    },
)
