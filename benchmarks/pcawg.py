"""The worked example of docs/signatures.md: signatures of the PCAWG genomes, with their names in COSMIC.

    DRNMF_DATA=... python benchmarks/pcawg.py
    python benchmarks/pcawg.py --draw

The first writes results/pcawg-profiles.csv (the stable components) and results/pcawg-names.csv (stability, size and
match of all); the second draws docs/images/pcawg-signatures.png from them.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
PROFILES, NAMES = RESULTS / "pcawg-profiles.csv", RESULTS / "pcawg-names.csv"
FIGURE = Path(__file__).parents[1] / "docs" / "images" / "pcawg-signatures.png"
OPTIONS = ("--profiles", "rows", "--ranks", "20", "--betas", "0.5", "--runs", "4", "--heavy", "keep")
COLOURS = {"C>A": "#03bcee", "C>G": "#010101", "C>T": "#e32926", "T>A": "#a0a0a0", "T>C": "#a1ce63", "T>G": "#ebc6c4"}
"""Those of the field, one for every substitution."""
SHOWN = 8


def measure(data: Path) -> None:
    """Run the command of the example and keep its tables."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        reference = ("--reference", str(data / "COSMIC_v3.5_SBS_GRCh37.txt"))
        given = ("discover", str(data / "PCAWG.96.tsv"), *OPTIONS, *reference, "--no-report")
        subprocess.run([sys.executable, "-m", "drnmf", *given, "--out", str(out)], check=True)
        keep(out)


def keep(out: Path) -> None:
    """Copy what the figure needs from the folder of a discovery, to four digits."""
    for name, path in (("components.csv", PROFILES), ("stability.csv", NAMES)):
        with (out / name).open(newline="") as source, path.open("w", newline="") as kept:
            writer = csv.writer(kept, lineterminator="\n")
            writer.writerows([_short(cell) for cell in row] for row in csv.reader(source))


def _short(cell: str) -> str:
    try:
        return f"{float(cell):.4g}"
    except ValueError:
        return cell


def substitution(label: str) -> str:
    """Read the substitution of a mutation type, however it is written.

    >>> substitution("A[C>A]G"), substitution("C>A ACG")
    ('C>A', 'C>A')
    """
    return next(kind for kind in COLOURS if kind in label)


def draw() -> None:
    """Draw the largest components as profiles over the 96 mutation types, with their names."""
    import matplotlib.pyplot as plt
    from matplotlib.patches import Rectangle

    rows = list(csv.DictReader(PROFILES.open()))
    names = {row["component"]: row for row in csv.DictReader(NAMES.open())}
    order = sorted(range(len(rows)), key=lambda i: list(COLOURS).index(substitution(rows[i]["label"])))
    kinds = [substitution(rows[i]["label"]) for i in order]
    figure, axes = plt.subplots(SHOWN // 2, 2, figsize=(11, 1.5 * SHOWN // 2 + 0.6), sharex=True)
    for k, axis in enumerate(axes.T.flat):
        component = f"component_{k + 1}"
        heights = [100 * float(rows[i][component]) for i in order]
        axis.bar(range(len(order)), heights, color=[COLOURS[kind] for kind in kinds], width=0.8)
        _label(axis, k, names[component])
    handles = [Rectangle((0, 0), 1, 1, color=colour) for colour in COLOURS.values()]
    figure.supylabel("% of the mutations of a signature", fontsize=9)
    figure.tight_layout(rect=(0.01, 0.06, 1, 1))
    figure.legend(handles, COLOURS, loc="lower center", ncol=len(COLOURS), fontsize=8, frameon=False)
    figure.savefig(FIGURE, dpi=130)


def _label(axis: Any, k: int, row: dict[str, str]) -> None:
    size, stability = 100 * float(row["size"]), float(row["stability"])
    title = f"{k + 1}: {row['match']} (cosine {float(row['similarity']):.2f})"
    axis.set_title(title, fontsize=9, loc="left", pad=3)
    axis.set_title(f"{size:.1f} % of all mutations, stability {stability:.2f}", fontsize=8, loc="right", pad=3)
    axis.set(xticks=[], xlim=(-1, 96))
    axis.tick_params(labelsize=8)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draw", action="store_true")
    if parser.parse_args().draw:
        draw()
    else:
        measure(Path(os.environ["DRNMF_DATA"]) / "signatures")


if __name__ == "__main__":
    main()
