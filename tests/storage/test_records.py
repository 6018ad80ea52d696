"""State as plain data: what rules, policies and results hold goes through JSON and arrays and comes back to the bit."""

from __future__ import annotations

import json
from dataclasses import is_dataclass

import numpy as np
import pytest

from drnmf.algorithms.acceleration import Direction
from drnmf.algorithms.loop import Best, Control, Log, Snapshot, solve
from drnmf.algorithms.result import Result, Trace
from drnmf.algorithms.updates import RULES
from drnmf.algorithms.updates.minimax import Minimax
from drnmf.algorithms.updates.monotone import Momentum
from drnmf.algorithms.weights import POLICIES
from drnmf.backends.base import Elsewhere
from drnmf.backends.host.dense import HostSpace
from drnmf.backends.modes import Matrix
from drnmf.backends.open import open_data
from drnmf.losses.beta import IS, KL
from drnmf.objective.objective import Objective
from drnmf.problem.units import Units
from drnmf.storage.records import TYPES, result_of, result_record, snapshot_of, snapshot_record
from drnmf.trees import map_leaves, pack, unpack
from tests.keeping import exactly
from tests.kept_fits import matrix


@pytest.mark.parametrize("update", [*sorted(set(RULES) - {"hals"}), "minimax"])
@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_every_state_survives_json(update, policy):
    """Whatever a rule or a policy of the tables keeps can be written, and comes back to the bit."""
    data, taken = open_data(matrix()), []
    rule = Minimax() if update == "minimax" else RULES[update]

    class Keeper:
        seconds = 0.0

        def recall(self, data, omega, *owners):
            return None

        def offer(self, snapshot):
            taken.append(snapshot())

        def done(self, result):
            pass

    rng = np.random.default_rng(0)
    W, H = rng.random((30, 3)) + 0.1, rng.random((3, 20)) + 0.1
    objective = Objective((IS, KL), np.ones(2), data.mean)
    solve(data, W, H, objective, rule, POLICIES[policy], Control(max_iter=130, tol=0, keeper=Keeper()))
    snapshot = taken[-1]
    tree, arrays = pack(snapshot_record(snapshot, 130, Matrix(data)))
    back = snapshot_of(unpack(json.loads(json.dumps(tree)), arrays, TYPES, strict=True), Matrix(data))
    exactly(back.states, snapshot.states)
    exactly(back.policy_state, snapshot.policy_state)
    exactly(back.best, snapshot.best)
    assert len(back.log.seconds) == 130
    for name in ("blocks", "weights", "sweeps"):
        exactly(getattr(back, name), getattr(snapshot, name))
    exactly(back.log.watched, snapshot.log.watched[:130])


class Handle:
    """A factor that lives elsewhere."""

    def __init__(self, array):
        self.array, self.shape = array, array.shape

    @property
    def T(self):
        return Handle(self.array.T)


class Away(HostSpace):
    """A space whose factors are handles; it counts how often one is fetched."""

    def __init__(self, width, fetched):
        self.width, self.fetched = width, fetched

    def put(self, F):
        assert F.shape[1] == self.width
        return F if isinstance(F, Handle) else Handle(np.ascontiguousarray(F))

    def get(self, F):
        assert F.shape[1] == self.width
        self.fetched.append(F)
        return F.array

    def join(self, state):
        return map_leaves(lambda leaf: Elsewhere(self.get(leaf)) if isinstance(leaf, Handle) else leaf, state)

    def split(self, whole):
        return map_leaves(
            lambda leaf: self.put(leaf.values) if isinstance(leaf, Elsewhere) else leaf, whole, leaf=Elsewhere
        )


class AwayData:
    def __init__(self, shape, fetched):
        self.shape, self.fetched, self.space = shape, fetched, Away(shape[1], fetched)

    @property
    def T(self):
        return AwayData(self.shape[::-1], self.fetched)


def test_factors_that_live_elsewhere_are_fetched_once_and_put_back(rng):
    away = AwayData((4, 7), [])
    data = Matrix(away)
    A, B, last, far = (Handle(rng.random((2, k))) for k in (4, 7, 7, 7))
    best = Best((B, A), np.ones(2), np.ones(2))
    log = Log([np.ones(2)], [np.ones(2)], [0.5], [3], [1.0])
    states = (Momentum(last, 1.5, 3), np.array([0.4, 0.6]))
    record = snapshot_record(
        Snapshot((B, A), states, 3, np.ones(2), 2, np.ones(2), 7, best, log, Direction((far, A), 2)), 1, data
    )
    assert len(away.fetched) == 4
    tree, arrays = pack(record)
    back = snapshot_of(unpack(json.loads(json.dumps(tree)), arrays, TYPES, strict=True), data)
    (H, W), (further, same) = back.blocks, back.direction.blocks
    assert H is back.best.blocks[0]
    assert W is back.best.blocks[1] is same
    exactly([further.array, W.array, H.array, back.states[0].F.array], [far.array, A.array, B.array, last.array])
    exactly(back.states[1], states[1])
    trace = Trace(np.ones((1, 2)), np.ones((1, 2)), np.ones((1, 2)), np.zeros(1), np.zeros(1), np.zeros(1, int))
    result = Result((B, A), (IS, KL), *(4 * [np.ones(2)]), trace, 0, True, "tol")
    tree, arrays = pack(result_record(result, data))
    back = result_of(unpack(tree, arrays, TYPES, strict=True), data)
    exactly([back.W.array, back.H.array], [A.array.T, B.array])
    assert back.omega == (IS, KL)


def test_pack_refuses_what_it_does_not_know():
    for value in (object(), {1: 2}, {1, 2}, np.array([object()]), (3, [1j])):
        with pytest.raises(TypeError, match="cannot be stored"):
            pack(value)
    shared = np.ones(3)
    _, arrays = pack((shared, [shared, Momentum(shared, 1.0)]))
    assert len(arrays) == 1
    one = unpack(*pack((np.float32(0.1), 0.1, float("nan"), float("inf"), True, None, "text", 2**70)))
    assert type(one[0]) is np.float32
    assert repr(one) == repr((np.float32(0.1), 0.1, float("nan"), float("inf"), True, None, "text", 2**70))


def test_only_known_types_are_read_back():
    tree, arrays = pack(Units(4.0))
    with pytest.raises(ValueError, match="Units"):
        unpack(tree, arrays, TYPES, strict=True)
    assert all(is_dataclass(kind) for kind in TYPES.values())
