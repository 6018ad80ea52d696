"""SDR on mixtures whose sources are known: of IS-, KL- and DR-NMF in three noises, and of windows of other lengths.

    python benchmarks/separation_sdr.py noises --seeds 10 --n-init 10 --max-iter 300 [--csv separation-noises.csv]
    DRNMF_DATA=... python benchmarks/separation_sdr.py windows --seeds 3 --csv benchmarks/results/separation-windows.csv

`noises`: synthesised tunes over seeds. `windows`: what `drnmf separate` makes of synthesised tunes, of synthesised bass
and drums, each at two rates, and of recordings of DRNMF_DATA/audio added in pairs, under every length of the analysis
window; each component joins the source it resembles most. Pairs with isse_bass_drum are kept apart: the default was not
chosen by them. SDR by fast_bss_eval, with its usual filter of 512 samples.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
import warnings
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
from scipy.signal import resample_poly

from drnmf import DRNMF
from drnmf.apps.audio import open_recording, separate
from drnmf.apps.audio.evaluation import match_references, measure
from drnmf.apps.audio.study import NOISE_LEVELS, study, synthesise_tune

Row = dict[str, object]

WINDOWS = (0.016, 0.032, 0.064, 0.128, 0.256)
"""Seconds; a frame begins every quarter of a window."""
KEPT_APART = "isse_bass_drum"
SECONDS, RATE = 3.0, 16000


def noises(seeds: int, max_iter: int, n_init: int) -> Iterator[Row]:
    for seed in range(seeds):
        tune = synthesise_tune(seed)
        for noise in NOISE_LEVELS:
            started = time.perf_counter()
            found = study(tune, noise, seed=seed, max_iter=max_iter, n_init=n_init)
            spent = time.perf_counter() - started
            for heard in found.heard:
                sdr = found.sdr(heard.method)
                yield {
                    "seed": seed,
                    "noise": noise,
                    "method": heard.method.name,
                    "sdr": round(float(sdr.mean()), 3),
                    "notes_sdr": round(float(sdr[:-1].mean()), 3),
                    "right": heard.right,
                    "worst_scaled": round(float(heard.method.scaled.max()), 4),
                    "seconds_all_methods": round(spent, 2),
                }


def bass_and_drums(seed: int, rate: int) -> np.ndarray:
    """Four bass notes of eight harmonics, a kick that falls in pitch, and a hat of noise: (3, length), 4 seconds."""
    rng = np.random.default_rng(seed)
    bass, kick, hat = sources = np.zeros((3, 4 * rate))
    for beat in range(8):
        start = round((0.05 + 0.5 * beat + rng.uniform(-0.01, 0.01)) * rate)
        left = np.arange(sources.shape[1] - start) / rate
        pitch = (41.2, 55.0, 49.0, 61.7)[beat // 2]
        note = sum(np.sin(2 * np.pi * k * pitch * left + k * seed) / k for k in range(1, 9))
        bass[start:] += rng.uniform(0.8, 1) * note * np.exp(-left / 0.4) * (left < 0.48)
        if beat % 2 == 0:
            kick[start:] += np.sin(2 * np.pi * (50 * left - 8 * np.exp(-left / 0.05))) * np.exp(-left / 0.1)
        for half in (0.0, 0.25):
            later = left - half
            hat[start:] += 0.3 * rng.normal(size=left.size) * np.exp(-np.maximum(later, 0) / 0.02) * (later >= 0)
    return sources / np.abs(sources.sum(axis=0)).max()


def recordings() -> dict[str, np.ndarray]:
    """The first seconds of every recording at 16 kHz, of power one."""
    found = {}
    for path in sorted((Path(os.environ["DRNMF_DATA"]) / "audio").glob("*.wav")):
        recording = open_recording(path)
        samples = resample_poly(recording.channel_mean(), RATE, round(recording.rate))[: round(SECONDS * RATE)]
        found[path.stem] = samples / np.sqrt((samples**2).mean())
    return found


def mixtures(seeds: int) -> Iterator[tuple[str, str, int, np.ndarray, int]]:
    """Kind, name, rate, sources and rank of every mixture."""
    for rate in (RATE, 44100):
        for seed in range(seeds):
            yield f"tune, {rate} Hz", str(seed), rate, synthesise_tune(seed, rate=rate).sources, 4
            yield f"bass and drums, {rate} Hz", str(seed), rate, bass_and_drums(seed, rate), 8
    if "DRNMF_DATA" in os.environ:
        known = recordings()
        for a, b in combinations(known, 2):
            kind = f"pairs with {KEPT_APART}, kept apart" if KEPT_APART in (a, b) else "pairs of recordings"
            yield kind, f"{a} + {b}", RATE, np.stack([known[a], known[b]]), 10


def windows(seeds: int, max_iter: int, n_init: int) -> Iterator[Row]:
    for kind, name, rate, sources, rank in mixtures(seeds):
        for seconds in WINDOWS:
            hop = max(1, round(rate * seconds / 4))
            mixture = sources.sum(axis=0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # some fits stop at max_iter
                model = DRNMF(rank, betas=(0, 1), max_iter=max_iter, n_init=n_init, tol=1e-5, random_state=0)
                found = separate(mixture, model, rate=rate, window=4 * hop, hop=hop)
            recording, truths = open_recording(mixture, rate), [open_recording(source, rate) for source in sources]
            groups = match_references(recording, truths, found.transform, found.W, found.H)
            estimates = np.stack([found.sources[list(members)].sum(axis=0) for members in groups])
            sdr = measure(sources, estimates).sdr
            yield {"kind": kind, "mixture": name, "window_seconds": seconds, "sdr": round(float(sdr.mean()), 3)}


def noises_table(rows: list[Row]) -> str:
    keys = ("sdr", "notes_sdr", "right", "worst_scaled")
    lines = ["| noise | method | SDR of all sources (dB) | SDR of the notes (dB) | strokes right (of 7) | largest scaled error |", "|---|---|---|---|---|---|"]  # noqa: E501 # fmt: skip
    for noise in NOISE_LEVELS:
        for method in dict.fromkeys(row["method"] for row in rows):
            own = [row for row in rows if row["noise"] == noise and row["method"] == method]
            sdr, notes, right, worst = (np.mean([float(str(row[key])) for row in own]) for key in keys)
            lines.append(f"| {noise} | {method} | {sdr:.2f} | {notes:.2f} | {right:.1f} | {worst:.3f} |")
    return "\n".join(lines)


def windows_table(rows: list[Row]) -> str:
    lines = [
        "| mixtures | " + " | ".join(f"{1000 * s:.0f} ms" for s in WINDOWS) + " |",
        "|---|" + "---|" * len(WINDOWS),
    ]
    for kind in dict.fromkeys(row["kind"] for row in rows):
        own = [row for row in rows if row["kind"] == kind]
        means = (np.mean([float(str(r["sdr"])) for r in own if r["window_seconds"] == s]) for s in WINDOWS)
        lines.append(f"| {kind} ({len(own) // len(WINDOWS)}) | " + " | ".join(f"{mean:.1f}" for mean in means) + " |")
    return "\n".join(lines)


QUESTIONS = {"noises": (noises, noises_table), "windows": (windows, windows_table)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question", choices=QUESTIONS)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--max-iter", type=int, default=200)
    parser.add_argument("--n-init", type=int, default=3)
    parser.add_argument("--csv", type=Path)
    given = parser.parse_args()
    measured, table = QUESTIONS[given.question]
    rows = []
    for row in measured(given.seeds, given.max_iter, given.n_init):
        rows.append(row)
        print(row, flush=True)
    print(table(rows))
    if given.csv:
        with given.csv.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
