"""Problems that every Data is held to."""

from __future__ import annotations

import pytest

pytest.importorskip("drnmf._core", reason="the compiled core was not built")
