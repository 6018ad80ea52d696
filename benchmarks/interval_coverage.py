"""How often intervals hold the truth: planted factors, entries above 1 %, components and contributions.

    python benchmarks/interval_coverage.py --matrices 20 --shape 60x24x3 --noise poisson [--factors gamma] [--level 0.9]

Every row is a cell: mean over the matrices of the share of entries that are covered, with its standard error, what the
simulation of each said it would be, and the factors it widened by. `--door discover` takes the intervals of a
discovery of the true rank, which finds the loss itself; else the model is given its loss. Seconds are those of the
processor for the intervals alone, of `discover` for all of it.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from drnmf import BetaNMF, NegativeBinomial, discover, intervals
from drnmf.selection.intervals.bars import Intervals
from drnmf.selection.matching import assign, cosine, shares

Array = np.ndarray[Any, np.dtype[np.float64]]
ZEROS = {"gamma": 0.35, "uniform": 0.4, "sparse": 0.65}
"""Share of zeros in both factors; the others are Gamma(0.5), uniform, and exponential."""
SIZE, SHAPE, SPREAD = 5.0, 10.0, 0.2
"""Of the negative binomial and the Gamma noise; sd of the Gaussian one over the mean of X."""
LOSSES: dict[str, Any] = {
    "poisson": 1.0, "nb": NegativeBinomial(SIZE), "gamma": 0.0, "gaussian": 2.0, "uncertainty": 2.0, "weights": 2.0,
    "gaps": 1.0,
}  # fmt: skip
"""Noises, and the loss of each: "uncertainty" has a known sd for every entry, "weights" have one precision for every
row, "gaps" are Poisson counts of which a fifth is not observed."""


@dataclass(frozen=True)
class Planted:
    """X, its factors in canonical form, and what is given beside it."""

    X: Array
    W: Array
    H: Array
    beside: dict[str, Array]


def factor(kind: str, shape: tuple[int, int], rng: np.random.Generator) -> Array:
    """Draw a factor with zeros, without empty rows or columns."""
    draw: Callable[..., Array] = {"gamma": rng.gamma, "uniform": rng.uniform, "sparse": rng.exponential}[kind]
    while True:
        F = draw(*((0.5,) if kind == "gamma" else ()), size=shape) * (rng.random(shape) >= ZEROS[kind])
        if (F.sum(axis=0) > 0).all() and (F.sum(axis=1) > 0).all():
            return F


def planted(noise: str, kind: str, shape: tuple[int, int, int], mean: float, seed: int) -> Planted:
    """Draw X from a seed."""
    m, n, r = shape
    rng = np.random.default_rng([seed, m, n, r, int(1000 * mean)])
    W, H = _used(factor(kind, (r, m), rng).T, factor(kind, (r, n), rng))
    W *= mean / (W @ H).mean()
    V = W @ H
    if noise in ("poisson", "gaps"):
        X = rng.poisson(V).astype(np.float64)
    elif noise == "nb":
        X = rng.poisson(V * rng.gamma(SIZE, 1.0 / SIZE, V.shape)).astype(np.float64)
    elif noise == "gamma":
        X = V * rng.gamma(SHAPE, 1.0 / SHAPE, V.shape)
    else:
        spread = {"gaussian": (1, 1), "uncertainty": V.shape, "weights": (m, 1)}[noise]
        U = SPREAD * mean * np.broadcast_to(np.exp(0.7 * rng.normal(size=spread) * (noise != "gaussian")), V.shape)
        X = np.maximum(V + U * rng.normal(size=V.shape), 0.0)
    beside: dict[str, Array] = {}
    if noise == "uncertainty":
        beside = {"uncertainty": U}
    elif noise == "weights":
        beside = {"entry_weight": (SPREAD * mean / U[:, :1]) ** 2}
    elif noise == "gaps":
        X[rng.random(X.shape) < 0.2] = np.nan
    return Planted(X, W, H, beside)


def _used(W: Array, H: Array) -> tuple[Array, Array]:
    return W * H.sum(axis=1), shares(H)


def by_model(data: Planted, noise: str, arguments: argparse.Namespace) -> tuple[Intervals, float]:
    """Fit the true rank under the true loss, and ask for intervals."""
    model = BetaNMF(data.H.shape[0], beta=LOSSES[noise], n_init=3, random_state=0, zeros="floor")
    model.fit(data.X, **data.beside)
    began = time.process_time()
    asked = {name: getattr(arguments, name) for name in ("level", "draws", "truths")}
    return intervals(model, data.X, **asked, **data.beside), time.process_time() - began


def by_discovery(data: Planted, noise: str, arguments: argparse.Namespace) -> tuple[Intervals, float]:
    """Let a discovery of the true rank find the noise."""
    began = time.process_time()
    found = discover(data.X, ranks=data.H.shape[0], n_runs=6, level=arguments.level, **data.beside)
    assert found.intervals is not None, found.notes
    return found.intervals, time.process_time() - began


def covered(found: Intervals, data: Planted) -> tuple[float, float]:
    """Compute the share of entries above 1 % that are covered: components, contributions."""
    order = assign(cosine(data.H, found.components.estimate))
    H, W = found.components.reordered(order, 0), found.contributions
    assert W is not None
    W = W.reordered(order, 1)
    pairs = ((data.H, H), (data.W, W))
    inside = [((bars.lower <= F) & (bars.upper >= F))[0.01 * F.sum(axis=1, keepdims=True) < F] for F, bars in pairs]
    return float(inside[0].mean()), float(inside[1].mean())


def cell(arguments: argparse.Namespace, noise: str, kind: str, shape: str) -> str:
    """Measure one cell, and write its row."""
    m, n, r = map(int, shape.split("x"))
    rows = []
    for seed in range(arguments.seed, arguments.seed + arguments.matrices):
        data = planted(noise, kind, (m, n, r), arguments.mean, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            door = by_discovery if arguments.door == "discover" else by_model
            found, seconds = door(data, noise, arguments)
        assert found.contributions is not None
        sides = found.components, found.contributions
        rows.append(
            (*covered(found, data), *(bars.coverage for bars in sides), *(bars.widening for bars in sides), seconds)
        )
    values = np.array(rows)
    mean, error = values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))
    seen = (f"{100 * mean[k]:.1f} ± {100 * error[k]:.1f}" for k in (0, 1))
    said, wide = f"{100 * mean[2]:.0f}, {100 * mean[3]:.0f}", f"{mean[4]:.2f}, {mean[5]:.2f}"
    parts = (noise, kind, shape, f"{arguments.mean:g}", str(len(values)), *seen, said, wide, f"{mean[6]:.1f}")
    return f"| {' | '.join(parts)} |"


def main() -> None:
    """Measure the cells that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--matrices", type=int, default=20)
    parser.add_argument("--shape", nargs="+", default=["60x24x3", "96x120x5", "300x60x4"], help="rows x columns x rank")
    parser.add_argument("--noise", nargs="+", default=list(LOSSES), choices=list(LOSSES))
    parser.add_argument("--factors", nargs="+", default=["gamma"], choices=list(ZEROS))
    parser.add_argument("--mean", type=float, default=25.0, help="mean of X")
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--truths", type=int, default=16)
    parser.add_argument("--level", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=0, help="of the first matrix")
    parser.add_argument("--door", choices=("model", "discover"), default="model")
    arguments = parser.parse_args()
    print("| noise | factors | shape | mean | matrices | components % | contributions % | simulated | widened | s |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for shape in arguments.shape:
        for noise in arguments.noise:
            for kind in arguments.factors:
                print(cell(arguments, noise, kind, shape), flush=True)


if __name__ == "__main__":
    main()
