"""Streams of tensors: what the host says of the same rows, on every loss and beside weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from drnmf import DRNMF, BetaNMF, load
from drnmf.problem import device as placement
from tests.backends.table import DEVICE

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

MODELS = [
    BetaNMF(3, beta=0, random_state=0, init="random"),
    BetaNMF(3, beta=1, random_state=0, init="random"),
    BetaNMF(3, beta=2, random_state=0, init="random"),
    DRNMF(3, betas=(1, 2), random_state=0, init="random"),
]


@pytest.fixture
def _on_torch(monkeypatch):
    """Every batch on the torch Data, also where there is no GPU."""

    def place(X, device, precision):
        source = X.device if placement.is_tensor(X) else None
        return placement.Placement(DEVICE, precision, False, source)

    monkeypatch.setattr("drnmf.estimators.streaming.place", place)


def batches():
    rng = np.random.default_rng(0)
    X = rng.gamma(0.5, 1.0, (240, 3)) @ rng.gamma(0.5, 1.0, (3, 12)) * rng.gamma(5.0, 0.2, (240, 12)) + 0.1
    return np.split(X, 4)


def start(columns=12):
    return np.random.default_rng(1).uniform(0.5, 1.5, (3, columns))


def streamed(model, parts, **given):
    """Three passes from the same components, whatever the rows are stored in."""
    for i, part in enumerate(parts * 3):
        model.partial_fit(part, H=start() if i == 0 else None, **given)
    return model


def fresh(model):
    return type(model)(**{**model.get_params(deep=False), "init": "custom"})


@pytest.mark.usefixtures("_on_torch")
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_tensors_stream_as_arrays_do(model, monkeypatch):
    ours = streamed(fresh(model), [torch.from_numpy(part) for part in batches()])
    monkeypatch.undo()
    host = streamed(fresh(model), batches())
    assert isinstance(ours.components_, torch.Tensor)
    assert ours.rows_seen_ == host.rows_seen_ == 720
    np.testing.assert_allclose(ours.components_.cpu().numpy(), host.components_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(ours.losses_, host.losses_, rtol=1e-8)
    np.testing.assert_allclose((ours.gap_, ours.gap_error_), (host.gap_, host.gap_error_), rtol=1e-5, atol=1e-10)


@pytest.mark.usefixtures("_on_torch")
@pytest.mark.parametrize("model", MODELS[1:], ids=str)
def test_tensors_with_gaps_stream_as_arrays_do(model, monkeypatch):
    rows = batches()
    for part in rows:
        part[::3, 2] = np.nan
    ours = streamed(fresh(model), [torch.from_numpy(part) for part in rows])
    monkeypatch.undo()
    host = streamed(fresh(model), rows)
    np.testing.assert_allclose(ours.components_.cpu().numpy(), host.components_, rtol=1e-6, atol=1e-9)


@pytest.mark.usefixtures("_on_torch")
def test_a_stream_that_begins_by_itself_takes_tensors():
    model = DRNMF(3, betas=(1, 2), random_state=0).fit_stream([torch.from_numpy(part) for part in batches()], passes=2)
    assert bool(torch.isfinite(model.components_).all())
    assert model.scaled_losses_.max() < 1.2


@pytest.mark.usefixtures("_on_torch")
def test_a_stream_of_tensors_goes_on_from_its_file_bit_for_bit(tmp_path):
    rows = [torch.from_numpy(part) for part in batches()]
    model = BetaNMF(3, beta=1, random_state=0).partial_fit(rows[0]).partial_fit(rows[1])
    model.save(tmp_path / "model.npz")
    other = load(tmp_path / "model.npz")
    for part in rows[2:]:
        model.partial_fit(part)
        other.partial_fit(part)
    assert torch.equal(other.components_, model.components_)
