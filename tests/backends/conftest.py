"""Settings for the tests of backends."""

from __future__ import annotations

import importlib.util

import pytest


@pytest.fixture(autouse=True)
def kernels_as_they_come(monkeypatch):
    """Compile no kernel ahead: a sweep here is the only one of its kind, where a fit makes hundreds of each."""
    if importlib.util.find_spec("triton") is not None:
        monkeypatch.setattr("drnmf.backends.torch.fused.compile_beside", lambda *asked: None)
