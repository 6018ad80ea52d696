"""Arrays of other libraries, taken and given back by DLPack: CuPy's through PyTorch, those in host memory as NumPy's.

What is on a GPU comes back in its own kind. What is in host memory does so where scikit-learn is told to
(``array_api_dispatch``), and is NumPy's elsewhere, as in scikit-learn.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from sklearn import get_config

_HOST, _CUDA = 1, 2  # kinds of devices in DLPack


def is_foreign(X: Any) -> bool:
    """Tell whether X is an array of another library than NumPy and PyTorch that hands out its entries by DLPack."""
    known = isinstance(X, np.ndarray) or _library(X) in ("torch", "numpy")
    return not known and hasattr(X, "__dlpack__") and hasattr(X, "__dlpack_device__")


def _library(X: Any) -> str:
    return type(X).__module__.partition(".")[0]


def _on_gpu(X: Any) -> bool:
    return int(X.__dlpack_device__()[0]) == _CUDA


def brought(X: Any) -> Any:
    """Return an array of another library on a GPU as a tensor of the same memory; anything else as it is."""
    if not is_foreign(X) or not _on_gpu(X):
        return X
    try:
        torch = import_module("torch")
    except ImportError:
        return X  # refused where arrays are checked
    return torch.from_dlpack(X)


def kind_of(X: Any) -> Any:
    """Return the library in whose arrays results of X come back; None for NumPy and PyTorch."""
    if not is_foreign(X) or not (_on_gpu(X) or get_config()["array_api_dispatch"]):
        return None
    return X.__array_namespace__() if hasattr(X, "__array_namespace__") else import_module(_library(X))


def returned(kind: Any, F: Any) -> Any:
    """Return an array or a tensor in a library, None for as it is."""
    if kind is None:
        return F
    return kind.asarray(F) if isinstance(F, np.ndarray) else kind.from_dlpack(F)


def as_host(X: Any) -> Any:
    """Return an array of another library as NumPy's, copied from a GPU where it is there; anything else as it is."""
    if not is_foreign(X):
        return X
    tensor = brought(X)
    return np.asarray(X) if tensor is X else tensor.cpu().numpy()
