"""Draw what each penalty does, one picture for its page: sparsity.png, volume.png, smooth.png and l1-l2.png."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from drnmf import L1, L2, BetaNMF, Smooth, Sparsity, Volume

HERE = Path(__file__).parent
BLUE, RED, GREY = "#1f6f8b", "#c4541b", "0.75"


def saved(figure: Any, name: str) -> None:
    figure.savefig(HERE / f"{name}.png", dpi=110)
    plt.close(figure)


def fitted(X: Any, rank: int, penalty: Any, **options: Any) -> tuple[Any, Any]:
    """W and H of a fit under Kullback-Leibler, or under the beta that is given."""
    given = {"beta": 1, "max_iter": 1000, "tol": 1e-6, "random_state": 0} | options
    model = BetaNMF(rank, penalties=None if penalty is None else [penalty], **given)
    W = model.fit_transform(X)
    return W, model.components_


def curves() -> tuple[Any, Any, Any]:
    """Counts of three overlapping curves, each active in half of the samples."""
    rng, place = np.random.default_rng(0), np.linspace(0, 1, 80)
    shapes = np.array(
        [np.exp(-(((place - at) / width) ** 2)) for at, width in ((0.25, 0.12), (0.5, 0.18), (0.72, 0.1))]
    )
    amounts = rng.gamma(2.0, 6.0, (60, 3)) * (rng.random((60, 3)) < 0.5)
    return rng.poisson(amounts @ shapes + 0.1).astype(float), amounts, shapes


def sparsity() -> None:
    """Which entries of W are zero, and how many more become so with alpha."""
    X, amounts, shapes = curves()
    alphas, found = [0.0, 0.003, 0.01, 0.03, 0.1, 0.3], []
    for alpha in alphas:
        W, H = fitted(X, 3, Sparsity(alpha, on="W"))
        order = np.argsort(H @ np.arange(H.shape[1]) / H.sum(axis=1))  # from left to right, as the curves
        found.append((W * H.max(axis=1))[:, order])
    figure, axes = plt.subplots(1, 4, figsize=(10, 3.2), layout="constrained", width_ratios=(1, 1, 1, 2))
    panels = {"true": amounts * shapes.max(axis=1), "alpha = 0": found[0], "alpha = 0.03": found[3]}
    for axis, (name, W) in zip(axes, panels.items(), strict=False):
        axis.imshow(np.sqrt(W), aspect="auto", cmap="Greys", vmax=np.sqrt(amounts.max()), interpolation="nearest")
        axis.set(title=name, xticks=[], xlabel="component", ylabel="sample" if name == "true" else "")
    zeros = [100 * np.mean(1e-3 * W.max() > W) for W in found]
    axes[3].plot(range(len(alphas)), zeros, "o-", color=BLUE)
    axes[3].axhline(100 * np.mean(amounts == 0), color=GREY, lw=3, zorder=0)
    axes[3].set(xticks=range(len(alphas)), xticklabels=alphas, xlabel="alpha", title="zeros of W (%); grey: true")
    saved(figure, "sparsity")


def volume() -> None:
    """Triangles around mixtures of which none is pure."""
    rng = np.random.default_rng(1)
    corners = np.array([[0.75, 0.15, 0.1], [0.1, 0.8, 0.1], [0.15, 0.15, 0.7]])
    parts = rng.dirichlet(np.full(3, 0.7), 600)
    parts = parts[parts.max(axis=1) < 0.85][:300]
    X = np.maximum(parts @ corners + 0.004 * rng.normal(size=(len(parts), 3)), 0.0)
    plane = np.array([[0.0, 1.0, 0.5], [0.0, 0.0, np.sqrt(0.75)]]).T  # three parts that sum to one, as a point

    def triangle(axis: Any, points: Any, **style: Any) -> None:
        drawn = points / points.sum(axis=1, keepdims=True) @ plane
        axis.plot(*np.vstack([drawn, drawn[:1]]).T, **style)

    figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
    for axis, alpha in zip(axes, (0.0, "auto", 0.5), strict=True):
        _, H = fitted(X, 3, Volume(alpha) if alpha else None, beta=2, sum_to_one="W", init="random")
        axis.plot(*(X / X.sum(axis=1, keepdims=True) @ plane).T, ".", ms=3, color=GREY)
        triangle(axis, corners, color="0.3", lw=1, ls="--", label="true")
        triangle(axis, H, color=RED, lw=1.6, label="found")
        axis.set(title=f"alpha = {alpha!r}" if alpha else "no penalty", aspect="equal", xticks=[], yticks=[])
    axes[0].legend(frameon=False, fontsize=8, loc="upper left")
    saved(figure, "volume")


def smooth() -> None:
    """Components without their noise, and without their shape where alpha is too large."""
    X, amounts, shapes = curves()
    X = np.random.default_rng(2).poisson(0.1 * X).astype(float) + 0.01
    figure, axes = plt.subplots(1, 4, figsize=(11, 2.8), layout="constrained", sharey=True)
    for axis, alpha in zip(axes, (0.0, 0.1, 1.0, 30.0), strict=True):
        W, H = fitted(X, 3, Smooth(alpha))
        axis.plot((0.1 * amounts.mean(axis=0)[:, None] * shapes).T, color=GREY, lw=4)
        axis.plot((W.mean(axis=0)[:, None] * H).T, lw=1.2)
        axis.set(title=f"alpha = {alpha:g}", xlabel="place")
    axes[0].set_ylabel("mean contribution")
    saved(figure, "smooth")


def entries() -> None:
    """The entries of W in falling order: under L1 small ones end at zero, under L2 the large ones shrink."""
    X, _, _ = curves()
    figure, axes = plt.subplots(1, 2, figsize=(10, 3), layout="constrained", sharey=True)
    for axis, kind, alphas in ((axes[0], L1, (0, 30, 150)), (axes[1], L2, (0, 30, 150))):
        for alpha, colour in zip(alphas, ("0.4", BLUE, RED), strict=True):
            W, _ = fitted(X, 3, kind(alpha), beta=2)
            axis.plot(np.sort(W.ravel())[::-1], color=colour, label=f"alpha = {alpha:g}")
        axis.set(
            title=f"{kind.__name__} of both factors",
            xlabel="entry of W, in falling order",
            yscale="log",
            ylim=(1e-3, 20),
        )
        axis.legend(frameon=False)
    axes[0].set_ylabel("size")
    saved(figure, "l1-l2")


if __name__ == "__main__":
    for draw in (sparsity, volume, smooth, entries):
        draw()
