#!/usr/bin/env -S uv run --script
# /// script
# dependencies = ["nox>=2024.10"]
# ///
"""What `make` cannot do with one interpreter: the tests under every Python, and under tomorrow's dependencies.

nox -s lint; nox -s tests-3.13; nox -s nightly; nox -s docs; nox -s wheels
"""

from __future__ import annotations

import nox

nox.needs_version = ">=2024.10"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_venv = "yes"

PYPROJECT = nox.project.load_toml("pyproject.toml")
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
NIGHTLY = "https://pypi.anaconda.org/scientific-python-nightly-wheels/simple"


def groups(*names: str) -> list[str]:
    """List the packages of dependency groups."""
    return list(nox.project.dependency_groups(PYPROJECT, *names))


@nox.session(python=PYTHONS[0])
def lint(session: nox.Session) -> None:
    """Check style, types and spelling, as `make lint` does."""
    session.install("-e", ".[all]", *groups("dev"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run(
        "codespell", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs", "src", "tests", "tools", "examples"
    )


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run the tests, or those named behind `--`."""
    session.install("-e", ".[all]", *groups("test"))
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session(python=PYTHONS[-1], default=False)
def nightly(session: nox.Session) -> None:
    """Run the tests with the nightly builds of NumPy, SciPy and scikit-learn."""
    session.install("-e", ".[all]", *groups("test"))
    session.install("--pre", "--upgrade", "--extra-index-url", NIGHTLY, "numpy", "scipy", "scikit-learn")
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session(python=PYTHONS[0], default=False)
def docs(session: nox.Session) -> None:
    """Build the site, as `make docs` does."""
    session.install("-e", ".[all]", *groups("docs"))
    session.run("python", "-m", "sphinx", "-W", "--keep-going", "-q", "docs", "build/docs/html")


@nox.session(python=PYTHONS[0], default=False)
def wheels(session: nox.Session) -> None:
    """Build and test the wheels of this system for every Python (on Linux this needs Docker)."""
    session.install("cibuildwheel>=3")
    session.run("python", "-m", "cibuildwheel", "--output-dir", "dist", *session.posargs)


if __name__ == "__main__":
    nox.main()
