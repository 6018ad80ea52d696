"""How many of the signatures behind a catalogue does `drnmf.discover` find, with neither rank nor noise given?

    DRNMF_DATA=... python benchmarks/discover.py --sets SBS_set1.Realistic --seeds 5
    python benchmarks/discover.py --draw

The score is the one published with these sets: components are paired with the true signatures by the Hungarian
algorithm on 1 - cosine, pairs with a cosine under 0.9 are forbidden, and precision (PPV), recall (TPR) and the mean
cosine of the pairs are added. Every run adds its row to results/discover.csv; `--draw` draws results/discover.png.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

import drnmf
from drnmf.matrices.files import read_matrix

RESULTS = Path(__file__).parent / "results"
SETS = ("SBS_set1.Realistic", "SBS_set1.Moderate", "indel_set1.Realistic")
PUBLISHED = {
    "SBS_set1.Realistic": {"SigProfilerExtractor": (2.589, 9.2), "mSigHdp": (2.883, 15.0)},
    "indel_set1.Realistic": {"SigProfilerExtractor": (2.747, 0.65)},
}
"""Mean score over five seeds, and CPU days, where both are published."""


def composite(components: Any, truth: Any) -> dict[str, float]:
    """Compute PPV, TPR, the mean cosine of the pairs and their sum, for one component per row.

    >>> composite(np.eye(3)[:2], np.eye(3))["composite"]
    2.6666666666666665
    """
    if not len(components):
        return {"ppv": 0.0, "tpr": 0.0, "cosine": 0.0, "composite": 0.0}
    found = drnmf.match(components, truth, least=0.9)
    paired = found.index >= 0
    ppv, tpr = float(paired.mean()), float(paired.sum() / len(truth))
    cosine = float(found.similarity[paired].mean()) if paired.any() else 0.0
    return {"ppv": ppv, "tpr": tpr, "cosine": cosine, "composite": ppv + tpr + cosine}


def measure(data: Path, name: str, seed: int) -> dict[str, Any]:
    """Discover the signatures of one set from one seed, on two cores."""
    X, truth = (np.asarray(read_matrix(data / f"{name}.{kind}.csv").X, dtype=float).T for kind in ("catalog", "sigs"))
    before = time.process_time()
    found = drnmf.discover(np.ascontiguousarray(X), random_state=seed, n_jobs=2, verbose=1)
    row: dict[str, Any] = {"set": name, "seed": seed, "true": len(truth), "rank": found.rank}
    row |= {"stable": int(found.stable.sum()), "loss": found.losses[0].key, **composite(_stable(found), truth)}
    return row | {"seconds": round(found.seconds, 1), "cpu_seconds": round(time.process_time() - before, 1)}


def _stable(found: Any) -> Any:
    return found.components[found.stable]


def draw() -> None:
    """Draw the scores over CPU time, ours beside those published."""
    import matplotlib.pyplot as plt

    rows = list(csv.DictReader((RESULTS / "discover.csv").open()))
    names = [name for name in SETS if any(row["set"] == name for row in rows)]
    figure, axes = plt.subplots(1, len(names), figsize=(4.2 * len(names), 3.4), squeeze=False, sharey=True)
    for axis, name in zip(axes[0], names, strict=True):
        own = [row for row in rows if row["set"] == name]
        axis.scatter([float(r["cpu_seconds"]) / 60 for r in own], [float(r["composite"]) for r in own], label="drnmf")
        for tool, (score, days) in PUBLISHED.get(name, {}).items():
            axis.scatter([days * 1440], [score], marker="s", label=f"{tool}, published")
        axis.set(xscale="log", xlabel="CPU minutes", title=name)
        axis.legend(fontsize=7)
    axes[0, 0].set_ylabel("PPV + TPR + mean cosine")
    figure.tight_layout()
    figure.savefig(RESULTS / "discover.png", dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--draw", action="store_true")
    given = parser.parse_args()
    if given.draw:
        draw()
        return
    path = RESULTS / "discover.csv"
    for name in given.sets:
        for seed in range(given.first_seed, given.first_seed + given.seeds):
            row = measure(Path(os.environ["DRNMF_DATA"]) / "signatures", name, seed)
            print(row, flush=True)
            new = not path.exists()
            with path.open("a", newline="") as stream:
                writer = csv.DictWriter(stream, list(row), lineterminator="\n")
                if new:
                    writer.writeheader()
                writer.writerow(row)


if __name__ == "__main__":
    main()
