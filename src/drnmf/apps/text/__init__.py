"""Documents in, topics out: reading, counting words, DR-NMF from an SPA start, and how well classes are found.

>>> from drnmf.apps.text import count_words, fit_topics
>>> texts = ["cat dog cat", "dog cat", "rain sun rain", "sun rain"] * 3
>>> found = fit_topics(count_words(texts, stop_words=None), 2)
>>> sorted(sorted(word for word, _ in found.top_words(k, 2)) for k in range(2))
[['cat', 'dog'], ['rain', 'sun']]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from drnmf.loading import lazily

if TYPE_CHECKING:
    from drnmf.apps.text.counting import count_words
    from drnmf.apps.text.reading import read_documents
    from drnmf.apps.text.topics import fit_topics

__all__ = ["count_words", "fit_topics", "read_documents"]

__getattr__ = lazily(
    __name__, {"counting": ("count_words",), "reading": ("read_documents",), "topics": ("fit_topics",)}
)
