"""The shape of the package: imports go downward only, rooms stay small, and each room keeps to its own nouns."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import drnmf
from drnmf.loading import load
from drnmf.runs import apps

ROOT = Path(drnmf.__file__).parent

LEVELS = (
    ("numerics", "trees", "files", "loading"),
    ("losses",),
    ("objective", "backends"),
    ("algorithms",),
    ("parameters",),
    ("problem", "storage"),
    ("solve",),
    ("selection",),
    ("estimators",),
    ("runs", "matrices", "synthetic", "sklearn"),
    ("report", "accelerate"),
    ("discovery",),
    ("cli",),
    ("apps", "__main__"),
    ("apps.audio", "apps.text"),
    ("apps.paper",),
)
"""From the bottom up; rooms of one level may use one another as long as no cycle comes of it."""

LEVEL = {room: height for height, rooms in enumerate(LEVELS) for room in rooms}


def modules() -> dict[str, Path]:
    """Dotted name below drnmf -> file."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(path: Path, known: dict[str, Path]) -> Iterator[str]:
    """Every module of the package that a file names in an import, inside functions and for type checkers too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name.removeprefix("drnmf.") for name in node.names if name.name.startswith("drnmf."))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "drnmf":
            base = (node.module or "").partition(".")[2]
            for name in node.names:
                inner = f"{base}.{name.name}".lstrip(".")
                yield inner if inner in known else base


def edges() -> list[tuple[str, str]]:
    known = modules()
    pairs = [(name, target) for name, path in known.items() if name for target in imported(path, known)]
    return [(name, target) for name, target in pairs if target and target != "_core"]


def room(module: str) -> str:
    """The folder of a module at the top of the package; every app is a room of its own."""
    parts = module.split(".")
    return ".".join(parts[:2] if parts[0] == "apps" else parts[:1])


def test_every_module_has_a_room_with_a_level():
    assert {room(name) for name in modules() if name} <= LEVEL.keys()


def test_imports_go_downward():
    upward = [f"{a} -> {b}" for a, b in edges() if LEVEL[room(a)] < LEVEL[room(b)]]
    assert not upward, "\n".join(upward)


def test_apps_are_named_in_one_table_and_nowhere_else_below_them():
    """What is loaded by name is no import: only `runs.apps` may hold such names, and all of them lead somewhere."""
    below = {name: path for name, path in modules().items() if not room(name).startswith("apps")}
    naming = [name for name, path in below.items() if any(word.startswith("drnmf.apps.") for word in names(path))]
    assert naming == ["runs.apps"]
    commands = {name: command.place for name, command in apps.COMMANDS.items()}
    for table in (commands, apps.TRANSFORMS, apps.PAGES):
        for place in table.values():
            load(place)


def test_rooms_do_not_import_each_other_in_a_circle():
    between = {(room(a), room(b)) for a, b in edges() if room(a) != room(b)}
    after = {a: {b for x, b in between if x == a} for a in LEVEL}

    def reaches(start: str, seen: frozenset[str] = frozenset()) -> set[str]:
        found = set()
        for following in after.get(start, set()) - seen:
            found |= {following} | reaches(following, seen | {following})
        return found

    assert not [name for name in LEVEL if name in reaches(name)]


def test_modules_do_not_import_each_other_in_a_circle():
    after: dict[str, set[str]] = {}
    for a, b in edges():
        if a != b:
            after.setdefault(a, set()).add(b)
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join([*path[path.index(name) :], name])
        if name not in done:
            for following in after.get(name, ()):
                visit(following, (*path, name))
            done.add(name)

    for name in after:
        visit(name, ())


def test_rooms_stay_small():
    sizes = {folder: len(list(folder.glob("*.py"))) for folder in {path.parent for path in modules().values()}}
    large = {str(folder): size for folder, size in sizes.items() if size > (7 if folder == ROOT else 16)}
    assert not large


def classes(path: Path) -> set[str]:
    """Names of the classes that a file defines."""
    return {
        node.name for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.ClassDef)
    }


def names(path: Path) -> set[str]:
    """Every identifier that a file uses, in text that is one too (a name given to getattr, say)."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found


def classes_of(*prefixes: str) -> set[str]:
    """Classes defined below some modules and nowhere else in the package."""
    inside = {name for name in modules() if name.startswith(prefixes)}
    found, elsewhere = set[str](), set[str]()
    for name, path in modules().items():
        (found if name in inside else elsewhere).update(classes(path))
    return found - elsewhere


def test_only_backends_name_the_classes_of_a_backend():
    """Whatever holds X is `Data` to the rest: a backend is chosen in `backends.open` and nowhere named."""
    hidden = classes_of("backends.host", "backends.torch", "backends.dask")
    assert {"DenseMatrix", "NativeSparse", "TorchDense", "Blocks", "RowSpace"} <= hidden
    named = {name: names(path) & hidden for name, path in modules().items() if room(name) != "backends"}
    assert not {name: found for name, found in named.items() if found}


def test_only_backends_import_the_backend_of_the_host():
    assert not [f"{a} -> {b}" for a, b in edges() if b.startswith("backends.host") and room(a) != "backends"]


def test_backends_name_no_rule_and_no_policy():
    hidden = classes_of("algorithms")
    assert {"Newton", "Multiplicative", "FrankWolfe", "Rule", "Policy"} <= hidden
    named = {name: names(path) & hidden for name, path in modules().items() if room(name) == "backends"}
    assert not {name: found for name, found in named.items() if found}
