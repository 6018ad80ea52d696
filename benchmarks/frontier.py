"""The time to a peer's value, from the same start: scikit-learn's two solvers against the default of `BetaNMF`.

    DRNMF_DATA=... OMP_NUM_THREADS=1 python benchmarks/frontier.py frobenius   # dense and sparse, to cd's value
    DRNMF_DATA=... OMP_NUM_THREADS=1 python benchmarks/frontier.py divergences # KL and IS, to mu's value at 200
    DRNMF_DATA=... OMP_NUM_THREADS=1 python benchmarks/frontier.py defaults    # every table, defaults on both sides
    OMP_NUM_THREADS=1 python benchmarks/frontier.py torch                      # torchnmf and nmf-torch
    DRNMF_DATA=... OMP_NUM_THREADS=1 python benchmarks/frontier.py curves      # loss over time, then the figure

A peer runs a given number of iterations; the time of ours ends when its loss is not above the peer's. Peers take turns
in one process, one seed after another; medians over seeds. `--seeds 0 1` runs those seeds, `--only "tr11 10"` only the
rows whose "X rank peer iterations" begins so. Every run is written as soon as it ends, to results/frontier-*-runs.csv,
and the rows of results/frontier-*.csv are the medians over all seeds found there: a table may be measured piece by
piece, `--missing` runs what is not there yet. A run that never gets there within three times the peer's iterations and
twice its time counts with ratio 0. Processor time on one thread, so that a busy machine does no harm.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from algorithms import spectrogram
from harness import DATA, RESULTS, print_table, read_csv, write_csv
from quality_time import loss
from sklearn.decomposition import NMF
from tables import tables
from threadpoolctl import threadpool_limits

from drnmf import BetaNMF, Solver
from drnmf.algorithms.result import Progress

SEEDS = range(5)


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


def torch_run(X: Any, rank: int, seed: int, iterations: int, solver: str) -> tuple[float, float]:
    """Processor seconds and last Frobenius loss of torchnmf (iterations given) or nmf-torch (its start and stop)."""
    import torch

    torch.set_num_threads(1)
    if solver == "torchnmf":
        from torchnmf.nmf import NMF as TorchNMF

        W, H = (torch.from_numpy(F) for F in start(X, rank, seed))
        begun = time.process_time()
        model = TorchNMF(W=H.T.contiguous(), H=W)
        model.fit(torch.from_numpy(X), beta=2, tol=0, max_iter=iterations)
        seconds = time.process_time() - begun
        return seconds, loss(X, model.H.detach().numpy(), model.W.detach().numpy().T, 2.0)
    from nmf import run_nmf

    begun = time.process_time()
    W, H, _ = run_nmf(X, rank, algo=solver.split()[1], random_state=seed, n_jobs=1, fp_precision="double", tol=1e-5)
    return time.process_time() - begun, loss(X, np.ascontiguousarray(W), np.ascontiguousarray(H), 2.0)


def our_run(
    X: Any, rank: int, seed: int, beta: float, iterations: int, target: float, most: float
) -> tuple[float, float, int]:
    """Processor seconds until the loss is at most the target (inf: never in `most`), the best loss, and the sweeps."""
    W, H = start(X, rank, seed)
    reached: list[float] = []

    def until(progress: Progress) -> bool:
        if float(progress.losses[0]) <= target:
            reached.append(time.process_time() - begun)
        return bool(reached) or time.process_time() - begun > most

    begun = time.process_time()
    model = BetaNMF(rank, beta=beta, init="custom", max_iter=iterations, tol=0, solver=Solver(callback=until)).fit(
        X, W=W, H=H
    )
    return (reached or [float("inf")])[0], float(model.trace_.scaled_losses.min()), int(model.trace_.sweeps[-1])


@cache
def matrix(name: str) -> Any:
    """A matrix by its name, made once in each process."""
    if name == "dense":
        return dense()
    if name == "spectrogram":
        return spectrogram(DATA / "audio" / "sisec_wdrums.wav") ** 2 + 1e-12  # type: ignore[operator]
    if name == "long spectrogram":
        return long_spectrogram()
    if DATA is not None and (DATA / "documents" / f"{name}.npz").is_file():
        return sp.load_npz(DATA / "documents" / f"{name}.npz").astype(float)
    return dict(tables())[name]


def dense(m: int = 2000, n: int = 5000) -> Any:
    """A planted matrix of rank 60 under Gamma noise."""
    rng = np.random.default_rng(0)
    return (rng.gamma(0.5, size=(m, 60)) @ rng.gamma(0.5, size=(60, n))) * rng.gamma(4.0, 0.25, size=(m, n))


def long_spectrogram(m: int = 512, n: int = 6200) -> Any:
    """A power spectrogram's likeness: forty spectra of harmonics, played in notes, under exponential noise."""
    rng, bins = np.random.default_rng(0), np.arange(m)
    pitches = rng.uniform(4, 40, 40)
    spectra = sum(
        np.exp(-0.5 * ((bins - k * pitches[:, None]) / 1.5) ** 2) / k for k in range(1, 20)
    ) + 1e-3 * rng.gamma(1.0, size=(40, 1))
    notes = (rng.uniform(size=(40, n // 50)) < 0.15) * rng.gamma(1.0, size=(40, n // 50))
    decay = np.exp(-np.arange(50) / 20)
    return (spectra.T @ (notes[:, :, None] * decay).reshape(40, n) + 1e-5) * rng.exponential(size=(m, n))


@dataclass(frozen=True)
class Race:
    """Ours from the peer's start to the peer's value after some iterations: one row of a table."""

    X: str
    rank: int
    beta: float
    iterations: int
    solver: str

    def run(self, seed: int) -> tuple[float, ...]:
        """Ratio of the times, ratio of the best loss to the peer's, both times, and the sweeps spent."""
        X = matrix(self.X)
        if "torch" in self.solver:
            seconds, value = torch_run(X, self.rank, seed, self.iterations, self.solver)
        else:
            options = {"solver": "cd"} if self.solver == "cd" else {"solver": "mu", "beta_loss": self.beta}
            seconds, value = peer_run(X, self.rank, seed, self.iterations, **options)
        ours, best, sweeps = our_run(X, self.rank, seed, self.beta, 3 * self.iterations, value, 2 * seconds)
        return seconds / ours, best / value, seconds, ours, sweeps

    def row(self, runs: list[tuple[float, ...]]) -> dict[str, Any]:
        """Medians over seeds."""
        ratio, relative, theirs, ours, sweeps = np.median(np.array(runs), axis=0).tolist()
        low, high = np.percentile([run[0] for run in runs], [25, 75])
        m, n = matrix(self.X).shape
        return {
            "X": self.X, "shape": f"{m} x {n}", "rank": self.rank, "beta": self.beta, "peer": self.solver,
            "peer_iterations": self.iterations, "ratio": ratio, "ratio_25": float(low), "ratio_75": float(high),
            "loss_ratio": relative, "peer_seconds": theirs, "our_seconds": ours, "our_sweeps": int(sweeps),
        }  # fmt: skip


@dataclass(frozen=True)
class Defaults:
    """Both sides with their own start, tolerance and limit, beta = 2."""

    X: str
    rank: int

    def run(self, seed: int) -> tuple[float, ...]:
        """Both times, ours to the peer's value, and the ratio of the losses."""
        X = matrix(self.X)
        begun = time.process_time()
        peer = NMF(self.rank, solver="cd", random_state=seed)
        W = peer.fit_transform(X)
        theirs = time.process_time() - begun
        value = loss(X, W, peer.components_, 2.0)
        points: list[tuple[float, float]] = []
        begun = time.process_time()

        def note(progress: Progress) -> None:
            points.append((time.process_time() - begun, float(progress.losses[0])))

        best = float(BetaNMF(self.rank, beta=2, random_state=seed, solver=Solver(callback=note)).fit(X).losses_[0])
        ours = time.process_time() - begun
        reached = next((seconds for seconds, at in points if at <= value), float("inf"))
        return theirs, ours, reached, best / value if value else float(best > 0)

    def row(self, runs: list[tuple[float, ...]]) -> dict[str, Any]:
        """Medians over seeds."""
        theirs, ours, reached, relative = np.median(np.array(runs), axis=0).tolist()
        m, n = matrix(self.X).shape
        return {
            "X": self.X, "shape": f"{m} x {n}", "rank": self.rank, "ratio": theirs / ours, "loss_ratio": relative,
            "ratio_to_value": theirs / reached, "peer_seconds": theirs, "our_seconds": ours,
        }  # fmt: skip


def frobenius() -> list[Race]:
    """beta = 2 against coordinate descent, to its value after 50 and after 200 iterations."""
    ranks = {"dense": (20, 50, 100)}
    if DATA is not None:
        ranks |= {"newsgroups20_bydate": (20, 60), "tr11": (10, 30), "classic": (10, 30)}
    return [Race(name, rank, 2.0, k, "cd") for name, some in ranks.items() for rank in some for k in (50, 200)]


def divergences() -> list[Race]:
    """KL and IS against multiplicative updates, to their value after 200 iterations."""
    problems = [("dense", (50, 100), 1.0), ("long spectrogram", (10, 40), 0.0)]
    if DATA is not None:
        problems += [("newsgroups20_bydate", (60, 100), 1.0), ("spectrogram", (10, 40), 0.0)]
    return [Race(name, rank, beta, 200, "mu") for name, ranks, beta in problems for rank in ranks]


def torch_peers() -> list[Race]:
    """beta = 2 against torchnmf and nmf-torch, which must be importable (both are on PyPI)."""
    solvers = ("torchnmf", "nmf-torch halsvar", "nmf-torch hals", "nmf-torch bpp")
    names = ("faces-like", "digits", "planted Gamma", "dense")
    return [Race(name, rank, 2.0, 200, solver) for name in names for rank in (20, 50) for solver in solvers]


def defaults() -> list[Defaults]:
    """Every table, r = 5, 20, 40, 80 where min(m, n) allows."""
    return [Defaults(name, rank) for name, X in tables() for rank in (5, 20, 40, 80) if rank <= min(X.shape)]


def curves() -> Iterator[dict[str, Any]]:
    """Loss over processor time on a few problems, ours and the peer's, one seed."""
    problems = [("digits, Frobenius", "digits", 20, 2.0), ("digits, KL", "digits", 20, 1.0)]
    if DATA is not None:
        problems += [("tr11, Frobenius", "tr11", 30, 2.0), ("tr11, KL", "tr11", 30, 1.0)]
        problems += [("spectrogram, IS", "spectrogram", 10, 0.0)]
    for name, table_name, rank, beta in problems:
        X = matrix(table_name)
        W, H = start(X, rank, 0)
        points: list[tuple[float, float]] = []
        begun = time.process_time()

        def note(progress: Progress, to: Any = points, since: float = begun) -> None:
            to.append((time.process_time() - since, float(progress.losses[0])))

        BetaNMF(rank, beta=beta, init="custom", max_iter=200, tol=0, solver=Solver(callback=note)).fit(X, W=W, H=H)
        yield from ({"X": name, "who": "drnmf", "seconds": t, "loss": value} for t, value in points)
        options: dict[str, Any] = {"solver": "cd"} if beta == 2 else {"solver": "mu", "beta_loss": beta}
        for iterations in (5, 10, 20, 50, 100, 200):
            seconds, value = peer_run(X, rank, 0, iterations, **options)
            yield {"X": name, "who": f"scikit-learn {options['solver']}", "seconds": seconds, "loss": value}


def figure() -> None:
    """results/frontier.png from results/frontier-curves.csv: how far each is above the best value, over time."""
    import matplotlib.pyplot as plt

    rows = read_csv("frontier-curves")
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


def measured(what: str, race: Any, seeds: list[int], missing: bool) -> None:
    """Run some seeds of a row, write each, and renew the row from all that were run so far, by whichever process."""
    runs, table = f"frontier-{what}-runs", f"frontier-{what}"
    known = {key(one) for one in read_csv(runs)} if missing else set()
    for seed in seeds:
        if key({**asdict(race), "seed": seed}) in known:
            continue
        with threadpool_limits(1):
            numbers = race.run(seed)
        run = {**asdict(race), "seed": seed} | {f"number_{k}": number for k, number in enumerate(numbers)}
        write_csv(runs, list(({key(one): one for one in read_csv(runs)} | {key(run): run}).values()))
        mine = [one for one in read_csv(runs) if all(one[name] == str(value) for name, value in asdict(race).items())]
        row = race.row([tuple(float(one[f"number_{k}"]) for k in range(len(numbers))) for one in mine])
        row |= {"seeds": len(mine)}
        write_csv(table, list(({key(one): one for one in read_csv(table)} | {key(row): row}).values()))
        print_table([row])


def key(row: Mapping[str, Any]) -> tuple[str, ...]:
    """What makes a row the same as another one."""
    return tuple(
        str(row.get(column))
        for column in ("X", "rank", "beta", "peer", "peer_iterations", "solver", "iterations", "seed")
    )


def main(what: str, seeds: list[int], only: str, missing: bool) -> None:
    warnings.simplefilter("ignore")
    if what == "curves":
        with threadpool_limits(1):
            print("written:", write_csv("frontier-curves", list(curves())))
        figure()
        return
    for race in KINDS[what]():
        fields = asdict(race)
        named = (str(fields[name]) for name in ("X", "rank", "solver", "iterations") if name in fields)
        if f"{' '.join(named)} ".startswith(f"{only} ".lstrip()):
            measured(what, race, seeds, missing)
    summary(what)


def summary(what: str) -> None:
    """Print what the whole file says, this run's rows and the others."""
    rows = read_csv(f"frontier-{what}")
    for column in ("ratio", "ratio_to_value"):
        if column in rows[0]:
            numbers = np.array([float(row[column]) for row in rows])
            print(f"{column}: median {np.median(numbers):.2f}, smallest {numbers.min():.2f}")
    below = np.mean([float(row["loss_ratio"]) <= 1.01 for row in rows])
    print(f"loss_ratio: within 1 % of the peer's or better in {below:.0%} of {len(rows)} rows")


KINDS: dict[str, Callable[[], list[Any]]] = {
    "frobenius": frobenius, "divergences": divergences, "defaults": defaults, "torch": torch_peers
}  # fmt: skip

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=(*KINDS, "curves"))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--only", default="")
    parser.add_argument("--missing", action="store_true", help="only the seeds that were not run yet")
    given = parser.parse_args()
    main(given.what, given.seeds, given.only, given.missing)
