"""How many sweeps each algorithm needs: the paper's (mu, frank-wolfe) against the default (auto, auto).

Both sides share X, the start and the references (single-objective fits of 1000 multiplicative iterations). For every
case the paper's algorithm runs 1000 iterations; ours runs 1000 iterations too, and the sweeps it needs to reach the
paper's last maximum are counted. Results go to results/algorithms.csv row by row, so an interrupted run goes on where
it stopped; `--figure` draws results/algorithms.png from the curves.

    DRNMF_DATA=... python benchmarks/algorithms.py --seeds 10
    python benchmarks/algorithms.py --figure
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from harness import DATA, RESULTS

from drnmf.algorithms.initialize import start
from drnmf.algorithms.loop import Control, solve
from drnmf.algorithms.result import Trace
from drnmf.algorithms.updates.table import RULES
from drnmf.algorithms.weights import POLICIES, Fixed
from drnmf.backends.open import open_data
from drnmf.losses.names import as_losses
from drnmf.numerics import Vector
from drnmf.objective.objective import Objective
from drnmf.synthetic import synthetic

ITERATIONS = 1000
CHECKPOINTS = np.unique(np.round(np.geomspace(10, 2 * ITERATIONS, 60)).astype(int))
TABLE, CURVES = RESULTS / "algorithms.csv", RESULTS / "algorithms-curves.csv"


@dataclass(frozen=True)
class Case:
    """One problem: how to make X, and the start."""

    family: str
    dataset: str
    rank: int
    betas: tuple[float, ...]
    init: str
    seed: int
    make: Callable[[], tuple[Any, Any, Any]]  # X, and W, H where the start is given

    @property
    def key(self) -> tuple[str, str, str]:
        return self.dataset, str(self.rank), str(self.seed)


def spectrogram(path: Path) -> Vector:
    """|STFT| with numpy.hamming(256), hop 128, no padding: the recipe of the paper's audio table."""
    from scipy.io import wavfile

    samples = wavfile.read(path)[1] / 32768.0
    frames = np.lib.stride_tricks.sliding_window_view(samples, 256)[::128]
    return np.ascontiguousarray(np.abs(np.fft.rfft(frames * np.hamming(256), axis=1)).T)


def recipe(seed: int) -> tuple[Any, Any, Any]:
    """Section 5.1 with all three noises, from the true factors as there."""
    data = synthetic((0, 1, 2), random_state=seed)
    return data.X, data.W, data.H


def cases(seeds: int) -> Iterator[Case]:
    """Every data set for seed 0, then for seed 1, ...: an early end leaves whole seeds. SPA starts have one seed."""
    audio = sorted((DATA / "audio").glob("*.wav")) if DATA else []
    documents = sorted((DATA / "documents").glob("*.npz")) if DATA else []
    for seed in range(seeds):
        for path in audio:
            for rank in (4, 10):
                make = lambda path=path: (spectrogram(path), None, None)  # noqa: E731
                yield Case("audio", path.stem, rank, (0.0, 1.0), "random", seed, make)
        uniform = lambda seed=seed: (np.random.RandomState(1000 + seed).uniform(size=(100, 100)), None, None)  # noqa: E731
        yield Case("uniform", "uniform", 10, (0.0, 1.0, 2.0), "random", seed, uniform)
        yield Case("synthetic", "synthetic", 10, (0.0, 1.0, 2.0), "custom", seed, lambda seed=seed: recipe(seed))
        for path in documents if seed == 0 else []:
            rank = int(np.load(path.with_name(f"{path.stem}.labels.npy")).max()) + 1
            make = lambda path=path: (sp.load_npz(path).astype(np.float64), None, None)  # noqa: E731
            yield Case("documents", path.stem, rank, (1.0, 2.0), "spa", 0, make)


def best_so_far(trace: Trace) -> Vector:
    return np.minimum.accumulate(trace.maximum)


def run(case: Case) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The row of one case, and its curves at the checkpoints."""
    X, W, H = case.make()
    data = open_data(X)
    begin = start(data, case.rank, case.init, np.random.RandomState(case.seed), W, H)
    control = Control(max_iter=ITERATIONS, tol=0)
    omega = as_losses(case.betas)
    alone = [
        solve(data, *begin, Objective((loss,), np.ones(1), data.mean), RULES["mu"], Fixed(), control) for loss in omega
    ]
    references = np.array([run.losses[0] for run in alone])
    objective = Objective(omega, references, data.mean)
    paper = solve(data, *begin, objective, RULES["mu"], POLICIES["frank-wolfe"], control)
    ours = solve(data, *begin, objective, RULES["auto"], POLICIES["auto"], control)
    target = float(paper.scaled_losses.max())
    reached = np.flatnonzero(ours.trace.maximum <= target)
    row = {
        "family": case.family, "dataset": case.dataset, "rank": case.rank, "seed": case.seed,
        "paper_max": target, "paper_sweeps": int(paper.trace.sweeps[-1]),
        "ours_max": float(ours.scaled_losses.max()), "ours_sweeps": int(ours.trace.sweeps[-1]),
        "sweeps_to_paper": int(ours.trace.sweeps[reached[0]]) if reached.size else "",
        "excess_percent": 100 * (float(ours.scaled_losses.max()) / target - 1),
    }  # fmt: skip
    curves = []
    for name, trace in (("paper", paper.trace), ("ours", ours.trace)):
        at = np.searchsorted(trace.sweeps, CHECKPOINTS, side="right") - 1
        for sweeps, value in zip(CHECKPOINTS, best_so_far(trace)[np.maximum(at, 0)], strict=True):
            curves.append(dict(zip(("dataset", "rank", "seed"), case.key, strict=True)) | {
                "algorithm": name, "sweeps": int(sweeps), "maximum": f"{value:.7g}", "target": f"{target:.7g}",
            })  # fmt: skip
    return row, curves


def append(path: Path, rows: list[dict[str, Any]]) -> None:
    new = not path.exists()
    with open(path, "a", newline="") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(rows[0]), lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(rows)


def read(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with open(path, newline="") as stream:
        return list(csv.DictReader(stream))


def summarise(rows: list[dict[str, str]]) -> None:
    """Sweeps to the paper's value, and who is better after 1000 iterations."""
    for family in ("audio", "documents", "uniform", "synthetic", "all"):
        some = [row for row in rows if family in (row["family"], "all")]
        if not some:
            continue
        needed = np.array([float(row["sweeps_to_paper"] or np.inf) for row in some])
        excess = np.array([float(row["excess_percent"]) for row in some])
        print(
            f"{family:10s} {len(some):4d} cases; sweeps to the paper's value: median {np.median(needed):.0f}, "
            "quartiles "
            f"{np.percentile(needed, 25):.0f} to {np.percentile(needed, 75):.0f}, largest {needed.max():.0f}; "
            f"after {ITERATIONS} iterations: better or equal {100 * np.mean(excess <= 0):.0f} %, "
            f"worst {excess.max():+.3f} %, median {np.median(excess):+.3f} %"
        )


def figure() -> None:
    """Excess over the paper's value at 1000 iterations against sweeps: median and quartiles over the cases."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    families = {(row["dataset"], row["rank"], row["seed"]): row["family"] for row in read(TABLE)}
    groups: dict[tuple[str, str, int], list[float]] = {}
    for row in read(CURVES):
        family = families.get((row["dataset"], row["rank"], row["seed"]))
        if family is not None:
            value = 100 * (float(row["maximum"]) / float(row["target"]) - 1)
            groups.setdefault((family, row["algorithm"], int(row["sweeps"])), []).append(value)
    shown = [name for name in ("audio", "documents", "uniform", "synthetic") if any(key[0] == name for key in groups)]
    fig, axes = plt.subplots(1, len(shown), figsize=(4 * len(shown), 3.6), sharey=True, layout="constrained")
    for axis, family in zip(np.atleast_1d(axes), shown, strict=True):
        for name, color, text in (("paper", "tab:gray", "paper: mu, frank-wolfe"), ("ours", "tab:blue", "default")):
            x = np.array(sorted(key[2] for key in groups if key[:2] == (family, name)))
            spread = np.array([np.percentile(groups[family, name, int(s)], [25, 50, 75]) for s in x])
            axis.plot(x, spread[:, 1], color=color, label=text)
            axis.fill_between(x, spread[:, 0], spread[:, 2], color=color, alpha=0.2, linewidth=0)
        axis.axhline(0, color="black", linewidth=0.6)
        axis.set(xscale="log", title=f"{family}", xlabel="sweeps (passes over X)")
        axis.set_yscale("symlog", linthresh=0.1)
    first = np.atleast_1d(axes)[0]
    first.set_ylabel("max scaled loss above the paper's\nvalue at 1000 iterations (%)")
    first.legend(frameon=False, fontsize=8)
    fig.savefig(RESULTS / "algorithms.png", dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", nargs="*", help="families to run: audio, documents, uniform, synthetic")
    parser.add_argument("--figure", action="store_true", help="draw the figure from saved results, compute nothing")
    arguments = parser.parse_args()
    if DATA is None:
        print("DRNMF_DATA is not set: only the synthetic cases run.")
    done = {(row["dataset"], row["rank"], row["seed"]) for row in read(TABLE)}
    for case in [] if arguments.figure else cases(arguments.seeds):
        if case.key in done or (arguments.only and case.family not in arguments.only):
            continue
        row, curves = run(case)
        append(CURVES, curves)
        append(TABLE, [row])
        print(
            " ".join(f"{value:.5g}" if isinstance(value, float) else str(value) for value in row.values()), flush=True
        )
    summarise(read(TABLE))
    figure()


if __name__ == "__main__":
    main()
