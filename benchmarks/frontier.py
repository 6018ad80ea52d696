"""The time to a peer's value, from the same start: scikit-learn's two solvers against the default of `BetaNMF`.

    DRNMF_DATA=... OMP_NUM_THREADS=1 python benchmarks/frontier.py frobenius   # dense and sparse, to cd's value
    DRNMF_DATA=... OMP_NUM_THREADS=1 python benchmarks/frontier.py divergences # KL and IS, to mu's value at 200
    DRNMF_DATA=... OMP_NUM_THREADS=1 python benchmarks/frontier.py defaults    # every table, defaults on both sides
    DRNMF_DATA=... OMP_NUM_THREADS=1 python benchmarks/frontier.py curves      # loss over time, then the figure

A peer runs a given number of iterations; the time of ours ends when its loss is not above the peer's. Peers take turns
in one process, one seed after another; medians over seeds. A run that never gets there within three times the peer's
iterations counts with ratio 0. Processor time on one thread, so that a busy machine does no harm. Results go to
results/frontier-*.csv; `frobenius 1` runs one seed only.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from algorithms import spectrogram
from harness import DATA, RESULTS, print_table, write_csv
from quality_time import loss
from sklearn.decomposition import NMF
from tables import tables
from threadpoolctl import threadpool_limits

from drnmf import BetaNMF
from drnmf.algorithms.result import Progress

SEEDS = 5
Problem = tuple[str, Callable[[], Any], tuple[int, ...]]


def start(X: Any, rank: int, seed: int) -> tuple[Any, Any]:
    """Uniform factors whose product has the mean of X."""
    rng = np.random.default_rng(seed)
    W, H = rng.uniform(size=(X.shape[0], rank)), rng.uniform(size=(rank, X.shape[1]))
    scale = np.sqrt(X.mean() / (W.mean(axis=0) @ H.mean(axis=1)))
    return W * scale, H * scale


def peer_run(X: Any, rank: int, seed: int, iterations: int, **options: Any) -> tuple[float, float]:
    """Processor seconds and last loss of scikit-learn."""
    W, H = start(X, rank, seed)
    model = NMF(rank, init="custom", max_iter=iterations, tol=0, **options)
    begun = time.process_time()
    W = model.fit_transform(X, W=W, H=H)
    seconds = time.process_time() - begun
    return seconds, loss(X, W, model.components_, 2.0 if options.get("solver") == "cd" else options["beta_loss"])


def our_run(X: Any, rank: int, seed: int, beta: float, iterations: int, target: float) -> tuple[float, float, int]:
    """Processor seconds until the loss is at most the target (inf: never), the best loss, and the sweeps spent."""
    W, H = start(X, rank, seed)
    reached: list[float] = []

    def until(progress: Progress) -> bool:
        if float(progress.losses[0]) <= target:
            reached.append(time.process_time() - begun)
        return bool(reached)

    begun = time.process_time()
    model = BetaNMF(rank, beta=beta, init="custom", max_iter=iterations, tol=0, callback=until).fit(X, W=W, H=H)
    return (reached or [float("inf")])[0], float(model.trace_.scaled_losses.min()), int(model.trace_.sweeps[-1])


def compare(name: str, X: Any, rank: int, beta: float, seeds: int, iterations: int, **options: Any) -> dict[str, Any]:
    """One row: the median over seeds of the peer's time over ours, and of our best loss over the peer's."""
    rows = []
    for seed in range(seeds):
        seconds, value = peer_run(X, rank, seed, iterations, **options)
        ours, best, sweeps = our_run(X, rank, seed, beta, 3 * iterations, value)
        rows.append((seconds / ours, best / value, seconds, ours, sweeps))
    ratio, relative, theirs, ours, sweeps = np.median(np.array(rows), axis=0).tolist()
    low, high = np.percentile([row[0] for row in rows], [25, 75])
    return {
        "X": name, "shape": f"{X.shape[0]} x {X.shape[1]}", "rank": rank, "beta": beta, "peer": options["solver"],
        "peer_iterations": iterations, "ratio": ratio, "ratio_25": float(low), "ratio_75": float(high),
        "loss_ratio": relative, "peer_seconds": theirs, "our_seconds": ours, "our_sweeps": int(sweeps),
    }  # fmt: skip


def dense(m: int = 2000, n: int = 5000) -> Any:
    """A planted matrix of rank 60 under Gamma noise."""
    rng = np.random.default_rng(0)
    return (rng.gamma(0.5, size=(m, 60)) @ rng.gamma(0.5, size=(60, n))) * rng.gamma(4.0, 0.25, size=(m, n))


def documents(name: str) -> Callable[[], Any]:
    return lambda: sp.load_npz(DATA / "documents" / f"{name}.npz").astype(float)  # type: ignore[operator]


def frobenius(seeds: int) -> Iterator[dict[str, Any]]:
    """beta = 2 against coordinate descent, to its value after 50 and after 200 iterations."""
    problems: list[Problem] = [("dense", dense, (20, 50, 100))]
    if DATA is not None:
        ranks = {"newsgroups20_bydate": (20, 60), "tr11": (10, 30), "classic": (10, 30)}
        problems += [(name, documents(name), r) for name, r in ranks.items()]
    for name, make, ranks_of in problems:
        X = make()
        for rank in ranks_of:
            for iterations in (50, 200):
                yield compare(name, X, rank, 2.0, seeds, iterations, solver="cd")


def divergences(seeds: int) -> Iterator[dict[str, Any]]:
    """KL and IS against multiplicative updates, to their value after 200 iterations."""
    problems = [("dense", dense, (50, 100), 1.0)]
    if DATA is not None:
        problems += [("newsgroups20_bydate", documents("newsgroups20_bydate"), (60, 100), 1.0)]
        audio = DATA / "audio" / "sisec_wdrums.wav"
        problems += [("spectrogram", lambda: spectrogram(audio) ** 2 + 1e-12, (10, 40), 0.0)]
    for name, make, ranks, beta in problems:
        X = make()
        for rank in ranks:
            yield compare(name, X, rank, beta, seeds, 200, solver="mu", beta_loss=beta)


def defaults(seeds: int) -> Iterator[dict[str, Any]]:
    """Every table, r = 5, 20, 40, 80 where min(m, n) allows, each side with its own start, tolerance and limit."""
    for name, X in tables():
        for rank in (5, 20, 40, 80):
            if rank > min(X.shape):
                continue
            rows = []
            for seed in range(seeds):
                begun = time.process_time()
                peer = NMF(rank, solver="cd", random_state=seed)
                W = peer.fit_transform(X)
                between = time.process_time()
                ours = BetaNMF(rank, beta=2, random_state=seed).fit(X)
                ended = time.process_time()
                value = loss(X, W, peer.components_, 2.0)
                rows.append((between - begun, ended - between, float(ours.losses_[0]) / value))
            theirs, our_seconds, relative = np.median(np.array(rows), axis=0).tolist()
            yield {
                "X": name, "shape": f"{X.shape[0]} x {X.shape[1]}", "rank": rank, "ratio": theirs / our_seconds,
                "loss_ratio": relative, "peer_seconds": theirs, "our_seconds": our_seconds,
            }  # fmt: skip


def curves(seeds: int) -> Iterator[dict[str, Any]]:
    """Loss over processor time on four problems, ours and the peer's, one seed."""
    problems: list[tuple[str, Any, int, float]] = [
        ("dense, Frobenius", dense(), 50, 2.0),
        ("dense, KL", dense(), 50, 1.0),
    ]
    if DATA is not None:
        news = documents("newsgroups20_bydate")()
        problems += [("newsgroups, Frobenius", news, 60, 2.0), ("newsgroups, KL", news, 60, 1.0)]
    for name, X, rank, beta in problems:
        W, H = start(X, rank, 0)
        points: list[tuple[float, float]] = []
        begun = time.process_time()

        def note(progress: Progress, to: Any = points, since: float = begun) -> None:
            to.append((time.process_time() - since, float(progress.losses[0])))

        BetaNMF(rank, beta=beta, init="custom", max_iter=200, tol=0, callback=note).fit(X, W=W, H=H)
        yield from ({"X": name, "who": "drnmf", "seconds": t, "loss": value} for t, value in points)
        options: dict[str, Any] = {"solver": "cd"} if beta == 2 else {"solver": "mu", "beta_loss": beta}
        for iterations in (5, 10, 20, 50, 100, 200):
            seconds, value = peer_run(X, rank, 0, iterations, **options)
            yield {"X": name, "who": f"scikit-learn {options['solver']}", "seconds": seconds, "loss": value}


def figure() -> None:
    """results/frontier.png from results/frontier-curves.csv: how far each is above the best value, over time."""
    import csv

    import matplotlib.pyplot as plt

    with (RESULTS / "frontier-curves.csv").open() as file:
        rows = list(csv.DictReader(file))
    names = list(dict.fromkeys(row["X"] for row in rows))
    _, axes = plt.subplots(1, len(names), figsize=(4 * len(names), 3.4), layout="constrained")
    for axis, name in zip(np.atleast_1d(axes), names, strict=True):
        mine = [row for row in rows if row["X"] == name]
        best = min(float(row["loss"]) for row in mine)
        for who in dict.fromkeys(row["who"] for row in mine):
            seconds, values = np.array([(float(r["seconds"]), float(r["loss"])) for r in mine if r["who"] == who]).T
            axis.loglog(seconds, values / best - 1 + 1e-6, label=who)
        axis.set(title=name, xlabel="processor seconds", ylabel="above the best value, relative")
        axis.legend()
    plt.savefig(RESULTS / "frontier.png", dpi=110)


def main(what: str, seeds: int) -> None:
    warnings.simplefilter("ignore")
    rows = []
    with threadpool_limits(1):
        for row in {"frobenius": frobenius, "divergences": divergences, "defaults": defaults, "curves": curves}[what](
            seeds
        ):
            rows.append(row)
            if what != "curves":
                print_table([row])
    print("written:", write_csv(f"frontier-{what}", rows))
    if what == "curves":
        figure()
    else:
        ratios = np.array([(row["ratio"], row["loss_ratio"]) for row in rows])
        print(
            f"median ratio {np.median(ratios[:, 0]):.2f}, smallest {ratios[:, 0].min():.2f}; "
            f"loss within 1 % of the peer's or better in {(ratios[:, 1] <= 1.01).mean():.0%}"
        )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else SEEDS)
