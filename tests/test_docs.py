"""What the documentation says is true: docstring examples and code blocks run, links lead somewhere."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import tomllib
import warnings
from pathlib import Path

import pytest

import drnmf

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MODULES = sorted(module.name for module in pkgutil.walk_packages(drnmf.__path__, "drnmf."))
OPTIONAL = {"torch", "triton", "dask", "soundfile", "matplotlib", "distributed"}


@pytest.mark.parametrize("name", ["drnmf", *MODULES])
def test_docstring_examples(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in OPTIONAL:
            pytest.skip(f"{error.name} is not installed")
        raise
    # NumPy 2 writes scalars and shapes otherwise than NumPy 1: examples print Python numbers or small arrays.
    assert doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0


def blocks(path: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("path", [page for page in PAGES if blocks(page)], ids=lambda path: path.stem)
def test_code_blocks_run_in_order(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # short fits may stop before they converge
        for block in blocks(path):
            exec(compile(block, str(path), "exec"), names)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (path.parent / target).exists(), target


def test_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == drnmf.__version__
    assert f"\nversion: {drnmf.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_oldest_versions_tested_are_the_ones_promised() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (oldest,) = re.findall(r"^OLDEST := (.*)$", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    tested = dict(pin.split("==") for pin in oldest.split())
    for promise in project["dependencies"]:
        name, bound = promise.split(">=")
        assert (tested[name] + ".0").startswith(bound), promise
