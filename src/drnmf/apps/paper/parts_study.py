"""Parts of X in the maximum, in numbers: groups, spoiled images, tables side by side, outlying entries.

Groups: ortho1 of "Fairer NMF" (arXiv 2411.09847), the largest regret over its two groups, with e_g by its procedure,
the mean of five fits of a group alone by multiplicative steps. Faces: 400 images of 40 people, k-means on rows of W of
unit length.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans

from drnmf.algorithms.result import Progress
from drnmf.apps.paper.experiment import Experiment, Row, markdown, show, write_csv
from drnmf.apps.paper.fits import Facts, Lookup, Options, Plan, Results, Saved, Unit
from drnmf.apps.text.topics import clustering_accuracy
from drnmf.estimators.models import DRNMF, BetaNMF
from drnmf.losses.part import Rowwise
from drnmf.numerics import Vector
from drnmf.parameters.solver import Solver
from drnmf.selection.matching import match

NAME = "parts"
COLUMNS = ("case", "method", "seeds", "value", "wanted", "seconds")
PUBLISHED = {3: 0.321, 5: 0.371, 6: 0.515, 8: 0.333}
"""Components -> the better of the two published values on ortho1."""
FACES = {"40 % salt and pepper": ">= 0.47", "clean": ">= 0.61", "white block": ">= Frobenius + 0.01"}
STARTS, ALONE = 10, 5
"""Starts of a run, and fits of a group alone whose mean is its e_g."""


def _errors_alone(X: Vector, groups: Vector, rank: int, seed: int) -> list[float]:
    """e_g of every group as the published procedure has it: multiplicative steps, which stop soon."""
    rng, errors = np.random.default_rng(seed), []
    for group in np.unique(groups):
        own = X[groups == group]
        fits = [
            _multiplicative_error(own, rng.random((len(own), rank)), rng.random((rank, X.shape[1])))
            for _ in range(ALONE)
        ]
        errors.append(0.5 * float(np.mean(fits)) ** 2)
    return errors


def _multiplicative_error(X: Vector, W: Vector, H: Vector) -> float:
    """The distance of X from a fit that ends once a step changes it by less than 1e-4 of itself, or it vanishes."""
    least, errors = 1e-6 * float(np.linalg.norm(X)), [np.inf]

    def over(progress: Progress) -> bool:
        errors.append(float(np.sqrt(2.0 * progress.losses[0])))
        return errors[-1] <= least or abs(errors[-2] - errors[-1]) < 1e-4 * errors[-1]

    solver = Solver(update="mu", callback=over)
    BetaNMF(W.shape[1], beta=2, init="custom", tol=0, max_iter=10_000, solver=solver).fit(X, W=W, H=H)
    return errors[-1]


def _least_regret(X: Vector, groups: Vector, rank: int, seed: int) -> float:
    """What no factors of either sign can bring the largest regret of two groups below, by weak duality.

    For every weight l the weighted squared distances are at least the small eigenvalues of the weighted moments, and
    with distances of at most (t + e_g) so is l (t + e_0)^2 + (1 - l) (t + e_1)^2: t is at least its positive root.
    """
    parts = [X[groups == group] for group in np.unique(groups)]
    moments = [part.T @ part / np.sum(part**2) for part in parts]
    pairs = zip(_errors_alone(X, groups, rank, seed), parts, strict=True)
    a, b = (np.sqrt(2.0 * error / np.sum(part**2)) for error, part in pairs)
    bounds = []
    for weight in np.linspace(0.0, 1.0, 1001):
        least = np.linalg.eigvalsh(weight * moments[0] + (1.0 - weight) * moments[1])[:-rank].sum()
        middle, apart = weight * a + (1.0 - weight) * b, weight * (1.0 - weight) * (a - b) ** 2
        bounds.append(np.sqrt(max(least - apart, 0.0)) - middle)
    return float(max(bounds))


def _largest_regret(X: Vector, groups: Vector, rank: int, seed: int) -> float:
    errors = _errors_alone(X, groups, rank, seed)
    solver = Solver(references=np.maximum(errors, 1e-12 * np.sum(X**2)))
    model = DRNMF(rank, betas=(2,), init="random", n_init=STARTS, random_state=seed, solver=solver)
    return float(model.fit(X, groups=groups).scaled_losses_.max())


def _spoiled(X: Vector, how: str, seed: int) -> Vector:
    """100 of the images spoiled."""
    rng, images = np.random.default_rng(seed), X.copy()
    for image in rng.choice(len(X), 100, replace=False) if how != "clean" else ():
        if how == "white block":
            i, j = rng.integers(0, 32 - 14 + 1, 2)
            images[image].reshape(32, 32)[i : i + 14, j : j + 14] = 1.0
        else:
            at = np.flatnonzero(rng.uniform(size=X.shape[1]) < 0.4)
            images[image, at] = rng.integers(0, 2, at.size)
    return images


def faces_model(method: str, seed: int) -> BetaNMF | DRNMF:
    """Return the plain model of faces, or the one that is to forgive what is spoiled."""
    if method == "Frobenius":
        return BetaNMF(40, beta=2, random_state=seed)
    return DRNMF(40, betas=[Rowwise(2, "sqrt"), Rowwise(2, "log")], max_iter=100, random_state=seed)


def _faces_accuracy(X: Vector, people: Vector, how: str, method: str, seed: int) -> float:
    W = faces_model(method, seed).fit_transform(_spoiled(X, how, seed))
    rows = W / np.maximum(np.linalg.norm(W, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    return clustering_accuracy(people, KMeans(40, n_init=10, random_state=seed).fit_predict(rows))


def _tables_cosine(method: str, seed: int) -> float:
    """Cosines of planted components in counts beside intensities a thousand times smaller: the smallest of all."""
    rng = np.random.default_rng(seed)
    W = rng.gamma(0.5, size=(300, 4))
    counts, levels = rng.gamma(0.5, 3.0, (4, 200)), rng.gamma(0.5, size=(4, 30)) / 1000
    X = rng.poisson(W @ counts).astype(float)
    Y = np.maximum(W @ levels + 5e-5 * rng.normal(size=(300, 30)), 0.0)
    if method == "plain, side by side":
        H = BetaNMF(4, beta=1, random_state=seed).fit(np.hstack([X, Y])).components_
        components = {"counts": H[:, :200], "levels": H[:, 200:]}
    else:
        model = DRNMF(4, betas={"counts": 1, "levels": 2}, random_state=seed)
        components = model.fit({"counts": X, "levels": Y}).table_components_
    pairs = (components["counts"], counts), (components["levels"], levels)
    return min(float(match(fitted, truth).similarity.min()) for fitted, truth in pairs)


def _outlier_error(seed: int) -> float:
    """Error of WH to the truth under Huber's loss over that under beta = 2; 3 % of the entries are tenfold."""
    rng = np.random.default_rng(seed)
    truth = rng.gamma(1.0, size=(100, 5)) @ rng.gamma(1.0, size=(5, 80))
    X = truth + 0.01 * rng.uniform(size=truth.shape)
    X = np.where(rng.uniform(size=truth.shape) < 0.03, 10.0 * X, X)
    models = [BetaNMF(5, beta=beta, random_state=seed) for beta in ("huber:auto", 2)]
    far, near = (np.linalg.norm(model.fit_transform(X) @ model.components_ - truth) for model in models)
    return float(far / near)


def cases(options: Options) -> dict[tuple[str, str], tuple[str, Callable[[int], float]]]:
    """List what is measured: case and method -> what is wanted, and its value for a seed."""
    listed: dict[tuple[str, str], tuple[str, Callable[[int], float]]] = {}
    ortho, faces = ((options.data or Path()) / path for path in ("groups/ortho1.npz", "faces/olivetti32.npz"))
    if ortho.is_file():
        known = np.load(ortho)
        for rank, best in PUBLISHED.items():
            value = partial(_largest_regret, known["X"], known["group"], rank)
            listed[f"ortho1, r = {rank}: largest regret", "groups"] = f"<= {1.01 * best:.3f}", value
            least = partial(_least_regret, known["X"], known["group"], rank)
            listed[f"ortho1, r = {rank}: largest regret", "none can be below"] = "", least
    if faces.is_file():
        images = np.load(faces)
        X = images["X"].astype(np.float64) / float(images["X"].max())
        for how, wanted in FACES.items():
            for method in ("Frobenius", "rows forgiven"):
                value = partial(_faces_accuracy, X, images["subject"], how, method)
                listed[f"faces, {how}: accuracy", method] = "" if method == "Frobenius" else wanted, value
    for method in ("tables", "plain, side by side"):
        wanted = ">= 0.95" if method == "tables" else ""
        listed["planted tables: smallest cosine", method] = wanted, partial(_tables_cosine, method)
    listed["3 % outliers: error over that of beta = 2", 'Huber("auto")'] = "<= 0.1", _outlier_error
    return listed


def plan(options: Options) -> Plan:
    """Every case whose data are here, for every seed."""
    units, listed = [], cases(options)
    for (case, method), (_, value) in listed.items():
        for seed in range(options.seeds):

            def compute(lookup: Lookup, value: Callable[[int], float] = value, seed: int = seed) -> Saved:
                began = time.perf_counter()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    return Saved({"value": value(seed), "seconds": time.perf_counter() - began})

            units.append(Unit(f"{case}/{method}/seed-{seed}", {"seed": seed}, compute))
    return Plan(units, {"cases": [[*key, wanted] for key, (wanted, _) in listed.items()]})


def draw(results: Results, folder: Path) -> None:
    """Write the table."""
    rows = []
    for case, method, wanted in results.facts["cases"]:
        saved = [results(f"{case}/{method}/seed-{seed}").values for seed in range(results.facts["seeds"])]
        means = {name: float(np.mean([values[name] for values in saved])) for name in ("value", "seconds")}
        rows.append({"case": case, "method": method, "seeds": len(saved), "wanted": wanted, **means})
    write_csv(folder / f"{NAME}.csv", COLUMNS, rows)


def section(rows: list[Row], facts: Facts, folder: Path) -> str:
    """The table as it is."""
    lines = [
        [row["case"], row["method"], show(row["value"], 3), row["wanted"], show(row["seconds"], 2)] for row in rows
    ]
    text = f"Means over {facts['seeds']} seeds.\n\n"
    return text + markdown(("case", "method", "value", "wanted", "seconds"), lines, left=2)


EXPERIMENT = Experiment(NAME, "Groups, rows, tables and entries", plan, draw, section, ())
