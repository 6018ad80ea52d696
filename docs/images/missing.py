"""Draw missing.png: Baltimore's air with and without its uncertainties. DRNMF_DATA names the folder that holds air/."""

from __future__ import annotations

import os
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from drnmf import BetaNMF
from drnmf.matrices.files import read_matrix

AIR = Path(os.environ["DRNMF_DATA"]) / "air"


def main() -> None:
    """Fit with a twentieth of the entries hidden, and draw residuals and imputed entries."""
    X, U = (read_matrix(AIR / f"Baltimore_{kind}.txt").X for kind in ("con", "unc"))
    hidden = np.random.default_rng(0).random(X.shape) < 0.05
    gaps = np.where(hidden, np.nan, X)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    for name, weights, colour in (("beta = 2 alone", None, "#c4541b"), ("with uncertainties", U, "#1f6f8b")):
        model = BetaNMF(6, beta=2, random_state=0, max_iter=2000)
        V = model.inverse_transform(model.fit_transform(gaps, uncertainty=weights))
        scaled = ((X - V) / U)[~hidden]
        left.hist(np.clip(scaled, -6, 6), bins=np.linspace(-6, 6, 61), histtype="step", lw=1.8, color=colour,
                  label=f"{name}: Q = {np.mean(scaled**2):.2f} per entry")  # fmt: skip
        if weights is not None:
            right.loglog(X[hidden], np.maximum(V[hidden], 1e-5), ".", ms=5, alpha=0.5, color=colour)
    left.set(xlabel="(x - v) / u, observed entries", ylabel="entries", yscale="log")
    left.legend(frameon=False, loc="upper left", fontsize=9)
    left.set_ylim(top=left.get_ylim()[1] * 4)
    ends = [X[hidden].min(), X[hidden].max()]
    right.plot(ends, ends, color="0.4", lw=1)
    right.set(
        xlabel="hidden entry (µg/m³)", ylabel="imputed", title=f"{int(hidden.sum())} hidden entries", ylim=(1e-5, 200)
    )
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=110)


if __name__ == "__main__":
    main()
