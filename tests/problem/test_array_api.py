"""Arrays of other libraries: taken where their entries are in host memory, else refused in one sentence."""

from __future__ import annotations

import numpy as np
import pytest

from drnmf import BetaNMF, beta_divergence

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
