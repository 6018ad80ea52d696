"""Tables that share rows, each with columns, a loss and a unit of its own."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import drnmf
from drnmf import DRNMF, BetaNMF, MultiObjectiveNMF

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
RNG = np.random.default_rng(0)
W = RNG.gamma(0.5, 1.0, (40, 2))
COUNTS = RNG.poisson(W @ RNG.gamma(0.5, 5.0, (2, 25))).astype(float)
LEVELS = 0.001 * (W @ RNG.gamma(0.5, 1.0, (2, 6)) + 0.02 * RNG.uniform(size=(40, 6)))
TABLES = {"rna": COUNTS, "protein": LEVELS}
BETAS = {"rna": 1, "protein": 2}


def fitted(tables=None, **settings):
    model = DRNMF(2, betas=BETAS, max_iter=100, random_state=0, **settings)
    return model, model.fit_transform(TABLES if tables is None else tables)


@pytest.fixture(scope="module")
def both():
    return fitted()


def test_losses_and_components_are_in_the_unit_of_their_table(both):
    model, factors = both
    assert model.loss_names_ == ["KL, rna", "Fro, protein"]
    parts = model.table_components_
    expected = [drnmf.beta_divergence(TABLES[name], factors @ parts[name], BETAS[name]) for name in TABLES]
    assert np.allclose(model.losses_, expected, rtol=1e-9)
    assert model.feature_names_in_[25] == "protein: 1"


@pytest.mark.parametrize("some", [["rna", "protein"], ["protein", "rna"], ["rna"], ["protein"]], ids=str)
def test_transform_takes_any_of_the_tables(both, some):
    model, factors = both
    found = model.transform({name: TABLES[name] for name in some})
    assert np.corrcoef(found.ravel(), factors.ravel())[0, 1] > (0.999 if len(some) == 2 else 0.97)


def test_one_table_is_its_plain_fit_up_to_the_unit():
    model = MultiObjectiveNMF(2, betas={"rna": 1}, init="custom", tol=0, max_iter=30, solver="mu")
    H = RNG.uniform(0.5, 1.0, (2, 25))
    first = W + 0.1
    model.fit({"rna": COUNTS}, W=first, H=H)
    unit = model.tables_[0].scale
    plain = BetaNMF(2, beta=1, init="custom", tol=0, max_iter=60, solver="mu").fit(unit * COUNTS, W=first, H=H)
    assert np.isclose(model.losses_[0], plain.losses_[0] / unit, rtol=1e-3)


def test_the_unit_of_a_table_does_not_matter(both):
    model, factors = both
    other, found = fitted({"rna": COUNTS, "protein": 1024.0 * LEVELS})
    assert np.allclose(found, factors)
    assert np.allclose(other.losses_, model.losses_ * [1.0, 1024.0**2])


def test_rows_that_a_table_lacks_are_missing():
    names = [f"s{i}" for i in range(40)]
    rna, protein = pd.DataFrame(COUNTS, names), pd.DataFrame(LEVELS, names)
    model, factors = fitted({"rna": rna.iloc[:30], "protein": protein.iloc[::-1]})
    assert factors.shape == (40, 2)
    assert set(model.row_names_) == set(names)
    gaps = COUNTS.copy()
    gaps[30:] = np.nan
    order = [names.index(name) for name in model.row_names_]
    nan, again = fitted({"rna": gaps[order], "protein": LEVELS[order]})
    assert np.allclose(again, factors)
    assert np.allclose(nan.losses_, model.losses_)


def test_sparse_tables_float32_and_weights(both):
    model, _ = both
    sparse, _ = fitted({"rna": sp.csr_array(COUNTS), "protein": LEVELS})
    assert np.allclose(sparse.losses_, model.losses_, rtol=1e-3)
    small, _ = fitted({name: table.astype(np.float32) for name, table in TABLES.items()})
    assert np.allclose(small.losses_, model.losses_, rtol=1e-2)
    seen = np.ones_like(COUNTS)
    seen[30:] = 0.0
    weighted = DRNMF(2, betas=BETAS, max_iter=100, random_state=0).fit(TABLES, entry_weight={"rna": seen})
    gaps = np.where(seen > 0, COUNTS, np.nan)
    assert np.allclose(weighted.losses_, fitted({"rna": gaps, "protein": LEVELS})[0].losses_, rtol=1e-3)


def test_tables_are_saved(both, tmp_path):
    model, _ = both
    model.save(tmp_path / "model.npz")
    again = drnmf.load(tmp_path / "model.npz")
    assert np.array_equal(again.transform(TABLES), model.transform(TABLES))
    assert np.array_equal(again.table_components_["protein"], model.table_components_["protein"])


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"rna": COUNTS, "lipids": LEVELS}, "betas names the tables rna, protein"),
        ({"rna": COUNTS[:30], "protein": LEVELS}, "different numbers"),
        ({}, "No table"),
        ({"rna": COUNTS, "protein": None}, "'protein' is not all numbers|'protein' has shape"),
        ({"rna": COUNTS, "protein": np.full(LEVELS.shape, "x")}, "'protein' is not all numbers"),
        ({"rna": COUNTS, "protein": LEVELS[0].tolist()}, "'protein' has shape"),
    ],
)
def test_tables_that_do_not_fit_are_refused(tables, message):
    with pytest.raises(ValueError, match=message):
        fitted(tables)


def test_a_table_may_be_lists(both):
    (model, _), (other, _) = both, fitted({"rna": COUNTS.tolist(), "protein": LEVELS.tolist()})
    assert np.array_equal(other.components_, model.components_)


def test_new_tables_must_be_those_of_the_fit(both):
    with pytest.raises(ValueError, match="none of the fit's"):
        both[0].transform({"lipids": LEVELS})
    with pytest.raises(ValueError, match="has 6 columns, but 25"):
        both[0].transform({"rna": LEVELS})
    with pytest.raises(ValueError, match="groups do not go with tables"):
        DRNMF(2, betas=BETAS).fit(TABLES, groups=np.arange(40))


def bad(value):
    """COUNTS with one entry that no fit can use."""
    X = COUNTS.copy()
    X[0, 5] = value
    return X


def test_an_entry_that_cannot_be_used_is_named_in_its_own_table(both):
    for value in (-1.0, np.inf):
        for take in (fitted, both[0].transform):
            with pytest.raises(ValueError, match=r"table 'rna': .*X\[0, 5\] = "):
                take({"protein": LEVELS, "rna": bad(value)})


def test_what_a_table_hides_is_missing_and_what_is_no_number_is_refused(both):
    hidden = np.ma.array(bad(9e9), mask=bad(9e9) > 1e9)
    assert np.array_equal(
        fitted({"rna": hidden, "protein": LEVELS})[1], fitted({"rna": bad(np.nan), "protein": LEVELS})[1]
    )
    with pytest.raises(ValueError, match="'rna' holds complex128"):
        fitted({"rna": COUNTS + 1j, "protein": LEVELS})


def test_a_table_beyond_the_unit_of_float32(both):
    tiny = (COUNTS * 2.0**-140).astype(np.float32)
    model, factors = fitted({"rna": tiny, "protein": LEVELS})
    assert np.allclose(factors, both[1], rtol=1e-5, atol=1e-8)
    assert np.allclose(model.losses_ * [2.0**140, 1.0], both[0].losses_, rtol=1e-4)


def test_a_name_that_two_columns_have_is_two_columns():
    frame = pd.DataFrame(COUNTS, columns=["gene"] * 2 + [f"g{j}" for j in range(23)])
    model, _ = fitted({"rna": frame, "protein": LEVELS})
    assert model.components_.shape[1] == 31


def test_rows_of_weight_zero_and_what_transform_does_not_take(both):
    kept = np.ones(40)
    kept[3] = 0.0
    model = DRNMF(2, betas=BETAS, max_iter=100, random_state=0)
    factors = model.fit_transform(TABLES, sample_weight=kept)
    assert np.array_equal(factors[3], model.transform({name: X[3:4] for name, X in TABLES.items()})[0])
    with pytest.raises(ValueError, match="takes no weights"):
        model.transform(TABLES, entry_weight=np.ones((40, 31)))
    with pytest.raises(ValueError, match="give some of them by name"):
        model.transform(np.hstack([COUNTS, LEVELS]))
    with pytest.raises(ValueError, match="Give one matrix here"):
        model.assign(TABLES)


@pytest.mark.parametrize(
    ("model", "X", "given", "message"),
    [
        (DRNMF(2, betas=BETAS), COUNTS, {}, "betas names the tables rna, protein, but X is one matrix"),
        (DRNMF(2, betas=BETAS), TABLES, {"entry_weight": {"dna": 1.0}}, "entry_weight names 'dna'"),
        (DRNMF(2, betas=BETAS), TABLES, {"uncertainty": {"rna": COUNTS[:3]}}, r"table 'rna' has shape \(3, 25\)"),
        (BetaNMF(2), TABLES, {}, "tables make one objective of every table"),
    ],
)
def test_what_is_named_must_be_there(model, X, given, message):
    with pytest.raises(ValueError, match=message):
        model.fit(X, **given)


def test_tables_without_a_row_in_common_are_refused():
    one, other = (pd.DataFrame(COUNTS, index=[f"{name}{i}" for i in range(40)]) for name in "ab")
    with pytest.raises(ValueError, match="'rna' has no row in common with the others: its first is named 'a0'"):
        fitted({"rna": one, "protein": other})
