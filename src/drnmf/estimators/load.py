"""Read a fitted model back."""

from __future__ import annotations

import os
from typing import Any

from drnmf.estimators.models import DRNMF, BetaNMF, MultiObjectiveNMF
from drnmf.estimators.saving import load_into
from drnmf.estimators.tensor import CP


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model written by `save`. The file is data only: reading one from a stranger runs nothing.

    Parameters
    ----------
    path : the file

    Returns
    -------
    model : the fitted estimator

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> model = BetaNMF(1, random_state=0).fit(np.ones((3, 2)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(folder + "/model.npz")
    ...     load(folder + "/model.npz").n_components_
    1
    """
    return load_into({cls.__name__: cls for cls in (BetaNMF, MultiObjectiveNMF, DRNMF, CP)}, path)
