"""A Dask array on a real cluster of processes: the same bits as on threads, whatever happens to the workers."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
import dask.array as da  # noqa: E402

from drnmf import DRNMF, Solver, pareto_front  # noqa: E402
from drnmf.backends.open import open_blocks  # noqa: E402
from tests.backends.dask.test_dask import M, N, R, blocks, everything, fitted, matrix  # noqa: E402
from tests.flat import make  # noqa: E402
from tests.peak import peak_memory  # noqa: E402

SHORT = {"references": (60.0, 20.0), "max_iter": 12}


@pytest.fixture(scope="module")
def cluster():
    """Two processes of one thread each."""
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as processes,
        distributed.Client(processes) as client,
    ):
        yield client


@pytest.mark.slow
@pytest.mark.parametrize(("sparse", "betas"), [(False, (0, 1)), (True, (1, 2))])
def test_any_number_of_workers_gives_the_same_bits(cluster, sparse, betas):
    D = blocks(matrix(sparse))
    on_two = everything(*fitted(D, betas=betas, **SHORT))
    again = everything(*fitted(D, betas=betas, **SHORT))
    with dask.config.set(scheduler="threads"):
        on_threads = everything(*fitted(D, betas=betas, **SHORT))
    with dask.config.set(scheduler="synchronous"):
        on_one = everything(*fitted(D, betas=betas, **SHORT))
    for results in zip(on_two, again, on_threads, on_one, strict=True):
        for other in results[1:]:
            np.testing.assert_array_equal(results[0], other)


@pytest.mark.slow
def test_one_worker_process_gives_the_bits_of_two(cluster):
    D = blocks(matrix())
    on_two = everything(*fitted(D, betas=(0, 1), **SHORT))
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as single,
        distributed.Client(single) as client,
    ):
        on_one = everything(*fitted(D, betas=(0, 1), **SHORT))
        callback, killed = killer(client, (5,))
        after_none = everything(*fitted(D, betas=(0, 1), callback=callback, **SHORT))  # for a moment there is no worker
    assert killed
    for one, *others in zip(on_two, on_one, after_none, strict=True):
        for other in others:
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array])
def test_sparse_blocks_of_both_kinds(cluster, kind):
    X = matrix(sparse=True)
    model, V = fitted(blocks(X, kind=kind), betas=(1, 2), **SHORT)
    local, W = fitted(X, betas=(1, 2), **SHORT)
    np.testing.assert_allclose(model.trace_.scaled_losses, local.trace_.scaled_losses, rtol=1e-10)
    np.testing.assert_allclose(np.asarray(V), W, rtol=1e-8, atol=1e-14)


@pytest.mark.slow
def test_transform_is_lazy_and_right(cluster):
    X = matrix()
    model, _ = fitted(X, betas=(0, 1), **SHORT)
    poison = X.copy()
    poison[200, 5] = -1.0
    lazy = model.transform(blocks(poison))  # nothing is looked at yet
    assert isinstance(lazy, da.Array)
    assert lazy.shape == (M, R)
    np.testing.assert_allclose(lazy[:120].compute(), model.transform(X[:120]), rtol=1e-12)
    with pytest.raises(ValueError, match=r"X\[200, 5\] = -1\.0"):
        lazy.compute()
    assert model.score(blocks(X)) == pytest.approx(model.score(X), rel=1e-12)


def test_a_start_may_be_given_as_arrays(cluster):
    X = matrix()
    rng = np.random.default_rng(1)
    W, H = rng.uniform(0.1, 1, (M, R)), rng.uniform(0.1, 1, (R, N))
    local, model = (make(DRNMF, R, betas=(0, 1), init="custom", tol=0, **SHORT) for _ in range(2))
    expected, V = local.fit_transform(X, W=W, H=H), model.fit_transform(blocks(X), W=W, H=H)
    np.testing.assert_allclose(np.asarray(V), expected, rtol=1e-9)


@pytest.mark.slow
def test_out_of_core_changes_no_bit(cluster):
    D = blocks(matrix())
    held = everything(*fitted(D, betas=(0, 1), **SHORT))
    with dask.config.set({"drnmf.memory-fraction": 1e-12}):
        assert not open_blocks(D).in_memory
        read = everything(*fitted(D, betas=(0, 1), **SHORT))
    for one, other in zip(held, read, strict=True):
        np.testing.assert_array_equal(one, other)


def worker_process(client):
    """The process of a worker that is up: one that dies while it starts is not started again, and fits would wait."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for nanny in client.cluster.workers.values():
            if nanny.process is not None and nanny.process.status is distributed.Status.running:
                return nanny.process.pid
        time.sleep(0.01)
    pytest.fail("no worker came up in a minute")


def killer(client, iterations, delay=0.0):
    """A callback that kills one worker process, at once or a moment later, after the iterations given."""
    killed = []

    def kill():
        killed.append(worker_process(client))
        os.kill(killed[-1], signal.SIGKILL)

    def callback(progress):
        if progress.iteration in iterations:
            threading.Timer(delay, kill).start() if delay else kill()

    return callback, killed


@pytest.mark.slow
@pytest.mark.parametrize(("share", "delay"), [(0.4, 0.0), (0.4, 0.02), (1e-12, 0.01)])
def test_two_killed_workers_change_no_bit(cluster, share, delay):
    D = blocks(matrix())
    settings = {"betas": (0, 1), **SHORT, "max_iter": 32}
    with dask.config.set({"drnmf.memory-fraction": share}):
        undisturbed = everything(*fitted(D, **settings))
        callback, killed = killer(cluster, (7, 23), delay)
        disturbed = everything(*fitted(D, callback=callback, **settings))
    assert len(set(killed)) == 2
    for one, other in zip(undisturbed, disturbed, strict=True):
        np.testing.assert_array_equal(one, other)


def sent(dask_worker):
    return dask_worker.transfer_outgoing_bytes_total


@pytest.mark.slow
@pytest.mark.parametrize("persisted", [False, True])
def test_only_h_and_sums_move(cluster, persisted):
    """Bytes that leave the workers: H once, the sums of one of them, and the total that comes here. W and X stay."""
    D = da.random.default_rng(0).random((2000, 400), chunks=(250, -1)) + 0.1
    D = D.persist() if persisted else D
    seen, rank = [], 8

    def callback(progress):
        seen.append(sum(cluster.run(sent).values()))

    make(DRNMF, rank, betas=(0, 1), callback=callback, **SHORT, tol=0, random_state=0).fit(D)
    H = rank * 400 * 8
    between_files = np.diff(seen)[1:7]
    assert max(between_files) < (1 + 7 * 3 + 3) * H  # eight small sums of 3 r n are added at one place
    assert max(between_files) < 250 * 400 * 8  # a block of X


def known_tasks(client):
    return client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))


@pytest.mark.slow
def test_what_a_lost_worker_replays_is_bounded(cluster):
    """The scheduler remembers the tasks that W came from; written to files every 5 iterations, it forgets them."""
    D = blocks(matrix())

    def run(every):
        seen = []
        gc.collect()  # what earlier tests left for the scheduler to remember
        with dask.config.set({"drnmf.save-every": every}):
            fitted(D, betas=(0, 1), **SHORT | {"max_iter": 30}, callback=lambda _: seen.append(known_tasks(cluster)))
        return seen

    tasks = {every: run(every) for every in (5, 1000)}
    assert max(tasks[5][15:]) <= max(tasks[5][:15]) + 20
    assert tasks[1000][-1] > 2 * max(tasks[5])


@pytest.mark.slow
def test_scratch_files_go_when_the_fit_is_gone(cluster, tmp_path):
    with dask.config.set({"drnmf.scratch": str(tmp_path), "drnmf.save-every": 5}):
        model, W = fitted(blocks(matrix()), betas=(0, 1), **SHORT)
        assert list(tmp_path.rglob("*.npz"))
        del model, W
        gc.collect()
        assert not list(tmp_path.rglob("*.npz"))


def test_a_scratch_folder_that_workers_do_not_see_is_refused(cluster, monkeypatch, tmp_path):
    from drnmf.backends.dask import cluster as place

    monkeypatch.setattr(place, "seen_by_all", lambda path: False)
    for folder in (tmp_path / "new", tmp_path):
        with dask.config.set({"drnmf.scratch": str(folder)}), pytest.raises(ValueError, match="not every worker sees"):
            open_blocks(blocks(matrix()))
        assert not list(tmp_path.iterdir())
    with pytest.warns(UserWarning, match="drnmf.scratch"):
        open_blocks(blocks(matrix()))


def spilled(dask_worker):
    slow = getattr(dask_worker.data, "slow", None)
    return 0 if slow is None else len(slow)


LIMIT = 560 * 2**20


@pytest.fixture(scope="module")
def narrow(tmp_path_factory):
    """X of 640 MB in forty blocks (one file under forty names), and two workers of 560 MiB each."""
    from drnmf.matrices.rowblocks import open_matrix

    folder = tmp_path_factory.mktemp("rows")
    np.save(folder / "000.npy", np.random.default_rng(0).random((4000, 1000), dtype=np.float32) + np.float32(0.1))
    for i in range(1, 40):
        os.link(folder / "000.npy", folder / f"{i:03d}.npy")
    X = open_matrix(folder).X
    assert X.nbytes == 640_000_000
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit=LIMIT, dashboard_address=":0"
        ) as processes,
        distributed.Client(processes) as client,
    ):
        assert not open_blocks(X).in_memory
        yield client, X


def refuse_large_or_spilled(client):
    assert max(client.run(peak_memory).values()) < LIMIT
    assert not any(client.run(spilled).values())


@pytest.mark.slow
def test_x_larger_than_a_worker_passes_through_them(narrow):
    """None of them reaches its limit, and nothing is spilled."""
    client, X = narrow
    model = DRNMF(2, betas=(1, 2), max_iter=2, tol=0, random_state=0, solver=Solver(references=(1.0, 1.0))).fit(X)
    assert model.n_iter_ == 2
    refuse_large_or_spilled(client)


@pytest.mark.slow
def test_a_front_of_x_larger_than_a_worker(narrow):
    """X is not gathered: neither workers nor this process hold much of it at any time."""
    client, X = narrow
    tracemalloc.start()
    try:
        front = pareto_front(
            DRNMF(2, betas=(1, 2), max_iter=1, tol=0, random_state=0, solver=Solver(references=(1.0, 1.0))),
            X,
            weights=[[0.5, 0.5]],
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert np.isfinite(front.scaled_losses).all()
    assert peak < X.nbytes / 8
    refuse_large_or_spilled(client)
