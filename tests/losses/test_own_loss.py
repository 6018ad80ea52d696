"""A loss of the user's own: taken wherever a beta is, on every backend, through the tiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse as sp

from drnmf import DRNMF, BetaNMF, MultiObjectiveNMF, Solver, beta_divergence, pareto_front
from drnmf.losses.names import as_losses
from drnmf.numerics import as_float64, namespace
from tests.backends.problems import entries


@dataclass(frozen=True)
class Poisson:
    """Kullback-Leibler's formulas written once more, so that fits with it can be compared."""

    scale: float = 1.0

    name: ClassVar[str] = "own"
    key: ClassVar[str] = "own"
    beta: ClassVar[float] = float("nan")
    degree: ClassVar[float] = 1.0
    exponents: ClassVar[tuple[float, float]] = (0.0, 1.0)
    infinite_at_zero: ClassVar[bool] = False
    free_part: ClassVar[str | None] = None
    homogeneous: ClassVar[bool] = False

    def scaled(self, factor):
        return self

    def terms(self, x, v):
        x, v, xp = as_float64(x), as_float64(v), namespace(x)
        return self.scale * (x * xp.log(xp.where(x > 0, x / v, 1.0)) - x + v)

    def parts(self, x, v, ceiling):
        return namespace(v).clip(self.scale * x / v, None, ceiling), self.scale * namespace(v).ones_like(v)

    def curvature(self, x, v):
        return self.scale * x / v / v


class Plain(Poisson):
    """The same, but with a state that no file can hold."""

    def __init__(self):
        object.__setattr__(self, "scale", np.array([1.0, None]))


X = entries((30, 20), np.float64, zeros=0.1)
SHORT = {"max_iter": 30, "tol": 0, "random_state": 0}


def _dask(X):
    da = pytest.importorskip("dask.array", reason="dask is not installed")
    pytest.importorskip("distributed", reason="distributed is not installed")
    return da.from_array(X, chunks=(10, -1))


def _torch(X):
    return pytest.importorskip("torch", reason="PyTorch is not installed").as_tensor(X)


@pytest.mark.filterwarnings("ignore:Only beta = 1 and 2")
@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, _dask, _torch])
def test_every_backend_fits_it(form, backend, monkeypatch):
    if backend == "native":
        pytest.importorskip("drnmf._core", reason="the compiled extension was not built")
    monkeypatch.setenv("DRNMF_BACKEND", backend)
    own, kl = (BetaNMF(3, beta=beta, solver="mu", **SHORT).fit(form(X)) for beta in (Poisson(), 1))
    np.testing.assert_allclose(np.asarray(own.components_), np.asarray(kl.components_), rtol=1e-8)
    assert float(own.reconstruction_err_) == pytest.approx(float(kl.reconstruction_err_), rel=1e-10)
    assert own.loss_names_ == ["own"]
    assert np.isnan(own.betas_).all()


def test_it_mixes_with_betas():
    for make in (DRNMF, MultiObjectiveNMF):
        model, twin = (make(3, betas=betas, **SHORT).fit(X) for betas in ((2, Poisson()), (2, 1)))
        np.testing.assert_allclose(model.losses_, twin.losses_, rtol=1e-6)
    front = pareto_front(DRNMF(3, betas=(2, Poisson()), **SHORT), X, weights=3)
    assert [loss.name for loss in front.omega] == ["Fro", "own"]
    assert as_losses(Poisson()) == (Poisson(),)
    assert beta_divergence(X, X + 1.0, Poisson()) == pytest.approx(beta_divergence(X, X + 1.0, 1))


def test_a_checkpoint_holds_it(tmp_path):
    """What has ended is read back, not run again."""
    counted = []
    fits = [
        BetaNMF(
            3, beta=Poisson(2.0), solver=Solver(checkpoint=tmp_path, callback=lambda _: counted.append(1)), **SHORT
        ).fit(X)
        for _ in range(2)
    ]
    assert len(counted) == SHORT["max_iter"]
    assert np.array_equal(fits[0].components_, fits[1].components_)


def test_a_checkpoint_refuses_at_once_what_it_cannot_store(tmp_path):
    with pytest.raises(ValueError, match="checkpoint: a loss cannot be stored"):
        BetaNMF(3, beta=Plain(), solver=Solver(checkpoint=tmp_path), **SHORT).fit(X)


def test_save_refuses_it_and_writes_nothing(tmp_path):
    model = BetaNMF(3, beta=Poisson(), **SHORT).fit(X)
    with pytest.raises(ValueError, match="save: the loss 'own' has no text form"):
        model.save(tmp_path / "model.npz")
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_loss_is_refused_with_what_it_lacks():
    class Half:
        def terms(self, x, v): ...

        def parts(self, x, v, ceiling): ...

    with pytest.raises(ValueError, match=r"it has no name, key, beta, .*curvature"):
        BetaNMF(3, beta=Half()).fit(X)
    with pytest.raises(ValueError, match=r"it is a class; write Poisson\(...\)"):
        DRNMF(3, betas=(1, Poisson)).fit(X)
