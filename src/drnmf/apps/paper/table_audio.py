"""Section 5.3, table: IS-NMF, KL-NMF and DR-NMF of audio spectrograms, r = 10, over random starts."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from drnmf.algorithms.initialize import random_start
from drnmf.apps.paper import datasets, experiment, paper
from drnmf.apps.paper.experiment import Experiment, Row
from drnmf.apps.paper.fits import Comparison, Facts, Options, Plan, Results, Start, Unit, excesses
from drnmf.backends.open import open_data
from drnmf.numerics import Array
from drnmf.report.figures import COLOURS, figure, log_axis
from drnmf.runs.read import read_table

NAME = "table-audio"
BETAS = (0.0, 1.0)
SINGLES = ("is", "kl")
RANK = 10
STARTS_NAME = f"{NAME}-starts"
EQUAL = 0.05
"""Percentage points within which the two errors of a DR solution count as equal."""
OURS_MEASURES = ("ours_dr_is_excess", "ours_dr_kl_excess")


def spectrogram(path: Path) -> Array:
    """Read |STFT| with a window of 256 samples, frames inside the recording."""
    return datasets.load_spectrogram(path, 256, "inside").X


def _start(path: Path, seed: int) -> tuple[Array, Start]:
    X = spectrogram(path)
    return X, random_start(open_data(X), RANK, np.random.RandomState(seed))


def _units(dataset: datasets.Dataset, seed: int, options: Options) -> list[Unit]:
    prefix, begin = f"{dataset.stem}/seed-{seed}", lambda: _start(dataset.path, seed)
    compared = Comparison(prefix, SINGLES, BETAS, begin, lambda fit, _: fit.summary(), options)
    settings = options.settings(data=dataset.digest, seed=seed, rank=RANK)
    return compared.units(settings)


def plan(options: Options) -> Plan:
    """Three fits (four with ours) per recording and start."""
    folder = datasets.check_folder(options.data)
    here = datasets.present(folder, "audio")
    rows = []
    units: list[Unit] = []
    for dataset in here:
        m, n = spectrogram(dataset.path).shape
        rows.append({"dataset": dataset.stem, "m": m, "n": n})
        for seed in range(options.seeds):
            units += _units(dataset, seed, options)
    return Plan(units, {"rows": rows, **experiment.data_facts(folder, "audio")})


def _measures(results: Results, stem: str, seed: int) -> dict[str, float]:
    return excesses(results, f"{stem}/seed-{seed}", SINGLES, results.facts["ours"])


def table(results: Results) -> list[Facts]:
    """One row per recording: mean and standard deviation over the starts, beside the paper's."""
    rows = []
    for facts in results.facts["rows"]:
        row: Facts = dict(facts)
        runs = [_measures(results, row["dataset"], seed) for seed in range(results.facts["seeds"])]
        for measure in runs[0]:
            values = np.array([run[measure] for run in runs])
            row[measure] = float(values.mean())
            row[f"{measure}_std"] = float(values.std(ddof=1)) if values.size > 1 else 0.0
        entry = datasets.AUDIO[row["dataset"]]
        if entry.role != "substitute":
            for measure, (mean, deviation) in zip(paper.AUDIO_MEASURES, paper.AUDIO[entry.paper][1], strict=True):
                row |= {f"paper_{measure}": mean, f"paper_{measure}_std": deviation}
        rows.append(row)
    return rows


def _columns(ours: bool) -> list[str]:
    pairs = [name for measure in paper.AUDIO_MEASURES for name in (measure, f"{measure}_std")]
    extra = [name for measure in OURS_MEASURES for name in (measure, f"{measure}_std")] if ours else []
    return ["dataset", "m", "n", *pairs, *(f"paper_{name}" for name in pairs), *extra]


def draw(results: Results, out: Path) -> None:
    """table-audio.csv, table-audio-starts.csv (start by start) and a dot plot."""
    rows = table(results)
    starts = [
        {"dataset": row["dataset"], "seed": seed, **_measures(results, row["dataset"], seed)}
        for row in rows
        for seed in range(results.facts["seeds"])
    ]
    extra = OURS_MEASURES if results.facts["ours"] else ()
    experiment.write_csv(out / f"{STARTS_NAME}.csv", ("dataset", "seed", *paper.AUDIO_MEASURES, *extra), starts)
    experiment.write_csv(out / f"{NAME}.csv", _columns(results.facts["ours"]), rows)
    if rows:
        _draw_rows(rows, results.facts["ours"], out)


def _draw_rows(rows: list[Facts], ours: bool, out: Path) -> None:
    methods = [("KL-NMF", "kl_is_excess", "IS", "KL"), ("DR-NMF", "dr_is_excess", "IS", "DR")]
    others = [("IS-NMF", "is_kl_excess", "KL", "IS"), ("DR-NMF", "dr_kl_excess", "KL", "DR")]
    if ours:
        methods.append(("library default", "ours_dr_is_excess", "IS", "ours"))
        others.append(("library default", "ours_dr_kl_excess", "KL", "ours"))
    with figure(out, NAME, 1, 2, size=(9.5, 1.6 + 0.42 * len(rows)), sharey=True) as (axes,):
        for ax, group in zip(axes, (methods, others), strict=True):
            for shift, (label, measure, _, colour) in zip((0.2, 0.0, -0.2), group, strict=False):
                y = np.arange(len(rows))[::-1] + shift
                bars = np.array([_bar(row, measure) for row in rows]).reshape(-1, 2).T
                x = [row[measure] for row in rows]
                ax.errorbar(x, y, xerr=bars, fmt="o", ms=5, lw=1, color=COLOURS[colour], label=label)
                known = [i for i, row in enumerate(rows) if f"paper_{measure}" in row]
                if known:
                    theirs = [rows[i][f"paper_{measure}"] for i in known]
                    ax.plot(theirs, y[known], "D", ms=8, mfc="none", mec=COLOURS[colour], label=f"{label}, paper")
            ax.set_xscale("log")
            log_axis(ax.xaxis)
            ax.set_xlabel(f"{group[0][2]} error above {group[0][2]}-NMF's (%)")
            ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=len(group), fontsize=8)
        axes[0].set_yticks(np.arange(len(rows))[::-1], [row["dataset"] for row in rows])
        axes[0].set_title("How much worse in IS")
        axes[1].set_title("How much worse in KL")


def _bar(row: Facts, measure: str) -> tuple[float, float]:
    """One deviation to both sides, clipped where the logarithmic axis ends."""
    mean, deviation = row[measure], row[f"{measure}_std"]
    return min(deviation, 0.9 * abs(mean)), deviation


def section(rows: list[Row], facts: Facts, folder: Path) -> str:
    """Row by row: paper, ours, difference."""
    columns = ["recording", "n", "status"]
    names = {"kl_is_excess": "KL: IS", "dr_is_excess": "DR: IS", "is_kl_excess": "IS: KL", "dr_kl_excess": "DR: KL"}
    for title in names.values():
        columns += [f"{title} paper", "ours", "diff."]
    if facts["ours"]:
        columns += ["default: IS", "default: KL"]
    lines = []
    for row in rows:
        entry = datasets.AUDIO[row["dataset"]]
        line = [row["dataset"], row["n"], entry.role]
        for measure in names:
            theirs, ours, gap = experiment.difference(row, measure, 1)
            spread = experiment.number(row.get(f"paper_{measure}_std"))
            line += [
                theirs if spread is None else f"{theirs} ± {spread:.1f}",
                f"{ours} ± {experiment.show(row[f'{measure}_std'], 1)}",
                gap,
            ]
        if facts["ours"]:
            line += [f"{experiment.show(row[m], 1)} ± {experiment.show(row[f'{m}_std'], 1)}" for m in OURS_MEASURES]
        lines.append(line)
    remarks = datasets.remarks(datasets.AUDIO, [row["dataset"] for row in rows])
    return (
        f"Percent above the single-objective error, mean ± deviation over {facts['seeds']} random starts, r = {RANK}. "
        f'"KL: IS" is the IS error of KL-NMF. {experiment.algorithm_line(facts)}\n\n'
        + experiment.markdown(columns, lines, left=3)
        + remarks
        + _unequal(read_table(folder / f"{STARTS_NAME}.csv"))
    )


def _unequal(starts: list[Row]) -> str:
    """The starts in which DR's two errors still differ at the last iteration."""
    apart = [row for row in starts if abs(float(row["dr_is_excess"]) - float(row["dr_kl_excess"])) > EQUAL]
    if not apart:
        return f"\nIn all {len(starts)} runs the two errors of DR-NMF agree within {EQUAL:g} points at the end.\n"
    cases = (f"{r['dataset']} start {r['seed']} ({r['dr_is_excess']}, {r['dr_kl_excess']})" for r in apart)
    return (
        f"\nIn {len(starts) - len(apart)} of {len(starts)} runs the two errors of DR-NMF agree within {EQUAL:g} points "
        f"at the end; not in {', '.join(cases)}.\n"
    )


EXPERIMENT = Experiment(NAME, "Audio spectrograms (section 5.3, table)", plan, draw, section, (NAME,))
