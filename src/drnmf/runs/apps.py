"""What the apps add to commands and pages, by place: nothing outside `drnmf.apps` imports one, it is loaded by name.

A place is "module:name".
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

COMMANDS = {
    "separate": "drnmf.apps.audio.command:separate",
    "topics": "drnmf.apps.text.command:topics",
    "demo": "drnmf.apps.audio.demo:demo",
    "reproduce": "drnmf.apps.paper.command:reproduce",
}
"""Commands of `drnmf`, by name."""

UNLISTED = ("reproduce",)
"""Commands that `drnmf --help` leaves out: they are about the paper, not about a user's data."""

TRANSFORMS = {
    "separate": "drnmf.apps.audio.command:separate_again",
    "topics": "drnmf.apps.text.command:transform_texts",
}
"""What `drnmf transform` does with a run, by the kind of the run; see `drnmf.cli.transform.Request`."""

PAGES = {
    "separate": "drnmf.apps.audio.page:SEPARATION",
    "topics": "drnmf.apps.text.page:TOPICS",
    "demo": "drnmf.apps.audio.page:DEMO",
}
"""What the page of a run shows, by the kind of the run: a `drnmf.report.parts.Kind`."""


def load(place: str) -> Any:
    """Import what stands at a place.

    >>> load("drnmf.runs.schema:SUMMARY")
    'summary.json'
    """
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
