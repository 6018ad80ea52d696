"""Streams: how soon, how near to a fit of all rows, how fast and in how much memory. Processor time of one thread.

race    processor seconds to the loss that scikit-learn's MiniBatchNMF has after 10 epochs (batches of 1024 rows) over
        those of a stream of the same rows in batches, looked at after some batches of every pass; losses are those of
        all rows under the components, W found to its end
passes  that loss after 1 and 3 passes of at least 20 batches over the loss of a full fit
rows    rows a second of the second pass over those of one sweep for H of all rows
robust  DR {1, 2}: the largest scaled loss over a full fit's after 3 passes; rows a second as above; the gap of all rows
        (their losses over those of the stream's models of one loss, W found to its end) inside the running one's two
        standard errors
repeat  one batch repeated, with forget = half of its rows, until 100 passes lower its loss by less than 1e-4 of it (or
        2000 times), over a fit from the same start
memory  peak memory of `drnmf stream` on a .npy of float32 of 8 GB, made for it, beside its batch
growth  newsgroups: rec.autos and sci.space from the batch in the middle on; top words of each that one component has,
        and had before they came, and of the 20 words that each has most more of than the other classes; cosines of the
        others, and those in a stream of the others alone

    DRNMF_DATA=... OMP_NUM_THREADS=1 python benchmarks/stream.py race passes ... [3] [cells newsgroups ...]

with the number of seeds, and parts of the names of the sets. Rows go to results/speed.csv, the ratio of `race` in its
column.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from algorithms import spectrogram
from harness import DATA, keep
from sklearn.decomposition import MiniBatchNMF
from threadpoolctl import threadpool_limits

from drnmf import DRNMF, BetaNMF
from drnmf.backends.base import Ask, losses_of
from drnmf.backends.open import open_data

AUDIO = ("piano_Bertin", "sisec_wdrums", "sisec_nodrums", "tamy_voice_guitar", "piano_Mary")


def problems() -> list[tuple[str, Any, int, float]]:
    """(name, X, rank, beta), rows in a random order."""
    assert DATA is not None, "set DRNMF_DATA"
    cells = sp.csr_matrix(sp.load_npz(DATA / "cells" / "pbmc_facs.npz")).astype(float)
    news = sp.csr_matrix(sp.load_npz(DATA / "documents" / "newsgroups20_bydate.npz")).astype(float)
    frames = np.vstack([spectrogram(DATA / "audio" / f"{name}.wav").T for name in AUDIO])
    frames = np.maximum(frames, frames[frames > 0].min())
    found = [("cells KL", cells, 6, 1.0), ("newsgroups KL", news, 20, 1.0), ("newsgroups Fro", news, 20, 2.0)]
    found.append(("spectrogram IS", frames, 10, 0.0))
    words = [word for word in sys.argv[1:] if any(word in name for name, *_ in found)]
    found = [one for one in found if not words or any(word in one[0] for word in words)]
    return [(name, X[np.random.RandomState(0).permutation(X.shape[0])], r, beta) for name, X, r, beta in found]


def loss_of(model: Any, X: Any) -> Any:
    model.max_iter, model.tol = 100, 1e-4
    return losses_of(open_data(X), model.transform(X), model.components_, model.omega_)


def with_components(H: Any, beta: float, X: Any) -> Any:
    """A model that has these components, to measure them as those of a stream are measured."""
    model = BetaNMF(len(H), beta=beta).partial_fit(X[: 2 * len(H)])
    model.components_ = np.maximum(H, 1e-12 * H.max())
    return model


def streamed(X: Any, model: Any, batch: int, passes: int, look: Callable[[float, float], bool]) -> float:
    """Go through X; `look` is told the passes and the seconds after some batches of each, and ends it."""
    parts = [X[i : i + batch] for i in range(0, X.shape[0], batch)]
    warm: dict[int, Any] = {}
    seconds = 0.0
    for turn in range(passes):
        for i, part in enumerate(parts):
            started = time.process_time()
            warm[i] = model._take_rows(part, warm=warm.get(i))
            seconds += time.process_time() - started
            if i + 1 in (1, 2, 4, 7, 10, 14, len(parts)) and look(turn + (i + 1) / len(parts), seconds):
                return seconds
    return seconds


def sweep_of(X: Any, r: int, omega: Any) -> float:
    """Seconds of one sweep for H of all rows."""
    full, A = open_data(X), np.asfortranarray(np.random.default_rng(0).uniform(size=(X.shape[0], r)))
    H = np.random.default_rng(1).uniform(size=(r, X.shape[1]))
    seconds = []
    for _ in range(5):
        started = time.process_time()
        full.sweep(A, H, Ask(omega))
        seconds.append(time.process_time() - started)
    return float(np.median(seconds))


def race(seeds: range) -> list[dict[str, Any]]:
    rows = []
    for name, X, r, beta in problems():
        for seed in seeds:
            started = time.process_time()
            init = "random" if beta == 0 else None
            peer = MiniBatchNMF(r, beta_loss=beta, batch_size=1024, max_iter=10, tol=0, max_no_improvement=None,
                                random_state=seed, init=init).fit(X)  # fmt: skip
            theirs = time.process_time() - started
            target = float(loss_of(with_components(peer.components_, beta, X), X)[0])
            model, reached = BetaNMF(r, beta=beta, random_state=seed), [np.inf]

            def look(turn: float, seconds: float, model: Any = model, X: Any = X, target: float = target,
                     reached: list[float] = reached) -> bool:  # fmt: skip
                if loss_of(model, X)[0] <= target:
                    reached[0] = seconds
                return reached[0] < np.inf

            streamed(X, model, min(1024, X.shape[0] // 20), 5, look)
            rows.append({"what": "race", "data": name, "seed": seed, "theirs": theirs, "seconds": reached[0],
                         "ratio": theirs / reached[0]})  # fmt: skip
            print(rows[-1], flush=True)
    return rows


def passes(seeds: range) -> list[dict[str, Any]]:
    rows = []
    for name, X, r, beta in problems():
        whole = BetaNMF(r, beta=beta, random_state=0, max_iter=300).fit(X)
        reference = float(loss_of(whole, X)[0])
        sweep = sweep_of(X, r, whole.omega_)
        for seed in seeds:
            model, found = BetaNMF(r, beta=beta, random_state=seed), {}

            def look(turn: float, seconds: float, model: Any = model, X: Any = X, found: Any = found) -> bool:
                if turn == round(turn):
                    found[round(turn)] = (float(loss_of(model, X)[0]), seconds)
                return False

            streamed(X, model, X.shape[0] // 20, 3, look)
            rows.append({"what": "passes", "data": name, "seed": seed, "one": found[1][0] / reference,
                         "three": found[3][0] / reference,
                         "rows": sweep / ((found[3][1] - found[1][1]) / 2.0)})  # fmt: skip
            print(rows[-1], flush=True)
    return rows


def robust(seeds: range) -> list[dict[str, Any]]:
    rows = []
    X = next(X for name, X, *_ in problems() if name == "spectrogram IS")
    for seed in seeds:
        whole = DRNMF(10, betas=(1, 2), random_state=seed, max_iter=500).fit(X)
        model = DRNMF(10, betas=(1, 2), random_state=seed)
        times: dict[float, float] = {}
        streamed(
            X, model, X.shape[0] // 20, 3, lambda turn, seconds, times=times: times.update({turn: seconds}) or False
        )
        losses, running = loss_of(model, X), model.scaled_losses_
        alone = [with_components(one.H, beta, X) for one, beta in zip(model.stream_.followers[1:], (1, 2), strict=True)]
        scaled = losses / whole.references_
        own = losses / np.concatenate([loss_of(one, X) for one in alone])
        gap = float(own.max() - model.weights_ @ own)
        rows.append({"what": "robust", "data": "spectrogram {1,2}", "seed": seed,
                     "ratio": float(scaled.max()) / whole.reconstruction_err_, "running": float(running.max()),
                     "rows": sweep_of(X, 10, whole.omega_) / ((times[3.0] - times[1.0]) / 2.0),
                     "gap": gap, "said": model.gap_, "error": model.gap_error_,
                     "inside": abs(gap - model.gap_) <= 2 * model.gap_error_})  # fmt: skip
        print(rows[-1], flush=True)
    return rows


def repeat(seeds: range) -> list[dict[str, Any]]:
    rows = []
    for name, X, r, beta in problems():
        X = X[:500]
        for seed in seeds:
            whole = BetaNMF(r, beta=beta, random_state=seed, tol=1e-8, max_iter=2000).fit(X)
            end, warm = float(loss_of(whole, X)[0]), None
            model, ratios = BetaNMF(r, beta=beta, random_state=seed), [np.inf]
            while len(ratios) < 21 and (len(ratios) < 3 or abs(ratios[-2] - ratios[-1]) > 1e-5):
                for _ in range(100):
                    warm = model._take_rows(X, forget=250, warm=warm)
                ratios.append(float(loss_of(model, X)[0]) / end)
            rows.append({"what": "repeat", "data": name, "seed": seed, "ratio": ratios[-1],
                         "passes": 100 * (len(ratios) - 1), "400": ratios[min(4, len(ratios) - 1)]})  # fmt: skip
            print(rows[-1], flush=True)
    return rows


PEAK = """
import atexit
from pathlib import Path
from drnmf.cli import app
lines = lambda: Path("/proc/self/status").read_text().splitlines()
atexit.register(lambda: print(next(line for line in lines() if line.startswith("VmHWM"))))
app()
"""


def memory(seeds: range, shape: tuple[int, int] = (2_000_000, 1000)) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "X.npy"
        X = np.lib.format.open_memmap(path, "w+", np.float32, shape)
        rng = np.random.default_rng(0)
        H = rng.gamma(0.5, 1.0, (10, shape[1])).astype(np.float32)
        for first in range(0, shape[0], 10_000):
            X[first : first + 10_000] = rng.gamma(0.5, 1.0, (10_000, 10)).astype(np.float32) @ H + 0.01
        X.flush()
        command = [sys.executable, "-c", PEAK, "stream", str(path), "--rank", "10", "--batch", "4096", "--out",
                   f"{folder}/out", "--no-report", "--quiet", "--threads", "1"]  # fmt: skip
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        peak = int(said.split()[-2]) / 1024
        rows = [{"what": "memory", "data": f"{shape[0]} x {shape[1]}", "MiB": peak - 4096 * shape[1] * 4 / 2**20}]
    print(rows[-1], flush=True)
    return rows


def _beyond(h: Any, others: Any) -> set[int]:
    """The 20 words of which a profile has most more than another one."""
    return set(np.argsort(others / others.sum() - h / h.sum())[:20].tolist())


def _cosines(before: Any, after: Any) -> Any:
    after = after[: len(before)]
    return (before * after).sum(1) / np.linalg.norm(before, axis=1) / np.linalg.norm(after, axis=1)


def _most(tops: dict[int, set[int]], components: list[set[int]]) -> list[int]:
    """The most top words of each group that one component has; before the group came these are words of all groups."""
    return [max(len(top & one) for one in components) for top in tops.values()]


def growth(seeds: range) -> list[dict[str, Any]]:
    assert DATA is not None
    X = sp.csr_matrix(sp.load_npz(DATA / "documents" / "newsgroups20_bydate.npz")).astype(float)
    labels, new = np.load(DATA / "documents" / "newsgroups20_bydate.labels.npy"), (7, 14)  # rec.autos, sci.space
    tops = {k: set(np.argsort(-BetaNMF(1, beta=1).fit(X[labels == k]).components_[0])[:20].tolist()) for k in new}
    others = np.asarray(X[~np.isin(labels, new)].sum(0)).ravel()
    own = {k: _beyond(np.asarray(X[labels == k].sum(0)).ravel(), others) for k in new}
    rows = []
    for seed in seeds:
        rng = np.random.RandomState(seed)
        old, late = (rng.permutation(np.flatnonzero(np.isin(labels, new) == which)) for which in (False, True))
        model, alone = (BetaNMF(18, beta=1, random_state=seed) for _ in range(2))
        found: list[Any] = []
        for part, more in zip(np.array_split(old, 20)[:15], [late[:0]] * 10 + np.array_split(late, 10), strict=False):
            model.partial_fit(X[rng.permutation(np.concatenate([part, more]))], grow=True)
            alone.partial_fit(X[part])
            found.append((model.components_.copy(), alone.components_.copy()))
        (before, before_alone), (H, H_alone) = found[9], found[14]
        cosines, usual = _cosines(before, H), _cosines(before_alone, H_alone)
        lifted, early = ([set(np.argsort(-h)[:20].tolist()) for h in F] for F in (H, before))
        rows.append({"what": "growth", "data": "newsgroups", "seed": seed, "components": len(H),
                     "words": _most(tops, lifted), "before": _most(tops, early),
                     "own": _most(own, [_beyond(h, others) for h in H]),
                     "own before": _most(own, [_beyond(h, others) for h in before]),
                     "cosine": float(np.median(cosines)), "least": float(cosines.min()),
                     "cosine alone": float(np.median(usual)), "least alone": float(usual.min())})  # fmt: skip
        print(rows[-1], flush=True)
    return rows


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    CASES: dict[str, Any] = {case.__name__: case for case in (race, passes, robust, repeat, memory, growth)}
    count = next((int(word) for word in sys.argv[1:] if word.isdigit()), 5)
    with threadpool_limits(1):
        for name in [word for word in sys.argv[1:] if word in CASES] or CASES:
            rows = CASES[name](range(count))
            for data in dict.fromkeys(row["data"] for row in rows):  # sets replace their own rows
                keep(f"stream {name}, {data}", [
                    {"case": f"seed {row.get('seed', 0)}"}
                    | {key: value for key, value in row.items() if key not in ("what", "data", "seed")}
                    for row in rows if row["data"] == data
                ])  # fmt: skip
