"""The committed page holds what its files hold, number by number."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from drnmf.apps.paper.runner import EXPERIMENTS, refreshed
from drnmf.runs.read import read_table

DOCS = Path(__file__).resolve().parents[3] / "docs"


def test_generated_parts_follow_from_the_files() -> None:
    text = (DOCS / "reproduction.md").read_text(encoding="utf-8")
    assert all(f"<!-- begin {name} -->" in text for name in EXPERIMENTS)
    assert refreshed(text, EXPERIMENTS.values(), DOCS / "reproduction", "reproduction/") == text


def test_what_stands_around_the_generated_parts_is_left_alone() -> None:
    text = "before\n<!-- begin table-audio -->\nold\n<!-- end table-audio -->\nafter\n"
    made = refreshed(text, EXPERIMENTS.values(), DOCS / "reproduction", "x/")
    assert made.startswith("before\n<!-- begin table-audio -->\n## Audio")
    assert made.endswith("<!-- end table-audio -->\nafter\n")
    assert "old" not in made


def test_committed_files_are_small() -> None:
    sizes = {path.name: path.stat().st_size for path in (DOCS / "reproduction").iterdir()}
    assert max(sizes.values()) < 300_000, sizes
    assert sum(sizes.values()) < 1_500_000, sizes


def test_the_committed_tables_keep_to_the_paper() -> None:
    rows = {row["dataset"]: row for row in read_table(DOCS / "reproduction" / "table-documents.csv")}
    for name in ("classic", "ohscal", "hitech", "reviews", "la1", "la2", "la12", "tr11", "tr23", "tr41"):
        row = {key: float(value) for key, value in rows[name].items() if key != "dataset" and value}
        assert abs(row["dr_kl_excess"] - row["dr_fro_excess"]) <= 0.05
        for measure in ("dr_kl_excess", "dr_fro_excess"):
            assert abs(row[measure] - row[f"paper_{measure}"]) <= max(0.4, 0.25 * row[f"paper_{measure}"])
    for name in ("reviews", "ohscal"):
        for measure in ("acc_kl", "acc_fro", "acc_dr"):
            assert abs(float(rows[name][measure]) - float(rows[name][f"paper_{measure}"])) <= 1.5
    audio = {row["dataset"]: row for row in read_table(DOCS / "reproduction" / "table-audio.csv")}
    assert abs(float(audio["sisec_wdrums"]["kl_is_excess"]) - 25.6) <= 3
    assert abs(float(audio["sisec_wdrums"]["dr_is_excess"]) - 12.7) <= 2
    assert abs(float(audio["piano_Mary"]["dr_is_excess"]) - 9.7) <= 2.7
    assert abs(float(audio["sisec_wdrums"]["dr_is_excess"]) - float(audio["sisec_wdrums"]["dr_kl_excess"])) <= 0.05
    starts = read_table(DOCS / "reproduction" / "table-audio-starts.csv")  # a few rearrange late: see the page
    assert np.mean([abs(float(r["dr_is_excess"]) - float(r["dr_kl_excess"])) <= 0.05 for r in starts]) > 0.9
