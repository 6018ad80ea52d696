"""Small and middling tables of many kinds: what defaults are judged on.

Some come with scikit-learn, some are drawn from a seed, and those of DRNMF_DATA join where it is set.

    DRNMF_DATA=... OMP_NUM_THREADS=1 python benchmarks/tables.py    # the rows of tables.csv, defaults on both sides

compares `BetaNMF(rank, beta=2)` with `sklearn.decomposition.NMF(rank)`, both as they come: the last loss, and the
processor time of one thread, in turns on the same X. `half` in tables.csv says which rows were looked at when the rule
that ends a fit was chosen ("chosen"), and which only afterwards ("held"). Written to results/tables.csv and tables.txt.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import statistics
import subprocess
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from algorithms import spectrogram
from harness import DATA, RESULTS, machine, print_table, write_csv
from likenesses import Table, likenesses
from quality_time import loss
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_linnerud, load_wine
from sklearn.decomposition import NMF
from threadpoolctl import threadpool_limits

from drnmf import BetaNMF

LIST = Path(__file__).with_suffix(".csv")
LONG = 1.0
"""Seconds after which a row is not run again."""

MORE = (
    "la1", "reviews", "PCAWG.96", "liver-326", "Baltimore air", "Baton Rouge air",
    *(f"{name} {kind}" for name in ("piano_Bertin", "sisec_nodrums", "ShanHur_sunrise_excerpt")
      for kind in ("magnitude", "power")),
)  # fmt: skip


def tables(only: Collection[str] | None = None, more: bool = False) -> list[Table]:
    """Return every table by name, or those of some names: no other file is read then.

    more : those too that take long, or have gaps, which not every peer takes
    """
    some = [name for name in _files() if more or name not in MORE] if only is None else only
    found = (*_bundled(), *_drawn(), *likenesses(), *_of_the_data(some))
    return [table for table in found if only is None or table[0] in only]


def _bundled() -> Iterator[Table]:
    """Tables of scikit-learn, as they are: columns differ by factors of a thousand."""
    yield "wine", load_wine().data
    yield "breast cancer", load_breast_cancer().data
    yield "iris", load_iris().data
    yield "linnerud", load_linnerud().data
    yield "digits", load_digits().data
    yield "diabetes", load_diabetes(scaled=False).data
    yield "breast cancer, unit columns", load_breast_cancer().data / load_breast_cancer().data.mean(axis=0)


def _drawn() -> Iterator[Table]:
    """Tables with a planted rank under four noises, faces-like images, and noise alone."""
    rng = np.random.default_rng(0)
    mean = rng.gamma(0.5, size=(300, 12)) @ rng.gamma(0.5, size=(12, 200))
    yield "planted Gaussian", np.clip(mean + 0.2 * mean.mean() * rng.normal(size=mean.shape), 0.0, None)
    yield "planted Poisson", rng.poisson(5.0 * mean).astype(float)
    yield "planted Gamma", mean * rng.gamma(25.0, 1 / 25.0, size=mean.shape)
    yield "planted Bernoulli", (rng.uniform(size=mean.shape) < 1.0 - np.exp(-mean)).astype(float)
    grid = np.linspace(-1.0, 1.0, 32)
    centres, widths = rng.uniform(-1, 1, (40, 2)), rng.uniform(0.05, 0.4, 40)
    bumps = np.exp(-((grid[:, None, None] - centres[:, 0]) ** 2 + (grid[None, :, None] - centres[:, 1]) ** 2) / widths)
    yield "faces-like", rng.gamma(0.3, size=(400, 40)) @ bumps.reshape(-1, 40).T
    yield "uniform", rng.uniform(size=(200, 300))
    yield "ratings-like", sp.random_array((600, 400), density=0.05, rng=rng, format="csr")


def _of_the_data(only: Collection[str]) -> Iterator[Table]:
    """Word counts, spectrograms, catalogues, spectra and air of the folder of data sets; what is absent is left out."""
    if DATA is None:
        print("DRNMF_DATA is not set: the tables of the folder of data sets are left out.")
        return
    for name, (read, path) in _files().items():
        if name not in only:
            continue
        if (DATA / path).exists():
            yield name, read(DATA / path)
        else:
            print(f"{name} is left out: there is no {path} in DRNMF_DATA.")


def _files() -> dict[str, tuple[Callable[[Path], Any], str]]:
    """Name of a table -> how it is read, and from where."""
    documents = ("tr11", "tr23", "tr41", "hitech", "classic", "newsgroups3_politics", "la1", "reviews")
    recordings = (
        "piano_Mary", "sisec_wdrums", "isse_bass_drum", "tamy_voice_guitar", "piano_Bertin", "sisec_nodrums",
        "ShanHur_sunrise_excerpt",
    )  # fmt: skip
    catalogues = ("SBS_set1.Realistic", "SBS_set1.Moderate", "indel_set1.Realistic")
    found: dict[str, tuple[Callable[[Path], Any], str]] = {}
    found |= {name: (_counts, f"documents/{name}.npz") for name in documents}
    for name in recordings:
        found[f"{name} magnitude"] = spectrogram, f"audio/{name}.wav"
        found[f"{name} power"] = _power, f"audio/{name}.wav"
    found |= {name: (_catalogue, f"signatures/{name}.catalog.csv") for name in catalogues}
    found |= {name: (_catalogue, f"signatures/{name}.tsv") for name in ("PCAWG.96", "liver-326")}
    found["Baltimore air"] = _air, "air/Baltimore_con.txt"
    found["Baton Rouge air"] = _air, "air/BatonRouge_con.csv"
    found |= {
        f"rank5 {name}": (_first_of, f"rank5/{path}.npz")
        for name, path in (("Poisson", "poisson"), ("negative binomial", "negative_binomial_10"))
    }
    found["Samson"] = _samson, "hyperspectral/Samson.mat"
    found["Raman"] = _raman, "hyperspectral/RamanSMCR.mat"
    found["blood cells"] = _cells, "cells/pbmc_facs.npz"
    found["faces"] = _stored, "faces/olivetti32.npz"
    found["breast genomes"] = _stored, "rank/wtsi.npz"
    found["two groups"] = _stored, "groups/ortho1.npz"
    found["pick-ups"] = _pick_ups, "tensors/uber.npz"
    return found


def _counts(path: Path) -> Any:
    return sp.load_npz(path).astype(float)


def _power(path: Path) -> Any:
    return spectrogram(path) ** 2


def _air(path: Path) -> Any:
    """Concentrations, NaN where a day has none."""
    from drnmf.matrices.files import read_matrix

    return np.asarray(read_matrix(path).X, dtype=float)


def _catalogue(path: Path) -> Any:
    """The counts of a catalogue: columns of text stand first, in a .tsv one column of labels or numbers."""
    import pandas as pd

    tabs = path.suffix == ".tsv"
    table = pd.read_csv(path, sep="\t", index_col=0) if tabs else pd.read_csv(path)
    return table.select_dtypes("number").to_numpy(float)


def _first_of(path: Path) -> Any:
    """The first matrix of a stack."""
    with np.load(path) as stored:
        return np.asarray(stored["X"][0], dtype=float)


def _samson(path: Path) -> Any:
    import scipy.io

    stored = scipy.io.loadmat(path)
    return np.clip(np.asarray(stored["Y"], dtype=float), 0.0, None)


def _raman(path: Path) -> Any:
    """Spectra mixed as they are known, every tenth band, with noise of a hundredth of the mean."""
    import scipy.io

    stored = scipy.io.loadmat(path)
    X = stored["W"][::10] @ stored["H"]
    return np.clip(X + 0.01 * X.mean() * np.random.default_rng(0).normal(size=X.shape), 0.0, None)


def _cells(path: Path) -> Any:
    """Every sixth cell, genes met in at least 100 of them."""
    counts = sp.csr_array(sp.load_npz(path).astype(float))[::6]
    return sp.csr_array(counts[:, np.flatnonzero((counts > 0).sum(axis=0) >= 100)])


def _stored(path: Path) -> Any:
    with np.load(path) as stored:
        return np.asarray(stored["X"], dtype=float)


def _pick_ups(path: Path) -> Any:
    """Hours of the week by cells of the map."""
    with np.load(path) as stored:
        Y = stored["Y"].sum(axis=0, dtype=float)
    return Y.reshape(-1, Y.shape[-2] * Y.shape[-1])


@dataclass(frozen=True)
class Row:
    """One line of tables.csv: a table, a rank, and whether it was looked at when the rule was chosen."""

    X: str
    rank: int
    half: str


def listed() -> list[Row]:
    """Read the list."""
    with LIST.open(newline="") as file:
        return [Row(line["X"], int(line["rank"]), line["half"]) for line in csv.DictReader(file)]


def compared(row: Row, X: Any, rounds: int) -> dict[str, Any]:
    """Fit by both defaults in turn, and return the ratio of the losses and of the median processor times."""
    seconds: dict[str, list[float]] = {"theirs": [], "ours": []}
    for _ in range(rounds):
        peer, model = NMF(row.rank, random_state=0), BetaNMF(row.rank, beta=2, random_state=0)
        factors = {}
        for name, side in (("theirs", peer), ("ours", model)):
            begun = time.process_time()
            factors[name] = side.fit_transform(X)
            seconds[name].append(time.process_time() - begun)
        if sum(map(sum, seconds.values())) > LONG:
            break
    theirs, ours = (
        loss(X.astype(float), np.asarray(factors[name], dtype=float), np.asarray(side.components_, dtype=float), 2.0)
        for name, side in (("theirs", peer), ("ours", model))
    )
    spent = {name: statistics.median(values) for name, values in seconds.items()}
    return {
        **asdict(row),
        "shape": f"{X.shape[0]} x {X.shape[1]}",
        "loss_ratio": round(ours / theirs, 5) if theirs else 1.0,
        "speed": round(spent["theirs"] / spent["ours"], 3),
        "peer_seconds": round(spent["theirs"], 5),
        "our_seconds": round(spent["ours"], 5),
        "peer_iterations": int(peer.n_iter_),
        "our_iterations": int(model.n_iter_),
    }


def summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """Say in words what some rows show."""
    ratios, speeds = (np.array([float(row[name]) for row in rows]) for name in ("loss_ratio", "speed"))
    return (
        f"{len(rows)} rows: loss above scikit-learn's by more than 1 % in {np.sum(ratios > 1.01)}, by more than 3 % in "
        f"{np.sum(ratios > 1.03)}, at most {100 * (ratios.max() - 1):.1f} %, median ratio {np.median(ratios):.4f}; "
        f"{np.median(speeds):.2f} times its speed in the median"
    )


def circumstances() -> str:
    """Say when, of what and on what the numbers were measured."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, cwd=LIST.parent, check=True
    ).stdout.strip()
    where = ", ".join(f"{name} {value}" for name, value in machine().items())
    return f"{datetime.date.today().isoformat()}, commit {commit}, {where}"


def main(rounds: int) -> None:
    warnings.simplefilter("ignore")
    rows, lines = listed(), [circumstances()]  # of the tree as it is now, not as it is when the last row has run
    found = dict(tables({row.X for row in rows}))
    measured = []
    with threadpool_limits(1):
        for row in rows:
            if row.X in found:
                measured.append(compared(row, found[row.X], rounds))
                print_table(measured[-1:])
    lines.append(f"all: {summary(measured)}")
    for half in ("chosen", "held"):
        lines.append(f"{half}: {summary([row for row in measured if row['half'] == half])}")
    print("\n".join(lines))
    write_csv("tables", measured)
    (RESULTS / "tables.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="fits of each side of a row, of which the median counts")
    main(parser.parse_args().rounds)
