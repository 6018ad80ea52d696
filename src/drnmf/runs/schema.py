"""What a run folder holds: the names of its files, the fields of its JSON, the columns of its tables.

Writers and readers take every name from here. A run must have `summary.json`; whatever else is there depends on the
command that made it, and readers use what they find.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NotRequired, TypedDict, get_args

SUMMARY = "summary.json"
COMPARISON = "comparison.json"
NAMES = "names.json"
MODEL = "model.npz"
W_FILE, H_FILE = "W.npy", "H.npy"
W_TABLE, H_TABLE = "W.csv", "H.csv"
TRACE = "trace.csv"
FRONT = "front.csv"
COVERAGE = "coverage.csv"
TABLE = "table.csv"
TOPICS = "topics.csv"
DOCUMENTS = "documents.csv"
VOCABULARY = "vocabulary.txt"
IDF = "idf.npy"
COMPONENTS = "components.csv"
INTERVALS = "intervals.csv"
CONTRIBUTIONS = "contributions.csv"
CONTRIBUTION_INTERVALS = "contribution_intervals.csv"
DENSE = "contributions-dense.csv"
STABILITY = "stability.csv"
NOISE = "noise.csv"
RANKS = "ranks.csv"
RESIDUALS = "residuals.csv"
VARIANCE = "variance.csv"
QUALITY = "quality.csv"
SCALED_RESIDUALS = "scaled_residuals.csv"
ANNOTATED = "annotated.h5ad"
REPORT = "report.html"

Kind = Literal["fit", "pareto", "separate", "topics", "demo", "discover", "stream", "assign"]
"""The command that made a run."""
KINDS: tuple[str, ...] = get_args(Kind)

FIELDS = ("signatures", "air", "spectra", "cells", "plain")
"""What a run can be drawn as: profiles over mutation types; species over dates; lines over wavelengths and maps; top
genes; bars."""

PerLoss = dict[str, float]
"""A value for each loss, by its key ("1", "nb:30")."""
Quantity = Literal["loss", "scaled_loss", "weight"]
"""What trace.csv and front.csv hold for every loss."""


def column(quantity: Quantity, key: str) -> str:
    """Name the column of trace.csv or front.csv that holds a quantity of the loss with that key.

    >>> column("weight", "0.5"), column("loss", "nb:30")
    ('weight_0.5', 'loss_nb:30')
    """
    return f"{quantity}_{key}"


def loss_keys(header: Iterable[str]) -> list[str]:
    """List the losses of trace.csv or front.csv in their order, from the names of the columns.

    >>> loss_keys(["iteration", "scaled_loss_0", "scaled_loss_1", "weight_0", "weight_1"])
    ['0', '1']
    """
    start = column("scaled_loss", "")
    return [name.removeprefix(start) for name in header if name.startswith(start)]


class LabelColumn(TypedDict):
    """A column of labels and its title, which may be empty."""

    title: str
    values: list[str]


class Names(TypedDict):
    """names.json: a name per row and per column of X, and the columns of labels that the names are made of.

    `components` has a name for every component.

    Columns of labels are there where there are several for a side, or where they have a title.
    """

    rows: list[str] | None
    columns: list[str] | None
    components: NotRequired[list[str]]
    row_labels: NotRequired[list[LabelColumn]]
    column_labels: NotRequired[list[LabelColumn]]


class Method(TypedDict, total=False):
    """A fit in comparison.json: its losses, and these over the references."""

    name: str
    losses: list[float]
    scaled_losses: list[float]
    iterations: int
    seconds: float


class Comparison(TypedDict):
    """comparison.json: the fits under each loss alone and, last, the one under all.

    `losses` are the keys of the losses.
    """

    losses: list[str]
    references: NotRequired[list[float]]
    methods: list[Method]


class Sound(TypedDict, total=False):
    """A file with a component or a group of components."""

    file: str
    name: str | None
    members: list[int]


class Measured(TypedDict):
    """How near a source is to its reference, in decibels; null is infinitely near."""

    reference: str
    components: list[int]
    sdr: float | None
    sir: float | None
    sar: float | None


class Audio(TypedDict, total=False):
    """How a spectrogram was made and which files its sources are in; `measures` are SDR, SIR and SAR in decibels."""

    rate: float
    window: int
    hop: int
    power: int
    seconds: float
    first_frame_seconds: float
    encoding: str
    gain: float
    components: list[Sound]
    groups: list[Sound]
    mixture: str
    measures: list[Measured]


class Topics(TypedDict, total=False):
    """Share of all words and most typical documents by topic, and scores by method where there are labels."""

    shares: dict[str, float]
    typical: dict[str, list[str]]
    scores: dict[str, dict[str, float]]


class DemoRow(TypedDict):
    """What one method made of the tune in one noise; `right` of its `strokes` are the notes of the score."""

    noise: str
    method: str
    scaled_losses: list[float]
    notes: str
    melody: str
    right: int
    strokes: int


class Demo(TypedDict):
    """The table of the demo."""

    betas: list[float]
    score: str
    rows: list[DemoRow]


class Quality(TypedDict):
    """How well X is met within its uncertainties: Q, what is expected of it, and Q with outliers damped."""

    Q: float
    Q_expected: float | None
    Q_ratio: float | None
    Q_robust: float
    entries: int
    beyond: int


class Covered(TypedDict):
    """Intervals of a discovery: what they are to cover, and what they cover in simulation, null where there was none.

    `noise` is what was drawn, `truths` how many of the `draws` were simulated further; `widening` and `coverage` are
    those of components and of contributions.
    """

    level: float
    draws: int
    truths: int
    noise: str
    widening: dict[str, float]
    coverage: dict[str, float | None]
    finding: str


class Discovered(TypedDict):
    """What `drnmf discover` found: what was not finished, how many of `rank` are stable, how it came to that."""

    missing: list[str]
    rank: int
    stable: int
    threshold: float
    resample: str | None
    intervals: Covered | None
    beta: float | None
    slope: float | None
    counts: bool
    profiles: str
    penalties: list[str]
    finding: str
    cautions: list[str]
    stages: list[dict[str, Any]]


class Streamed(TypedDict):
    """How far `drnmf stream` has come: rows in all, and of its input in which pass; `rest` is to be read."""

    rows: int
    batch: int
    taken: int
    turn: int
    rest: bool
    seconds: float


class Solution(TypedDict):
    """The robust point of a front."""

    weights: PerLoss
    losses: PerLoss
    scaled_losses: PerLoss


class Penalised(TypedDict):
    """A penalty of the run; the last three are null where its alpha was given. `alpha` 0 was chosen as none at all."""

    penalty: str
    alpha: float
    alphas: list[float] | None
    values: list[float] | None
    limit: float | None


class Table(TypedDict):
    """The table of uncertainties or weights that was read with X."""

    file: str
    sha256: str


class Input(TypedDict, total=False):
    """What was read, or made up: enough to tell later whether a file is the one."""

    file: str
    sha256: str | None
    variable: str | None
    shape: list[int]
    dtype: str
    stored_entries: int | None
    image: list[int] | None
    tables: dict[str, Input]
    uncertainty: Table
    entry_weights: Table
    encoding: str
    rate: float
    channels: int
    samples: int
    empty_documents: int
    recipe: str


class Summary(TypedDict, total=False):
    """summary.json. `files` lists what the run wrote: nothing else is ever replaced.

    `instruction_set` is that of the compiled extension, null where another backend computed; `threads` are those of a
    process, null in folders of earlier versions.
    """

    backend: str
    instruction_set: str | None
    command: str
    versions: dict[str, str]
    kind: Kind
    estimator: str
    parameters: dict[str, Any]
    seed: int | None
    seconds: float
    iterations: int
    converged: bool
    reason: str
    losses: PerLoss
    references: PerLoss
    scaled_losses: PerLoss
    weights: PerLoss
    penalty: float | None
    penalties: list[Penalised]
    gap: float
    stationarity: float
    bound: float | None
    notes: list[str]
    input: Input
    data: Input
    threads: int | None
    dominated_points: int
    dr: Solution
    audio: Audio
    topics: Topics
    demo: Demo
    discovery: Discovered
    quality: Quality
    field: str
    stream: Streamed
    files: list[str]
