"""The estimators with tensors: same answers, same kind out as in, and words where something does not fit."""

from __future__ import annotations

import logging
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from drnmf import DRNMF, BetaNMF, MultiObjectiveNMF, Solver, load
from drnmf.backends.torch.dense import TorchDense
from drnmf.problem import device as placement
from tests.backends.table import DEVICE, FUSED, GPU

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def data(m=60, n=40, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.random((m, 4)) @ rng.random((4, n)) + 0.05) * rng.gamma(5.0, 0.2, (m, n))


@pytest.fixture
def _on_torch(monkeypatch):
    """Every fit on the torch Data, also where there is no GPU."""
    kind = placement.Placement

    def place(X, device, precision):
        source = X.device if placement.is_tensor(X) else None
        return kind(DEVICE, precision, False, source)

    monkeypatch.setattr("drnmf.estimators.base.place", place)


RUNS = {
    "mu": {"solver": "mu"},
    "newton": {"solver": "newton"},
    "extrapolated": {"solver": "extrapolated"},
    "monotone": {"solver": "monotone"},
    "minimax": {"solver": Solver(policy="minimax")},
    "subgradient": {"solver": Solver(policy="subgradient", update="extrapolated")},
}


@pytest.mark.usefixtures("_on_torch")
@pytest.mark.parametrize(
    "settings",
    [
        {"betas": (0, 1), "solver": Solver(update="mu", references=(200, 200))},
        {"betas": (1, 2), "solver": Solver(policy="minimax")},
        {"betas": (2,)},
    ],
    ids=str,
)
def test_penalties_are_the_same_on_tensors(settings):
    X, penalties = data(30, 20), ["sparsity:0.05", "volume:0.01:W", "smooth:0.01", "l2:0.1"]
    given = {"tol": 0, "max_iter": 40, "random_state": 0, "penalties": penalties} | settings
    with pytest.MonkeyPatch.context() as undo:
        undo.setattr("drnmf.estimators.base.place", placement.place)
        here = DRNMF(4, **given).fit(X)
    there = DRNMF(4, **given).fit(X)
    np.testing.assert_allclose(there.trace_.penalty, here.trace_.penalty, rtol=1e-8)
    np.testing.assert_allclose(there.trace_.losses, here.trace_.losses, rtol=1e-8)


@pytest.mark.usefixtures("_on_torch")
@pytest.mark.parametrize("name", RUNS)
def test_same_trace_in_float64(name):
    X = data()
    iterations = {"mu": 200, "extrapolated": 200, "minimax": 5}.get(name, 20)
    given = {"tol": 0, "max_iter": iterations, "random_state": 0, "betas": (0, 1), **RUNS[name]}
    if name == "minimax":  # "auto", by which references would be found, is another rule on a GPU
        given |= {"betas": (1, 2), "solver": Solver(policy="minimax", references=(220, 288))}
    with pytest.MonkeyPatch.context() as undo:
        undo.setattr("drnmf.estimators.base.place", placement.place)
        here = DRNMF(4, **given).fit(X)
    there = DRNMF(4, **given).fit(X)
    assert isinstance(there.components_, np.ndarray)
    assert np.abs(there.trace_.scaled_losses / here.trace_.scaled_losses - 1.0).max() < 1e-9


@pytest.mark.skipif(not GPU, reason="needs a CUDA GPU")
def test_kernels_of_a_fit_are_compiled_together(monkeypatch):
    """The sweep under all losses that a fit begins with names them: the first kernels bring all others with them."""
    from drnmf.backends.torch import fused

    monkeypatch.undo()  # which compiles ahead again
    compiled = []
    monkeypatch.setattr(fused, "_compiled", set())
    monkeypatch.setattr(fused, "compile_launch", lambda launch: compiled.append(launch.options))
    X = torch.rand(300, 200, device="cuda") + 0.1
    DRNMF(3, betas=(0, 1), max_iter=3, tol=0, random_state=0).fit(X)
    kinds = [(one["B0"], one["COUNT"], one["WEIGHTED"], one["OWN_FIRST"]) for one in compiled]
    assert len(kinds) == len(set(kinds)) == 8  # two sides of IS alone, KL alone, both apart and both added up
    assert {count for _, count, _, _ in kinds} == {1, 2}


@pytest.mark.skipif(not FUSED, reason="the Triton kernels need a CUDA GPU or TRITON_INTERPRET=1")
@pytest.mark.usefixtures("_on_torch")
def test_trace_in_float32():
    X = data(40, 70).astype(np.float32)
    iterations = 200 if GPU else 15
    start = {"tol": 0, "max_iter": iterations, "random_state": 0, "solver": "mu", "betas": (0, 1)}
    there = DRNMF(4, **start).fit(X)
    with pytest.MonkeyPatch.context() as undo:
        undo.setattr("drnmf.estimators.base.place", placement.place)
        here = DRNMF(4, **start).fit(X.astype(np.float64))
    assert there.components_.dtype == np.float32
    assert np.abs(there.trace_.scaled_losses / here.trace_.scaled_losses - 1.0).max() < 1e-4


@pytest.mark.usefixtures("_on_torch")
def test_tensors_in_tensors_out(tmp_path):
    X = torch.from_numpy(data()).to(DEVICE)
    model = MultiObjectiveNMF(3, betas=(1, 2), max_iter=40, tol=0, random_state=0)
    W = model.fit_transform(X)
    for tensor in (W, model.components_, model.transform(X[:5]), model.inverse_transform(W)):
        assert isinstance(tensor, torch.Tensor)
        assert tensor.device == X.device
        assert tensor.dtype == X.dtype
    assert W.shape == (60, 3)
    again = model.transform(X[:5])
    assert torch.allclose(again, model.transform(X)[:5], rtol=1e-6)
    assert isinstance(model.score(X), float)
    model.save(tmp_path / "model.npz")
    assert np.array_equal(load(tmp_path / "model.npz").components_, model.components_.cpu().numpy())


def test_a_host_tensor_uses_the_core_without_a_copy():
    X = data()
    model = BetaNMF(3, max_iter=30, tol=0, random_state=0)
    W = model.fit_transform(torch.from_numpy(X))
    assert isinstance(W, torch.Tensor)
    assert np.array_equal(W.numpy(), BetaNMF(3, max_iter=30, tol=0, random_state=0).fit_transform(X))
    assert isinstance(model.transform(X), np.ndarray)


@pytest.mark.usefixtures("_on_torch")
def test_sparse_on_torch():
    shape, count = ((80, 50), 30) if GPU else ((16, 10), 3)  # the interpreter takes its time for every column
    rng = np.random.default_rng(0)
    X = sp.csr_array(rng.uniform(size=shape) * (rng.uniform(size=shape) < 0.2))
    with pytest.MonkeyPatch.context() as undo:
        undo.setattr("drnmf.estimators.base.place", placement.place)
        here = DRNMF(4, betas=(1, 2), tol=0, max_iter=count, random_state=0).fit(X)
    there = DRNMF(4, betas=(1, 2), tol=0, max_iter=count, random_state=0).fit(X)
    assert np.abs(there.trace_.scaled_losses / here.trace_.scaled_losses - 1.0).max() < 1e-9
    held = torch.sparse_coo_tensor(np.array(X.tocoo().coords), X.tocoo().data, X.shape).to(DEVICE)
    tensor = DRNMF(4, betas=(1, 2), tol=0, max_iter=count, random_state=0).fit(held)
    assert np.allclose(tensor.components_.cpu().numpy(), there.components_)


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (torch.tensor([[1.0, -2.0]]), r"Negative values .* X\[0, 1\]"),
        (torch.tensor([[1.0, float("inf")]]), r"[Ii]nfin.* X\[0, 1\]"),
        (torch.ones(3), "2-dimensional"),
        (torch.ones((3, 2), dtype=torch.int64), "int64"),
        (torch.ones((0, 2)), "at least one row"),
    ],
)
def test_bad_tensors_are_named(X, words):
    with pytest.raises(ValueError, match=words):
        BetaNMF(1).fit(X)


def test_zeros_under_itakura_saito():
    with pytest.raises(ValueError, match=r"the first is X\[0, 1\]"):
        BetaNMF(1, beta=0).fit(torch.tensor([[1.0, 0.0], [1.0, 1.0]]))


def test_number_of_features_is_checked():
    model = BetaNMF(2, max_iter=5, tol=0).fit(torch.rand(8, 6))
    with pytest.raises(ValueError, match="expecting 6 features"):
        model.transform(torch.rand(8, 5))


@pytest.mark.parametrize("device", ["tpu", "gpu", 3])
def test_unknown_devices(device):
    with pytest.raises(ValueError, match="cuda-blocks"):
        BetaNMF(1, device=device).fit(np.ones((3, 3)))


def test_unknown_precision():
    with pytest.raises(ValueError, match="tf32"):
        BetaNMF(1, solver=Solver(precision="float8")).fit(np.ones((3, 3)))
    with pytest.raises(ValueError, match="tf32"):
        TorchDense.of(torch.ones(2, 2), precision="float8")


@pytest.mark.skipif(GPU, reason="there is a CUDA GPU")
def test_without_a_gpu(caplog):
    with pytest.raises(RuntimeError, match="sees no CUDA GPU"):
        BetaNMF(1, device="cuda").fit(np.ones((3, 3)))
    with caplog.at_level(logging.WARNING, logger="drnmf"):
        BetaNMF(1, device="auto", max_iter=2, tol=0).fit(np.ones((3, 3)))
    assert len([r for r in caplog.records if "No GPU is used" in r.message]) == 1


@pytest.mark.skipif(not GPU, reason="needs a CUDA GPU")
def test_devices_are_not_mixed():
    X = torch.rand(20, 10, device="cuda")
    with pytest.raises(ValueError, match="X is on cuda:0, but device='cpu'"):
        BetaNMF(2, device="cpu").fit(X)
    model = BetaNMF(2, max_iter=5, tol=0).fit(X)
    with pytest.raises(ValueError, match="W is on cpu"):
        model.inverse_transform(torch.rand(3, 2))


@pytest.mark.skipif(not GPU, reason="needs a CUDA GPU")
def test_arrays_go_to_the_gpu_and_come_back():
    X = data().astype(np.float32)
    plain = BetaNMF(3, beta=0, max_iter=50, tol=0, random_state=0, solver="mu").fit(X)
    for device in ("cuda", "cuda:0", "auto", "cuda-blocks"):
        model = BetaNMF(3, beta=0, max_iter=50, tol=0, random_state=0, device=device, solver="mu").fit(X)
        assert isinstance(model.components_, np.ndarray)
        assert model.reconstruction_err_ == pytest.approx(plain.reconstruction_err_, rel=1e-4)
    host = BetaNMF(3, beta=0, max_iter=50, tol=0, random_state=0, device="cuda", solver="mu").fit(torch.from_numpy(X))
    assert host.components_.device.type == "cpu"


@pytest.mark.skipif(not GPU, reason="needs a CUDA GPU")
def test_too_large_says_what_was_needed(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (2**20, 2**37))
    with pytest.raises(MemoryError, match=r"needs 0\.\d GiB .* device='cuda-blocks'"):
        BetaNMF(1, device="cuda").fit(np.ones((2000, 10_000), dtype=np.float32))


def test_torch_is_not_imported_unasked():
    code = "import sys, numpy as np, drnmf; drnmf.BetaNMF(1, max_iter=2, tol=0).fit(np.ones((3, 3)))"
    done = subprocess.run([sys.executable, "-c", code + "; assert 'torch' not in sys.modules"], capture_output=True)
    assert done.returncode == 0, done.stderr
