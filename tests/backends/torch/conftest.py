"""Everything here needs PyTorch; the kernels run on a GPU, or under Triton's interpreter (`make test-torch`)."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch installs it")
