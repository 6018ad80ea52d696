"""The task of a block: which operations it holds, in which order, what stays in memory and what goes up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from drnmf.backends.base import Ask
from drnmf.backends.dask.holders import Scratch, load_rows
from drnmf.backends.dask.nodes import (
    Call,
    Kept,
    Node,
    OwnRows,
    Placed,
    Plan,
    Shared,
    Stored,
    SweepRows,
    arrays_in,
    pick,
    plan,
    run_block,
)
from drnmf.backends.dask.partial_sums import SweepColumns, losses_alone, sent_slots
from drnmf.backends.open import open_data
from drnmf.losses.beta import FROBENIUS, IS, KL, Beta


@dataclass
class Block:
    """A block that hands out whatever it is given, and notes the mean and the scale."""

    content: Any = None
    mean: float | None = None
    scale: float | None = None

    def data(self, mean: float, scale: float) -> Any:
        self.mean, self.scale = mean, scale
        return self.content


def same(value: Any) -> Any:
    return value


def ran(task: Plan, stored: tuple[Any, ...] = (), rows: slice = slice(0, 1), block: Any = None) -> tuple[Any, Any]:
    return run_block(task.program, block or Block(), rows, task.shared, stored, None)


def calls(function: Any, *arguments: Any, keep: str = "never") -> Placed:
    return Placed(Node(Call(function), *arguments, keep=keep))


def test_operations_run_once_each_after_what_they_need() -> None:
    order = []

    def note(name: str, *values: float) -> float:
        order.append(name)
        return 1.0 + sum(values)

    first = calls(note, "first")
    left, right = calls(note, "left", first), calls(note, "right", first)
    last = calls(note, "last", left, right)
    _, sent = ran(plan((0.0, 4.0), [(last, same), (left, same)]))
    assert sent == (5.0, 2.0)
    assert sorted(order) == ["first", "last", "left", "right"]
    assert order[0] == "first"
    assert order[-1] == "last"


def test_what_stays_is_what_was_asked_to_stay() -> None:
    always = calls(lambda: "always", keep="always")
    used = calls(lambda value: "used", always, keep="unless used")
    unused = calls(lambda value: "unused", used, keep="unless used")
    never = calls(lambda value: "never", used)
    task = plan((0.0, 4.0), [(unused, same), (never, same)])
    kept, sent = ran(task)
    assert task.kept == [always.node, unused.node]
    assert kept.values == ("always", "unused")
    assert sent == ("unused", "never")


def test_a_node_that_is_stored_is_read_and_not_computed_again() -> None:
    def fail() -> None:
        raise AssertionError("computed again")

    node = Node(Call(fail))
    node.settle(Stored(("block 0", "block 1"), position=1))
    task = plan((0.0, 4.0), [(calls(lambda a, b: a + b, Placed(node, 0), Placed(node, 1)), same)])
    assert [stored.tuples for stored in task.stored] == [("block 0", "block 1")]
    assert ran(task, (Kept(("not this", (3.0, 4.0))),))[1] == (7.0,)
    assert list(node.parents()) == []


def test_arrays_for_all_blocks_travel_once_even_inside_of_other_arguments() -> None:
    H, other = np.ones((2, 3)), np.zeros((2, 3))
    node = calls(lambda pair, again: pair[0] + pair[1] + again, (Shared(H), Shared(other)), Shared(H))
    task = plan((0.0, 4.0), [(node, np.sum)])
    assert [array is H for array in task.shared] == [True, False]
    assert task.nbytes == H.nbytes + other.nbytes
    assert ran(task)[1] == (12.0,)


def test_each_block_gets_its_own_rows_and_the_mean_of_all() -> None:
    block = Block()
    task = plan((2.5, 4.0), [(calls(lambda rows: rows.stop - rows.start, OwnRows()), same)])
    assert ran(task, rows=slice(4, 9), block=block)[1] == (5,)
    assert (block.mean, block.scale) == (2.5, 4.0)


def test_attributes_and_elements_are_picked() -> None:
    assert pick([3, 4], 1) == 4
    assert pick(np.ones((2, 3)), "shape") == (2, 3)
    assert pick("whole", None) == "whole"


def test_what_stays_knows_its_size_and_counts_an_array_once() -> None:
    array = np.ones(100)
    assert len(arrays_in((array, [array, np.ones(3)]))) == 2
    assert Kept((array, (array,))).__sizeof__() == 64 + array.nbytes


OMEGAS = [(KL,), (FROBENIUS,), (IS, KL), (KL, FROBENIUS), (Beta(0.5), KL, FROBENIUS)]


@pytest.mark.parametrize("omega", OMEGAS, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("curved", [False, True])
def test_sums_over_blocks_restore_the_sweep_over_all_rows(omega, weighted: bool, curved: bool, rng) -> None:
    X, W, H = rng.gamma(2.0, size=(11, 7)), rng.random((11, 3)) + 0.1, rng.random((3, 7)) + 0.1
    weights = np.linspace(0.2, 1.0, len(omega))
    ask = Ask(omega, weights if weighted else "separate", curvature=weights if curved else None)
    whole, operation = open_data(X, mean=2.0).sweep(W, H, ask), SweepColumns(ask)
    parts = [
        operation(open_data(X[rows], mean=2.0), np.ascontiguousarray(W[rows].T), H, rows)
        for rows in (slice(0, 4), slice(4, 11))
    ]
    restored = operation.restore(parts[0] + parts[1], H)
    for name in ("losses", "N", "P", "Q"):
        if getattr(whole, name) is not None:
            np.testing.assert_allclose(getattr(restored, name), getattr(whole, name), rtol=1e-12, err_msg=name)
    assert parts[0].P.shape[0] == len(sent_slots(ask))
    assert losses_alone(whole).nbytes == whole.losses.nbytes


def test_rows_of_a_block_have_the_parts_of_their_own_rows(rng) -> None:
    X, W, H = rng.gamma(2.0, size=(11, 7)), rng.random((11, 3)) + 0.1, rng.random((3, 7)) + 0.1
    ask, rows = Ask((IS, KL)), slice(4, 11)
    whole = open_data(X, mean=2.0).T.sweep(H.T, W.T, ask)
    block = SweepRows(ask)(open_data(X[rows], mean=2.0), np.ascontiguousarray(W[rows].T), H, rows)
    np.testing.assert_allclose(block.N, whole.N[:, :, rows], rtol=1e-12)


def test_rows_on_disk_come_back_and_go_with_their_files(tmp_path) -> None:
    scratch = Scratch(tmp_path / "scratch")
    files = scratch.files()
    save = files.save(3)
    values = (np.arange(6.0).reshape(2, 3), (1.5, "text"))
    save(values)
    back = load_rows(save.path, {})
    np.testing.assert_array_equal(back[0], values[0])
    assert back[1] == (1.5, "text")
    folder = files.folder
    del files, save
    assert not folder.exists()
    scratch.remove()
    assert not (tmp_path / "scratch").exists()


def test_the_task_saves_what_stays_before_anybody_sees_it() -> None:
    saved: list[Any] = []
    task = plan((0.0, 4.0), [(calls(lambda: "kept", keep="always"), same)])
    kept, _ = run_block(task.program, Block(), slice(0, 1), task.shared, (), saved.append)
    assert saved == [kept.values] == [("kept",)]
