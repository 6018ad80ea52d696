"""drnmf topics: documents into topics."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drnmf.algorithms.initialize import STARTS
from drnmf.cli import options
from drnmf.cli.common import bad_usage, choice, plain_warnings, say, table, warn
from drnmf.cli.results import Results, writes
from drnmf.cli.transform import Request, save
from drnmf.runs import schema, write
from drnmf.runs.read import model_file

if TYPE_CHECKING:
    from drnmf.apps.text.counting import Corpus
    from drnmf.apps.text.topics import Scores, Topics
    from drnmf.matrices.matrix import Matrix
    from drnmf.numerics import Vector

Input = Annotated[
    Path,
    typer.Argument(
        metavar="INPUT", help="A folder of .txt and .md; .jsonl .csv .tsv .parquet; a matrix.", show_default=False
    ),
]
Labels = Annotated[
    str | None,
    typer.Option("--labels", help="Classes to compare with: a column, or a file with one per line (or .npy)."),
]
Vocabulary = Annotated[
    Path | None, typer.Option("--vocabulary", help="INPUT is a document-term matrix; this file has one word per line.")
]
STOP_WORDS = ("english", "german", "french", "spanish", "italian", "portuguese", "dutch", "none")
StopWords = Annotated[
    str,
    typer.Option("--stop-words", help=f"Words to leave out: {', '.join(STOP_WORDS)}, or a file of words."),
]
WORDS = 20
"""Words per topic in topics.csv."""


@writes()
def topics(
    source: Input,
    rank: options.Rank,
    betas: options.Betas = "1,2",
    column: options.Column = None,
    labels: Labels = None,
    vocabulary: Vocabulary = None,
    variable: options.Variable = None,
    encoding: options.Encoding = "utf-8",
    stop_words: StopWords = "english",
    keep_numbers: Annotated[
        bool, typer.Option("--keep-numbers", metavar="", help="Count words without a letter too, such as 2021.")
    ] = False,
    tf_idf: Annotated[
        bool, typer.Option("--tf-idf", metavar="", help="Weigh the counts: rare words count more.")
    ] = False,
    min_df: Annotated[float, typer.Option("--min-df", min=0, help="Leave out words in fewer documents.")] = 2,
    max_df: Annotated[float, typer.Option("--max-df", min=0, help="Leave out words in more documents.")] = 0.5,
    max_features: Annotated[int | None, typer.Option("--max-features", min=1, help="Most words to keep.")] = None,
    max_iter: options.MaxIter = 200,
    tol: options.Tol = 1e-5,
    init: Annotated[
        str | None,
        typer.Option("--init", help=f"Start: {', '.join(STARTS)} (default: spa; random with --n-init)."),
    ] = None,
    n_init: options.Starts = 1,
    seed: options.Seed = 0,
    *,
    results: Results,
) -> None:
    """Find topics in documents: their words, and the share of each in every document.

    Writes topics.csv, documents.csv, the model and a summary into a folder, all or nothing.
    """
    omega = options.parse_betas(betas)
    choice(init, STARTS, "--init")
    if n_init > 1 and init == "spa":
        raise typer.BadParameter("SPA gives one start only: several need --init random.", param_hint="--n-init")
    labels_file = Path(labels) if labels is not None and Path(labels).is_file() else None
    results = results.settled("topics", source, vocabulary, labels_file)
    from drnmf.apps.text import count_words, fit_topics, read_documents
    from drnmf.apps.text.counting import stop_words_of
    from drnmf.estimators.models import DRNMF

    with bad_usage("--stop-words"):
        left_out = stop_words_of(stop_words)
    started = time.perf_counter()
    if vocabulary is not None:
        corpus = _from_matrix(source, vocabulary, variable)
        if labels is not None and labels_file is None:
            raise FileNotFoundError(f"--labels {labels} does not exist: a matrix has no columns to take labels from.")
    else:
        _refuse_matrix(source)
        own = labels if labels_file is None else None
        if own is not None and (source.is_dir() or column is None):
            raise FileNotFoundError(f"--labels {labels} does not exist: give a file with one class per document.")
        documents = read_documents(source, column, encoding, own)
        corpus = count_words(
            documents,
            min_df=_least(min_df),
            max_df=_most(max_df),
            max_features=max_features,
            stop_words=left_out,
            numbers=keep_numbers,
            tf_idf=tf_idf,
        )
    if labels_file is not None:
        corpus = corpus.with_labels(_read_labels(labels_file))
    for note in corpus.notes:
        warn(note)
    with plain_warnings() as warned:
        start = init or ("spa" if n_init == 1 else "random")
        model = DRNMF(rank, betas=omega, init=start, n_init=n_init, random_state=seed, verbose=int(not results.quiet))
        fitted = fit_topics(corpus, model.set_params(max_iter=max_iter, tol=tol))
    scores = fitted.scores() if corpus.labels is not None else {}
    seconds = time.perf_counter() - started
    with results.writing() as temporary:
        _write(temporary, fitted)
        write.write_names(temporary, _named(corpus), fitted.W, fitted.H)
        notes = [*corpus.notes, *fitted.comparison.notes, *warned]
        summary = write.write_compared(temporary, "topics", fitted.comparison, seconds, notes)
        summary |= {"input": _input(source, corpus), "topics": _describe(fitted, scores)}
        results.finish(temporary, summary | write.computed_by(corpus.X))
    if not results.quiet:
        _show(fitted, scores)
    say(f"{fitted.H.shape[0]} topics, {seconds:.1f} s; results in {results.folder}")


def transform_texts(request: Request) -> bool:
    """Write W of new texts, zero for those without a word of the run, and a table like documents.csv."""
    if _is_matrix(request.x):
        return False
    target = request.target()
    import numpy as np

    from drnmf.apps.text.counting import count_known_words
    from drnmf.apps.text.reading import read_documents
    from drnmf.apps.text.topics import shares_of
    from drnmf.estimators.models import load

    run = request.run
    model = load(model_file(run))
    vocabulary = _lines_of(run / schema.VOCABULARY)
    idf = np.load(run / schema.IDF, allow_pickle=False) if (run / schema.IDF).exists() else None
    corpus = count_known_words(read_documents(request.x, request.column, request.encoding), vocabulary, idf)
    for note in corpus.notes:
        warn(note)
    if hasattr(model, "feature_names_in_"):
        del model.feature_names_in_
    with plain_warnings():
        W_kept = model.transform(corpus.X)
    W = np.zeros((len(corpus.kept) + len(corpus.empty), W_kept.shape[1]), dtype=W_kept.dtype)
    W[corpus.kept] = W_kept
    rows = _document_rows(corpus, shares_of(W_kept, model.components_))
    save(target, W, [list(rows[0]), *(list(row.values()) for row in rows)])
    return True


def _least(value: float) -> int | float:
    """Read --min-df: a fraction below 1, else a number of documents."""
    return value if value < 1 else int(value)


def _most(value: float) -> int | float:
    """Read --max-df: a fraction up to 1, else a number of documents."""
    return value if value <= 1 else int(value)


def _is_matrix(source: Path) -> bool:
    """Tell whether a file holds a matrix, and no texts."""
    return source.name.lower().endswith((".npz", ".npy", ".mtx", ".mat", ".mtx.gz"))


def _refuse_matrix(source: Path) -> None:
    if _is_matrix(source):
        raise ValueError(
            f"{source} is a matrix: name its words with --vocabulary, one per line, in the order of its columns."
        )


def _from_matrix(source: Path, vocabulary: Path, variable: str | None) -> Corpus:
    from drnmf.apps.text.counting import corpus_from_matrix
    from drnmf.matrices.files import read_matrix

    matrix = read_matrix(source, variable)
    return corpus_from_matrix(matrix.X, _lines_of(vocabulary), matrix.row_names)


def _lines_of(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text ({error.reason} at byte {error.start}).") from None
    return [line.strip() for line in text.removesuffix("\n").split("\n")]


def _read_labels(path: Path) -> list[str]:
    if path.suffix.lower() != ".npy":
        return _lines_of(path)
    import numpy as np

    try:
        return [str(value) for value in np.load(path, allow_pickle=False).ravel().tolist()]
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None


def _input(source: Path, corpus: Corpus) -> schema.Input:
    from drnmf.apps.text.reading import text_files

    digest = hashlib.sha256()  # of the file, or of all texts of the folder one after another
    for path in text_files(source) if source.is_dir() else [source]:
        digest.update(path.read_bytes())
    return {
        "file": source.name,
        "sha256": digest.hexdigest(),
        "shape": list(corpus.X.shape),
        "stored_entries": int(corpus.X.nnz),
        "empty_documents": len(corpus.empty),
    }


def _named(corpus: Corpus) -> Matrix:
    from drnmf.matrices.matrix import Labels, Matrix

    return Matrix(corpus.X, Labels((corpus.names,), ("document",)), Labels.of(corpus.vocabulary))


def _write(folder: Path, topics: Topics) -> None:
    """Write topics.csv, documents.csv, vocabulary.txt and, where words were weighed, idf.npy."""
    import numpy as np

    corpus, rank = topics.corpus, topics.H.shape[0]
    words = [
        {"topic": k + 1, "rank": place, "word": word, "weight": weight}
        for k in range(rank)
        for place, (word, weight) in enumerate(topics.top_words(k, WORDS), start=1)
    ]
    write.write_table(folder / schema.TOPICS, words)
    write.write_table(folder / schema.DOCUMENTS, _document_rows(corpus, topics.shares))
    text = "\n".join(corpus.vocabulary) + "\n"
    (folder / schema.VOCABULARY).write_text(text, encoding="utf-8", errors="replace")
    if corpus.idf is not None:
        np.save(folder / schema.IDF, corpus.idf)


def _document_rows(corpus: Corpus, shares: Vector) -> list[write.Record]:
    """Make the rows of documents.csv: every document of the input, in order; those without words have no topic."""
    rank, total = shares.shape[1], len(corpus.kept) + len(corpus.empty)
    blank = {"best_topic": ""} | {f"topic_{k + 1}": 0.0 for k in range(rank)}
    rows: list[write.Record] = [{"document": "", **blank} for _ in range(total)]
    missing = iter(corpus.empty)
    for i, place in enumerate(corpus.kept):
        rows[place] = {"document": corpus.names[i], "best_topic": int(shares[i].argmax()) + 1}
        rows[place] |= {f"topic_{k + 1}": round(float(shares[i, k]), 6) for k in range(rank)}
    for row in rows:
        row["document"] = row["document"] or next(missing)
    return rows


def _describe(topics: Topics, scores: dict[str, Scores]) -> schema.Topics:
    import numpy as np

    shares = topics.shares
    words = np.asarray(topics.corpus.X.sum(axis=1)).ravel()
    overall = (shares * words[:, None]).sum(axis=0) / words.sum()
    typical = {
        str(k + 1): [topics.corpus.names[i] for i in np.lexsort((-words, -shares[:, k].round(6)))[:5]]
        for k in range(shares.shape[1])
    }
    table = {name: {"accuracy": s.accuracy, "nmi": s.nmi, "ari": s.ari} for name, s in scores.items()}
    return {"shares": {str(k): float(v) for k, v in enumerate(overall, start=1)}, "typical": typical, "scores": table}


def _show(topics: Topics, scores: dict[str, Scores]) -> None:
    words = ((str(k + 1), ", ".join(word for word, _ in topics.top_words(k, 10))) for k in range(topics.H.shape[0]))
    table("Topics", ("topic", "words"), words, left=("words",))
    if scores:
        rows = ((name, f"{s.accuracy:.3f}", f"{s.nmi:.3f}", f"{s.ari:.3f}") for name, s in scores.items())
        table("Clusters against the labels", ("method", "accuracy", "NMI", "ARI"), rows, left=("method",))
