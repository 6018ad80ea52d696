"""Section 5.1: Pareto fronts on synthetic data for {0, 1}, {0, 2}, {1, 2}, from the true factors, with the DR point."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from drnmf.apps.paper import fits, paper
from drnmf.apps.paper.experiment import Experiment, Row, algorithm_line, markdown, show, write_csv
from drnmf.numerics import Vector
from drnmf.report.figures import COLOURS, figure
from drnmf.synthetic import synthetic

NAME = "pareto-figure"
SINGLES = ("single-0", "single-1")
PAIRS = {"is-kl": (0.0, 1.0), "is-fro": (0.0, 2.0), "kl-fro": (1.0, 2.0)}
LABELS = {0.0: "IS", 1.0: "KL", 2.0: "Frobenius"}
SHAPE, RANK, NOISE = (200, 200), 10, 0.2
STEPS = tuple(step / 10 for step in range(1, 10))
"""l of lambda = (l, 1 - l) inside the front; l = 0 and l = 1 are the single-objective fits."""


def problem(betas: tuple[float, ...], seed: int) -> tuple[Vector, fits.Start]:
    """X = max(0, WH + N) and the true factors, which are the start."""
    data = synthetic(betas, SHAPE, RANK, NOISE, random_state=seed)
    return data.X, (data.W, data.H)


def _ends(lookup: fits.Lookup, prefix: str) -> Vector:
    """Row b: both losses at the solution of beta_b alone; the diagonal holds e_beta."""
    return np.array([lookup(f"{prefix}/{name}").values["losses"] for name in SINGLES])


def ray(ends: Vector, fraction: float) -> Vector:
    """rho of the Tchebycheff problem min max rho_b Dbar_b whose ray crosses the front a fraction of the way along.

    The ratio of both scaled losses goes from one end of the front to the other, evenly on a logarithmic scale.
    """
    scaled = ends / np.diag(ends)
    first, last = np.log(scaled[1, 1] / scaled[1, 0]), np.log(scaled[0, 1] / scaled[0, 0])
    slope = np.exp(first + fraction * (last - first))
    rho = np.array([slope, 1.0])
    return rho / rho.max()


def _saved(fit: fits.Fit, references: Vector) -> fits.Saved:
    return fit.summary(weights=fit.trace.weights[-1].tolist())


def _units(pair: str, seed: int, options: fits.Options) -> list[fits.Unit]:
    betas, prefix = PAIRS[pair], f"{pair}/seed-{seed}"
    settings = options.settings(seed=seed, shape=SHAPE, rank=RANK, noise=NOISE)
    compared = fits.Comparison(prefix, SINGLES, betas, lambda: problem(betas, seed), _saved, options)

    def weighted(l: float) -> Callable[[fits.Lookup], fits.Saved]:
        def compute(lookup: fits.Lookup) -> fits.Saved:
            e, weights = np.diag(_ends(lookup, prefix)), np.array([l, 1.0 - l])
            return _saved(fits.fit_weighted(*problem(betas, seed), betas, weights, e, options), e)

        return compute

    def tchebycheff(fraction: float) -> Callable[[fits.Lookup], fits.Saved]:
        def compute(lookup: fits.Lookup) -> fits.Saved:
            ends = _ends(lookup, prefix)
            e = np.diag(ends) / ray(ends, fraction)
            return _saved(fits.fit_robust(*problem(betas, seed), betas, e, options), e)

        return compute

    units = compared.units(settings)
    for step in STEPS if seed == 0 else ():
        units.append(fits.Unit(f"{prefix}/weighted-{step}", settings, weighted(step)))
        units.append(fits.Unit(f"{prefix}/tchebycheff-{step}", settings, tchebycheff(step)))
    return units


def plan(options: fits.Options) -> fits.Plan:
    """Seed 0: both fronts and the DR point. Every other seed: the ends and the DR point."""
    units = [unit for pair in PAIRS for seed in range(options.seeds) for unit in _units(pair, seed, options)]
    zeros = {
        pair: [int((problem(betas, seed)[0] == 0).sum()) for seed in range(options.seeds)]
        for pair, betas in PAIRS.items()
    }
    return fits.Plan(units, {"zeros": zeros})


def _point(results: fits.Results, pair: str, seed: int, kind: str, name: str, weight: float | None) -> fits.Facts:
    prefix = f"{pair}/seed-{seed}"
    first, second = np.array(results(f"{prefix}/{name}").values["losses"]) / np.diag(_ends(results, prefix))
    return {"pair": pair, "seed": seed, "point": kind, "weight": weight, "first": first, "second": second}


def points(results: fits.Results) -> list[fits.Facts]:
    """Scaled losses of every point: both fronts of seed 0, DR and the ends of every seed."""
    rows = []
    for pair in PAIRS:
        for seed in range(results.facts["seeds"]):
            rows.append(_point(results, pair, seed, "weighted", "single-1", 0.0))
            if seed == 0:
                rows += [_point(results, pair, seed, "weighted", f"weighted-{l}", l) for l in STEPS]
            rows.append(_point(results, pair, seed, "weighted", "single-0", 1.0))
            if seed == 0:
                rows += [_point(results, pair, seed, "tchebycheff", f"tchebycheff-{s}", None) for s in STEPS]
            for kind in ("dr", "ours") if results.facts["ours"] else ("dr",):
                weight = results(f"{pair}/seed-{seed}/{kind}").values["weights"][0]
                rows.append(_point(results, pair, seed, kind, kind, weight))
    return rows


def draw(results: fits.Results, out: Path) -> None:
    """pareto-figure.csv and the three fronts of seed 0."""
    rows = points(results)
    write_csv(out / f"{NAME}.csv", ("pair", "seed", "point", "weight", "first", "second"), rows)
    with figure(out, NAME, 1, 3, size=(11.5, 3.7)) as (axes,):
        for ax, (pair, betas) in zip(axes, PAIRS.items(), strict=True):
            mine = [row for row in rows if row["pair"] == pair and row["seed"] == 0]
            x, y = _xy(mine, "weighted")
            ax.plot(x, y, "o-", ms=4, lw=1, color=COLOURS["IS"], label="weighted sums, l = 0, 0.1, … 1")
            x, y = _xy(mine, "tchebycheff")
            ax.plot(x, y, "+", ms=7, color=COLOURS["KL"], label="Tchebycheff")
            x, y = _xy(mine, "dr")
            ax.plot(x, y, "*", ms=13, color=COLOURS["DR"], label="DR-NMF")
            if results.facts["ours"]:
                x, y = _xy(mine, "ours")
                ax.plot(x, y, "s", ms=9, mfc="none", mec=COLOURS["ours"], label="library default")
            low, high = 1.0, min(ax.get_xlim()[1], ax.get_ylim()[1])
            ax.plot([low, high], [low, high], color="0.6", lw=0.7, ls=":")
            ax.set_xlabel(f"scaled {LABELS[betas[0]]} loss")
            ax.set_ylabel(f"scaled {LABELS[betas[1]]} loss")
            ax.set_title(f"{LABELS[betas[0]]} and {LABELS[betas[1]]}")
        axes[0].legend(loc="upper right", fontsize=8)


def _xy(rows: list[fits.Facts], kind: str) -> tuple[list[float], list[float]]:
    chosen = [row for row in rows if row["point"] == kind]
    return [row["first"] for row in chosen], [row["second"] for row in chosen]


def section(rows: list[Row], facts: fits.Facts, folder: Path) -> str:
    """The three claims of section 5.1, over all seeds."""
    lines = []
    kinds = ("dr", "ours") if facts["ours"] else ("dr",)
    for pair, betas in PAIRS.items():
        title = " and ".join(LABELS[beta] for beta in betas)
        for kind in kinds:
            values = [_worst(row) for row in rows if row["pair"] == pair and row["point"] == kind]
            name = "DR point" if kind == "dr" else "library default"
            lines.append(
                [f"{title}: {name}, percent above the lowest error", f"≤ {paper.PARETO_DR_EXCESS:g}", *_spread(values)]
            )
        ends = [
            row for row in rows if row["pair"] == pair and row["point"] == "weighted" and row["weight"] in ("0", "1")
        ]
        worst = [max(_worst(row) for row in ends if row["seed"] == seed) for seed in {row["seed"] for row in ends}]
        printed = f"up to {paper.PARETO_SINGLE_EXCESS:g}" if pair == "is-fro" else f"≤ {paper.PARETO_SINGLE_EXCESS:g}"
        lines.append([f"{title}: one objective alone, percent above the lowest error", printed, *_spread(worst)])
    weights = [float(row["weight"]) for row in rows if row["pair"] == "is-fro" and row["point"] == "dr"]
    gap = show(float(np.median(weights)) - paper.PARETO_IS_FRO_WEIGHT, 2, sign=True)
    lines.append(
        [
            "IS and Frobenius: weight of IS at the DR point",
            f"{paper.PARETO_IS_FRO_WEIGHT:g}",
            *_spread(weights)[:2],
            gap,
        ]
    )
    return (
        f"Synthetic {SHAPE[0]} x {SHAPE[1]}, r = {RANK}, {NOISE:.0%} noise, start from the true factors; "
        f"fronts of seed 0, claims over {facts['seeds']} seeds. {algorithm_line(facts)}\n\n"
        + markdown(("claim", "paper", "ours, median", "range", "diff."), lines)
        + "\nExact zeros of X, seed by seed: "
        + "; ".join(f"{pair} {', '.join(map(str, counts))}" for pair, counts in facts["zeros"].items())
        + ". Under the IS loss they count as 2.2e-16 of the mean.\n"
    )


def _worst(row: Row) -> float:
    return fits.excess(max(float(row["first"]), float(row["second"])), 1.0)


def _spread(values: list[float]) -> list[str]:
    return [show(float(np.median(values))), f"{min(values):.2f} to {max(values):.2f}", "–"]


EXPERIMENT = Experiment(NAME, "Pareto fronts (section 5.1)", plan, draw, section, (NAME,))
