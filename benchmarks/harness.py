"""Timing that survives a busy machine: cases take turns in one process, and medians and minimums are kept.

A case is a function without arguments. Cases of one comparison run one after another, round after round, so that a
slow minute slows all of them; the ratio of two medians then means something even when the seconds do not.
"""

from __future__ import annotations

import csv
import datetime
import os
import platform
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent / "results"
DATA = Path(os.environ["DRNMF_DATA"]) if os.environ.get("DRNMF_DATA") else None
"""Folder of data sets; benchmarks that need one are skipped, with a note, where it is not set."""


@dataclass(frozen=True)
class Timing:
    """Seconds of one case over all rounds."""

    median: float
    minimum: float
    spread: float  # interquartile range over the median

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Timing:
        low, median, high = np.percentile(seconds, [25, 50, 75])
        return cls(float(median), float(min(seconds)), float((high - low) / median) if median > 0 else 0.0)


def clock(case: Callable[[], object], now: Callable[[], float] = time.perf_counter) -> float:
    start = now()
    case()
    return now() - start


def interleaved(
    cases: Mapping[str, Callable[[], object]],
    rounds: int = 15,
    warm_up: int = 2,
    now: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """Every case once per round; the first rounds are not counted.

    now : the clock; time.thread_time counts only what this thread was given, for one-thread cases on a busy machine
    """
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for turn in range(warm_up + rounds):
        for name, case in cases.items():
            spent = clock(case, now)
            if turn >= warm_up:
                seconds[name].append(spent)
    return {name: Timing.of(values) for name, values in seconds.items()}


def per_iteration(
    fits: Mapping[str, Callable[[int], object]],
    few: int,
    many: int,
    rounds: int = 5,
    now: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """Seconds per iteration of fits that take a number of iterations: (t(many) - t(few)) / (many - few).

    What a fit does once (checks, start, first loss) drops out of the difference.
    """
    seconds: dict[tuple[str, int], list[float]] = {(name, k): [] for name in fits for k in (few, many)}
    for turn in range(rounds + 1):
        for (name, k), values in seconds.items():
            spent = clock(lambda: fits[name](k), now)  # noqa: B023
            if turn:
                values.append(spent)
    out = {}
    for name in fits:
        short, long = Timing.of(seconds[name, few]), Timing.of(seconds[name, many])
        median, minimum = long.median - short.median, long.minimum - short.minimum
        out[name] = Timing(median / (many - few), minimum / (many - few), long.spread)
    return out


def write_csv(name: str, rows: Sequence[Mapping[str, object]]) -> Path:
    """Write results/NAME.csv whole or not at all; what a row does not have stays empty."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.csv"
    columns = list(dict.fromkeys(column for row in rows for column in row))
    with path.with_suffix(".new").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path.with_suffix(".new").replace(path)


def read_csv(name: str) -> list[dict[str, str]]:
    """The rows of results/NAME.csv; none where there is no such file."""
    path = RESULTS / f"{name}.csv"
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


SPEED = "speed"
"""The one table of speed: a row says what was measured, when, of which tree and where."""
_COLUMNS = ("benchmark", "case", "seconds", "spread", "ratio", "remarks", "date", "commit", "machine")


def keep(benchmark: str, rows: Sequence[Mapping[str, object]]) -> None:
    """Put rows into the one table, in place of those that the same benchmark left there on this machine.

    rows : case, seconds (median), spread and ratio; whatever else a row has is a remark
    """
    where = {
        "benchmark": benchmark,
        "date": datetime.date.today().isoformat(),
        "commit": subprocess.run(
            ["git", "describe", "--always", "--dirty"], cwd=RESULTS.parent, capture_output=True, text=True
        ).stdout.strip(),
        "machine": f"{machine()['cpu']}, {len(os.sched_getaffinity(0))} cores",
    }
    kept = [row for row in read_csv(SPEED) if (row["benchmark"], row["machine"]) != (benchmark, where["machine"])]
    new = [
        {name: _short(row[name]) for name in _COLUMNS if name in row}
        | {"remarks": "; ".join(f"{name} {_short(row[name])}" for name in row if name not in _COLUMNS)}
        | where
        for row in rows
    ]
    write_csv(SPEED, [{name: row.get(name, "") for name in _COLUMNS} for row in (*kept, *new)])


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def print_table(rows: Sequence[Mapping[str, object]]) -> None:
    columns = list(rows[0])
    text = [[f"{row[c]:.3g}" if isinstance(row[c], float) else str(row[c]) for c in columns] for row in rows]
    widths = [max(len(c), *(len(line[i]) for line in text)) for i, c in enumerate(columns)]
    for line in (columns, ["-" * w for w in widths], *text):
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    print(flush=True)


def machine() -> dict[str, object]:
    """What the numbers were measured on."""
    import scipy
    import sklearn

    from drnmf import _core

    cpu = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return {
        "cpu": cpu,
        "threads": _core.get_num_threads(),
        "instruction_set": _core.instruction_set(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }
