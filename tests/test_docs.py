"""What the documentation says is true: docstring examples and code blocks run, links lead somewhere."""

from __future__ import annotations

import ast
import doctest
import importlib
import pkgutil
import re
import tomllib
import warnings
from pathlib import Path

import pytest

import drnmf
from drnmf.cli import app as drnmf_app

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
MODULES = sorted(module.name for module in pkgutil.walk_packages(drnmf.__path__, "drnmf."))
OPTIONAL = {"torch", "triton", "dask", "soundfile", "matplotlib", "distributed"}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


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


@pytest.mark.slow
@pytest.mark.parametrize("path", [page for page in PAGES if blocks(page)], ids=name_of)
def test_code_blocks_run_in_order(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # short fits may stop before they converge
        for block in blocks(path):
            exec(compile(block, str(path), "exec"), names)


INCLUDE = re.compile(r"^```{literalinclude} (\S+)\n((?::.*\n)*)```$", flags=re.MULTILINE)


def included(path: Path) -> list[tuple[Path, dict[str, str]]]:
    """The files that a page includes, each with what is taken of it."""
    found = INCLUDE.findall(path.read_text(encoding="utf-8"))
    return [
        (path.parent / file, dict(re.findall(r"^:([\w-]+): (.*)$", options, re.MULTILINE))) for file, options in found
    ]


@pytest.mark.parametrize("path", [page for page in PAGES if "{literalinclude}" in page.read_text()], ids=name_of)
def test_included_code_is_there(path: Path) -> None:
    assert len(included(path)) == path.read_text(encoding="utf-8").count("{literalinclude}")
    for file, options in included(path):
        text = file.read_text(encoding="utf-8")
        known = {getattr(node, "name", None) for node in ast.parse(text).body}
        assert options.keys() <= {"pyobject", "start-at", "end-before"}
        assert "pyobject" not in options or options["pyobject"] in known
        for mark in ("start-at", "end-before"):
            assert mark not in options or text.count(options[mark]) == 1


def test_every_kind_of_extension_includes_its_class() -> None:
    names = {options.get("pyobject") for _, options in included(ROOT / "docs" / "extending.md")}
    assert {"Loss", "Penalty", "Rule", "Policy", "Data", "Space"} <= names


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (path.parent / target).exists(), target


def test_rooms_hold_the_modules_that_the_architecture_names() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    package = ROOT / "src" / "drnmf"
    rows = re.findall(r"^\| ((?:`[a-z_./]+`(?:, )?)+) \| (.*) \|$", page, re.MULTILINE)
    assert len(rows) > 15
    for places, held in rows:
        for place in re.findall(r"`([a-z_./]+)`", places):
            assert (package / place).exists(), place
            for module in re.findall(r"`([a-z_]+\.py)`", held):
                assert list((package / place).rglob(module)) or (package / place).is_file(), f"{place}: {module}"


@pytest.mark.parametrize("name", ["BetaNMF", "MultiObjectiveNMF", "DRNMF"])
def test_every_parameter_and_attribute_is_documented(name: str) -> None:
    page = (ROOT / "docs" / "estimators.md").read_text(encoding="utf-8")
    model = getattr(drnmf, name)(1, random_state=0, max_iter=2, tol=0).fit([[1.0, 2.0], [3.0, 4.0]])
    attributes = [attribute for attribute in vars(model) if attribute.endswith("_")]
    assert len(attributes) > 10
    assert [
        word
        for word in (*model.get_params(deep=False), *drnmf.Solver().get_params(), *attributes)
        if f"`{word}`" not in page
    ] == []


def test_every_command_is_documented_and_every_option_says_what_it_does() -> None:
    """The tables of options are made from the commands when the site is built (docs/conf.py)."""
    from typer import Context
    from typer.main import get_command

    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    group = get_command(drnmf_app)
    commands = {name: group.get_command(Context(group), name) for name in group.list_commands(Context(group))}
    assert set(commands) == set(re.findall(r"^## drnmf (\w+)", page, flags=re.MULTILINE))
    for name, command in commands.items():
        silent = [option.name for option in command.params if option.opts[0].startswith("-") and not option.help]
        assert silent == [], name


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
