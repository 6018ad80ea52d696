"""Which loss finds the truth: single betas, the beta that X names, DR over a wide set and over the set that X names.

The factorisations start at random; the rank is given. "Best in hindsight" is the single beta nearest to the truth,
which nobody knows beforehand.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from drnmf.apps.paper.choice_problems import PROBLEMS, Problem
from drnmf.apps.paper.experiment import Experiment, Row, markdown, number, show, write_csv
from drnmf.apps.paper.fits import Options
from drnmf.apps.paper.store import Lookup, Plan, Results, Saved, Unit, Watch
from drnmf.estimators.beta import BetaNMF
from drnmf.estimators.robust import DRNMF
from drnmf.report.figures import COLOURS, figure, log_axis

NAME = "choice"
SINGLE = {"IS": 0.0, "beta=0.5": 0.5, "KL": 1.0, "beta=1.5": 1.5, "Frobenius": 2.0}
METHODS = (*SINGLE, "beta auto", "DR {0, 1, 2}", "DR {1, 2}", "DR auto")
SHOWN = ("IS", "KL", "Frobenius", "beta auto", "DR {0, 1, 2}", "DR {1, 2}", "DR auto", "hindsight")
COLUMNS = ("problem", "measure", "seeds", "method", "distance", "deviation", "losses", "seconds")
QUICK_ITERATIONS = 300
MARKS = {"KL": ("s", "KL"), "beta auto": ("o", "ours"), "DR {0, 1, 2}": ("D", "DR"), "DR auto": ("^", "DR")}
"""Methods of the figure, with their marks and colours."""


def model_of(method: str, rank: int, seed: int, quick: bool) -> Any:
    """Build the estimator of a method, all from one random start."""
    run: dict[str, Any] = {"random_state": seed, "init": "random", "zeros": "floor"}
    run |= {"max_iter": QUICK_ITERATIONS, "tol": 1e-4} if quick else {"max_iter": 3000, "tol": 1e-5}
    if method in SINGLE:
        return BetaNMF(rank, beta=SINGLE[method], **run)
    if method == "beta auto":
        return BetaNMF(rank, beta="auto", **run)
    betas: Any = {"DR {0, 1, 2}": (0, 1, 2), "DR {1, 2}": (1, 2), "DR auto": "auto"}[method]
    return DRNMF(rank, betas=betas, **run)


def _unit(problem: Problem, method: str, seed: int, options: Options) -> Unit:
    def compute(lookup: Lookup, watch: Watch) -> Saved:
        task = problem.load(options.data, seed, options.quick)
        model, began = model_of(method, task.rank, seed, options.quick), time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            W = model.fit_transform(task.X)
        factors = (np.asarray(F, dtype=np.float64) for F in (W, model.components_))
        values = {"distance": task.distance(*factors), "seconds": time.perf_counter() - began}
        return Saved(values | {"losses": " ".join(model.loss_names_)})

    cost = 10.0 if method == "DR auto" else 3.0 if method.startswith("DR") else 1.0
    return Unit(f"{problem.name}/seed-{seed}/{method}", {"quick": options.quick, "seed": seed}, cost, compute)


def plan(options: Options) -> Plan:
    """Every method on every problem whose data are here, for every seed."""
    here = [p for p in PROBLEMS if p.file is None or (options.data is not None and (options.data / p.file).is_file())]
    units = [
        _unit(problem, method, seed, options) for problem in here for seed in range(options.seeds) for method in METHODS
    ]
    facts = {"seeds": options.seeds, "quick": options.quick, "problems": [[p.name, p.measure] for p in here]}
    return Plan(units, facts | {"missing": [str(p.file) for p in PROBLEMS if p not in here]})


def rows_of(results: Results) -> list[dict[str, Any]]:
    """One row for each problem and method, the mean over the seeds; hindsight is the best single beta of each seed."""
    rows = []
    for problem, measure in results.facts["problems"]:
        seeds = range(results.facts["seeds"])
        found = {m: [results(f"{problem}/seed-{s}/{m}").values for s in seeds] for m in METHODS}
        found["hindsight"] = [min((found[m][s] for m in SINGLE), key=lambda values: values["distance"]) for s in seeds]
        for method, values in found.items():
            distances = [value["distance"] for value in values]
            row = (problem, measure, len(values), method, float(np.mean(distances)), float(np.std(distances)))
            seconds = float(np.mean([value["seconds"] for value in values]))
            rows.append(dict(zip(COLUMNS, (*row, values[0]["losses"], seconds), strict=True)))
    return rows


def draw(results: Results, folder: Path) -> None:
    """Write the table and its figure."""
    rows = rows_of(results)
    write_csv(folder / f"{NAME}.csv", COLUMNS, rows)
    draw_distances(rows, folder)


def draw_distances(rows: list[dict[str, Any]], folder: Path) -> None:
    """Draw every distance over that of the best single beta in hindsight."""
    names = list(dict.fromkeys(row["problem"] for row in rows))
    of = {(row["problem"], row["method"]): float(row["distance"]) for row in rows}
    with figure(folder, NAME, 1, 1, size=(7.5, 1.6 + 0.3 * len(names))) as ((axis,),):
        y = np.arange(len(names))[::-1]
        for method, (mark, colour) in MARKS.items():
            ratios = [_ratio(of[name, method], of[name, "hindsight"]) for name in names]
            axis.plot(ratios, y, mark, color=COLOURS[colour], mfc="none" if colour != "ours" else None, label=method)
        axis.axvline(1.0, color="0.6", lw=1, zorder=0)
        axis.set_xscale("log")
        log_axis(axis.xaxis)
        axis.set_yticks(y, names)
        axis.set_xlabel("distance to the truth, over that of the best single beta in hindsight")
        axis.legend(loc="upper center", bbox_to_anchor=(0.4, -0.1), ncols=len(MARKS))


def _ratio(distance: float, least: float) -> float:
    return distance / least if least > 0 else (1.0 if distance <= 0 else np.nan)


def section(rows: list[Row], facts: dict[str, Any], folder: Path) -> str:
    """Distances side by side, the smallest of each row (hindsight apart) in bold, with the losses that X chose."""
    lines, chosen = [], []
    for problem, measure in facts["problems"]:
        of = {row["method"]: row for row in rows if row["problem"] == problem}
        values = {method: number(of[method]["distance"]) or 0.0 for method in SHOWN}
        least = min(value for method, value in values.items() if method != "hindsight")
        cells = [
            f"**{show(value, 4)}**" if value <= least and method != "hindsight" else show(value, 4)
            for method, value in values.items()
        ]
        lines.append([problem, measure, *cells])
        chosen.append([problem, of["beta auto"]["losses"], of["DR auto"]["losses"], of["hindsight"]["losses"]])
    size = "quick: smaller data, 300 iterations" if facts["quick"] else "full size"
    text = f"Distance to the truth, smaller is better: random starts, rank given, seeds: {facts['seeds']} ({size}).\n\n"
    text += markdown(("data", "distance", *SHOWN), lines, left=2)
    text += "\nThe losses that were chosen (first seed):\n\n"
    text += markdown(("data", "beta auto", "DR auto", "hindsight"), chosen, left=4)
    if facts["missing"]:
        text += "\nNot in the data folder: " + ", ".join(facts["missing"]) + ".\n"
    return text


EXPERIMENT = Experiment(NAME, "Which loss finds the truth?", plan, draw, section, (NAME,))
