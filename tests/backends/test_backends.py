"""Which backend is taken, and what is said when it is not the compiled one."""

from __future__ import annotations

import logging
import sys

import numpy as np
import pytest
from drnmf.backends.host.reference import ReferenceDense

from drnmf.backends import base
from drnmf.backends.host.native import NativeDense


@pytest.fixture
def _fresh_default():
    base.default_backend.cache_clear()
    yield
    base.default_backend.cache_clear()


@pytest.mark.usefixtures("_fresh_default")
def test_without_the_core_numpy_is_used_and_said_once(monkeypatch, caplog):
    monkeypatch.delenv("DRNMF_BACKEND", raising=False)
    monkeypatch.setitem(sys.modules, "drnmf._core", None)
    with caplog.at_level(logging.WARNING, logger="drnmf"):
        assert isinstance(base.wrap(np.ones((2, 2))), ReferenceDense)
        base.wrap(np.ones((2, 2)))
    assert len(caplog.records) == 1
    assert "NumPy is used" in caplog.text


@pytest.mark.usefixtures("_fresh_default")
def test_the_core_is_the_default(monkeypatch):
    monkeypatch.delenv("DRNMF_BACKEND", raising=False)
    assert isinstance(base.wrap(np.ones((2, 2))), NativeDense)
    monkeypatch.setenv("DRNMF_BACKEND", "numpy")
    assert isinstance(base.wrap(np.ones((2, 2))), ReferenceDense)


def test_unknown_backend_is_refused():
    with pytest.raises(ValueError, match="'native', 'numpy'"):
        base.wrap(np.ones((2, 2)), "fortran")
