"""Every penalty: its bound touches it, lies above it, and has its gradient; its text reads back."""

from __future__ import annotations

import numpy as np
import pytest

from drnmf import L1, L2, Smooth, Sparsity, Volume
from drnmf.backends.host.dense import HOST
from drnmf.objective.penalties import PENALTIES, as_penalties, from_text
from drnmf.objective.penalty import Penalties, Setting

SETTING = Setting((7, 9), 1.3, 5.0)
TABLE = [
    L1(0.3), L1(0.3, on="W", scaled=True), L2(0.2), L2(0.2, on="H"), Sparsity(0.2), Sparsity(0.1, on="W"), Volume(0.3),
    Volume(0.2, on="W", delta=1), Volume(0.3, normalized=False), Smooth(0.3), Smooth(0.1, axis=0),
    Smooth(0.3, normalized=False),
]  # fmt: skip


def value(penalty, W, H):
    return penalty.value(penalty.measure(W, "W"), penalty.measure(H, "H"), SETTING)


@pytest.fixture
def factors(rng):
    return {"W": rng.gamma(1.0, 1.0, (3, 7)), "H": rng.gamma(1.0, 1.0, (3, 9))}


def along(penalty, factors, side):
    """The penalty as a function of one factor."""
    return lambda F: value(penalty, **(factors | {side: F}))


def bound_of(penalty, factors, side):
    own, other = (penalty.measure(factors[s], s) for s in (side, "H" if side == "W" else "W"))
    return penalty.bound(factors[side], side, own, other, SETTING)


@pytest.mark.parametrize("side", ["W", "H"])
@pytest.mark.parametrize("penalty", TABLE, ids=lambda penalty: penalty.key)
def test_the_bound_has_the_gradient(penalty, side, factors):
    F, f = factors[side], along(penalty, factors, side)
    N, P = bound_of(penalty, factors, side).parts(F)
    gradient = np.zeros_like(F)
    for at in np.ndindex(*F.shape):
        step = np.zeros_like(F)
        step[at] = 1e-6
        gradient[at] = (f(F + step) - f(F - step)) / 2e-6
    np.testing.assert_allclose(P - N + np.zeros_like(F), gradient, atol=1e-7)


@pytest.mark.parametrize("side", ["W", "H"])
@pytest.mark.parametrize("penalty", TABLE, ids=lambda penalty: penalty.key)
def test_the_bound_lies_above(penalty, side, factors, rng):
    F, f = factors[side], along(penalty, factors, side)
    rising, falling = bound_of(penalty, factors, side).slots(F)
    for spread in (0.05, 0.3, 1.0) * 20:
        t = np.exp(spread * rng.normal(size=F.shape))
        bound = f(F)
        bound += sum((F * P * (t ** (a + 1) - 1) / (a + 1)).sum() for a, P in rising.items())
        bound -= sum((F * N * (np.log(t) if b == 1 else t ** (1 - b) - 1)).sum() for b, N in falling.items())
        assert f(F * t) <= bound + 1e-12


@pytest.mark.parametrize("penalty", TABLE, ids=lambda penalty: penalty.key)
def test_the_quadratic_bound_has_the_same_gradient(penalty, factors):
    """Second-order steps see S and the slope, the others powers of t: both are the same function at the point."""
    F, bound = factors["H"], bound_of(penalty, factors, "H")
    N, P = bound.parts(F)
    bend = 0.0 if bound.curvature is None else bound.curvature @ F
    np.testing.assert_allclose(bend + bound.slope() + np.zeros_like(F), P - N + np.zeros_like(F), atol=1e-12)
    if bound.curvature is not None:
        assert np.linalg.eigvalsh(bound.curvature).min() > -1e-12


@pytest.mark.parametrize("penalty", [p for p in TABLE if type(p) not in (L1, L2) and getattr(p, "normalized", True)])
def test_scaling_components_changes_nothing(penalty, factors):
    scale = np.array([[0.1], [3.0], [50.0]])
    W, H = factors["W"], factors["H"]
    assert value(penalty, W * scale, H / scale) == pytest.approx(value(penalty, W, H), rel=1e-12)


@pytest.mark.parametrize(
    "penalty", [p for p in TABLE if getattr(p, "normalized", True)], ids=lambda penalty: penalty.key
)
def test_a_penalty_is_the_same_in_other_units(penalty, factors):
    left, right, whole = 2.0, 32.0, 0.3
    there = Setting(SETTING.shape, SETTING.mean * left * right, SETTING.level * whole)
    other, (W, H) = penalty.in_units(left, right, whole), (left * factors["W"], right * factors["H"])
    found = other.value(other.measure(W, "W"), other.measure(H, "H"), there)
    assert found == pytest.approx(whole * value(penalty, **factors), rel=1e-12)


@pytest.mark.parametrize("penalty", [*TABLE, Sparsity("auto"), Volume("auto", "W")], ids=lambda penalty: penalty.key)
def test_a_penalty_reads_back_from_its_text(penalty):
    assert from_text(penalty.key) == penalty
    assert as_penalties([penalty.key, penalty]) == (penalty, penalty)


def test_a_penalty_names_what_it_is_on():
    assert [L1(0.1, on=on).name for on in ("both", "W", "H")] == ["L1 of W and H", "L1 of W", "L1 of H"]


def test_every_penalty_is_in_the_table():
    assert {type(penalty) for penalty in TABLE} == set(PENALTIES.values())


@pytest.mark.parametrize("penalty", [p for p in TABLE if not isinstance(p, Smooth)], ids=lambda penalty: penalty.key)
def test_measures_of_pieces_add_up(penalty, factors):
    H = factors["H"]
    whole = Penalties((penalty,), SETTING).measure(HOST, H, 0)[0]
    np.testing.assert_allclose(penalty.measure(H[:, :4], "H") + penalty.measure(H[:, 4:], "H"), whole, rtol=1e-12)


def test_volume_and_roughness_are_small_for_what_they_want():
    flat, spread = np.ones((3, 9)), np.eye(3, 9) + 1e-9
    assert value(Volume(1.0), flat, flat) < value(Volume(1.0), flat, spread)
    assert value(Smooth(1.0), flat, flat) == 0 < value(Smooth(1.0), flat, spread)


def test_only_roughness_looks_at_neighbours_and_only_along_its_axis():
    assert [Smooth(0.1, axis=axis).pieces(side) for axis in (0, 1) for side in "WH"] == [False, True, True, False]
    assert all(penalty.pieces(side) for penalty in TABLE if not isinstance(penalty, Smooth) for side in "WH")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Smooth(0.1, axis=2), "use 0 or 1"),
        (lambda: Smooth(0.1, axis=True), "use 0 or 1"),
        (lambda: Smooth("auto"), "no rule chooses it"),
        (lambda: Volume(0.1, delta=0), "delta must be a finite number > 0"),
        (lambda: Volume(0.1, on="V"), "use 'W' or 'H'"),
        (lambda: from_text("smooth:0.1:rows"), "use 0 or 1"),
    ],
)
def test_what_cannot_be_meant_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("penalty", [L1(0.3), L2(0.4), Sparsity(0.2), Volume(0.1), Smooth(0.1)], ids=lambda p: p.word)
def test_bounds_of_a_mode_have_the_slope_of_the_penalty_in_every_block(penalty, mode, rng):
    shape = (5, 6, 4)
    penalties = Penalties((penalty.of_mode(mode),), Setting(shape, 1.3, 5.0))
    blocks = [rng.uniform(0.5, 1.5, (3, shape[(k + 1) % 3])) for k in range(3)]

    def measured(block, F):
        return tuple(penalties.measure(HOST, F if k == block else B, k, 3) for k, B in enumerate(blocks))

    for block, F in enumerate(blocks):
        bound = penalties.bound(F, block, measured(block, F))
        slope = np.broadcast_to(bound.slope(), F.shape) + (0.0 if bound.curvature is None else bound.curvature @ F)
        way = rng.normal(size=F.shape)
        ends = [penalties.value(measured(block, F + step * way)) for step in (1e-6, -1e-6)]
        assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(float((slope * way).sum()), rel=1e-6, abs=1e-9)
