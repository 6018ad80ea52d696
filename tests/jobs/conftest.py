"""Jobs as people of ten fields do them, with documented commands only: what the jobs share."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from drnmf.cli import app


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    return tmp_path


@pytest.fixture
def drnmf() -> Callable[..., str]:
    """Run a command; what it says comes back on one line."""

    def run(*arguments: object, code: int = 0) -> str:
        result = CliRunner().invoke(app, [str(word) for word in arguments])
        assert result.exit_code == code, (result.output, result.exception)
        return " ".join(result.output.split())

    return run


@pytest.fixture
def table() -> Callable[[str], list[dict[str, str]]]:
    """Read a .csv as rows."""

    def read(path: str) -> list[dict[str, str]]:
        with open(path, encoding="utf-8", newline="") as stream:
            return list(csv.DictReader(stream))

    return read
