"""Results where users of AnnData look for them: contributions beside the cells, components beside the genes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

CELLS, GENES, FACTS = "X_drnmf", "drnmf", "drnmf"
"""Keys of the contributions in obsm, of the components in varm, and of what else is known in uns."""

Facts = Mapping[str, object]


def annotate(adata: Any, W: ArrayLike, H: ArrayLike, names: Sequence[str], facts: Facts) -> None:
    """Put contributions (cells, r), components (r, genes) and facts into the AnnData object whose X was factorised."""
    adata.obsm[CELLS] = np.asarray(W)
    adata.varm[GENES] = np.ascontiguousarray(np.asarray(H).T)
    adata.uns[FACTS] = {"names": np.array(names, dtype=object), **facts}


def write_annotated(source: Path, target: Path, W: ArrayLike, H: ArrayLike, names: Sequence[str], facts: Facts) -> bool:
    """Write a copy of an .h5ad file with a result in it; its X is copied, never read. False without anndata."""
    try:
        h5py, write_elem = import_module("h5py"), _writer()
    except ImportError:
        return False
    shutil.copyfile(source, target)
    try:
        _write(h5py.File(target, "r+"), write_elem, W, H, names, facts)
    except (RuntimeError, OSError, KeyError, TypeError, ValueError) as error:  # whatever HDF5 says of a damaged file
        raise ValueError(f"{source} cannot take the results in, part of it is damaged: {error}") from None
    return True


def _write(
    file: Any, write_elem: Callable[..., None], W: ArrayLike, H: ArrayLike, names: Sequence[str], facts: Facts
) -> None:
    with file as stored:
        for name in ("obsm", "varm", "uns"):
            if name not in stored:
                write_elem(stored, name, {})
        write_elem(stored, f"obsm/{CELLS}", np.asarray(W))
        write_elem(stored, f"varm/{GENES}", np.ascontiguousarray(np.asarray(H).T))
        write_elem(stored, f"uns/{FACTS}", {"names": np.array(names, dtype=object), **facts})


def _writer() -> Callable[..., None]:
    """Find the function of anndata that writes an element, which has moved between its versions."""
    try:
        return import_module("anndata.io").write_elem
    except ImportError:
        return import_module("anndata.experimental").write_elem
