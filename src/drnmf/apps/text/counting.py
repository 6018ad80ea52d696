"""A document-term matrix with its vocabulary, counted from texts or given, and the words that are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer, TfidfTransformer
from sklearn.preprocessing import normalize

from drnmf.apps.text.reading import Documents
from drnmf.backends.entries import check_structure
from drnmf.matrices.matrix import Entries
from drnmf.numerics import Vector
from drnmf.problem.check import check_entries

_LISTS = {
    "german": """
        ab aber alle allem allen aller alles als also am an andere anderen auch auf aus bei beim bin bis bist da dabei
        dadurch dafür dagegen daher damit danach dann daran darauf daraus darin darüber das dass dazu dein deine dem den
        denn der deren des dessen deshalb die dies diese diesem diesen dieser dieses doch dort du durch ein eine einem
        einen einer eines einige er es etwa etwas euch euer für gegen gewesen hab habe haben hat hatte hatten hier hin
        hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im immer in ins ist ja jede jedem jeden jeder jedes jetzt
        kann kein keine keinen können könnte machen man mehr mein meine mich mir mit muss müssen nach nicht nichts noch
        nun nur ob oder ohne schon sehr sein seine seinem seinen seiner seit sich sie sind so sogar soll sollen sollte
        sondern sonst über um und uns unser unter viel viele vom von vor wann war waren warum was weil welche welchem
        welchen welcher wenn wer werde werden wie wieder will wir wird wo wollen worden wurde wurden würde zu zum zur
        zwar zwischen""",
    "french": """
        ai aie ainsi alors après au aucun aucune aussi autre autres aux avait avant avec avoir avons bien car ce ceci
        cela celle celles celui ces cet cette ceux chaque chez ci comme comment dans de depuis des deux dire dit doit
        donc dont du elle elles en encore entre est et étaient était été être eu eux fait faire faut fois font ici il
        ils je jusque la là le les leur leurs lors lui ma mais me même mêmes mes moi moins mon ne ni non nos notre nous
        on ont ou où par parce pas pendant peu peut peuvent plus pour pourquoi puis qu quand que quel quelle quelles
        quels qui quoi sa sans se sera ses si sinon soi soit son sont sous sur ta te tel telle tes toi ton toujours
        tous tout toute toutes très trop tu un une vers vos votre vous""",
    "spanish": """
        al algo algunas algunos ante antes aquel aquella así aún aunque bajo bien cada casi como con contra cual cuando
        cuál de del desde después donde dos durante el él ella ellas ellos en entonces entre era eran eres es esa esas
        ese eso esos está estaba están estar estas este esto estos esta fue fueron ha había hace hacer han hasta hay he
        la las le les lo los más me mi mientras mis mucho muchos muy nada ni no nos nosotros nuestra nuestro o os otra
        otras otro otros para pero poco por porque puede pueden pues que qué quien quién se sea según ser si sí sido
        sin sino sobre solo sólo son su sus también tan tanto te tiene tienen toda todas todo todos tras tu tus un una
        uno unos usted va vez y ya yo""",
    "italian": """
        ad agli ai al alla alle allo altra altre altri altro anche ancora aveva avere che chi ci cioè col come con
        contro cosa così cui da dagli dai dal dalla dalle dallo degli dei del dell della delle dello deve di dopo dove
        dunque due era erano essere fa fare fra fu già gli ha hai hanno ho il in invece io la le lei li lo loro lui ma
        me mentre mi mia mie miei mio molto ne negli nei nel nella nelle nello no noi non nostra nostro nulla ogni ora
        per perché però più poco poi prima può qual quale quando quanto quasi quella quelle quelli quello questa queste
        questi questo qui se sei sempre senza si sia siamo sì solo sono sopra sotto sta stata stato su sua sue sui sul
        sulla sulle suo suoi tra tu tua tue tutta tutte tutti tutto un una uno va vi voi""",
    "portuguese": """
        ainda algo algum alguma ao aos apenas após aquela aquele as até cada com como da das de dela dele deles depois
        do dos ela elas ele eles em entre era eram essa essas esse esses esta está estão estas estava este estes eu foi
        foram há isso isto já lhe mais mas me mesmo meu minha muito na não nas nem no nos nós nossa nosso num numa os
        ou outra outras outro outros para pela pelas pelo pelos pode por porque pois quais qual quando que quem são se
        seja sem ser será seu seus só sob sobre sua suas também te tem têm ter teu toda todas todo todos tu tua tudo um
        uma umas uns vai você vos""",
    "dutch": """
        aan al alle alleen als altijd ben bij daar dan dat de deze die dit doch doen door dus een eens en er ge geen
        geweest haar had heb hebben heeft hem het hier hij hoe hun iemand iets ik in is ja je kan kon kunnen maar me
        meer men met mij mijn moet na naar niet niets nog nu of om omdat ons ook op over reeds te tegen toch toen tot
        uit uw van veel voor want waren was wat we wel werd wezen wie wij wil worden zal ze zelf zich zij zijn zo zonder
        zou""",
}
LANGUAGES = ("english", *_LISTS)
"""Languages whose stop words are known."""


def stop_words_of(choice: str) -> list[str] | None:
    """Find the words to leave out.

    Parameters
    ----------
    choice : a language of `LANGUAGES`, "none", or a text file with a word per line

    Returns
    -------
    words : list of str, lower case; None keeps every word

    Raises
    ------
    ValueError
        Where it is none of these.

    Examples
    --------
    >>> "und" in stop_words_of("german"), stop_words_of("none")
    (True, None)
    """
    if choice == "none":
        return None
    if choice == "english":
        return sorted(ENGLISH_STOP_WORDS)
    if choice in _LISTS:
        return _LISTS[choice].split()
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
    """X (documents x words, CSR), the words of its columns, the documents of its rows.

    Attributes
    ----------
    X, vocabulary, names : the counts, the words of the columns, the names of the documents
    kept : the places in the input of the documents that have words; the others are named in `empty`
    labels : a class per row of X, or None
    idf : the weights of the words where X is weighed by tf-idf, else None
    """

    X: Entries
    vocabulary: tuple[str, ...]
    names: tuple[str, ...]
    kept: NDArray[np.int64]
    empty: tuple[str, ...] = ()
    labels: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    idf: Vector | None = None

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
    """Count the words of new documents in the columns of an earlier corpus.

    Parameters
    ----------
    documents : what `read_documents` returned
    vocabulary, idf : of the earlier corpus

    Returns
    -------
    corpus : Corpus, with the same columns

    Raises
    ------
    ValueError
        Where no document has a word of the vocabulary.
    """
    counter = CountVectorizer(vocabulary=list(vocabulary), token_pattern=_WORDS)
    X = sp.csr_array(counter.transform(documents.texts), dtype=np.float64)
    if idf is not None:
        X = normalize(X @ sp.diags_array(np.asarray(idf, dtype=np.float64)))
    return replace(_drop_empty(X, tuple(vocabulary), documents.names, documents.notes), idf=idf)


def corpus_from_matrix(X: Entries, vocabulary: Sequence[str], names: Sequence[str] | None = None) -> Corpus:
    """Make a corpus from counts and the words of the columns.

    Parameters
    ----------
    X : (documents, words), dense or sparse, nonnegative
    vocabulary : the words of the columns
    names : the names of the documents; None numbers them from 1

    Returns
    -------
    corpus : Corpus
    """
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
