"""Contributions with real zeros: which components a row has, under the noise of its entries."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import drnmf
from drnmf import BetaNMF, NegativeBinomial
from drnmf.losses.beta import Beta
from drnmf.objective.objective import Objective
from drnmf.problem.units import mean_of
from drnmf.problem.weights import Reading
from drnmf.selection.assignment.assign import assigned, encoded, opened, settled, supports_of, within_supports
from drnmf.solve.encode import Encoder


def planted(seed: int = 0, rows: int = 30, level: float = 2000.0, r: int = 6, n: int = 40):
    """Components, and contributions of which about two in a row are not zero."""
    rng = np.random.default_rng(seed)
    H = rng.dirichlet(np.full(n, 0.3), r)
    W = rng.gamma(2.0, level / 2.0, (rows, r)) * (rng.random((rows, r)) < 0.35)
    W[np.arange(rows), rng.integers(r, size=rows)] += level / 4.0
    return rng, W, H


def agreement(found, truth) -> float:
    return float(((found > 0) == (truth > 0)).mean())


@pytest.mark.parametrize("noise", ["poisson", "nb", "gamma", "gaussian"])
def test_supports_are_those_that_made_the_rows(noise):
    rng, W, H = planted()
    V = W @ H
    size = 30.0
    X, model = {
        "poisson": lambda: (rng.poisson(V).astype(float), BetaNMF(beta=1)),
        "nb": lambda: (rng.negative_binomial(size, size / (size + V)), BetaNMF(beta=NegativeBinomial(size))),
        "gamma": lambda: (rng.gamma(100.0, np.maximum(V, 1e-3) / 100.0), BetaNMF(beta=0)),
        "gaussian": lambda: (np.abs(V + rng.normal(0.0, 3.0, V.shape)), BetaNMF(beta=2)),
    }[noise]()
    found = drnmf.assign(X, H, model)
    assert agreement(found.contributions, W) > 0.95
    assert (found.dense > 0).mean() > (found.contributions > 0).mean()
    assert (found.contributions >= 0).all()


@pytest.mark.slow
def test_no_component_that_is_left_could_be_dropped_and_none_could_be_added():
    rng, W, H = planted(1, rows=8, level=300.0, r=5)
    X = rng.poisson(W @ H).astype(float)
    found = drnmf.assign(X, H, BetaNMF(beta=1))
    for x, w, likelihood, price in zip(X, found.contributions, found.likelihood, found.price, strict=True):
        own = np.flatnonzero(w)
        for k in own:
            if len(own) > 1:
                less = drnmf.assign(x[None], H[np.setdiff1d(own, k)], BetaNMF(beta=1)).dense[0]
                assert likelihood - poisson(x, less @ H[np.setdiff1d(own, k)]) > price - 1e-2
        for k in np.flatnonzero(w == 0):
            more = np.append(own, k)
            fitted = drnmf.assign(x[None], H[more], BetaNMF(beta=1)).dense[0]
            assert poisson(x, fitted @ H[more]) - likelihood < price + 1e-2


def poisson(x, mu) -> float:
    from scipy.stats import poisson as law

    return float(law.logpmf(x, np.maximum(mu, 1e-12)).sum())


def test_rows_do_not_depend_on_one_another_nor_on_the_unit_of_x():
    rng, W, H = planted(2)
    X = rng.poisson(W @ H).astype(float)
    whole = drnmf.assign(X, H, BetaNMF(beta=1)).contributions
    some = [3, 17, 4]
    assert np.allclose(drnmf.assign(X[some], H, BetaNMF(beta=1)).contributions, whole[some], rtol=1e-4)
    assert np.allclose(drnmf.assign(X / 8.0, H, BetaNMF(beta=1)).contributions, whole / 8.0, rtol=1e-4)
    assert np.allclose(drnmf.assign(sp.csr_array(X), H, BetaNMF(beta=1)).contributions, whole, rtol=1e-3, atol=1e-6)


def test_gaps_weights_and_uncertainties_count():
    rng, W, H = planted(3)
    X = rng.poisson(W @ H).astype(float)
    gaps = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    assert agreement(drnmf.assign(gaps, H, BetaNMF(beta=1)).contributions, W) > 0.95
    weight = np.isfinite(gaps).astype(float)
    spoilt = np.where(weight > 0, X, 1e4)
    as_gaps = drnmf.assign(gaps, H, BetaNMF(beta=1)).contributions
    as_weights = drnmf.assign(spoilt, H, BetaNMF(beta=1), entry_weight=weight).contributions
    assert np.allclose(as_gaps, as_weights, rtol=1e-4, atol=1e-6)
    noise = 0.02 * X + 1.0
    measured = np.maximum(W @ H + noise * rng.normal(size=X.shape), 0.0)
    sure = drnmf.assign(measured, H, uncertainty=noise)
    assert sure.losses[0].beta == 2.0
    assert agreement(sure.contributions, W) > 0.95
    doubt = drnmf.assign(measured, H, uncertainty=100.0 * noise).contributions
    assert (doubt > 0).sum() < (sure.contributions > 0).sum()


@pytest.mark.slow
def test_the_noise_is_read_off_the_data_where_no_loss_is_named():
    rng, W, H = planted(4, rows=60)
    V, size = W @ H, 8.0
    X = rng.negative_binomial(size, size / (size + V))
    found = drnmf.assign(X, H)
    assert isinstance(found.losses[0], NegativeBinomial)
    assert 5.0 < found.parameter < 13.0
    counts = drnmf.assign(rng.poisson(V), H)
    assert counts.losses[0].beta == 1.0
    assert agreement(counts.contributions, W) > 0.95


def test_rows_of_zeros_have_nothing_and_one_component_is_all_there_is():
    rng, W, H = planted(5, rows=5)
    X = rng.poisson(W @ H).astype(float)
    X[2] = 0.0
    found = drnmf.assign(X, H, BetaNMF(beta=1)).contributions
    assert not found[2].any()
    assert (drnmf.assign(X, H[:1], BetaNMF(beta=1)).contributions[[0, 1, 3, 4]] > 0).all()


def test_columns_are_paired_by_label():
    pd = pytest.importorskip("pandas")
    rng, W, H = planted(6, rows=6)
    X = rng.poisson(W @ H).astype(float)
    labels = [f"c{j}" for j in range(X.shape[1])]
    frame, known = pd.DataFrame(X, columns=labels), pd.DataFrame(H, columns=labels)
    found = drnmf.assign(frame, known[labels[::-1]], BetaNMF(beta=1)).contributions
    assert np.allclose(found, drnmf.assign(X, H, BetaNMF(beta=1)).contributions)
    with pytest.raises(ValueError, match="components lacks 1 of 40 labels"):
        drnmf.assign(frame, known.drop(columns="c3"), BetaNMF(beta=1))


@pytest.mark.parametrize(
    ("components", "model", "message"),
    [
        (np.ones((2, 3)), None, "components have 3 columns, but X has 40"),
        (-np.ones((2, 40)), None, "nonnegative"),
        (np.zeros((2, 40)), None, "all zeros"),
        (np.ones((2, 40)), drnmf.DRNMF(betas=(0, 1)), "one loss"),
        (np.ones((2, 40)), BetaNMF(sum_to_one="W"), "sum_to_one"),
        (np.ones((2, 40)), BetaNMF(penalties=["l1:0.1"]), "no penalties"),
    ],
)
def test_what_cannot_be_assigned_is_refused(components, model, message):
    with pytest.raises(ValueError, match=message):
        drnmf.assign(planted(0, rows=4)[0].poisson(3.0, (4, 40)), components, model)


def test_estimators_assign():
    rng, W, H = planted(7, rows=60, r=3)
    X = rng.poisson(W @ H).astype(float)
    for model in (BetaNMF(3, random_state=0), drnmf.DRNMF(3, betas=(1, 2), random_state=0, max_iter=200)):
        dense = model.fit(X).transform(X)
        found = model.assign(X)
        assert found.shape == dense.shape
        order = drnmf.match(H, model.components_).index
        assert agreement(found[:, order], W) > 0.9
    with pytest.raises(ValueError, match="sum_to_one"):
        BetaNMF(3, sum_to_one="W", max_iter=5).fit(X).assign(X)


@pytest.mark.slow
def test_a_discovery_has_contributions_with_zeros_and_assigns_new_rows():
    rng, W, H = planted(8, rows=50, r=3, n=20, level=200.0)
    X = rng.poisson(W @ H)
    found = drnmf.discover(X, BetaNMF(beta=1, random_state=0), ranks=3, n_runs=4)
    order = drnmf.match(H, found.components).index
    assert agreement(found.contributions[:, order], W) > 0.9
    assert (found.dense > 0).sum() > (found.contributions > 0).sum()
    # components were fitted once more to the rows that have them, which may change whether a row at the edge has one
    alike = np.isclose(found.assign(X).contributions, found.contributions, rtol=1e-3, atol=1e-3).all(axis=1)
    assert alike.mean() > 0.9


@pytest.mark.slow
def test_known_components_stay_and_new_ones_are_found_beside_them():
    rng, W, H = planted(9, rows=60, r=4, n=24, level=600.0)
    X = rng.poisson(W @ H)
    absent = rng.dirichlet(np.full(24, 0.3), 1)
    known = {"one": H[0], "two": H[1], "absent": absent[0]}
    model = BetaNMF(beta=1, random_state=0, max_iter=150, tol=1e-4)
    found = drnmf.discover(X, model, n_runs=4, ranks=range(2, 6), reference=known, keep=True)
    assert found.rank == 4
    kept = [found.matching.names.index(name) for name in ("one", "two")]
    assert np.allclose(found.components[kept], H[:2], atol=1e-6)
    assert not any(np.allclose(row, absent[0], atol=1e-3) for row in found.components)
    assert drnmf.match(found.components, H).similarity.min() > 0.9
    assert any("2 of 3 known components are needed" in note for note in found.notes)
    with pytest.raises(ValueError, match="give them as reference"):
        drnmf.discover(X, keep=True)


def under_poisson(H, problem):
    objective = Objective((Beta(1.0),), np.ones(1), mean_of(problem.data))
    return Encoder(H, objective, np.ones(1), 100, 1e-6, "raise", "assign", np.zeros(len(H)))


def test_rows_do_not_pay_for_the_error_of_their_components():
    """The error of a component comes again in every row that has it, and buys others there; supports then settle."""
    rng, W, H = planted(10, rows=60, r=6, n=40)
    X = rng.poisson(W @ H).astype(float)
    blurred = 0.8 * H + 0.2 * rng.dirichlet(np.full(40, 0.3), 6)
    problem = opened(X, "assign", Reading())
    encoder = under_poisson(blurred, problem)
    dense = encoded(encoder, problem)
    first = assigned(encoder, problem, dense).contributions
    found = settled(supports_of(encoder, problem, dense), first, lambda: False)
    wrong, left = (int(((one > 0) & (W == 0)).sum()) for one in (first, found))
    assert left < 0.4 * wrong
    assert ((found > 0) & (W > 0)).sum() > 0.95 * (W > 0).sum()
    np.testing.assert_array_equal(encoder.components, blurred)


def test_components_are_fitted_again_to_the_rows_that_have_them():
    """Zeros stay, components sum to one, and what dense contributions blurred comes nearer to the truth."""
    rng = np.random.default_rng(0)
    H = rng.dirichlet(np.full(30, 0.4), 3)
    W = rng.gamma(2.0, 300.0, (80, 3)) * (rng.random((80, 3)) < 0.4)
    X = rng.poisson(W @ H).astype(float)
    blurred = 0.8 * H + 0.2 * H.mean(axis=0)
    problem = opened(X, "assign", Reading())
    encoder = under_poisson(blurred.copy(), problem)
    found, contributions = within_supports(encoder, problem, W)
    assert ((contributions > 0) == (W > 0))[X.sum(axis=1) > 0].all()
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-9)
    assert np.abs(found - H).sum() < 0.3 * np.abs(blurred - H).sum()
    np.testing.assert_array_equal(encoder.components, blurred)
