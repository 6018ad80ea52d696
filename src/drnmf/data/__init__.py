"""X behind one operation: `sweep`, one pass that yields every loss and every gradient part."""

from drnmf.data.base import Data, Sweep, wrap

__all__ = ["Data", "Sweep", "wrap"]
