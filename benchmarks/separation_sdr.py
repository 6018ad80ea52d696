"""SDR of IS-, KL- and DR-NMF on synthesised tunes with known sources, in three noises, over seeds.

python benchmarks/separation_sdr.py --seeds 10 --csv separation_sdr.csv
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path

import numpy as np

from drnmf.apps.audio.study import study
from drnmf.apps.audio.synthesis import NOISE_LEVELS, synthesise_tune


def run(seeds: int, max_iter: int, n_init: int) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for seed in range(seeds):
        tune = synthesise_tune(seed)
        for noise in NOISE_LEVELS:
            started = time.perf_counter()
            found = study(tune, noise, seed=seed, max_iter=max_iter, n_init=n_init)
            spent = time.perf_counter() - started
            for heard in found.heard:
                sdr = found.sdr(heard.method)
                rows.append(
                    {
                        "seed": seed, "noise": noise, "method": heard.method.name,
                        "sdr": round(float(sdr.mean()), 3), "notes_sdr": round(float(sdr[:-1].mean()), 3),
                        "right": heard.right, "worst_scaled": round(float(heard.method.scaled.max()), 4),
                        "seconds_all_methods": round(spent, 2),
                    }
                )  # fmt: skip
                print(rows[-1], flush=True)
    return rows


def table(rows: list[dict[str, object]]) -> str:
    lines = ["| noise | method | SDR of all sources (dB) | SDR of the notes (dB) | strokes right (of 7) | largest scaled error |", "|---|---|---|---|---|---|"]  # noqa: E501 # fmt: skip
    for noise in NOISE_LEVELS:
        for method in dict.fromkeys(row["method"] for row in rows):
            own = [row for row in rows if row["noise"] == noise and row["method"] == method]
            mean = {key: np.mean([float(str(row[key])) for row in own]) for key in ("sdr", "notes_sdr", "right", "worst_scaled")}  # noqa: E501 # fmt: skip
            lines.append(f"| {noise} | {method} | {mean['sdr']:.2f} | {mean['notes_sdr']:.2f} | {mean['right']:.1f} | {mean['worst_scaled']:.3f} |")  # noqa: E501 # fmt: skip
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--max-iter", type=int, default=200)
    parser.add_argument("--n-init", type=int, default=3)
    parser.add_argument("--csv", type=Path)
    given = parser.parse_args()
    found_rows = run(given.seeds, given.max_iter, given.n_init)
    print(table(found_rows))
    if given.csv:
        with given.csv.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, list(found_rows[0]))
            writer.writeheader()
            writer.writerows(found_rows)
