"""Damaged files of every format: an error that says so, or a sound result; DRNMF_FUZZ cases of each (100)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.formats import FORMATS

CASES = int(os.environ.get("DRNMF_FUZZ", "100"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="each case runs in a fork of one process"),
]


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    for module in ("anndata", "distributed", "zarr", "pyarrow", "openpyxl", "soundfile"):
        pytest.importorskip(module)
    command = [sys.executable, "-m", "tests.fuzz", str(CASES)]
    root = Path(__file__).parents[2]
    single = os.environ | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(command, cwd=root, env=single, capture_output=True, text=True, timeout=600 + 60 * CASES)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line["format"]: line for line in lines}


@pytest.mark.parametrize("kind", FORMATS)
def test_damage_is_refused_or_harmless(kind: str, found: dict[str, Any]) -> None:
    assert found[kind]["faults"] == []
    assert sum(found[kind]["endings"].values()) == CASES
    assert found[kind]["endings"]["exit code 1"] > 0  # some damage is seen: what is read is what was damaged
