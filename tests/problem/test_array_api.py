"""Arrays of other libraries: taken where their entries are in host memory, else refused in one sentence."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from drnmf import BetaNMF, beta_divergence
from drnmf.sklearn import NMF, MiniBatchNMF

X = np.random.default_rng(0).gamma(2.0, size=(12, 7))


@pytest.fixture
def xp():
    return pytest.importorskip("array_api_strict", reason="array-api-strict is not installed")


def model(**changes):
    return BetaNMF(2, beta=1, max_iter=5, tol=0, random_state=0, **changes)


def test_strict_arrays_give_the_same_factors(xp) -> None:
    expected, found = model().fit(X), model().fit(xp.asarray(X))
    np.testing.assert_array_equal(found.components_, expected.components_)
    np.testing.assert_array_equal(found.transform(xp.asarray(X)), expected.transform(X))
    assert beta_divergence(xp.asarray(X), xp.asarray(X + 1), 1) == beta_divergence(X, X + 1, 1)


def test_strict_arrays_on_another_device_are_refused_in_one_sentence(xp) -> None:
    elsewhere = xp.asarray(X, device=xp.Device("device1"))
    with pytest.raises(TypeError, match=r"^X is a array_api_strict\.Array whose entries NumPy cannot read: copy it"):
        model().fit(elsewhere)


DISPATCH = """
import array_api_strict as xp, numpy as np, sklearn
from drnmf import BetaNMF, DRNMF
from drnmf.sklearn import NMF, MiniBatchNMF

X = np.random.default_rng(0).gamma(2.0, size=(12, 7))
weights = np.arange(12) % 2
for kind, more in ((BetaNMF, {}), (DRNMF, {}), (NMF, {}), (MiniBatchNMF, {"batch_size": 3})):
    make = lambda: kind(2, random_state=0, **more)
    plain = make()
    expected = plain.fit_transform(X, sample_weight=weights)
    with sklearn.config_context(array_api_dispatch=True):
        model, given = make(), xp.asarray(X)
        W = model.fit_transform(given, sample_weight=weights)
        found = [W, model.components_, model.transform(given), model.shares_, model.shares(given)]
        found.append(model.inverse_transform(W))
    there = [expected, plain.components_, plain.transform(X), plain.shares_, plain.shares(X)]
    there.append(plain.inverse_transform(expected))
    assert {type(one) for one in found} == {type(given)}, [type(one) for one in found]
    assert all(np.allclose(np.asarray(a), b) for a, b in zip(found, there, strict=True))
"""


@pytest.mark.slow
def test_strict_arrays_come_back_as_such_where_scikit_learn_dispatches(xp) -> None:
    pytest.importorskip("scipy", "1.14", reason="scikit-learn dispatches from SciPy 1.14 on")
    done = subprocess.run(
        [sys.executable, "-c", DISPATCH], capture_output=True, text=True, env=os.environ | {"SCIPY_ARRAY_API": "1"}
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("kind", "more"), [(NMF, {}), (MiniBatchNMF, {"batch_size": 5})], ids=["NMF", "MiniBatchNMF"])
def test_tensors_come_back_as_tensors_in_scikit_learns_clothes(kind, more) -> None:
    torch = pytest.importorskip("torch")
    given, plain, fitted = torch.from_numpy(X), kind(2, random_state=0, **more), kind(2, random_state=0, **more)
    W = fitted.fit_transform(given)
    found = [W, fitted.components_, fitted.transform(given), fitted.shares_, fitted.inverse_transform(W)]
    expected = plain.fit_transform(X)
    assert all(isinstance(one, torch.Tensor) for one in found)
    np.testing.assert_allclose(W.numpy(), expected)
    if kind is MiniBatchNMF:
        assert isinstance(fitted.partial_fit(given[:4]).components_, torch.Tensor)


def test_arrays_of_cupy_come_back_as_such() -> None:
    cupy = pytest.importorskip("cupy")
    pytest.importorskip("torch")
    for fitted in (model(), NMF(2, random_state=0)):
        W = fitted.fit_transform(cupy.asarray(X))
        assert all(isinstance(one, cupy.ndarray) for one in (W, fitted.components_, fitted.shares_))


class OnGPU:
    """An array that refuses to become NumPy's by itself, as CuPy's do."""

    shape, ndim, dtype = X.shape, 2, X.dtype
    __cuda_array_interface__ = {}  # noqa: RUF012

    def __array__(self, *arguments, **more):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")


@pytest.mark.parametrize("call", [lambda: model().fit(OnGPU()), lambda: model().fit(X).transform(OnGPU())])
def test_arrays_on_a_gpu_of_another_library_are_refused_in_one_sentence(call) -> None:
    with pytest.raises(TypeError, match=r"OnGPU whose entries NumPy cannot read: .*X\.get\(\)"):
        call()
