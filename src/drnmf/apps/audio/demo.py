"""drnmf demo: a tune that is made here, with noise, and what IS-, KL- and DR-NMF hear in it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from drnmf.apps.audio.command import describe
from drnmf.cli import options
from drnmf.cli.common import errors, say, table
from drnmf.cli.results import Results, writes
from drnmf.runs import schema, write

if TYPE_CHECKING:
    from drnmf.apps.audio.study import Study

BETAS = (0.0, 1.0)
ITERATIONS, STARTS = 300, 10
SHOWN = "clean"
"""The recording whose sources are in the page; the table has all of them."""


@writes()
def demo(seed: options.Seed = 0, *, results: Results) -> None:
    """Compare one loss at a time with both at once on a tune, clean and in two noises (section 5.3 of the paper).

    The tune, E D C D E E E, is synthesised, so what should be found is known. Prints how far each method is above the
    best found for every loss and the notes it found, and leaves a folder with the sources and a page to listen to them.
    """
    results = results.at(results.out or Path("drnmf-demo"))
    out = results.folder
    from drnmf.apps.audio.recording import soundfile
    from drnmf.apps.audio.study import NOISE_LEVELS, study, synthesise_tune

    soundfile()
    started = time.perf_counter()
    tune = synthesise_tune(seed)
    studies: dict[str, Study] = {}
    with errors.status("synthesising ...") as status:
        for noise in NOISE_LEVELS:
            if not results.quiet:
                status.update(f"{'clean recording' if noise == 'clean' else noise + ' noise'}: IS-, KL- and DR-NMF ...")
            studies[noise] = study(tune, noise, betas=BETAS, seed=seed, max_iter=ITERATIONS, n_init=STARTS)
    rows = [row for found in studies.values() for row in _rows(found)]
    seconds = time.perf_counter() - started
    shown = studies[SHOWN]
    with results.writing() as folder:
        audio = _write_sounds(folder, shown)
        write.write_table(folder / schema.TABLE, _flat(rows))
        notes = [f"{name}: {note}" for name, found in studies.items() for note in found.comparison.notes]
        summary = write.write_compared(folder, "demo", shown.comparison, seconds, notes)
        score = " ".join(tune.melody)
        summary |= {
            "data": {"recipe": f"{score}, synthesised", "shape": list(shown.X.shape), "rate": tune.rate},
            "audio": audio,
            "demo": {"betas": list(BETAS), "score": score, "rows": rows},
        }
        results.finish(folder, summary | write.computed_by(shown.X))
    _show(rows)
    page = f" (open {schema.REPORT} in it)" if (out / schema.REPORT).exists() else ""
    say(f"{seconds:.1f} s; results in {out}{page}")


def _rows(study: Study) -> list[schema.DemoRow]:
    """Make one record per method: scaled losses, what its components are, the melody it hears."""
    return [
        {
            "noise": study.noise,
            "method": heard.method.name,
            "scaled_losses": heard.method.scaled.tolist(),
            "notes": " ".join(sorted(heard.names, key=lambda name: (len(name), name))),
            "melody": " ".join(heard.melody),
            "right": heard.right,
            "strokes": len(heard.melody),
        }
        for heard in study.heard
    ]


def _flat(rows: list[schema.DemoRow]) -> list[write.Record]:
    from drnmf.losses.names import as_loss

    named = []
    for row in rows:
        losses = {f"scaled_{as_loss(b).name}": value for b, value in zip(BETAS, row["scaled_losses"], strict=True)}
        named.append({k: v for k, v in row.items() if k != "scaled_losses"} | losses)
    return named


def _write_sounds(folder: Path, study: Study) -> schema.Audio:
    """Write the recording and DR-NMF's components as files; return what the page needs to know of them."""
    from drnmf.apps.audio.recording import open_recording
    from drnmf.apps.audio.separation import write_sources
    from drnmf.apps.audio.transform import Spectrogram

    robust = study.comparison.robust
    recording = open_recording(study.recording, rate=study.tune.rate)
    written = write_sources(folder, recording, study.transform, robust.W, robust.H, None)
    audio = describe(Spectrogram(study.X, recording, study.transform, power=1), written, "float32")
    for sound, name in zip(audio["components"], study.heard[-1].names, strict=True):
        sound["name"] = name
    return audio


def _show(rows: list[schema.DemoRow]) -> None:
    from drnmf.losses.names import as_loss

    lines = []
    for row in rows:
        cells = [f"{round(100 * (value - 1), 1) + 0.0:.1f}" for value in row["scaled_losses"]]
        heard = row["notes"], row["melody"], f"{row['right']}/{row['strokes']}"
        lines.append([row["noise"], row["method"], *cells, *heard])
    left = ("recording", "method", "components", "melody")
    columns = (*left[:2], *(as_loss(beta).name for beta in BETAS), *left[2:], "right")
    table("Percent above the best found of each loss, and what was heard", columns, lines, left)
