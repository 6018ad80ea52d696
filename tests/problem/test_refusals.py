"""What is no weight and no reading is refused, by its own name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from drnmf import DRNMF, BetaNMF, HeldOut, MultiObjectiveNMF, Solver, assign, match

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


GIVEN: dict[str, Callable[[Any], Any]] = {
    "W": lambda W: BetaNMF(2, max_iter=5, init="custom", random_state=0).fit_transform(X, W=W, H=X[:2]),
    "fixed": lambda W: BetaNMF(3, max_iter=5, fixed=W.T[:, :9], random_state=0).fit(X),
    "fixed_W": lambda W: BetaNMF(3, max_iter=5, solver=Solver(fixed_W=W), random_state=0).fit(X),
    "components": lambda W: assign(X, W.T[:, :9]),
    "reference": lambda W: match(X[:2], W.T[:, :9]),
    "references": lambda W: DRNMF(2, betas=(1, 2), max_iter=5, solver=Solver(references=W[0])).fit(X),
    "weights": lambda W: MultiObjectiveNMF(2, betas=(1, 2), max_iter=5, weights=W[0]).fit(X),
    "sample_weight": lambda W: MODEL.fit(X, sample_weight=W[:, 0]),
    "entry_weight": lambda W: MODEL.fit(X, entry_weight=W[:, :1], sample_weight=np.ones(12)),
    "inverse": lambda W: MODEL.fit(X).inverse_transform(W),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("given", GIVEN)
def test_what_a_cast_would_drop_is_refused_wherever_numbers_are_given(given: str) -> None:
    W = np.full((12, 2), 0.5)
    GIVEN[given](W)
    for wrong in (W + 0j, W.astype("M8[s]"), W.astype([("a", float)])):
        with pytest.raises(ValueError, match=r"complex numbers|cannot be read as numbers|are not numbers"):
            GIVEN[given](wrong)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("given", [name for name in GIVEN if name != "inverse"])
def test_what_a_mask_hides_is_no_number(given: str) -> None:
    W = np.ma.masked_array(np.full((12, 2), 0.5), mask=True)
    with pytest.raises(ValueError, match=r"nan|NaN|finite"):
        GIVEN[given](W)
    assert np.isnan(GIVEN["inverse"](W)).all()


@pytest.mark.parametrize("wrong", ["M8[s]", "m8[s]", [("a", float)]])
def test_dates_and_records_are_no_readings(wrong: Any) -> None:
    data = (X * 100).astype(wrong)
    for given in (data, np.ma.masked_array(data)):
        with pytest.raises(ValueError, match="which are no numbers"):
            MODEL.fit(given)


def test_tables_go_to_models_of_tables_alone() -> None:
    with pytest.raises(ValueError, match=r"X is a dict of a.*Give one matrix here"):
        MODEL.fit(X).transform({"a": X})
