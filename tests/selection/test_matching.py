"""Components and their partners in a reference."""

from __future__ import annotations

import numpy as np
import pytest

import drnmf
from drnmf.selection.matching import _LISTED, assign, positions


def test_the_partners_of_a_permuted_and_scaled_copy_are_its_rows():
    rng = np.random.default_rng(0)
    reference = rng.gamma(0.4, 1.0, (6, 40))
    order = rng.permutation(6)
    found = drnmf.match(reference[order] * rng.uniform(1e-200, 1e200, (6, 1)), reference, names=list("abcdef"))
    assert found.index.tolist() == order.tolist()
    assert found.names == tuple("abcdef"[i] for i in order)
    np.testing.assert_allclose(found.similarity, 1.0)


def test_partners_maximise_the_sum_not_each_similarity():
    table = np.array([[0.9, 0.8], [0.8, 0.1]])
    assert assign(table).tolist() == [1, 0]
    brute = max((table[0, 0] + table[1, 1], [0, 1]), (table[0, 1] + table[1, 0], [1, 0]))[1]
    assert assign(table).tolist() == brute


def test_pairs_below_the_least_similarity_are_forbidden_even_where_others_would_gain():
    table = np.array([[0.95, 0.91], [0.92, 0.2], [0.1, 0.1]])
    assert assign(table, 0.9).tolist() == [1, 0, -1]
    found = drnmf.match(np.eye(3), np.eye(3)[:2], least=0.9)
    assert found.names == ("reference_1", "reference_2", None)
    assert np.isnan(found.similarity[2])
    assert str(found).splitlines()[::2] == ["component_1 = reference_1, 1.00", "component_3: no partner"]


def test_another_measure_gives_other_partners():
    components, reference = np.array([[1.0, 2.0, 4.0]]), np.array([[101.0, 102.0, 104.0], [1.0, 2.0, 3.0]])
    assert drnmf.match(components, reference).index.tolist() == [1]
    assert drnmf.match(components, reference, measure="correlation").index.tolist() == [0]
    assert drnmf.match(components, reference, measure=lambda A, B: -np.abs(A[:, :1] - B[:, :1].T)).index.tolist() == [1]


def test_a_component_of_zeros_is_like_nothing():
    found = drnmf.match(np.array([[0.0, 0.0], [1.0, 0.0]]), np.eye(2))
    assert found.index.tolist() == [1, 0]
    assert found.similarity.tolist() == [0.0, 1.0]


def test_frames_are_paired_by_their_labels():
    pd = pytest.importorskip("pandas")
    components = pd.DataFrame([[1.0, 2.0, 9.0]], columns=["a", "b", "c"])
    reference = pd.DataFrame([[9.0, 2.0, 1.0]], columns=["c", "b", "a"], index=["known"])
    found = drnmf.match(components, reference)
    assert found.names == ("known",)
    np.testing.assert_allclose(found.similarity, 1.0)
    with pytest.raises(ValueError, match=r"lacks 1 of 3 labels: 'a'; its own are like 'c'"):
        drnmf.match(components, reference.rename(columns={"a": "x"}))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"reference": np.ones((2, 4))}, "3 entries and the reference 4"),
        ({"reference": np.ones((2, 3)), "names": ["one"]}, "names has 1 entries, but the reference 2 rows"),
        ({"reference": np.ones((2, 3)), "measure": "euclid"}, "measure='euclid' is not known"),
        ({"reference": np.ones(3)}, "one component per row"),
        ({"reference": [["a", "b", "c"]]}, "reference cannot be read as numbers: give one component per row"),
        ({"reference": np.full((2, 3), np.nan)}, "must be finite"),
    ],
)
def test_what_cannot_be_matched_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        drnmf.match(np.ones((2, 3)), **arguments)


def test_a_label_that_stands_twice_is_named():
    with pytest.raises(ValueError, match="the label 'a' twice"):
        positions(["a"], ["a", "a"])


def test_a_pair_at_the_least_similarity_is_allowed():
    assert assign(np.array([[0.5, 0.25]]), 0.5).tolist() == [0]
    assert assign(np.array([[0.5, 0.25]]), 0.51).tolist() == [-1]


def test_labels_are_found_and_those_that_are_missing_listed():
    assert positions(["b", "a"], ["a", "c", "b"]) == [2, 0]
    with pytest.raises(ValueError, match="the label 'c' twice"):
        positions(["a"], ["a", "b", "c", "c"])
    for count in range(1, 8):
        with pytest.raises(ValueError, match=f"lacks {count} of {count} labels") as refused:
            positions([f"x{i}" for i in range(count)], ["a"])
        assert refused.value.args[0].count("'x") == min(count, _LISTED)
        assert (", ..." in refused.value.args[0]) == (count > _LISTED)
