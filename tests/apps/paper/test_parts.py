"""The parts the experiments are made of: the paper's numbers, the data folder, rays and levels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from drnmf.apps.paper import datasets, paper
from drnmf.apps.paper.pareto_figure import ray
from drnmf.apps.paper.weights_figure import settles_below


def test_the_papers_averages_follow_from_its_rows() -> None:
    columns = np.array([measures for _, measures in paper.DOCUMENTS.values()])
    np.testing.assert_allclose(columns.mean(axis=0), paper.DOCUMENTS_AVERAGE, atol=0.006)
    means = np.array([[mean for mean, _ in measures] for _, measures in paper.AUDIO.values()])
    np.testing.assert_allclose(means.mean(axis=0), (148.71, 10.75, 179.05, 10.75), atol=0.01)


def test_every_data_set_of_the_paper_has_a_place_to_come_from() -> None:
    assert set(datasets.WHERE) == set(paper.DOCUMENTS) | set(paper.AUDIO)
    assert {e.paper for e in datasets.DOCUMENTS.values()} == set(paper.DOCUMENTS)
    assert {e.paper for e in datasets.AUDIO.values()} == set(paper.AUDIO)


def test_present_missing_and_unknown(folder: Path) -> None:
    stems = [d.stem for d in datasets.present(folder, "documents")]
    assert stems == ["classic", "tr23", "tr11_cluto", "newsgroups3_politics"]
    assert [d.entry.role for d in datasets.present(folder, "audio")] == ["own", "variant", "substitute"]
    assert len(datasets.missing(folder, "documents")) == 13
    assert "syntBassDrum" in datasets.missing(folder, "audio")  # the other cut is not the data set
    assert datasets.unknown(folder, "audio") == ["holiday.wav"]


@pytest.mark.parametrize("name", ["NG20", "tr45"])
def test_a_data_set_that_a_user_adds_is_picked_up_by_the_papers_name(folder: Path, name: str) -> None:
    for suffix in (".npz", ".labels.npy"):
        (folder / "documents" / f"classic{suffix}").rename(folder / "documents" / f"{name}{suffix}")
    assert [d.stem for d in datasets.present(folder, "documents") if d.stem == name and d.entry.role == "own"] == [name]


def test_bad_data_folders_are_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="DRNMF_DATA"):
        datasets.check_folder(None)
    with pytest.raises(FileNotFoundError, match="is not a folder"):
        datasets.check_folder(folder / "nowhere")
    (folder / "documents" / "classic.labels.npy").unlink()
    with pytest.raises(FileNotFoundError, match=r"classic\.labels\.npy is not"):
        datasets.present(folder, "documents")


def test_labels_must_match_the_documents(folder: Path) -> None:
    np.save(folder / "documents" / "classic.labels.npy", np.zeros(3, dtype=np.int32))
    with pytest.raises(ValueError, match="32 documents but 3 classes"):
        datasets.load_documents(datasets.present(folder, "documents")[0])


def test_settles_below_asks_for_good() -> None:
    assert settles_below(np.array([3.0, 1.0, 2.0, 1.0]), 1.5) == 3
    assert settles_below(np.array([1.0, 1.0]), 1.5) == 0
    assert settles_below(np.array([1.0, 2.0]), 1.5) is None


def test_rays_lead_from_one_end_of_the_front_to_the_other() -> None:
    ends = np.array([[2.0, 6.0], [3.0, 4.0]])  # e = (2, 4); ends at (1, 1.5) and (1.5, 1)
    np.testing.assert_allclose(ray(ends, 0.5), [1.0, 1.0])
    first, last = ray(ends, 0.0), ray(ends, 1.0)
    assert first[0] * 1.5 == pytest.approx(first[1] * 1.0)
    assert last[0] * 1.0 == pytest.approx(last[1] * 1.5)
