"""State as plain data: what rules, policies and results hold goes through JSON and arrays and comes back to the bit."""

from __future__ import annotations

import json
from dataclasses import is_dataclass

import numpy as np
import pytest

from drnmf.algorithms.loop import Best, Control, Log, Snapshot, solve
from drnmf.algorithms.result import Result, Trace
from drnmf.algorithms.updates.base import Momentum
from drnmf.algorithms.updates.minimax import Minimax
from drnmf.algorithms.updates.table import RULES
from drnmf.algorithms.weights import POLICIES
from drnmf.backends.base import wrap
from drnmf.fit.road import Method
from drnmf.objective.objective import Objective
from drnmf.storage.plain import TYPES, pack, unpack
from drnmf.storage.records import result_of, result_record, snapshot_of, snapshot_record, state_shells
from tests.keeping import exactly
from tests.kept_fits import matrix


@pytest.mark.parametrize("update", [*sorted(RULES), "minimax"])
@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_every_state_survives_json(update, policy):
    """Whatever a rule or a policy of the tables keeps can be written, and comes back to the bit."""
    data, taken = wrap(matrix()), []
    rule = Minimax() if update == "minimax" else RULES[update]

    class Keeper:
        seconds = 0.0

        def recall(self):
            return None

        def offer(self, snapshot):
            taken.append(snapshot())

        def done(self, result):
            pass

    rng = np.random.default_rng(0)
    W, H = rng.random((30, 3)) + 0.1, rng.random((3, 20)) + 0.1
    betas = (2.0,) if update == "hals" else (0.0, 1.0)
    objective = Objective(betas, np.ones(len(betas)), data.mean)
    solve(data, W, H, objective, rule, POLICIES[policy], Control(max_iter=130, tol=0, keeper=Keeper()))
    snapshot = taken[-1]
    tree, arrays = pack(snapshot_record(snapshot, 130, data))
    back = snapshot_of(unpack(json.loads(json.dumps(tree)), arrays), data)
    exactly(back.states, snapshot.states)
    exactly(back.policy_state, snapshot.policy_state)
    exactly(back.best, snapshot.best)
    assert len(back.log.seconds) == 130
    for name in ("A", "B", "weights", "sweeps"):
        exactly(getattr(back, name), getattr(snapshot, name))
    exactly(back.log.watched, snapshot.log.watched[:130])


class Handle:
    """A factor that lives elsewhere."""

    def __init__(self, array):
        self.array, self.shape = array, array.shape

    @property
    def T(self):
        return Handle(self.array.T)


class Elsewhere:
    """A Data whose factors are handles; it counts how often one is fetched."""

    def __init__(self, shape, fetched):
        self.shape, self.fetched = shape, fetched

    @property
    def T(self):
        return Elsewhere(self.shape[::-1], self.fetched)

    def put(self, F):
        assert F.shape[1] == self.shape[1]
        return F if isinstance(F, Handle) else Handle(np.ascontiguousarray(F))

    def get(self, F):
        assert F.shape[1] == self.shape[1]
        self.fetched.append(F)
        return F.array


def test_factors_that_live_elsewhere_are_fetched_once_and_put_back(rng):
    data = Elsewhere((4, 7), [])
    A, B, last = (Handle(rng.random((2, k))) for k in (4, 7, 7))
    best = Best(A, B, np.ones(2), np.ones(2))
    log = Log([np.ones(2)], [np.ones(2)], [0.5], [3], [1.0])
    states = (Momentum(last, 1.5, 3), np.array([0.4, 0.6]))
    record = snapshot_record(Snapshot(A, B, states, 3, np.ones(2), 2, np.ones(2), 7, best, log), 1, data)
    assert len(data.fetched) == 3
    tree, arrays = pack(record)
    back = snapshot_of(unpack(json.loads(json.dumps(tree)), arrays), data)
    assert back.A is back.best.A
    assert back.B is back.best.B
    exactly([back.A.array, back.B.array, back.states[0].F.array], [A.array, B.array, last.array])
    exactly(back.states[1], states[1])
    trace = Trace(np.ones((1, 2)), np.ones((1, 2)), np.zeros(1), np.zeros(1), np.zeros(1, int))
    result = Result(A.T, B, (0.0, 1.0), *(4 * [np.ones(2)]), trace, 0, True, "tol")
    tree, arrays = pack(result_record(result, data))
    back = result_of(unpack(tree, arrays), data)
    exactly([back.W.array, back.H.array], [A.array.T, B.array])


class Keeping(Elsewhere):
    """A Data that keeps the states of its rules in a form of its own, and only W elsewhere."""

    @property
    def T(self):
        return KeepingRows(self.shape[::-1], self.fetched)

    def put(self, F):
        return F

    def get(self, F):
        raise AssertionError("H is at home")


class KeepingRows(Elsewhere):
    def get_state(self, state):
        return Momentum(state["elsewhere"].array, 1.5, 3)

    def put_state(self, state):
        return {"elsewhere": Handle(state.F), "nu": state.nu}


def test_states_that_are_kept_elsewhere_come_as_the_rule_has_them(rng):
    data = Keeping((4, 7), [])
    A, B, last = Handle(rng.random((2, 4))), rng.random((2, 7)), rng.random((2, 4))
    log = Log([np.ones(2)], [np.ones(2)], [0.5], [3], [1.0])
    states = (Momentum(B, 1.5, 3), {"elsewhere": Handle(last)})
    at = Snapshot(A, B, states, 3, np.ones(2), 2, np.ones(2), 7, Best(A, B, np.ones(2), np.ones(2)), log)
    pack(state_shells(at, data))
    back = snapshot_of(unpack(*pack(snapshot_record(at, 1, data))), data)
    exactly(back.states[0], states[0])
    assert back.states[1]["nu"] == 1.5
    exactly(back.states[1]["elsewhere"].array, last)
    trace = Trace(np.ones((1, 2)), np.ones((1, 2)), np.zeros(1), np.zeros(1), np.zeros(1, int))
    result = Result(A.T, B, (0.0, 1.0), *(4 * [np.ones(2)]), trace, 0, True, "tol")
    again = result_of(unpack(*pack(result_record(result, data))), data)
    exactly([again.W.array, again.H], [A.array.T, B])


def test_pack_refuses_what_it_does_not_know():
    for value in (object(), {1: 2}, {1, 2}, np.array([object()]), Method.of("mu", "fixed")):
        with pytest.raises(TypeError, match="plain data"):
            pack(value)
    shared = np.ones(3)
    _, arrays = pack((shared, [shared, Momentum(shared, 1.0)]))
    assert len(arrays) == 1
    assert all(is_dataclass(cls) for cls in TYPES.values())
    one = unpack(*pack((np.float32(0.1), 0.1, float("nan"), float("inf"), True, None, "text", 2**70)))
    assert type(one[0]) is np.float32
    assert repr(one) == repr((np.float32(0.1), 0.1, float("nan"), float("inf"), True, None, "text", 2**70))
