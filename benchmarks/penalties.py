"""What penalties cost, and whether they do what they say.

    python benchmarks/penalties.py overhead            # processor time of a penalised or constrained iteration
    python benchmarks/penalties.py peer                # the objective and the time of scikit-learn's L1 and L2
    DRNMF_DATA=... python benchmarks/penalties.py piano  # notes left of seven components by Volume("auto")

All on one thread. Overhead: dense X, 2000 x 5000, rank 20, iterations of a plain and of a penalised fit from the same
start, processor time. Piano: three notes and the hammers, seven components.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
from harness import DATA, print_table, write_csv
from sklearn.decomposition import NMF
from threadpoolctl import threadpool_limits

from drnmf import L1, L2, BetaNMF, Smooth, Solver, Sparsity, Volume
from drnmf.algorithms.updates.hals import HALS
from drnmf.algorithms.updates.newton import Newton

SHAPE, RANK = (2000, 5000), 20
PENALTIES = (L1(0.1), L2(0.1), Sparsity(0.01), Volume(0.01), Smooth(0.01))


def dense(shape: tuple[int, int] = SHAPE) -> np.ndarray:
    """A gamma product of the rank, times noise."""
    rng = np.random.default_rng(0)
    X = rng.gamma(0.5, 1.0, (shape[0], RANK)) @ rng.gamma(0.5, 1.0, (RANK, shape[1]))
    return X * rng.gamma(10.0, 0.1, X.shape) + 1e-3


def overhead(iterations: int = 9) -> list[dict[str, object]]:
    """Processor seconds of an iteration with each penalty or sum, and without: the lower quartile of a short fit.

    Every case is timed twice, once on the way there and once on the way back, and the shorter time counts.
    """
    X, rows = dense(), []
    first = BetaNMF(RANK, beta=1, init="random", random_state=0, tol=0, max_iter=20, solver="mu")
    W = first.fit_transform(X)
    rules: dict[str, tuple[float, object]] = {
        "KL, newton": (1, Newton(delay=0)), "Frobenius, hals": (2, HALS(delay=0)), "KL, mu": (1, "mu"),
    }  # fmt: skip
    for name, (beta, rule) in rules.items():
        cases: dict[str, dict[str, object]] = {"none": {}}
        cases |= {penalty.key: {"penalties": [penalty]} for penalty in PENALTIES}
        cases |= {f"sum to one of {side}": {"sum_to_one": side} for side in "WH"}
        seconds = dict.fromkeys(cases, np.inf)
        few = iterations if rule == "mu" or beta == 2 else max(iterations // 3, 3)
        for key in (*cases, *reversed(cases)):
            clock = Clock()
            given = {"init": "custom", "tol": 0, "max_iter": few, "solver": Solver(update=rule, callback=clock)}
            BetaNMF(RANK, beta=beta, **given, **cases[key]).fit(X, W=W, H=first.components_)
            seconds[key] = min(seconds[key], float(np.quantile(np.diff(clock.times), 0.25)))
        rows += [
            {"fit": name, "case": key, "seconds": round(spent, 4),
             "overhead_percent": round(100 * (spent / seconds["none"] - 1), 1)}
            for key, spent in seconds.items()
        ]  # fmt: skip
    return rows


class Clock:
    """A callback that notes the processor time after every iteration."""

    def __init__(self) -> None:
        self.began, self.times = time.process_time(), list[float]()

    def __call__(self, progress: object) -> None:
        self.times.append(time.process_time() - self.began)


def peer() -> list[dict[str, object]]:
    """The objective of scikit-learn after its own stopping rule, and our time to it and our end."""
    X, rows = dense((400, 600)), []
    rng = np.random.default_rng(1)
    W, H = rng.uniform(0.1, 1.0, (400, RANK)), rng.uniform(0.1, 1.0, (RANK, 600))
    for ratio in (1.0, 0.5, 0.0):
        alpha = 0.01
        given = {"alpha_W": alpha, "alpha_H": alpha, "l1_ratio": ratio}
        began = time.process_time()
        theirs = NMF(RANK, init="custom", solver="cd", max_iter=2000, tol=1e-5, **given)
        their_W = theirs.fit_transform(X, W=W.copy(), H=H.copy())
        seconds = time.process_time() - began
        value = objective(X, their_W, theirs.components_, alpha, ratio)
        terms = [L1(ratio * alpha, scaled=True), L2((1 - ratio) * alpha, scaled=True)]
        clock = Clock()
        model = BetaNMF(
            RANK, beta=2, init="custom", penalties=terms, tol=1e-6, max_iter=2000, solver=Solver(callback=clock)
        )
        model.fit(X, W=W, H=H)
        path = model.trace_.objective[1:]
        hit = np.flatnonzero(path <= value * 1.001)
        rows.append({
            "l1_ratio": ratio, "scikit_learn": value, "seconds": round(seconds, 3), "ours": float(path[-1]),
            "ours_above_percent": round(100 * (float(path.min()) / value - 1), 4),
            "seconds_to_theirs": round(clock.times[hit[0]], 3) if hit.size else None,
            "seconds_in_all": round(clock.times[-1], 3),
        })  # fmt: skip
    return rows


def objective(X: np.ndarray, W: np.ndarray, H: np.ndarray, alpha: float, ratio: float) -> float:
    """What scikit-learn minimises."""
    m, n = X.shape
    sums = alpha * ratio * (n * W.sum() + m * H.sum())
    squares = 0.5 * alpha * (1 - ratio) * (n * (W**2).sum() + m * (H**2).sum())
    return float(0.5 * ((X - W @ H) ** 2).sum() + sums + squares)


def piano() -> list[dict[str, object]]:
    """How many of seven components hold more than 1 % of the energy, without and with a volume penalty."""
    from drnmf.audio.transform import spectrogram

    assert DATA is not None, "set DRNMF_DATA"
    X = spectrogram(DATA / "audio" / "piano_Mary.wav", window=512, hop=256, symmetric=True).X
    rows = []
    for seed in range(3):
        for penalty in (None, Volume("auto", on="W")):
            init = "auto" if seed == 0 else "random"
            model = BetaNMF(
                7, beta=1, init=init, random_state=seed, max_iter=300, penalties=[penalty] if penalty else None
            )
            W = model.fit_transform(X)
            energy = (np.linalg.norm(W, axis=0) * np.linalg.norm(model.components_, axis=1)) ** 2
            path = model.penalty_path_
            rows.append({
                "seed": seed, "penalty": path[0].penalty if path else "none", "loss": model.reconstruction_err_,
                "allowed": path[0].limit if path else None,
                "above_1_percent": int((energy > 0.01 * energy.sum()).sum()),
            })  # fmt: skip
    return rows


PARTS = {"overhead": overhead, "peer": peer, "piano": piano}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        for name in sys.argv[1:] or ("overhead", "peer"):
            rows = PARTS[name]()
            print_table(rows)
            write_csv(f"penalties-{name}", rows)
