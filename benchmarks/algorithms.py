"""How many sweeps each algorithm needs: the paper's (mu, frank-wolfe) against the default (auto, auto).

Both sides share X, the start and the references (single-objective fits of 1000 multiplicative iterations). For every
case the paper's algorithm runs 1000 iterations; ours runs 1000 iterations too, and the sweeps it needs to reach the
paper's last maximum are counted. Results go to results/algorithms.csv row by row, so an interrupted run goes on where
it stopped.

    DRNMF_DATA=... python benchmarks/algorithms.py --seeds 10
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from harness import DATA, read_csv, write_csv

from drnmf.algorithms.initialize import begun
from drnmf.algorithms.loop import Control, solve
from drnmf.algorithms.updates import RULES
from drnmf.algorithms.weights import POLICIES, Fixed
from drnmf.backends.open import open_data
from drnmf.losses.names import as_losses
from drnmf.numerics import Vector
from drnmf.objective.objective import Objective
from drnmf.synthetic import synthetic

ITERATIONS = 1000
TABLE = "algorithms"


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


def run(case: Case) -> dict[str, Any]:
    """The row of one case."""
    X, W, H = case.make()
    data = open_data(X)
    begin = begun(data, case.rank, case.init, np.random.RandomState(case.seed), W, H)[0]
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
    return {
        "family": case.family, "dataset": case.dataset, "rank": case.rank, "seed": case.seed,
        "paper_max": target, "paper_sweeps": int(paper.trace.sweeps[-1]),
        "ours_max": float(ours.scaled_losses.max()), "ours_sweeps": int(ours.trace.sweeps[-1]),
        "sweeps_to_paper": int(ours.trace.sweeps[reached[0]]) if reached.size else "",
        "excess_percent": 100 * (float(ours.scaled_losses.max()) / target - 1),
    }  # fmt: skip


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", nargs="*", help="families to run: audio, documents, uniform, synthetic")
    arguments = parser.parse_args()
    if DATA is None:
        print("DRNMF_DATA is not set: only the synthetic cases run.")
    done = {(row["dataset"], row["rank"], row["seed"]) for row in read_csv(TABLE)}
    for case in cases(arguments.seeds):
        if case.key in done or (arguments.only and case.family not in arguments.only):
            continue
        row = run(case)
        write_csv(TABLE, [*read_csv(TABLE), row])
        print(
            " ".join(f"{value:.5g}" if isinstance(value, float) else str(value) for value in row.values()), flush=True
        )
    summarise(read_csv(TABLE))


if __name__ == "__main__":
    main()
