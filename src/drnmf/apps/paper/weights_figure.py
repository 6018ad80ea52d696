"""Section 4.5: Algorithm 3 against the subgradient variant (and the library's default), X uniform, {0, 1, 2}."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from drnmf.apps.paper import fits, paper
from drnmf.apps.paper.experiment import Experiment, Row, algorithm_line, markdown, number, show, write_csv
from drnmf.numerics import Array, Vector
from drnmf.report.figures import COLOURS, figure
from drnmf.runs.read import read_table

NAME = "weights-figure"
BETAS = (0.0, 1.0, 2.0)
LOSSES = ("IS", "KL", "Frobenius")
SHAPE, RANK = (100, 100), 10
LEVELS = (1.02, 1.04)
REFERENCES_NAME = f"{NAME}-references"
FRACTIONS = (0.1, 0.2, 0.3, 0.5)
"""Fractions of the iterations after which e_beta is taken as well: the paper does not say when it takes them."""


def problem(seed: int) -> tuple[Vector, fits.Start]:
    """X, W and H uniform in [0, 1]."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(size=SHAPE)
    return X, (rng.uniform(size=(SHAPE[0], RANK)), rng.uniform(size=(RANK, SHAPE[1])))


def _references(lookup: fits.Lookup, seed: int, iterations: int) -> Vector:
    """e_beta after so many iterations of the single-objective fits."""
    return np.array([lookup(f"seed-{seed}/{name}").arrays["losses"][iterations] for name in LOSSES])


def _early(max_iter: int) -> list[int]:
    return sorted({max(1, round(fraction * max_iter)) for fraction in FRACTIONS} - {max_iter})


def _units(seed: int, options: fits.Options, algorithms: dict[str, fits.Algorithm]) -> list[fits.Unit]:
    settings = options.settings(seed=seed, shape=SHAPE, rank=RANK, trace=True)

    def single(beta: float) -> Callable[[fits.Lookup], fits.Saved]:
        def compute(lookup: fits.Lookup) -> fits.Saved:
            fit = fits.fit_single(*problem(seed), beta, BETAS, options)
            return fits.Saved(fit.summary().values, {"losses": fit.trace.scaled_losses[:, 0]})

        return compute

    def robust(name: str, iterations: int) -> fits.Unit:
        def compute(lookup: fits.Lookup) -> fits.Saved:
            e = _references(lookup, seed, iterations)
            fit = fits.fit_robust(*problem(seed), BETAS, e, options, algorithms[name])
            return fits.Saved(fit.summary().values, {"scaled": fit.trace.scaled_losses, "weights": fit.trace.weights})

        more = {"algorithm": fits.identity(algorithms[name]), "references": iterations}
        return fits.Unit(f"seed-{seed}/{_unit_name(name, iterations, options.max_iter)}", settings | more, compute)

    units = [fits.Unit(f"seed-{seed}/{name}", settings, single(beta)) for name, beta in zip(LOSSES, BETAS, strict=True)]
    units += [robust(name, options.max_iter) for name in algorithms]
    return units + [robust(name, k) for k in _early(options.max_iter) for name in ("dr", "subgradient")]


def _unit_name(name: str, iterations: int, max_iter: int) -> str:
    return name if iterations == max_iter else f"{name}-{iterations}"


def plan(options: fits.Options) -> fits.Plan:
    """Per seed: the three single-objective fits, then every algorithm under their errors."""
    algorithms = {"dr": fits.PAPER, "subgradient": fits.SUBGRADIENT} | ({"ours": fits.OURS} if options.ours else {})
    units = [unit for seed in range(options.seeds) for unit in _units(seed, options, algorithms)]
    return fits.Plan(units, {"algorithms": list(algorithms)})


def settles_below(maximum: Array, level: float) -> int | None:
    """First iteration from which the largest scaled loss stays at or below a level; None if it does not.

    >>> settles_below(np.array([3.0, 1.0, 2.0, 1.0]), 1.5)
    3
    """
    above = np.flatnonzero(maximum > level)
    first = int(above[-1]) + 1 if above.size else 0
    return first if first < maximum.size else None


def _thin(length: int) -> list[int]:
    """Every iteration at first, later every tenth: what a figure can show."""
    return [k for k in range(length) if k <= 40 or k % 10 == 0]


def _outcome(scaled: Array) -> fits.Facts:
    """Where the largest scaled loss settles and ends, and where the three losses end."""
    first = {f"first_{level:.2f}": settles_below(scaled.max(axis=1), level) for level in LEVELS}
    return {**first, "max": float(scaled[-1].max()), **dict(zip(("is", "kl", "fro"), scaled[-1].tolist(), strict=True))}


def _reference_rows(results: fits.Results) -> list[fits.Facts]:
    """Both algorithms under references taken earlier."""
    facts = results.facts
    return [
        {"reference_iterations": k, "algorithm": name, "seed": seed, **_outcome(results(unit).arrays["scaled"])}
        for k in [*_early(facts["max_iter"]), facts["max_iter"]]
        for name in ("dr", "subgradient")
        for seed in range(facts["seeds"])
        for unit in [f"seed-{seed}/{_unit_name(name, k, facts['max_iter'])}"]
    ]


def draw(results: fits.Results, out: Path) -> None:
    """weights-figure.csv (per seed), -curves.csv (median and band per iteration), -references.csv, the figure."""
    references = _reference_rows(results)
    write_csv(out / f"{REFERENCES_NAME}.csv", list(references[0]), references)
    rows: list[fits.Facts] = []
    curves: list[fits.Facts] = []
    bands: dict[str, tuple[list[int], Vector, Vector, Vector]] = {}
    for name in results.facts["algorithms"]:
        traces = []
        for seed in range(results.facts["seeds"]):
            scaled = results(f"seed-{seed}/{name}").arrays["scaled"]
            traces.append(scaled)
            rows.append({"algorithm": name, "seed": seed, **_outcome(scaled)})
        stack = np.array(traces)
        keep = _thin(stack.shape[1])
        low, middle, high = (f(stack, axis=0)[keep] for f in (np.min, np.median, np.max))
        bands[name] = keep, low, middle, high
        for i, k in enumerate(keep):
            row: fits.Facts = {"algorithm": name, "iteration": k}
            for b, loss in enumerate(("is", "kl", "fro")):
                row |= {f"{loss}_min": low[i, b], f"{loss}_median": middle[i, b], f"{loss}_max": high[i, b]}
            curves.append(row)
    write_csv(out / f"{NAME}.csv", list(rows[0]), rows)
    write_csv(out / f"{NAME}-curves.csv", list(curves[0]), curves)
    titles = {
        "dr": "Algorithm 3 (frank-wolfe)",
        "subgradient": "Subgradient variant",
        "ours": "Library default",
    }
    with figure(out, NAME, 1, len(bands), size=(1.0 + 3.6 * len(bands), 3.6), sharey=True) as (axes,):
        for ax, (name, (keep, low, middle, high)) in zip(axes, bands.items(), strict=True):
            for b, loss in enumerate(LOSSES):
                ax.fill_between(keep, low[:, b], high[:, b], color=COLOURS[loss], alpha=0.15, lw=0)
                ax.plot(keep, middle[:, b], color=COLOURS[loss], lw=1.4, label=loss)
            for level in LEVELS:
                ax.axhline(level, color="0.5", lw=0.7, ls=":")
            ax.set_ylim(0.99, 1.2)
            ax.set_xlabel("iteration")
            ax.set_title(titles[name])
        axes[0].set_ylabel("scaled loss $D_\\beta / e_\\beta$")
        axes[0].legend(title=f"median and range of {results.facts['seeds']} seeds", loc="upper right")


def _median(values: list[float | None]) -> str:
    """Median of the seeds that reached it, and how many did."""
    reached = [value for value in values if value is not None]
    if not reached:
        return f"never ({len(values)} seeds)"
    return f"{float(np.median(reached)):.0f} ({len(reached)} of {len(values)} seeds)"


def section(rows: list[Row], facts: fits.Facts, folder: Path) -> str:
    """Where each algorithm settles, beside the paper's two numbers."""
    lines = []
    names = {"dr": "Algorithm 3", "subgradient": "subgradient variant", "ours": "library default"}
    printed = {
        "dr": paper.WEIGHTS_FIRST_ITERATION["frank-wolfe"],
        "subgradient": paper.WEIGHTS_FIRST_ITERATION["subgradient"],
    }
    for name in facts["algorithms"]:
        mine = [row for row in rows if row["algorithm"] == name]
        first = [number(row["first_1.02"]) for row in mine]
        reached = [value for value in first if value is not None]
        theirs = printed.get(name)
        gap = show(float(np.median(reached)) - theirs, 0, sign=True) if reached and theirs else "–"
        final = np.array([float(row["max"]) for row in mine])
        later = _median([number(row["first_1.04"]) for row in mine])
        ends = f"{np.median(final):.4f} ({final.min():.4f} to {final.max():.4f})"
        lines.append([names[name], "–" if theirs is None else str(theirs), _median(first), gap, later, ends])
    columns = ("algorithm", "≤ 1.02 from iteration, paper", "ours, median", "diff.", "≤ 1.04 from iteration")
    return (
        f"X uniform {SHAPE[0]} x {SHAPE[1]}, r = {RANK}, Omega = {{0, 1, 2}}, {facts['seeds']} seeds. "
        f"{algorithm_line(facts)}\n\n"
        + markdown((*columns, "max at the end"), lines)
        + _early_section(read_table(folder / f"{REFERENCES_NAME}.csv"))
    )


def _early_section(rows: list[Row]) -> str:
    """Where both algorithms settle below 1.02 for references taken after fewer iterations."""
    lines = []
    for k in sorted({int(row["reference_iterations"]) for row in rows}):
        line = [str(k)]
        for name in ("dr", "subgradient"):
            mine = [row for row in rows if row["algorithm"] == name and int(row["reference_iterations"]) == k]
            ends = [float(row["max"]) for row in mine]
            line += [_median([number(row["first_1.02"]) for row in mine]), f"{np.median(ends):.4f}"]
        lines.append(line)
    printed = [str(paper.WEIGHTS_FIRST_ITERATION[name]) for name in ("frank-wolfe", "subgradient")]
    lines.append(["paper: not stated", printed[0], "–", printed[1], "–"])
    end = "max at the end"
    columns = ("e_beta after", "Algorithm 3: ≤ 1.02 from", end, "subgradient: ≤ 1.02 from", end)
    return "\nThe level depends on when the single-objective errors e_beta are taken:\n\n" + markdown(columns, lines)


EXPERIMENT = Experiment(NAME, "Choosing the weights (section 4.5)", plan, draw, section, (NAME,))
