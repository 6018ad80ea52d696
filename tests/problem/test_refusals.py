"""What is no weight and no reading is refused, by its own name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from drnmf import BetaNMF, HeldOut

X = np.random.default_rng(0).uniform(0.1, 1, (12, 9))
COMPLEX = np.ones(X.shape) + 0j
MODEL = BetaNMF(2, max_iter=5, tol=0, random_state=0)


@pytest.mark.parametrize("name", ["entry_weight", "uncertainty"])
@pytest.mark.parametrize("form", [np.array, sp.csr_array, np.ma.MaskedArray, pd.DataFrame, np.ndarray.tolist, "dask"])
def test_complex_weights_are_refused(name: str, form: Callable[[Any], Any] | str) -> None:
    data, given = X, COMPLEX
    if isinstance(form, str):
        array = pytest.importorskip("dask.array")
        data, given = (array.from_array(whole, chunks=(4, 9)) for whole in (X, COMPLEX))
    else:
        given = form(COMPLEX)
    with pytest.raises(ValueError, match=f"{name} (holds complex numbers|cannot be read as numbers)"):
        MODEL.fit(sp.csr_array(X) if sp.issparse(given) else data, **{name: given})


def test_held_out_entries_are_no_uncertainty() -> None:
    with pytest.raises(ValueError, match="is no uncertainty: give it as entry_weight"):
        MODEL.fit(X, uncertainty=HeldOut(0.1, 0))
    with pytest.raises(ValueError, match="is no uncertainty: give it as entry_weight"):
        MODEL.fit(X).transform(X, uncertainty=HeldOut(0.1, 0))


@pytest.mark.parametrize("name", ["entry_weight", "uncertainty"])
def test_malformed_weights_are_called_weights(name: str) -> None:
    weights = sp.csr_array(np.ones(X.shape))
    weights.indices[3] = 100
    with pytest.raises(ValueError, match=f"^Sparse {name} is malformed: column index 100 is not in 0 to 8"):
        MODEL.fit(sp.csr_array(X), **{name: weights})
    broken = sp.csr_array(X)
    broken.indices[3] = 100
    with pytest.raises(ValueError, match=r"^Sparse X is malformed"):
        MODEL.fit(broken)


@pytest.mark.parametrize("negatives", ["raise", "clip", "missing"])
@pytest.mark.parametrize("form", [np.array, sp.csr_array, "tensor"])
def test_minus_infinity_is_no_negative_reading(negatives: str, form: Callable[[Any], Any] | str) -> None:
    data = X.copy()
    data[3, 4], data[5, 6] = -np.inf, -1.0
    given = pytest.importorskip("torch").tensor(data) if isinstance(form, str) else form(data)
    unstored = "missing" if sp.issparse(given) else "zero"
    model = BetaNMF(2, max_iter=5, tol=0, random_state=0, negatives=negatives, unstored=unstored)
    with pytest.raises(ValueError, match=r"[Ii]nfinity"):
        model.fit(given)


def test_minus_infinity_does_not_matter_where_it_weighs_nothing() -> None:
    data, weights = X.copy(), np.ones(X.shape)
    data[3, 4], weights[3, 4] = -np.inf, 0.0
    for negatives in ("raise", "clip", "missing"):
        model = BetaNMF(2, max_iter=5, tol=0, random_state=0, negatives=negatives).fit(data, entry_weight=weights)
        assert np.isfinite(model.losses_).all()
