"""Print how large the house is and how far it is from its doors to its machines: run it before and after a rebuild.

    python tools/house.py

Lines are counted as the formatter leaves them. Frames are those of the package on the stack, from the call a user makes
to the one that does the work.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import drnmf
from drnmf.algorithms.updates.base import Rule
from drnmf.backends.base import Data

ROOT = Path(drnmf.__file__).parent


def sources(apps: bool) -> list[Path]:
    """Return the files of the package, with the apps or without."""
    return [path for path in sorted(ROOT.rglob("*.py")) if apps or "apps" not in path.relative_to(ROOT).parts]


def lines(paths: list[Path]) -> int:
    """Count lines."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def naming(word: str) -> list[Path]:
    """Return the files without the apps in which a word stands as a name, an attribute, an argument or a text."""
    return [path for path in sources(False) if re.search(rf"\b{word}\b", path.read_text(encoding="utf-8"))]


def written(pattern: str) -> int:
    """Count what matches a pattern in the source."""
    return sum(len(re.findall(pattern, path.read_text(encoding="utf-8"))) for path in sources(True))


def any_uses() -> int:
    """Count where annotations say Any."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in sources(True))
    return sum(isinstance(node, ast.Name) and node.id == "Any" for tree in trees for node in ast.walk(tree))


def members(protocol: type) -> list[str]:
    """List what a protocol asks for."""
    own = {name for name in vars(protocol) if not name.startswith("_")} | set(vars(protocol).get("__annotations__", ()))
    return sorted(own)


def arguments(function: Any) -> int:
    """Count the parameters of a function or of a class."""
    return len(inspect.signature(function).parameters)


def depths(work: Callable[[], Any], wanted: Callable[[FrameType], bool]) -> Iterator[int]:
    """Yield how many frames of the package are on the stack whenever something wanted is called."""
    found: list[int] = []

    def watch(frame: FrameType, event: str, what: Any) -> None:
        if event == "call" and wanted(frame):
            at: FrameType | None = frame
            count = 0
            while at is not None:
                count += str(at.f_globals.get("__name__", "")).startswith("drnmf")
                at = at.f_back
            found.append(count)

    sys.setprofile(watch)
    try:
        work()
    finally:
        sys.setprofile(None)
    yield from found


def called(name: str) -> Callable[[FrameType], bool]:
    """Tell calls of a function of the package."""
    module, _, function = name.rpartition(".")

    def wanted(frame: FrameType) -> bool:
        return frame.f_code.co_name == function and str(frame.f_globals.get("__name__")).startswith(module)

    return wanted


def report() -> Iterator[tuple[str, object]]:
    """Yield the rows of the table."""
    rng = np.random.default_rng(0)
    X = rng.poisson(rng.gamma(0.5, size=(30, 2)) @ rng.gamma(0.5, size=(2, 20)) * 20) + 1.0
    yield "lines of Python without apps, with apps", f"{lines(sources(False))}, {lines(sources(True))}"
    yield "modules", len(sources(True))

    def fit() -> Any:
        return drnmf.BetaNMF(2, beta=1, max_iter=3, random_state=0).fit_transform(X)

    def discovery() -> Any:
        return drnmf.discover(X, ranks=[2, 3], n_runs=4)

    fit()
    kernel = max(depths(fit, called("drnmf.backends.host.native.sweep")), default=0)
    loop = max(depths(discovery, called("drnmf.algorithms.loop.minimise")), default=0)
    opened = len(list(depths(discovery, called("drnmf.backends.open_data"))))
    yield "frames from fit_transform to the kernel, from discover to the loop", f"{kernel}, {loop}"
    yield "openings of X in one discover", opened
    yield "files that name n_jobs, unstored", f"{len(naming('n_jobs'))}, {len(naming('unstored'))}"
    functions = (drnmf.pareto_front, drnmf.discover, drnmf.rank_profile, drnmf.noise_profile)
    yield "parameters of DRNMF", arguments(drnmf.DRNMF)
    yield (
        "arguments of pareto_front, discover, rank_profile, noise_profile",
        ", ".join(str(arguments(function)) for function in functions),
    )
    yield "members of Data, of Rule", f"{len(members(Data))}, {len(members(Rule))}"
    yield "# fmt: skip", written(r"# fmt: skip")
    yield "uses of Any", any_uses()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name, value in report():
        print(f"{name:70} {value}")
