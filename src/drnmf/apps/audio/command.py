"""drnmf separate: a recording into sources."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drnmf.cli import options
from drnmf.cli.common import bad_usage, choice, errors, plain_warnings, say, starts, table
from drnmf.cli.results import Results, writes
from drnmf.cli.transform import Request
from drnmf.runs import schema, write

if TYPE_CHECKING:
    from drnmf.apps.audio.recording import Recording
    from drnmf.apps.audio.separation import Groups, Written
    from drnmf.apps.audio.transform import Spectrogram
    from drnmf.estimators.comparison import Comparison
    from drnmf.numerics import Array


@writes()
def separate(
    recording: Annotated[
        Path, typer.Argument(metavar="RECORDING", help="WAV, FLAC, OGG, MP3, ...", show_default=False)
    ],
    rank: options.Rank,
    betas: options.Betas = "0,1",
    window: Annotated[
        int | None, typer.Option("--window", min=2, help="Samples of the analysis window (default: 0.064 seconds).")
    ] = None,
    hop: Annotated[
        int | None, typer.Option("--hop", min=1, help="Samples from one frame to the next (default: window / 4).")
    ] = None,
    power: Annotated[int, typer.Option("--power", min=1, max=2, help="1 factorises magnitudes, 2 powers.")] = 1,
    group: Annotated[
        str | None, typer.Option("--group", help="Merge components into sources: auto, a number, or 1,3/2,4.")
    ] = None,
    reference: Annotated[
        list[Path] | None, typer.Option("--reference", help="A true source, for SDR, SIR and SAR; repeat for each.")
    ] = None,
    encoding: Annotated[
        str, typer.Option("--encoding", help="Samples of the files: float32, pcm16, pcm24.")
    ] = "float32",
    max_iter: options.MaxIter = 200,
    tol: options.Tol = 1e-5,
    n_init: options.Starts = 1,
    seed: options.Seed = 0,
    *,
    results: Results,
) -> None:
    """Split a recording into components that sum to it, one WAV file each.

    Components go straight into the folder, merged sources into groups/, a copy of the mixture into mixture/.
    """
    omega = options.parse_betas(betas)
    results = results.settled("sources", recording, *(reference or ()))
    quiet = results.quiet
    from drnmf.apps.audio import open_recording, spectrogram
    from drnmf.apps.audio.evaluation import open_references
    from drnmf.apps.audio.separation import ENCODINGS, choose_groups, parse_groups, write_sources
    from drnmf.estimators.comparison import compare
    from drnmf.estimators.models import DRNMF

    choice(encoding, ENCODINGS, "--encoding")
    if group is not None and rank != "auto":
        with bad_usage("--group"):
            parse_groups(group, int(rank))
    started = time.perf_counter()
    mixture = open_recording(recording)
    truths = open_references(reference or (), mixture)
    with _bar("reading", quiet) as progress:
        seen = spectrogram(mixture, window=window, hop=hop, power=power, progress=progress)
    with plain_warnings() as warned:
        model = DRNMF(rank, betas=omega, max_iter=max_iter, tol=tol, n_init=n_init, zeros="floor", random_state=seed)
        comparison = compare(model.set_params(verbose=int(not quiet)), seen.X)
    W, H = comparison.robust.W, comparison.robust.H
    groups = choose_groups(group, W, H) if group is not None else _from_references(seen, truths, W, H)
    with results.writing() as temporary:
        with _bar("writing", quiet) as progress:
            written = write_sources(temporary, mixture, seen.transform, W, H, groups, encoding, progress)
        measures = _measure(temporary, written.groups, groups, truths)
        audio = describe(seen, written, encoding)
        titles = [truth.name for truth in truths] if group is None and truths else [None] * len(written.groups)
        for sound, members, title in zip(audio["groups"], groups or (), titles, strict=True):
            sound |= {"members": [k + 1 for k in members], "name": title}
        audio["measures"] = measures
        seconds = time.perf_counter() - started
        notes = _notes(comparison, seen, written.gain, warned)
        summary = write.write_compared(temporary, "separate", comparison, seconds, notes)
        summary |= {"input": _input(recording, mixture, seen), "audio": audio}
        results.finish(temporary, summary | write.computed_by(seen.X))
    if not quiet:
        _show(comparison, measures)
    what = f"{H.shape[0]} components of {mixture.name} ({mixture.seconds:.1f} s)"
    say(f"{what}, {seconds:.1f} s; results in {results.folder}")


@contextmanager
def _bar(title: str, quiet: bool) -> Iterator[Callable[[float], None] | None]:
    """Show a bar for work that knows which fraction of it is done."""
    if quiet:
        yield None
        return
    from rich.progress import Progress

    with Progress(console=errors, transient=True) as bars:
        task = bars.add_task(title, total=1.0)
        yield lambda done: bars.update(task, completed=done)


def _from_references(seen: Spectrogram, truths: tuple[Recording, ...], W: Array, H: Array) -> Groups | None:
    from drnmf.apps.audio.evaluation import match_references

    return match_references(seen.recording, truths, seen.transform, W, H) if truths else None


def _measure(
    folder: Path, files: tuple[str, ...], groups: Groups | None, truths: tuple[Recording, ...]
) -> list[schema.Measured]:
    """Measure SDR, SIR and SAR per reference, from the files written."""
    if not truths:
        return []
    import numpy as np

    from drnmf.apps.audio import open_recording
    from drnmf.apps.audio.evaluation import measure

    assert groups is not None
    if len(groups) != len(truths):
        raise ValueError(f"{len(groups)} groups do not compare with {len(truths)} references: ask for as many.")
    estimates = np.stack([open_recording(folder / name).channel_mean() for name in files])
    measured = measure(np.stack([truth.channel_mean() for truth in truths]), estimates)
    return [
        {
            "reference": truth.name,
            "components": [k + 1 for k in groups[measured.order[s]]],
            "sdr": _finite(measured.sdr[s]),
            "sir": _finite(measured.sir[s]),
            "sar": _finite(measured.sar[s]),
        }
        for s, truth in enumerate(truths)
    ]


def _finite(value: float) -> float | None:
    """Replace infinity by None, because JSON has none."""
    return round(float(value), 4) if abs(float(value)) < float("inf") else None


def separate_again(request: Request) -> bool:
    """Split another recording into the components of an earlier run: its spectra, with activations of their own."""
    run, recording = request.run, request.x
    results = Results(request.out, request.overwrite).settled("sources", recording)
    import numpy as np

    from drnmf.apps.audio import open_recording, spectrogram
    from drnmf.apps.audio.separation import write_sources
    from drnmf.estimators.models import load
    from drnmf.runs.read import model_file, read_run

    old, started = read_run(run), time.perf_counter()
    if old.W is None or "audio" not in old.summary:
        raise ValueError(f"{run} holds no spectra (W.npy): make it again with `drnmf separate`.")
    audio, mixture = old.summary["audio"], open_recording(recording)
    if mixture.rate != audio["rate"]:
        raise ValueError(
            f"{recording} has {mixture.rate:g} samples a second, but {run} was made from {audio['rate']:g}: resample "
            "it first."
        )
    window, hop, power = audio["window"], audio["hop"], audio["power"]
    seen = spectrogram(mixture, window=window, hop=hop, power=power)
    model, W = load(model_file(run)), np.ascontiguousarray(old.W)
    model.components_, model.n_features_in_ = np.ascontiguousarray(W.T), W.shape[0]
    with plain_warnings() as warned:
        H = np.ascontiguousarray(model.transform(np.ascontiguousarray(seen.X.T)).T)
    groups = tuple(tuple(k - 1 for k in group["members"]) for group in audio.get("groups", ())) or None
    encoding = str(audio.get("encoding", "float32"))
    with results.writing() as temporary:
        written = write_sources(temporary, mixture, seen.transform, W, H, groups, encoding)
        np.save(temporary / schema.W_FILE, W)
        np.save(temporary / schema.H_FILE, H)
        shutil.copyfile(model_file(run), temporary / schema.MODEL)
        described = describe(seen, written, encoding)
        _name_as_before([*described["components"], *described["groups"]], [*audio["components"], *audio["groups"]])
        summary: schema.Summary = {
            "kind": "separate",
            "seconds": round(time.perf_counter() - started, 3),
            "audio": described,
            "input": _input(recording, mixture, seen),
            "notes": [f"The spectra are those of {run.name}.", *warned],
        }
        results.finish(temporary, summary | write.computed_by(seen.X))
    say(f"{H.shape[0]} components of {mixture.name} ({mixture.seconds:.1f} s); results in {results.folder}")
    return True


def _name_as_before(sounds: list[schema.Sound], before: list[schema.Sound]) -> None:
    """Give components and groups the names and members that they had."""
    for sound, old in zip(sounds, before, strict=True):
        sound |= {**old, "file": sound["file"]}


def _input(path: Path, mixture: Recording, seen: Spectrogram) -> schema.Input:
    return {
        "file": path.name,
        "sha256": write.sha256_of(path),
        "encoding": mixture.encoding,
        "rate": mixture.rate,
        "channels": mixture.channels,
        "samples": mixture.length,
        "shape": list(seen.X.shape),
        "dtype": str(seen.X.dtype),
    }


def describe(seen: Spectrogram, written: Written, encoding: str) -> schema.Audio:
    """What summary.json says of a spectrogram and of the sources written; groups and measures are still to be named."""
    return {
        "rate": seen.transform.rate,
        "window": seen.transform.window,
        "hop": seen.transform.hop,
        "power": seen.power,
        "seconds": seen.recording.seconds,
        "first_frame_seconds": float(seen.times[0]),
        "encoding": encoding,
        "gain": written.gain,
        "components": [{"file": name} for name in written.components],
        "groups": [{"file": name} for name in written.groups],
        "mixture": written.mixture,
        "measures": [],
    }


def _notes(comparison: Comparison, seen: Spectrogram, gain: float, warned: list[str]) -> list[str]:
    notes = [*comparison.notes, *warned]
    if seen.recording.channels > 1:
        notes.append(
            f"The spectrogram is the mean over {seen.recording.channels} channels; every channel is masked by itself."
        )
    if gain < 1.0:
        notes.append(f"All files are {gain:.6g} times the recording, one common gain, because they would have clipped.")
    if seen.X.dtype == "float32":
        notes.append("The spectrogram is large and was kept in float32.")
    return notes


def _show(comparison: Comparison, measures: list[schema.Measured]) -> None:
    rows = ([m.name, *(f"{round(100 * (value - 1), 2) + 0.0:.2f}" for value in m.scaled)] for m in comparison.methods)
    table(
        f"Percent above the best found ({starts(comparison.model.n_init)}) of each loss",
        ("method", *(loss.name for loss in comparison.omega)),
        rows,
        left=("method",),
    )
    if measures:
        lines = []
        for row in measures:
            values = ("inf" if value is None else f"{value:.2f}" for value in (row["sdr"], row["sir"], row["sar"]))
            lines.append([row["reference"], ", ".join(map(str, row["components"])), *values])
        left = ("reference", "components")
        table("Against the references (dB)", (*left, "SDR", "SIR", "SAR"), lines, left)
