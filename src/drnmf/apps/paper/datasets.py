"""Which file is which data set of the paper, and where the ones that are not here can be had."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
import scipy.sparse as sp

from drnmf.apps.audio.recording import open_recording
from drnmf.apps.audio.transform import Ends, Spectrogram, spectrogram
from drnmf.apps.paper import paper
from drnmf.numerics import Entries

Sort = Literal["documents", "audio"]
Role = Literal["own", "variant", "substitute"]
"""own: the paper's data set. variant: the same source in another version or cut, shown beside the paper's
numbers but not averaged. substitute: data of the same kind, without a paper column."""


@dataclass(frozen=True)
class Entry:
    """What is known of a file's stem: the paper's data set it belongs to, and how closely."""

    paper: str
    role: Role
    remark: str = ""

    @property
    def standing(self) -> str:
        """What the file is to the paper."""
        return f"is the paper's {self.paper}" if self.role == "own" else f"({self.role}, for {self.paper})"


DOCUMENTS: dict[str, Entry] = {name: Entry(name, "own") for name in paper.DOCUMENTS} | {
    "tr11_cluto": Entry("tr11", "variant", "with the 5 words that every document has"),
    "tr23_cluto": Entry("tr23", "variant", "with the word that every document has"),
    "tr41_cluto": Entry("tr41", "variant", "with the word that every document has"),
    "newsgroups20_bydate": Entry("NG20", "substitute", "20 Newsgroups by date, other preprocessing"),
    "newsgroups3_politics": Entry("ng3sim", "substitute", "three political groups of 20 Newsgroups by date"),
    "tdt2_top30": Entry("sports", "substitute", "TDT2, another corpus of about the same size"),
}

AUDIO: dict[str, Entry] = {name: Entry(name, "own") for name in paper.AUDIO} | {
    "sisec_wdrums": Entry("sisec_mixdrums", "own", "mean of both channels of the instantaneous mixture"),
    "isse_bass_drum": Entry("syntBassDrum", "variant", "another cut: n is 817 where the paper has 543"),
    "ShanHur_sunrise_excerpt": Entry("ShanHur_sunrise", "variant", "the first 3.1 s: n is 389, the paper has 4102"),
    "piano_Bertin": Entry("trio_Brahms", "substitute", "four piano notes of Fevotte, Bertin and Durrieu 2009"),
    "sisec_nodrums": Entry("sisec_mixfemale", "substitute", "SiSEC music mixture without drums"),
    "tamy_voice_guitar": Entry("voice_cell", "substitute", "singing voice and guitar (SiSEC)"),
}

_ZHONG_GHOSH = (
    "the collection of Zhong and Ghosh (2005); the same corpora in CLUTO's format: "
    "http://glaros.dtc.umn.edu/gkhome/cluto/cluto/download. Save as a documents x words CSR matrix of counts "
    "(scipy.sparse.save_npz) with one class per document in NAME.labels.npy"
)
_ISSE = "the demo page of ISSE, http://isse.sourceforge.net/demos.html; mix to mono at 16 kHz"
_TRIOS = "the TRIOS data set, https://c4dm.eecs.qmul.ac.uk/rdr/handle/123456789/27; mix to mono at 16 kHz"
_SISEC = (
    "SiSEC 2008, underdetermined speech and music mixtures, "
    "http://sisec.wiki.irisa.fr/tiki-indexbfd7.html?page=Underdetermined+speech+and+music+mixtures; "
    "mean of both channels"
)
WHERE: dict[str, str] = dict.fromkeys(paper.DOCUMENTS, _ZHONG_GHOSH) | {
    "syntBassDrum": _ISSE,
    "syntCCcyGC": _ISSE,
    "voice_cell": _ISSE,
    "trio_Brahms": _TRIOS,
    "trio_bapitru": _TRIOS,
    "sisec_mixdrums": _SISEC,
    "sisec_mixfemale": _SISEC,
    "ShanHur_sunrise": "the examples of FASST, http://bass-db.gforge.inria.fr/fasst/; mix to mono at 16 kHz",
    "prelude_JSB": (
        "Bach, The Well-Tempered Clavier played by Glenn Gould (1/13), seconds 19 to 49 of "
        "https://www.youtube.com/watch?v=IrJjPYi_vhM"
    ),
    "piano_Mary": "the repository vleplat/BMMe on GitHub, Libraries/min_vol_KL_NMF/sound_Examples/Piano/Mary.wav",
}
"""Paper's name -> where to get it."""


KINDS: dict[Sort, tuple[dict[str, Entry], str, list[str]]] = {
    "documents": (DOCUMENTS, ".npz", list(paper.DOCUMENTS)),
    "audio": (AUDIO, ".wav", list(paper.AUDIO)),
}
"""Folder -> its known stems, the suffix of its files, and the paper's data sets in the paper's order."""


@dataclass(frozen=True)
class Dataset:
    """A file that is here."""

    stem: str
    path: Path
    entry: Entry

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the file(s): results belong to these bytes."""
        digest = hashlib.sha256(self.path.read_bytes())
        labels = _labels_of(self.path)
        if labels.exists():
            digest.update(labels.read_bytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class Documents:
    """X (documents x words, counts as float64) and the class of every document."""

    X: Entries
    labels: np.ndarray[tuple[int], np.dtype[np.int64]]

    @property
    def rank(self) -> int:
        """The paper's r: the number of classes."""
        return int(np.unique(self.labels).size)


def _labels_of(path: Path) -> Path:
    return path.with_name(f"{path.stem}.labels.npy")


def check_folder(folder: Path | None) -> Path:
    """The data folder, or an error that says what it should look like."""
    if folder is None:
        raise ValueError("No data folder: pass --data DIR or set DRNMF_DATA (DIR holds documents/ and audio/).")
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder: --data names the folder that holds documents/ and audio/.")
    return folder


def present(folder: Path, kind: Sort) -> list[Dataset]:
    """The known data sets of a kind that are here, in the paper's order, own before variant before substitute."""
    table, suffix, order = KINDS[kind]
    roles = ("own", "variant", "substitute")
    known = [Dataset(stem, folder / kind / f"{stem}{suffix}", entry) for stem, entry in table.items()]
    here = [item for item in known if item.path.is_file()]
    for item in here:
        if kind == "documents" and not _labels_of(item.path).is_file():
            raise FileNotFoundError(f"{item.path} is here but {_labels_of(item.path).name} is not: add the classes.")
    return sorted(here, key=lambda item: (roles.index(item.entry.role), order.index(item.entry.paper)))


def missing(folder: Path, kind: Sort) -> list[str]:
    """The paper's data sets of a kind that are not here (a variant or a substitute is not the data set)."""
    own = {item.entry.paper for item in present(folder, kind) if item.entry.role == "own"}
    return [name for name in KINDS[kind][2] if name not in own]


def unknown(folder: Path, kind: Sort) -> list[str]:
    """Files of the right type whose name is no data set of the paper: they are left out, and the page says so."""
    table, suffix, _ = KINDS[kind]
    return sorted(path.name for path in (folder / kind).glob(f"*{suffix}") if path.stem not in table)


def remarks(table: dict[str, Entry], stems: list[str]) -> str:
    """List what is to be said of data sets, for the page."""
    known = [(stem, table[stem]) for stem in stems if table[stem].remark]
    lines = [f"- `{stem}` {entry.standing}: {entry.remark}." for stem, entry in known]
    return "\n" + "\n".join(lines) + "\n" if lines else ""


@lru_cache(maxsize=1)
def load_documents(dataset: Dataset) -> Documents:
    """Read counts and classes; the last data set is kept."""
    X = sp.csr_matrix(sp.load_npz(dataset.path)).astype(np.float64)
    labels = np.load(_labels_of(dataset.path), allow_pickle=False).astype(np.int64)
    if labels.shape != (X.shape[0],):
        raise ValueError(f"{dataset.path}: {X.shape[0]} documents but {labels.size} classes in the labels file.")
    return Documents(X, labels)


@lru_cache(maxsize=1)
def load_spectrogram(path: Path, window: int, ends: Ends) -> Spectrogram:
    """Read magnitudes as section 5.3 has them: channels averaged, symmetric Hamming window, frames half a window apart.

    The last one is kept.
    """
    recording = open_recording(path)
    return spectrogram(
        recording.channel_mean(), rate=recording.rate, window=window, hop=window // 2, symmetric=True, ends=ends
    )
