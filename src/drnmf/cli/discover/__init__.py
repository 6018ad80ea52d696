"""drnmf discover: from a table to components one can trust."""

from drnmf.cli.discover.command import discover

__all__ = ["discover"]
