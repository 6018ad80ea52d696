"""drnmf info and python -m drnmf."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

import drnmf
from drnmf.cli import app
from drnmf.cli import reporting as environment

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


def printed() -> dict[str, str]:
    result = CliRunner().invoke(app, ["info"])
    assert result.exit_code == 0, result.output
    return dict(re.split(r"\s{2,}", line, maxsplit=1) for line in result.stdout.splitlines())


def names(requirements: list[str]) -> set[str]:
    """Packages of a list of requirements, less this one."""
    return {re.split(r"[\[>=;]", text)[0] for text in requirements} - {"drnmf"}


def test_it_prints_version_backend_and_every_package() -> None:
    lines = printed()
    assert lines["drnmf"] == drnmf.__version__
    assert lines["python"].startswith(".".join(map(str, sys.version_info[:3])))
    assert lines["backend"] in ("native", "numpy")
    assert set(lines) >= names(PROJECT["dependencies"])


def test_the_optional_packages_are_those_of_the_extras() -> None:
    extras = {name: names(items) for name, items in PROJECT["optional-dependencies"].items() if name != "all"}
    listed = {name: set(packages) for name, packages in environment.EXTRAS.items()}
    assert set().union(*extras.values()) == set().union(*listed.values())
    for name, packages in listed.items():
        assert packages <= extras[name]


def test_it_says_how_to_get_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "EXTRAS", {"plot": ("surely-not-installed",)})
    assert printed()["surely-not-installed"] == "not installed (pip install 'drnmf[plot]')"


def test_it_says_what_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRNMF_BACKEND", "numpy")
    lines = printed()
    assert (lines["backend"], lines["instruction set"]) == ("numpy", "none (not compiled)")
    assert lines["threads"].startswith("1 ")
    monkeypatch.delenv("DRNMF_BACKEND")
    core = pytest.importorskip("drnmf._core")
    assert printed()["instruction set"].startswith(core.instruction_set())


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "drnmf", "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"drnmf {drnmf.__version__}\n")
