"""Fits that stop where a test wants them to, and how to compare what they find."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drnmf import DRNMF
from tests.flat import make
from tests.kept_fits import outcome


class Stopped(Exception):
    pass


class After:
    """A callback that raises in its k-th call."""

    def __init__(self, k, error=Stopped):
        self.k, self.error, self.calls = k, error, 0

    def __call__(self, progress):
        self.calls += 1
        if self.calls == self.k:
            raise self.error


def stop(model, X, folder, k, every=0, error=Stopped, **start):
    """Fit until the k-th iteration of the fit itself, and no further."""
    model.set_params(solver__checkpoint=folder, solver__checkpoint_every=every, solver__callback=After(k, error))
    with pytest.raises(error):
        model.fit(X, **start)
    model.set_params(solver__callback=None)


def same(one, other):
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)


def fitted(model, X, folder=None):
    model.set_params(solver__checkpoint=folder)
    return outcome(model, model.fit_transform(X))


def files(folder, pattern="*"):
    return sorted(path.name for path in Path(folder).glob(pattern))


def dr(**options):
    return make(DRNMF, 3, **({"betas": (0, 1), "max_iter": 30, "tol": 0, "random_state": 0} | options))


def exactly(one: Any, other: Any) -> None:
    """Same types, same bits, all the way down."""
    assert type(one) is type(other)
    if is_dataclass(one):
        for field in fields(one):
            exactly(getattr(one, field.name), getattr(other, field.name))
    elif isinstance(one, tuple | list):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            exactly(a, b)
    elif isinstance(one, np.ndarray):
        assert (one.dtype, one.shape, one.flags.c_contiguous) == (other.dtype, other.shape, other.flags.c_contiguous)
        assert one.tobytes() == other.tobytes()
    else:
        assert one == other
