"""Where a fit runs and in what kind its results come back: NumPy or torch, host or GPU."""

from __future__ import annotations

import logging
import re
import sys
from dataclasses import dataclass, replace
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.backends.base import Data, in_unit
from drnmf.backends.observed import weigh
from drnmf.backends.open import is_dask, largest_batch, open_blocks, open_data, open_tensor
from drnmf.numerics import Array, Entries, Indices, MatrixLike
from drnmf.parameters.fields import check_choice
from drnmf.parameters.solver import PRECISIONS
from drnmf.problem.check import as_matrix, check_features, check_matrix, check_tensor
from drnmf.problem.receive import Received, received
from drnmf.problem.scikit import BaseEstimator, get_config
from drnmf.problem.weights import Reading

_CUDA = 2  # a kind of device in DLPack


def is_foreign(X: MatrixLike) -> bool:
    """Tell whether X is an array of another library than NumPy and PyTorch that hands out its entries by DLPack."""
    known = isinstance(X, np.ndarray) or _library(X) in ("torch", "numpy")
    return not known and hasattr(X, "__dlpack__") and hasattr(X, "__dlpack_device__")


def _library(X: MatrixLike) -> str:
    return type(X).__module__.partition(".")[0]


def _on_gpu(X: Entries) -> bool:
    return int(X.__dlpack_device__()[0]) == _CUDA


def brought(X: MatrixLike) -> Entries:
    """Return an array of another library on a GPU as a tensor of the same memory; anything else as it is."""
    if not is_foreign(X) or not _on_gpu(X):
        return X
    try:
        torch = import_module("torch")
    except ImportError:
        return X  # refused where arrays are checked
    return torch.from_dlpack(X)


def kind_of(X: MatrixLike) -> ModuleType | None:
    """Return the library in whose arrays results of X come back; None for NumPy and PyTorch."""
    if not is_foreign(X) or not (_on_gpu(X) or get_config()["array_api_dispatch"]):
        return None
    return X.__array_namespace__() if hasattr(X, "__array_namespace__") else import_module(_library(X))


def returned(kind: ModuleType | None, F: Array) -> Array:
    """Return an array or a tensor in a library, None for as it is."""
    if kind is None:
        return F
    return kind.asarray(F) if isinstance(F, np.ndarray) else kind.from_dlpack(F)


def as_host(X: Entries) -> Entries:
    """Return an array of another library as NumPy's, copied from a GPU where it is there; anything else as it is."""
    if not is_foreign(X):
        return X
    tensor = brought(X)
    return np.asarray(X) if tensor is X else tensor.cpu().numpy()


logger = logging.getLogger("drnmf")
BLOCKS = "cuda-blocks"
_DEVICES = re.compile(rf"auto|cpu|cuda(:\d+)?|{BLOCKS}")


def is_tensor(value: object) -> bool:
    """Whether a value is a torch.Tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


@dataclass(frozen=True)
class Placement:
    """A decision on one X.

    device : None for the host's own backend, else a device of torch
    blocks : X stays in host memory and passes through the GPU block by block
    source : the device of the tensor that X came as, None where X is no tensor
    kind : the library in whose arrays results come back, None for NumPy and PyTorch
    """

    device: str | None
    precision: str
    blocks: bool = False
    source: object = None
    kind: ModuleType | None = None

    @property
    def gpu(self) -> bool:
        """Whether the fit runs on a GPU."""
        return self.device is not None and self.device != "cpu"

    def receive(self, estimator: BaseEstimator, X: Entries, reset: bool, reading: Reading) -> Received:
        """Check X, and the weights of its entries, for an estimator."""
        name, X = type(estimator).__name__, brought(X)
        if is_tensor(X):
            check_tensor(X, name)
            check_features(estimator, X, reset)
            return received(X.detach(), reading, name)
        return received(check_matrix(estimator, X, reset=reset), reading, name)

    def accept(self, X: Entries, consumer: str, reading: Reading) -> Received:
        """Check X, and the weights of its entries, for a function that is not an estimator."""
        X = brought(X)
        if is_tensor(X):
            check_tensor(X, consumer)
            return received(X.detach(), reading, consumer)
        return received(as_matrix(X), reading, consumer)

    def open(self, given: Received, mean: float | None = None) -> Data:
        """Put X behind the protocol of the backends, on the device, with the weights of its entries.

        It is in a unit of its own, `Data.scale` times that of the caller; `mean` is in the caller's.
        """
        return in_unit(self.open_plain(given, mean))

    def open_plain(self, given: Received, mean: float | None = None) -> Data:
        """Do the same in the units of the caller."""
        return weigh(self._open(given.X, mean), given.observed, mean)

    def _open(self, X: Entries, mean: float | None) -> Data:
        if is_dask(X):
            return open_blocks(X, mean)
        if self.device is None:
            return open_data(X.numpy() if is_tensor(X) else X, mean=mean)
        return open_tensor(X, self.device, self.precision, self.blocks, mean)

    def hand_back(self, F: Entries) -> Array:
        """Return a factor in the kind and on the device that X came in."""
        if self.source is None:
            array = as_numpy(F)
            return returned(self.kind, np.ascontiguousarray(array)) if isinstance(array, np.ndarray) else array
        torch = sys.modules["torch"]
        F = (F if is_tensor(F) else torch.from_numpy(np.ascontiguousarray(F))).to(self.source).contiguous()
        return returned(self.kind, F)


def place(X: MatrixLike, device: str | None, precision: str) -> Placement:
    """Where to fit X.

    device : None - where X is: the GPU of a CUDA tensor, else this machine; "auto" - a GPU where there is one;
        "cpu"; "cuda", "cuda:1", ...; "cuda-blocks" - a GPU, with X kept in host memory
    """
    check_choice("precision", precision, PRECISIONS)
    placement, kind = _place(brought(X), device, precision), kind_of(X)
    return placement if kind is None else replace(placement, kind=kind)


def _place(X: Entries, device: str | None, precision: str) -> Placement:
    """The same for what is no array of another library."""
    tensor = is_tensor(X)
    source: Any = X.device if tensor else None
    on_gpu = tensor and source.type != "cpu"
    if device is None or (device == "auto" and on_gpu):
        return Placement(
            str(source) if on_gpu or (tensor and not _has_numpy_form(X)) else None, precision, source=source
        )
    if not is_device(device):
        raise ValueError(f"device={device!r} is not known: use None, 'auto', 'cpu', 'cuda', 'cuda:0' or {BLOCKS!r}.")
    if is_dask(X) and device != "cpu":
        raise ValueError(f"device={device!r}, but X is a Dask array, whose blocks run on the CPU: leave device=None.")
    wanted = _torch_device(device)
    if on_gpu and not _same(source, wanted, device):
        raise ValueError(
            f"X is on {source}, but device={device!r}: move X with X.to({wanted!r}), or leave device=None."
        )
    if device == "cpu":
        return Placement("cpu" if tensor and not _has_numpy_form(X) else None, precision, source=source)
    missing = missing_gpu(device)
    if missing and device == "auto":
        logger.warning("No GPU is used (%s): the fit runs on the CPU.", missing)
        return Placement(None, precision, source=source)
    if missing:
        raise RuntimeError(f"device={device!r} cannot be used: {missing}")
    return Placement(wanted, precision, device == BLOCKS, source)


def _has_numpy_form(X: Entries) -> bool:
    """A strided tensor of float32 or float64 in host memory is a NumPy array under another name."""
    return str(X.dtype) in ("torch.float32", "torch.float64") and str(X.layout) == "torch.strided"


def _same(source: Any, wanted: str, device: str) -> bool:
    return device != BLOCKS and (str(source) == wanted or (wanted == "cuda" and source.type == "cuda"))


def is_device(value: object) -> bool:
    """Tell whether a value names a device: "auto", "cpu", "cuda", "cuda:N" or "cuda-blocks".

    >>> is_device("cuda:1"), is_device("cuda:first")
    (True, False)
    """
    return isinstance(value, str) and _DEVICES.fullmatch(value) is not None


def _torch_device(device: str) -> str:
    return "cuda" if device in ("auto", BLOCKS) else device


def missing_gpu(device: str) -> str | None:
    """Say in one line why the GPU of a device cannot be used, or None where it can be."""
    try:
        import torch
    except ImportError:
        return "PyTorch is not installed: pip install 'drnmf[cuda]'."
    if not torch.cuda.is_available():
        built = "" if torch.version.cuda else " (this build of PyTorch has no CUDA)"
        return f"PyTorch {torch.__version__} sees no CUDA GPU{built}: check the driver with nvidia-smi."
    index = _torch_device(device).partition(":")[2]
    if index and int(index) >= torch.cuda.device_count():
        return f"there are {torch.cuda.device_count()} CUDA GPUs, numbered from 0."
    return None


def runs_at_once(X: Entries, device: str | None) -> int:
    """Say how many runs to make at once where each opens X on a device for itself; one elsewhere than on a GPU."""
    if device in (None, "cpu", BLOCKS) or is_sparse(X) or not is_device(device) or missing_gpu(device) is not None:
        return 1
    return largest_batch(int(np.prod(X.shape)))


def as_numpy(value: Any) -> Any:
    """A tensor or an array of another library as a NumPy array in host memory; anything else as it is."""
    return value.detach().cpu().numpy() if is_tensor(value) else as_host(value)


def times(W: Array, H: Array) -> Array:
    """W H in the kind of W; tensors must be on one device."""
    if is_foreign(W):
        return returned(kind_of(W), times(brought(W) if is_tensor(brought(W)) else as_host(W), brought(H)))
    if not is_tensor(W):
        return np.asarray(W) @ as_numpy(H)
    if is_tensor(H) and H.device != W.device:
        raise ValueError(f"W is on {W.device} and components_ on {H.device}: move W with W.to({str(H.device)!r}).")
    return W @ (H if is_tensor(H) else sys.modules["torch"].from_numpy(H).to(W.device))


def replaced(W: Array, rows: Indices, by: Array) -> Array:
    """Return W with some rows of another array of its kind."""
    if is_foreign(W):
        return returned(kind_of(W), replaced(as_host(W), rows, as_host(by)))
    W[rows] = by[rows]
    return W


def is_sparse(X: Entries) -> bool:
    """Whether X is a sparse matrix of SciPy or of torch."""
    return str(X.layout) != "torch.strided" if is_tensor(X) else bool(sp.issparse(getattr(X, "_meta", X)))
