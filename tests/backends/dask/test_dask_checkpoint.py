"""A fit of a Dask array is kept like any other, and resumes bit for bit, on threads and on workers."""

from __future__ import annotations

import numpy as np
import pytest

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")

from drnmf import DRNMF, BetaNMF, MultiObjectiveNMF  # noqa: E402
from drnmf.storage.checkpoint import CheckpointError  # noqa: E402
from tests.backends.dask.test_dask import blocks, everything, matrix  # noqa: E402
from tests.flat import make  # noqa: E402
from tests.keeping import After, Stopped  # noqa: E402

pytestmark = pytest.mark.usefixtures("synced")
RUN = {"tol": 0, "max_iter": 25, "random_state": 0}
CASES = [
    (DRNMF, {"betas": (0, 1), "n_init": 2}, False),
    (DRNMF, {"betas": (1, 2), "update": "mu", "policy": "reactive"}, True),
    (DRNMF, {"betas": (0.5, 2), "update": "extrapolated", "policy": "mirror", "random_state": None}, False),
    (MultiObjectiveNMF, {"betas": (1, 2), "init": "spa", "update": "monotone"}, True),
    (BetaNMF, {"beta": 0, "update": "extrapolated", "n_init": 2}, False),
]


def resumed(cls, settings, X, folder):
    """What a fit finds that was stopped twice and resumed."""
    options = RUN | settings
    with pytest.raises(Stopped):
        make(cls, 4, checkpoint=folder, checkpoint_every=0, callback=After(13), **options).fit(X)
    with pytest.raises(Stopped):
        make(cls, 4, checkpoint=folder, checkpoint_every=0, callback=After(9), **options).fit(X)
    model = make(cls, 4, checkpoint=folder, **options)
    return everything(model, model.fit_transform(X))


@pytest.mark.slow
@pytest.mark.parametrize(("cls", "settings", "sparse"), CASES)
def test_on_threads(cls, settings, sparse, tmp_path):
    X = blocks(matrix(sparse))
    found = resumed(cls, settings, X, tmp_path)
    whole = make(cls, 4, **(RUN | settings))
    if settings.get("random_state", 0) is None:
        again = make(cls, 4, checkpoint=tmp_path, **RUN | settings)
        expected = everything(again, again.fit_transform(X))
    else:
        expected = everything(whole, whole.fit_transform(X))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(CheckpointError, match="another X"):
        make(cls, 4, checkpoint=tmp_path, **RUN | settings).fit(X * 1.5)


@pytest.mark.slow
def test_on_workers(tmp_path):
    X = blocks(matrix())
    whole = DRNMF(4, betas=(0, 1), **RUN)
    expected = everything(whole, whole.fit_transform(X))
    workers = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with workers as cluster, distributed.Client(cluster):
        found = resumed(DRNMF, {"betas": (0, 1)}, X, tmp_path)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
