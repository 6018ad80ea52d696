"""What the apps add to commands and pages, by place: nothing outside `drnmf.apps` imports one, it is loaded by name.

A place is "module:name", as `loading.load` takes it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """A command of `drnmf`."""

    place: str  # of its function
    line: str  # what `drnmf --help` says of it, the first line of its docstring
    hidden: bool = False  # `drnmf --help` leaves it out


COMMANDS = {
    "separate": Command(
        "drnmf.apps.audio.command:separate",
        "Split a recording into components that sum to it, one WAV file each.",
    ),
    "topics": Command(
        "drnmf.apps.text.command:topics",
        "Find topics in documents: their words, and the share of each in every document.",
    ),
    "demo": Command(
        "drnmf.apps.audio.demo:demo",
        "Compare one loss at a time with both at once on a tune, clean and in two noises (section 5.3 of the paper).",
    ),
    "reproduce": Command(
        "drnmf.apps.paper.command:reproduce",
        "Reproduce a table or figure of the paper beside the paper's own numbers.",
        hidden=True,  # it is about the paper, not about a user's data
    ),
}
"""Commands of the apps, by name."""

TRANSFORMS = {
    "separate": "drnmf.apps.audio.command:separate_again",
    "topics": "drnmf.apps.text.command:transform_texts",
}
"""What `drnmf transform` does with a run, by the kind of the run; see `drnmf.cli.transform.Request`."""

PAGES = {
    "separate": "drnmf.apps.audio.page:SEPARATION",
    "topics": "drnmf.apps.text.topics:TOPICS",
    "demo": "drnmf.apps.audio.page:DEMO",
}
"""What the page of a run shows, by the kind of the run: a `drnmf.report.parts.Kind`."""
