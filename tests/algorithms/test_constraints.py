"""Rows of W or columns of H that sum to one, and components that do not move."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from drnmf import DRNMF, L1, L2, BetaNMF, MultiObjectiveNMF, Solver, Sparsity, pareto_front
from drnmf.algorithms.updates.base import Parts
from drnmf.algorithms.updates.minimax import surrogates
from drnmf.algorithms.updates.monotone import majorised
from drnmf.algorithms.updates.roots import multiplier_step, searched
from drnmf.algorithms.updates.simplex_steps import simplex_step, simplex_step_ahead
from drnmf.losses.names import as_losses

RULES = ("mu", "monotone", "extrapolated", "newton", "auto")
MIXTURES = ((0,), (1,), (2,), (0.5, 1.5), (0, 1), (1, 2), (0, 1, 2))


def mixed(rows=30, columns=24, rank=3, seed=0, concentration=0.5):
    """Fractions of a few spectra, with noise."""
    rng = np.random.default_rng(seed)
    W = rng.dirichlet(np.full(rank, concentration), rows)
    H = rng.gamma(1.0, 1.0, (rank, columns)) + 0.05
    return (W @ H) * rng.gamma(50.0, 0.02, (rows, columns)), W, H


def sums(model, W):
    return W.sum(axis=1) if model.sum_to_one == "W" else model.components_.sum(axis=0)


@pytest.mark.parametrize("betas", MIXTURES)
def test_the_multiplier_gives_the_minimum_of_the_majoriser(betas):
    rng, omega = np.random.default_rng(1), as_losses(betas)
    p, r, n = len(omega), 5, 40
    F = rng.dirichlet(np.full(r, 0.4), n).T
    N, P = rng.gamma(0.5, 1.0, (2, p, r, n))
    parts = Parts(N, P, np.ones(p), omega, 1e-17, np.zeros(p), np.ones(p), total=1.0)
    stepped = majorised(F, parts)
    assert np.abs(stepped.sum(axis=0) - 1.0).max() < 1e-14
    value = surrogates(F, stepped / F, parts).sum()
    assert value < surrogates(F, np.ones_like(F), parts).sum()
    for _ in range(20):
        other = 0.99 * stepped + 0.01 * rng.dirichlet(np.full(r, 0.4), n).T
        assert surrogates(F, other / F, parts).sum() > value


PARTS = [
    ((0,), (1,)), ((0,), (2,)), ((0,), (1.5,)), ((0,), (1, 2)), ((1,), (0,)), ((2,), (0,)), ((0, 1), (0, 1)),
    ((0.5,), (0.5,)), ((0.25,), (0.75,)), ((0, 1), (1, 2)), ((0, 0.5, 1), (0, 0.5, 2)),
]  # fmt: skip


@pytest.mark.parametrize(("up", "down"), PARTS)
def test_the_compiled_multiplier_is_the_reference(up, down):
    rng, r, n = np.random.default_rng(4), 6, 57
    F = np.maximum(rng.dirichlet(np.full(r, 0.2), n).T, 1e-9)
    F[:, 3] = [1 - 5e-9, *[1e-9] * 5]
    totals = rng.uniform(0.1, 2.0, n)
    F *= totals / F.sum(axis=0)
    rising, falling = ({float(k): rng.gamma(0.3, 1.0, (r, n)) + 1e-9 for k in powers} for powers in (up, down))
    for k in falling:
        falling[k][:, 5] = 0.0  # no root beside a pole
    floor = 1e-17
    compiled = multiplier_step(F, rising, falling, totals, floor)
    np.testing.assert_allclose(compiled, searched(F, rising, falling, totals, floor), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(compiled.sum(axis=0), totals, rtol=1e-13)
    alone = [{k: part[:, 17:19] for k, part in powers.items()} for powers in (rising, falling)]
    assert (multiplier_step(F[:, 17:19], *alone, totals[17:19], floor) == compiled[:, 17:19]).all()
    single = multiplier_step(F.astype(np.float32), rising, falling, totals, floor)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single.sum(axis=0), totals, rtol=r * 1.2e-7)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_an_entry_that_hardly_bends_takes_what_the_others_leave(monkeypatch, dtype, compiled):
    """The multiplier has too few digits to place it: its column was scaled as a whole, far above where it was."""
    if not compiled:
        monkeypatch.setenv("DRNMF_BACKEND", "numpy")
    flat = {"float64": 1e-24, "float32": 1e-15}[dtype]
    F = np.array([[5e-4, 1.77e-6], [0.178, 1.0 - 1.77e-6], [0.8215, 0.0]], dtype)
    P = np.array([[0.2, 1e-5], [3.0 * flat, flat], [0.1, 1e-5]], dtype)
    N = np.array([[0.21, 1.1e-5], [2.0 * flat, 1.5 * flat], [0.09, 1e-5]], dtype)
    stepped = multiplier_step(F, {1.0: P}, {0.0: N}, F.sum(axis=0), 1e-17)
    np.testing.assert_allclose(stepped[0], (F * N / P)[0], rtol=1e-4)
    np.testing.assert_allclose(stepped.sum(axis=0), F.sum(axis=0), rtol=1e-6)


def quadratic(seed, r=6, n=50):
    rng = np.random.default_rng(seed)
    A = rng.gamma(0.5, 1.0, (3 * r, r))
    F = rng.dirichlet(np.full(r, 0.4), n).T.copy()
    return A.T @ A, rng.normal(0.0, 3.0, (r, n)), F


def test_pairs_reach_the_minimum_on_the_simplex_with_every_kind_of_curvature():
    G, N, F = quadratic(2)
    triangle = np.tril_indices(len(G))
    packed = np.repeat(G[triangle][:, None], F.shape[1], axis=1)
    size = np.sqrt(np.diagonal(G))
    sizes = np.repeat(size[:, None], F.shape[1], axis=1)
    kinds = [
        {"gram": G},
        {"Q": packed},
        {"gram": 0.25 * G, "Q": 0.75 * packed},
        {"gram": G / np.outer(size, size), "sizes": sizes},
    ]
    for given in kinds:
        H = F
        for _ in range(20):
            H = simplex_step(H, G @ H - N, 0.0, 200, **given)
        gradient = G @ H - N
        multiplier = (H * gradient).sum(axis=0)
        assert np.abs(H.sum(axis=0) - 1.0).max() < 1e-13
        assert np.abs(np.minimum(H, gradient - multiplier)).max() < 1e-8


def test_the_compiled_step_is_the_reference_step(monkeypatch):
    """Move by move, until two slopes are equal and rounding chooses between them."""
    G, N, F = quadratic(3)
    slope = G @ F - N
    compiled = [simplex_step(F, slope, 0.0, moves, gram=G) for moves in (1, 2, 100)]
    monkeypatch.setenv("DRNMF_BACKEND", "numpy")
    reference = [simplex_step(F, slope, 0.0, moves, gram=G) for moves in (1, 2, 100)]
    np.testing.assert_allclose(reference[:2], compiled[:2], atol=1e-12)
    values = [(0.5 * H * (G @ H) - N * H).sum() for H in (F, reference[2], compiled[2])]
    assert abs(values[1] - values[2]) < 1e-4 * (values[0] - values[1])


@pytest.mark.parametrize("r", [3, 17])
@pytest.mark.parametrize("kind", ["gram", "Q"])
def test_the_compiled_step_goes_on_as_the_reference_does(monkeypatch, r, kind):
    G, N, F = quadratic(5, r, 40)
    packed = np.repeat(G[np.tril_indices(r)][:, None], F.shape[1], axis=1)
    given = {"gram": G} if kind == "gram" else {"Q": packed}
    last = np.random.default_rng(6).dirichlet(np.full(r, 0.5), F.shape[1]).T.copy()
    asked = [(N, 1e-16, 1, 1.0, last, momentum) for momentum in (0.0, 0.7)]
    compiled = [simplex_step_ahead(F, *rest, **given) for rest in asked]
    monkeypatch.setenv("DRNMF_BACKEND", "numpy")
    reference = [simplex_step_ahead(F, *rest, **given) for rest in asked]
    np.testing.assert_allclose(compiled, reference, atol=1e-12)
    assert (compiled[0][0] == compiled[0][1]).all()
    values = [(0.5 * H * (G @ H) - N * H).sum(axis=0) for H in (F, *compiled[1])]
    assert (values[2] <= values[0] + 1e-12).all()
    assert 0 < (values[2] != values[1]).sum() < F.shape[1]  # some columns went on, others did not


@pytest.mark.parametrize("side", ["W", "H"])
@pytest.mark.parametrize("update", RULES)
@pytest.mark.parametrize("betas", MIXTURES)
def test_sums_are_one_and_steps_never_rise(side, update, betas):
    X, _, _ = mixed()
    X = X if side == "W" else X.T
    model = MultiObjectiveNMF(
        3, betas=betas, sum_to_one=side, tol=0, max_iter=45, random_state=0, solver=Solver(update=update)
    )
    weights = np.full(len(betas), 1.0 / len(betas))
    W = model.set_params(solver__references=np.ones(len(betas))).fit_transform(X)
    assert np.abs(sums(model, W) - 1.0).max() < 1e-12
    assert W.min() >= 0
    assert model.components_.min() >= 0
    value = model.trace_.losses @ weights
    assert (np.diff(value) <= 1e-12 * value[:-1]).all()
    assert value[-1] < 0.5 * value[0]


@pytest.mark.parametrize("update", ["mu", "auto"])
def test_every_iterate_is_on_the_simplex(update):
    X, _, _ = mixed()
    seen = []

    def look(progress):
        seen.append(np.abs(progress.components().sum(axis=0) - 1.0).max())

    # of other starts one in twenty beats a reference, and runs again
    limits = {"tol": 0, "max_iter": 60, "random_state": 1}
    DRNMF(3, betas=(1, 2), sum_to_one="H", solver=Solver(update=update, callback=look), **limits).fit(X.T)
    assert len(seen) == 60
    assert max(seen) < 1e-12


@pytest.mark.parametrize("update", ["mu", "auto", "newton", "hals"])
def test_the_compiled_extension_and_numpy_agree(monkeypatch, update):
    X, _, _ = mixed()
    model = BetaNMF(3, beta=2, sum_to_one="W", tol=0, max_iter=15, random_state=0, solver=Solver(update=update))
    compiled = model.fit(X).reconstruction_err_
    monkeypatch.setenv("DRNMF_BACKEND", "numpy")
    assert model.fit(X).reconstruction_err_ == pytest.approx(compiled, rel=1e-9)


@pytest.mark.parametrize("beta", [1, 2])
def test_second_order_steps_on_the_simplex_are_faster(beta):
    X, _, _ = mixed(60, 40, 4)
    runs = [
        BetaNMF(
            4,
            beta=beta,
            sum_to_one="W",
            tol=0,
            max_iter=100,
            random_state=0,
            init="random",
            solver=Solver(update=update),
        ).fit(X)
        for update in ("mu", "auto")
    ]
    assert runs[1].reconstruction_err_ < runs[0].reconstruction_err_
    assert runs[1].stationarity_ < 0.2 * runs[0].stationarity_


@pytest.mark.parametrize("side", ["W", "H"])
@pytest.mark.parametrize("beta", [0, 1, 2])
def test_fits_whose_sums_are_one_end_as_low_as_from_the_truth(beta, side):
    """Singular vectors are no start here: their first pair is most of every row, and fits stay where it is."""
    for seed in range(3):
        rng = np.random.default_rng([beta, seed])
        at, wave = rng.uniform(size=(5, 4, 2)), np.linspace(0, 1, 30)
        H = sum(np.exp(-(((wave - at[:, k, :1]) / (0.05 + 0.2 * at[:, k, 1:])) ** 2)) for k in range(4)) + 0.05
        W = rng.dirichlet(np.ones(5), 120)
        X = np.maximum(W @ H * (1 + 0.03 * rng.normal(size=(120, 30))), 1e-3)
        X, start = (X, {"W": W, "H": H}) if side == "W" else (X.T, {"W": H.T, "H": W.T})
        model = BetaNMF(5, beta=beta, sum_to_one=side, random_state=seed).fit(X)
        near = BetaNMF(5, beta=beta, sum_to_one=side, init="custom").fit(X, **start)
        assert model.losses_[0] <= 1.02 * near.losses_[0]


def test_float32_sums_to_a_few_roundings():
    X, _, _ = mixed()
    model = BetaNMF(3, beta=1, sum_to_one="W", max_iter=60, tol=0, random_state=0)
    W = model.fit_transform(X.astype(np.float32))
    assert W.dtype == np.float32
    assert np.abs(W.sum(axis=1) - 1.0).max() <= 3 * 3 * np.finfo(np.float32).eps


def test_minimax_and_pareto_keep_the_sums():
    X, _, _ = mixed()
    model = DRNMF(3, betas=(1, 2), sum_to_one="W", max_iter=30, tol=0, random_state=0, solver=Solver(policy="minimax"))
    assert np.abs(model.fit_transform(X).sum(axis=1) - 1.0).max() < 1e-12
    assert (np.diff(model.trace_.maximum) <= 1e-12).all()
    front = pareto_front(
        DRNMF(3, betas=(1, 2), sum_to_one="W", max_iter=20, tol=0, random_state=0), X, weights=3, return_factors=True
    )
    for point in (*front.points, front.dr):
        assert np.abs(point.W.sum(axis=1) - 1.0).max() < 1e-12


def test_weights_missing_rows_and_zero_rows():
    X, _, _ = mixed()
    X[3], X[5, ::2], X[7] = np.nan, np.nan, 0.0
    for beta in (1, 2):
        model = BetaNMF(3, beta=beta, sum_to_one="W", max_iter=80, tol=0, random_state=0)
        W = model.fit_transform(X)
        assert np.abs(W.sum(axis=1) - 1.0).max() < 1e-12
        np.testing.assert_allclose(W[3], model.mean_row_, atol=0.05)
        again = model.transform(X)
        assert np.abs(again.sum(axis=1) - 1.0).max() < 1e-12
        if beta == 1:
            np.testing.assert_allclose(W[7], 1.0 / 3.0)
            np.testing.assert_allclose(again[7], 1.0 / 3.0)


@pytest.mark.parametrize("betas", [(1,), (2,), (0, 1)])
def test_transform_finds_the_fractions_of_the_fit(betas):
    X, _, _ = mixed()
    model = DRNMF(
        3, betas=betas, sum_to_one="W", max_iter=150, random_state=0, solver=Solver(references=np.ones(len(betas)))
    )
    W = model.fit_transform(X[:12])
    found = model.transform(X[:12])
    assert np.abs(found.sum(axis=1) - 1.0).max() < 1e-12
    assert np.abs(found - W).mean() < 0.02


@pytest.mark.parametrize("update", [*RULES, "hals"])
@pytest.mark.parametrize("betas", [(2,), (1,), (0, 1)])
def test_fixed_components_do_not_move(update, betas):
    if update == "hals" and betas != (2,):
        pytest.skip("hals is for beta = 2 alone")
    X, _, H = mixed()
    known = H[:2].copy()
    known[0, 3] = 0.0
    model = DRNMF(4, betas=betas, fixed=known, tol=0, max_iter=60, random_state=0, solver=Solver(update=update))
    model.set_params(solver__policy="fixed", solver__references=np.ones(len(betas))).fit(X)
    assert (model.components_[:2] == known).all()
    value = model.trace_.losses @ np.full(len(betas), 1.0 / len(betas))
    assert (np.diff(value) <= 1e-12 * value[:-1]).all()
    assert value[-1] < 0.5 * value[0]
    turned = DRNMF(4, betas=betas, tol=0, max_iter=60, random_state=0, solver=Solver(update=update, fixed_W=known.T))
    found = turned.set_params(solver__policy="fixed", solver__references=np.ones(len(betas))).fit_transform(X.T)
    assert (found[:, :2] == known.T).all()


@pytest.mark.parametrize("update", [*RULES, "hals"])
@pytest.mark.parametrize("betas", [(2,), (1,), (0, 1)])
def test_fixed_components_take_the_dtype_of_x(update, betas):
    if update == "hals" and betas != (2,):
        pytest.skip("hals is for beta = 2 alone")
    X, _, H = mixed()
    X, known = X.astype(np.float32), H[:2] / 10.0
    for max_iter in (1, 40):
        for name, given, M in (("fixed", known, X), ("solver__fixed_W", known.T, X.T)):
            model = DRNMF(4, betas=betas, tol=0, max_iter=max_iter, random_state=0, solver=Solver(update=update))
            W = model.set_params(
                **{name: given}, solver__policy="fixed", solver__references=np.ones(len(betas))
            ).fit_transform(M)
            assert W.dtype == model.components_.dtype == np.float32
            held = model.components_[:2] if name == "fixed" else W[:, :2].T
            assert (held == known.astype(np.float32)).all()


def test_second_order_steps_of_the_free_components_are_as_good_as_without_fixed_ones():
    """All but one row given at their values in a solution: the fit finds that solution again."""
    X, _, _ = mixed(40, 30, 4)
    whole = BetaNMF(4, beta=1, tol=1e-10, random_state=0).fit(X)
    part = BetaNMF(4, beta=1, fixed=whole.components_[:3], tol=1e-10, random_state=0).fit(X)
    assert part.reconstruction_err_ < whole.reconstruction_err_ * (1.0 + 1e-4)
    assert part.stationarity_ < 1e-3


@pytest.mark.parametrize("update", ["mu", "monotone", "newton", "auto"])
@pytest.mark.parametrize("betas", [(2,), (1,), (0, 1)])
def test_penalties_and_constraints_together_never_rise(update, betas):
    X, _, H = mixed()
    known = H[:1] / 3.0
    for penalty in (L2(0.05, on="H"), L1(0.2), Sparsity(0.05, on="W")):
        given = {"penalties": [penalty], "fixed": known, "solver__references": np.full(len(betas), 0.1)}
        model = MultiObjectiveNMF(
            3, betas=betas, sum_to_one="W", tol=0, max_iter=40, random_state=0, solver=Solver(update=update)
        )
        W = model.set_params(**given).fit_transform(X)
        assert np.abs(W.sum(axis=1) - 1.0).max() < 1e-12
        assert (model.components_[:1] == known).all()
        value = model.trace_.scaled_losses.mean(axis=1) + model.trace_.penalty
        assert (np.diff(value) <= 1e-12 * value[:-1]).all()
        assert value[-1] < 0.7 * value[0]
        again = model.transform(X[:4])
        assert np.abs(again.sum(axis=1) - 1.0).max() < 1e-12


def test_all_components_fixed_leaves_w_alone():
    X, W, H = mixed()
    model = BetaNMF(3, beta=1, fixed=H, sum_to_one="W", tol=1e-10)
    found = model.fit_transform(X)
    assert (model.components_ == H).all()
    assert np.abs(found.sum(axis=1) - 1.0).max() < 1e-12
    assert np.abs(found - W).mean() < 0.05


def test_contributions_that_were_given_are_not_guessed_for_other_rows():
    X, fractions, _ = mixed()
    model = BetaNMF(3, beta=2, random_state=0, solver=Solver(fixed_W=fractions[:, :1])).fit(X)
    for ask in (model.transform, model.score):
        with pytest.raises(ValueError, match="fixed_W gave contributions for the rows of the fit"):
            ask(X[:5])
    again = BetaNMF(3, beta=2, fixed=model.components_, solver=Solver(fixed_W=fractions[:5, :1])).fit_transform(X[:5])
    np.testing.assert_array_equal(again[:, 0], fractions[:5, 0])


def test_fixed_columns_and_sums_of_the_same_factor():
    X, W, _ = mixed()
    model = BetaNMF(3, beta=2, sum_to_one="W", tol=0, max_iter=30, solver=Solver(fixed_W=0.5 * W[:, :1]))
    found = model.fit_transform(X)
    assert (found[:, :1] == 0.5 * W[:, :1]).all()
    assert np.abs(found.sum(axis=1) - 1.0).max() < 1e-12


def test_constraints_survive_a_checkpoint_and_a_file(tmp_path):
    X, _, H = mixed()

    def stop(progress):
        if progress.iteration == 7:
            raise KeyboardInterrupt

    plain = {"sum_to_one": "W", "fixed": H[:1], "max_iter": 40, "tol": 0, "random_state": 0}
    whole = BetaNMF(3, beta=1, **plain).fit(X)
    kept = tmp_path / "kept"
    with pytest.raises(KeyboardInterrupt):
        BetaNMF(3, beta=1, solver=Solver(checkpoint=kept, checkpoint_every=0, callback=stop), **plain).fit(X)
    resumed = BetaNMF(3, beta=1, solver=Solver(checkpoint=kept), **plain).fit(X)
    assert (resumed.components_ == whole.components_).all()
    resumed.save(tmp_path / "model.npz")
    import drnmf

    again = drnmf.load(tmp_path / "model.npz")
    assert again.sum_to_one == "W"
    assert (again.transform(X[:3]) == resumed.transform(X[:3])).all()


def test_dask_keeps_sums_and_fixed_components():
    da = pytest.importorskip("dask.array")
    X, _, H = mixed()
    for beta in (1, 2):
        model = BetaNMF(3, beta=beta, sum_to_one="W", fixed=H[:1], tol=0, max_iter=33, random_state=0, init="random")
        here = model.fit(X).reconstruction_err_
        there = np.asarray(model.fit_transform(da.from_array(X, chunks=(15, -1))))
        assert np.abs(there.sum(axis=1) - 1.0).max() < 1e-12
        assert (model.components_[:1] == H[:1]).all()
        assert model.reconstruction_err_ == pytest.approx(here, rel=1e-3)
    columns = BetaNMF(3, beta=1, tol=0, max_iter=5, random_state=0, solver=Solver(fixed_W=X[:, :1]))
    found = np.asarray(columns.fit_transform(da.from_array(X, chunks=(7, -1))))
    assert (found[:, :1] == X[:, :1]).all()


@pytest.mark.parametrize("update", ["mu", "monotone", "extrapolated", "newton", "auto"])
def test_torch_keeps_sums_and_fixed_components(update):
    torch = pytest.importorskip("torch")
    X, _, H = mixed()
    for betas in ((1,), (2,), (0, 1)):
        model = DRNMF(
            3,
            betas=betas,
            sum_to_one="W",
            fixed=H[:1],
            tol=0,
            max_iter=40,
            random_state=0,
            solver=Solver(update=update),
        )
        W = model.fit_transform(torch.as_tensor(X))
        assert float(abs(W.sum(1) - 1.0).max()) < 1e-12
        assert (model.components_[:1].numpy() == H[:1]).all()
        columns = DRNMF(
            3, betas=betas, sum_to_one="H", tol=0, max_iter=40, random_state=0, solver=Solver(update=update)
        )
        assert float(abs(columns.fit(torch.as_tensor(X)).components_.sum(0) - 1.0).max()) < 1e-12


def test_scale_of_x_changes_nothing():
    X, _, _ = mixed()
    first, second = (
        BetaNMF(3, beta=1, sum_to_one="W", tol=0, max_iter=60, random_state=0, init="random").fit_transform(scale * X)
        for scale in (1.0, 2.0**60)
    )
    np.testing.assert_allclose(second, first, atol=1e-9)


@pytest.mark.parametrize("betas", [(1,), (0,), (0.5,), ("nb:5",), (1, 2)])
@pytest.mark.parametrize("layout", ["dense", "gaps", "sparse"])
def test_fixed_components_that_cannot_explain_x_are_refused(betas, layout):
    X, W, H = mixed()
    H, W = H.copy(), W.copy()
    H[:, 5], W[4] = 0.0, 0.0
    if layout == "gaps":
        X[0, 5] = np.nan
    M = sp.csr_array(X) if layout == "sparse" else X
    with pytest.raises(ValueError, match=r"fixed is zero in column 5 of X.*loss is infinite"):
        DRNMF(3, betas=betas, fixed=H).fit(M)
    with pytest.raises(ValueError, match=r"fixed_W is zero in row 4 of X.*loss is infinite"):
        DRNMF(3, betas=betas, solver=Solver(fixed_W=W)).fit(M)
    assert np.isfinite(DRNMF(4, betas=betas, fixed=H, max_iter=5, tol=0).fit(M).reconstruction_err_)
    assert np.isfinite(BetaNMF(3, beta=2, fixed=H, max_iter=5, tol=0).fit(M).reconstruction_err_)
    if layout == "gaps":  # nothing of the column is observed: nothing is asked of the components
        X[:, 5] = np.nan
        assert np.isfinite(DRNMF(3, betas=betas, fixed=H, max_iter=5, tol=0).fit(X).reconstruction_err_)


def test_the_scale_of_fixed_components_does_not_matter_or_is_refused():
    X, _, H = mixed()
    plain = BetaNMF(3, beta=1, fixed=H[:1], max_iter=60, tol=0, random_state=0).fit(X)
    for scale in (1e-8, 1e8):
        model = BetaNMF(3, beta=1, fixed=scale * H[:1], max_iter=60, tol=0, random_state=0).fit(X)
        assert model.reconstruction_err_ == pytest.approx(plain.reconstruction_err_, rel=1e-4)
    for scale in (1e-16, 1e16, 1e200):
        with pytest.raises(ValueError, match=r"Component 0 of fixed is .* times the size that X asks for"):
            BetaNMF(3, beta=1, fixed=scale * H[:1]).fit(X)
        with pytest.raises(ValueError, match=r"Component 0 of fixed_W is .* times the size that X asks for"):
            BetaNMF(3, beta=1, solver=Solver(fixed_W=scale * H[:1].T)).fit(X.T)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sum_to_one": "w"}, "sum_to_one='w' is not known"),
        ({"fixed": np.ones((1, 5))}, "fixed has 5 entries for every component, but X has 24 columns"),
        ({"fixed": np.ones((4, 24))}, "more than n_components=3"),
        ({"fixed": -np.ones((1, 24))}, r"fixed\[0, 0\] = -1 is negative"),
        ({"fixed": np.full((1, 24), np.nan)}, r"fixed\[0, 0\] = nan is not finite"),
        ({"fixed": np.ones(24)}, "give one row for each component"),
        ({"fixed": np.zeros((1, 24))}, "all zeros"),
        ({"fixed": [["a"]]}, "cannot be read as numbers"),
        ({"solver": Solver(fixed_W=np.ones((3, 1)))}, "fixed_W has 3 entries for every component, but X has 30 rows"),
        ({"fixed": np.ones((2, 24)), "sum_to_one": "H"}, "exclude each other"),
        ({"fixed": np.full((3, 24), 0.1), "sum_to_one": "H"}, "exclude each other"),
    ],
)
def test_bad_constraints_say_what_is_wrong(given, message):
    X, _, _ = mixed()
    with pytest.raises(ValueError, match=message):
        BetaNMF(3, **given).fit(X)
