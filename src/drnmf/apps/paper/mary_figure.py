"""Section 5.3, qualitative study: the notes of piano_Mary without noise, with Poisson and with Gamma noise."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from drnmf.algorithms.initialize import random_start
from drnmf.apps.audio.evaluation import RISE, TIME_TOLERANCE, Hearing, listen, recording_onsets
from drnmf.apps.paper import datasets, paper
from drnmf.apps.paper.experiment import Experiment, Row, algorithm_line, markdown, show, write_csv
from drnmf.apps.paper.fits import Comparison, Facts, Fit, Options, Plan, Results, Saved, Start, Unit, references
from drnmf.backends.open import open_data
from drnmf.numerics import Array, Vector
from drnmf.report.figures import COLOURS, figure, log_axis
from drnmf.synthetic import mixed_noise, with_noise

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME = "mary-figure"
RECORDING = "piano_Mary"
BETAS = (0.0, 1.0)
SINGLES = ("is", "kl")
WINDOW = 512
METHODS = {"is": "IS-NMF", "kl": "KL-NMF", "dr": "DR-NMF", "ours": "library default"}
COLOUR = {"is": "IS", "kl": "KL", "dr": "DR", "ours": "ours"}


@dataclass(frozen=True)
class Study:
    """One of the three comparisons: which noise, how much, and the rank."""

    title: str
    noise: tuple[float, ...]
    level: float
    rank: int


STUDIES = {
    "clean": Study("no noise, r = 4", (), 0.0, 4),
    "poisson": Study("Poisson noise 0.6, r = 4", (1.0,), 0.6, 4),
    "gamma": Study("Gamma noise 0.4, r = 5", (0.0,), 0.4, 5),
}


def clean(path: Path) -> tuple[Array, int]:
    """Read the spectrogram, half a window of zeros at both ends, and the rate of the recording."""
    spectrogram = datasets.load_spectrogram(path, WINDOW, "centred")
    return spectrogram.X, int(spectrogram.recording.rate)


def _problem(path: Path, study: Study, seed: int) -> tuple[Array, Start]:
    """The noisy spectrogram and a random start; the seed draws both."""
    rng, X = np.random.RandomState(seed), clean(path)[0]
    if study.noise:
        X = with_noise(X, mixed_noise(X, study.noise, rng), study.level)
    return X, random_start(open_data(X), study.rank, rng)


def _saved(fit: Fit, references: Vector) -> Saved:
    """Factors, and D_beta along the iterations (the trace holds them over the references)."""
    losses = fit.trace.scaled_losses * references
    return Saved(fit.summary().values, {"W": fit.W, "H": fit.H, "trace": losses})


def _units(path: Path, digest: str, name: str, seed: int, options: Options) -> list[Unit]:
    study = STUDIES[name]
    compared = Comparison(
        f"{name}/seed-{seed}", SINGLES, BETAS, lambda: _problem(path, study, seed), _saved, options, traced=True
    )
    settings = options.settings(data=digest, seed=seed, rank=study.rank, noise=study.noise, level=study.level)
    return compared.units(settings)


def plan(options: Options) -> Plan:
    """Three fits (four with ours) per study and seed; nothing where the recording is not there."""
    folder = datasets.check_folder(options.data)
    recordings = [item for item in datasets.present(folder, "audio") if item.stem == RECORDING]
    facts: Facts = {"missing": [] if recordings else [RECORDING]}
    units: list[Unit] = []
    if recordings:
        X, rate = clean(recordings[0].path)
        frame = WINDOW / 2 / rate
        times = recording_onsets(X, len(paper.MARY_SCORE), frame)
        facts |= {"rate": rate, "frame": frame, "onsets": times.tolist()}
        for name in STUDIES:
            for seed in range(options.seeds):
                units += _units(recordings[0].path, recordings[0].digest, name, seed, options)
    return Plan(units, facts)


def _methods(facts: Facts) -> list[str]:
    return ["is", "kl", "dr", "ours"] if facts["ours"] else ["is", "kl", "dr"]


def _hear(results: Results, saved: Saved) -> Hearing:
    facts = results.facts
    times = np.array(facts["onsets"])
    score = paper.MARY_SCORE[: times.size]
    W, H = saved.arrays["W"], saved.arrays["H"]
    return listen(W, H, facts["rate"] / WINDOW, facts["frame"], score, times, paper.MARY_NOTES)


def draw(results: Results, out: Path) -> None:
    """mary-figure.csv and two figures: scaled losses along the iterations, activations with their notes."""
    columns = ("study", "method", "seed", "is", "kl", "notes", "onsets_found", "onsets_false", "labels")
    rows = []
    for study in STUDIES if not results.facts["missing"] else ():
        for method in _methods(results.facts):
            for seed in range(results.facts["seeds"]):
                saved = results(f"{study}/seed-{seed}/{method}")
                scaled = np.array(saved.values["losses"]) / references(results, f"{study}/seed-{seed}", SINGLES)
                heard = _hear(results, saved)
                notes = (len(heard.onsets), heard.found, heard.false, " ".join(heard.labels))
                row = (study, method, seed, float(scaled[0]), float(scaled[1]), *notes)
                rows.append(dict(zip(columns, row, strict=True)))
    write_csv(out / f"{NAME}.csv", columns, rows)
    if rows:
        _draw_losses(results, out)
        _draw_activations(results, out)


def _draw_losses(results: Results, out: Path) -> None:
    with figure(out, f"{NAME}-losses", 2, 3, size=(11.5, 5.6), sharex=True) as axes:
        for column, (name, study) in zip(axes.T, STUDIES.items(), strict=True):
            e = references(results, f"{name}/seed-0", SINGLES)
            for ax, b, loss in zip(column, range(2), ("IS", "KL"), strict=True):
                for method in _methods(results.facts):
                    trace = results(f"{name}/seed-0/{method}").arrays["trace"][:, b] / e[b]
                    keep = [k for k in range(1, trace.size) if k <= 40 or k % 10 == 0]
                    ax.plot(keep, trace[keep], lw=1.4, color=COLOURS[COLOUR[method]], label=METHODS[method])
                ax.set_xscale("log")
                log_axis(ax.xaxis)
                if ax.get_ylim()[1] > 2.0:
                    ax.set_yscale("log")
                    log_axis(ax.yaxis)
                ax.set_ylabel(f"scaled {loss} loss")
            column[0].set_title(study.title)
            column[1].set_xlabel("iteration")
        axes[0, 0].legend(loc="upper right", fontsize=8)


def _draw_activations(results: Results, out: Path) -> None:
    methods, studies = _methods(results.facts), len(STUDIES)
    size = (3.3 * len(methods), 2.9 * studies)
    with figure(out, f"{NAME}-activations", studies, len(methods), size=size, sharex=True) as axes:
        for row, (name, study) in zip(axes, STUDIES.items(), strict=True):
            for ax, method in zip(row, methods, strict=True):
                _draw_voices(ax, results, results(f"{name}/seed-0/{method}"), COLOURS[COLOUR[method]])
                ax.set_title(f"{METHODS[method]}, {study.title}", fontsize=9)
        for ax in axes[-1]:
            ax.set_xlabel("time (s)")


def _draw_voices(ax: Axes, results: Results, saved: Saved, colour: str) -> None:
    """The activations above one another, notes first; grey marks where the score has that note."""
    heard, frame = _hear(results, saved), results.facts["frame"]
    order = [*paper.MARY_NOTES, "hammer", "other", "silent"]
    voices = sorted(range(len(heard.labels)), key=lambda k: order.index(heard.labels[k]))
    H = saved.arrays["H"] * np.linalg.norm(saved.arrays["W"], axis=0)[:, None]
    base = len(voices) - 1.0 - np.arange(len(voices))
    for k, low in zip(voices, base, strict=True):
        for t, note in zip(results.facts["onsets"], paper.MARY_SCORE, strict=False):
            if note == heard.labels[k]:
                ax.plot([t, t], [low, low + 0.9], color="0.85", lw=4, solid_capstyle="butt", zorder=0)
        ax.plot(np.arange(H.shape[1]) * frame, low + 0.9 * H[k] / H.max(), lw=0.8, color=colour)
    ax.set_yticks(base, [heard.labels[k] for k in voices])
    ax.grid(False)


def section(rows: list[Row], facts: Facts, folder: Path) -> str:
    """Errors, notes and onsets of every method, in medians and counts over the seeds."""
    lines, claim = [], ""
    for study in STUDIES if rows else ():
        for method in _methods(facts):
            mine = [row for row in rows if row["study"] == study and row["method"] == method]
            whole = sum(row["notes"] == "3" for row in mine)
            errors, heard = (_median(mine, name, 3) for name in ("is", "kl")), _median(mine, "onsets_found", 1)
            onsets = f"{whole} of {len(mine)}", f"{heard} of {len(paper.MARY_SCORE)}", _median(mine, "onsets_false", 1)
            lines.append([STUDIES[study].title, METHODS[method], *errors, *onsets, mine[0]["labels"]])
        if study == "clean":
            ratio = float(np.median([float(r["is"]) for r in rows if r["study"] == study and r["method"] == "kl"]))
            gap = show(ratio - paper.MARY_KL_TIMES_IS, 2, sign=True)
            claim = markdown(
                ("claim", "paper", "ours", "diff."),
                [["KL-NMF's IS error over IS-NMF's, no noise", f"almost {paper.MARY_KL_TIMES_IS:g}", show(ratio), gap]],
            )
    if not rows:
        return ""
    columns = ("study", "method", "IS loss", "KL loss", "all three notes", "onsets found", "false onsets")
    return (
        f"Spectrogram with hamming(512), hop 256, half a window of zeros at both ends; noise and random start drawn by "
        f"{facts['seeds']} seeds, medians over them; the figures show seed 0. {algorithm_line(facts)}\n\n"
        + claim
        + "\n"
        f"A component has the note whose frequency is within half a semitone of the peak of its spectrum. An onset "
        f"is found where the activation of the note rises (by a quarter of its largest rise, {RISE:g}) within "
        f"{TIME_TOLERANCE:g} s of one of that note's onsets in the score {' '.join(n[0] for n in paper.MARY_SCORE)}; "
        f"the seconds of the score are the seven largest rises of the clean spectrogram as a whole "
        f"({', '.join(f'{t:.2f}' for t in facts['onsets'])}).\n\n"
        + markdown((*columns, "components of seed 0"), lines, left=2)
    )


def _median(rows: list[Row], column: str, digits: int) -> str:
    return show(float(np.median([float(row[column]) for row in rows])), digits)


EXPERIMENT = Experiment(
    NAME, "Mary had a little lamb (section 5.3, study)", plan, draw, section, (f"{NAME}-losses", f"{NAME}-activations")
)
