"""Run a program that uses scikit-learn's NMF on the engine of this package, without a change to it.

``python -m drnmf.accelerate script.py`` does so for a script, `swapped` for a block of code.
"""

from drnmf.accelerate.swap import Tally, swapped

__all__ = ["Tally", "swapped"]
