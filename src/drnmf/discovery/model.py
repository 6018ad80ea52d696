"""A discovery as a fitted estimator: what transforms new rows, and what a model file holds."""

from __future__ import annotations

from typing import Any

import numpy as np

from drnmf.estimators.beta import BetaNMF
from drnmf.estimators.multi_objective import MultiObjectiveNMF
from drnmf.losses.base import betas_of
from drnmf.losses.names import as_written
from drnmf.selection.discover import Discovery


def model_of(found: Discovery) -> Any:
    """Make the estimator that a discovery stands for: its components, under its losses, weights and penalties."""
    encoder, best, omega = found.encoder, found.runs[0], found.losses
    assert encoder is not None
    given: dict[str, Any] = {
        "max_iter": encoder.max_iter, "tol": encoder.tol, "zeros": encoder.zeros,
        "penalties": list(found.penalties) or None, "random_state": 0,
    }  # fmt: skip
    written = [as_written(loss) for loss in omega]
    model: Any
    if len(omega) == 1:
        model = BetaNMF(found.rank, beta=written[0], **given)
    else:
        model = MultiObjectiveNMF(found.rank, betas=tuple(written), weights=tuple(best.weights.tolist()), **given)
    m, n = np.asarray(found.contributions).shape[0], encoder.components.shape[1]
    free = max(m * n - found.rank * (m + n - found.rank), 1)
    attributes = {
        "components_": encoder.components, "omega_": omega, "betas_": np.array(betas_of(omega)),
        "loss_names_": [loss.name for loss in omega], "weights_": best.weights, "references_": best.references,
        "losses_": best.losses, "scaled_losses_": best.losses / best.references,
        "dispersions_": 2.0 * best.losses / free, "mean_row_": encoder.mean_row, "mean_": float(encoder.objective.mean),
        "n_components_": found.rank, "n_features_in_": n, "reconstruction_err_": best.error,
        "n_iter_": len(best.trace.seconds) - 1, "converged_": best.reason == "tol", "reason_": best.reason,
        "trace_": best.trace, "notes_": found.notes, "gap_": float("nan"), "stationarity_": float("nan"),
        "penalties_": encoder.objective.penalties, "penalty_": 0.0, "penalty_path_": found.penalty_path,
        "single_losses_": None, "held_out_losses_": None, "coverage_": None,
    }  # fmt: skip
    vars(model).update(attributes)
    return model
