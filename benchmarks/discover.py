"""How many of the signatures behind a catalogue does `drnmf.discover` find, with neither rank nor noise given?

    DRNMF_DATA=... python benchmarks/discover.py --sets SBS_set1.Realistic --seeds 5
    python benchmarks/discover.py --draw

The score is the one published with these sets: components are paired with the true signatures by the Hungarian
algorithm on 1 - cosine, pairs with a cosine under 0.9 are forbidden, and precision (PPV), recall (TPR) and the mean
cosine of the pairs are added. Every run adds its row to results/discover.csv, from which `--draw` draws
docs/images/discover-signatures.png.
"""

from __future__ import annotations

import argparse
import csv
import os
from pathlib import Path
from typing import Any

import numpy as np

import drnmf
from drnmf.matrices.files import read_matrix

RESULTS = Path(__file__).parent / "results"
FIGURE = Path(__file__).parents[1] / "docs" / "images" / "discover-signatures.png"
COLOURS = ("#d55e00", "#009e73", "#cc79a7", "#999999")
SETS = ("SBS_set1.Realistic", "SBS_set1.Moderate", "indel_set1.Realistic")
PUBLISHED: dict[str, dict[str, tuple[float, float | None]]] = {
    "SBS_set1.Realistic": {
        "mSigHdp": (2.883, 15.0), "SigProfilerExtractor": (2.589, 9.2), "signeR": (2.312, None),
        "SignatureAnalyzer": (1.839, None),
    },
    "SBS_set1.Moderate": {
        "mSigHdp": (2.911, None), "SigProfilerExtractor": (2.720, None), "signeR": (2.360, None),
        "SignatureAnalyzer": (2.098, None),
    },
    "indel_set1.Realistic": {
        "mSigHdp": (2.912, None), "SigProfilerExtractor": (2.747, 0.65), "signeR": (2.250, None),
        "SignatureAnalyzer": (2.288, None),
    },
}  # fmt: skip
"""Mean score over five seeds, and CPU days where they are published too."""


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


def contributed(found: Any, truth: Any, true: Any) -> dict[str, float]:
    """Compare contributions with the true ones: components above 1 % in a row, and the median correlation.

    >>> found = type("Found", (), {"components": np.eye(2), "contributions": np.array([[1.0, 0.0], [2.0, 2.0]])})
    >>> contributed(found, np.eye(2), np.array([[2.0, 0.0], [4.0, 1.0]]))
    {'active': 1.5, 'active_true': 1.5, 'correlation': 1.0}
    """
    W, partner = np.asarray(found.contributions), drnmf.match(found.components, truth, least=0.9).index
    pairs = [(k, partner[k]) for k in np.flatnonzero(partner >= 0) if W[:, k].std() > 0]
    parts = [V / np.maximum(V.sum(axis=1, keepdims=True), 1e-300) for V in (W, true)]
    active = [round(float((part > 0.01).sum(axis=1).mean()), 2) for part in parts]
    alike = float(np.median([np.corrcoef(W[:, k], true[:, t])[0, 1] for k, t in pairs])) if pairs else 0.0
    return {"active": active[0], "active_true": active[1], "correlation": round(alike, 3)}


def measure(
    data: Path, name: str, seed: int, jobs: int = 2, penalties: list[str] | None = None, grouped: bool = False
) -> dict[str, Any]:
    """Discover the signatures of one set from one seed; contributions are printed."""
    tables = [read_matrix(data / f"{name}.{kind}.csv") for kind in ("catalog", "sigs", "exposures")]
    X, truth, true = (np.asarray(table.X, dtype=float).T for table in tables)
    catalogue, signatures, exposures = tables
    assert catalogue.columns is not None
    assert signatures.columns is not None
    assert exposures.rows is not None
    true = true[:, [exposures.rows.names.index(one) for one in signatures.columns.names]]
    kinds = [label.split("::")[0] for label in catalogue.columns.names] if grouped else None
    before = sum(os.times()[:4])  # of the processes that run it too
    model = drnmf.BetaNMF(beta="auto", random_state=seed, n_jobs=jobs, verbose=1, penalties=penalties)
    found = drnmf.discover(np.ascontiguousarray(X), model, ranks=range(2, 41), level=None, groups=kinds)
    print(name, seed, contributed(found, truth, true), flush=True)
    row: dict[str, Any] = {"set": name, "seed": seed, "true": len(truth), "rank": found.rank}
    row |= {"stable": int(found.stable.sum()), "loss": found.losses[0].key, **composite(_stable(found), truth)}
    return row | {"seconds": round(found.seconds, 1), "cpu_seconds": round(sum(os.times()[:4]) - before, 1)}


def _stable(found: Any) -> Any:
    return found.components[found.stable]


def draw() -> None:
    """Draw the scores over CPU time, ours beside those published; without a published time they are lines."""
    import matplotlib.pyplot as plt

    rows = list(csv.DictReader((RESULTS / "discover.csv").open()))
    names = [name for name in SETS if any(row["set"] == name for row in rows)]
    figure, axes = plt.subplots(1, len(names), figsize=(3.6 * len(names), 3.6), squeeze=False, sharey=True)
    for axis, name in zip(axes[0], names, strict=True):
        _draw_set(axis, name, [row for row in rows if row["set"] == name])
    axes[0, 0].set_ylabel("precision + recall + mean cosine")
    found = [pair for axis in axes[0] for pair in zip(*axis.get_legend_handles_labels(), strict=True)]
    handles = {label: handle for handle, label in found}
    figure.tight_layout(rect=(0, 0.09, 1, 1))
    figure.legend(handles.values(), handles.keys(), loc="lower center", ncol=len(handles), fontsize=8, frameon=False)
    figure.savefig(FIGURE, dpi=150)


def _draw_set(axis: Any, name: str, own: list[dict[str, str]]) -> None:
    minutes, scores = ([float(row[key]) / unit for row in own] for key, unit in (("cpu_seconds", 60), ("composite", 1)))
    axis.scatter(minutes, scores, label="drnmf, each seed", color="#0072b2", zorder=3)
    for (tool, (score, days)), colour in zip(PUBLISHED[name].items(), COLOURS, strict=True):
        if days is None:
            axis.axhline(score, label=tool, color=colour, linewidth=1, linestyle="--")
        else:
            axis.scatter([days * 1440], [score], marker="s", label=tool, color=colour)
    axis.set(xscale="log", xlabel="CPU minutes", title=name.replace(".", ", "), xlim=(0.5, 40_000), ylim=(1.75, 3.02))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--penalty", nargs="+", help="sparsity:auto:W, kept in results/discover-penalty.csv")
    parser.add_argument("--groups", action="store_true", help="kinds of tumours, kept in results/discover-groups.csv")
    parser.add_argument("--draw", action="store_true")
    given = parser.parse_args()
    if given.draw:
        draw()
        return
    kind = "-penalty" if given.penalty else "-groups" if given.groups else ""
    path, data = RESULTS / f"discover{kind}.csv", Path(os.environ["DRNMF_DATA"]) / "signatures"
    for name in given.sets:
        for seed in range(given.first_seed, given.first_seed + given.seeds):
            row = measure(data, name, seed, given.jobs, given.penalty, given.groups)
            print(row, flush=True)
            new = not path.exists()
            with path.open("a", newline="") as stream:
                writer = csv.DictWriter(stream, list(row), lineterminator="\n")
                if new:
                    writer.writeheader()
                writer.writerow(row)


if __name__ == "__main__":
    main()
