"""Same result for any number of threads, after a fork, under joblib, from many Python threads; Ctrl-C answers."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
import threadpoolctl

from drnmf.algorithms.updates.roots import multiplier_step
from drnmf.algorithms.updates.simplex_steps import simplex_step_ahead
from drnmf.backends.base import Ask
from drnmf.backends.open import open_data
from drnmf.losses.beta import FROBENIUS, IS, KL, Beta
from tests.backends.problems import entries, factors

pytest.importorskip("drnmf._core", reason="the compiled extension was not built")
from drnmf._core import get_num_threads, set_num_threads

# (m, n): many columns; few columns (rows are cut as well); few rows; small
SHAPES = ((300, 2000), (5000, 20), (20, 5000), (40, 50))
CASES = [
    pytest.param(shape, omega, dtype, layout, id=f"{shape}-{[*map(str, omega)]}-{np.dtype(dtype).name}-{layout}")
    for shape in SHAPES
    for omega, dtype in (((IS, KL), np.float32), ((KL, FROBENIUS), np.float64), ((FROBENIUS,), np.float64))
    for layout in ("C", "F", "sparse")
    if layout != "sparse" or IS not in omega
]


@pytest.fixture(autouse=True)
def _restore_threads():
    before = get_num_threads()
    yield
    set_num_threads(before)


def _problem(shape, dtype, layout, r=9):
    X = entries(shape, dtype, zeros=0.8 if layout == "sparse" else 0.1)
    X = sp.csr_array(X) if layout == "sparse" else np.asarray(X, order=layout)
    return open_data(X, "native"), *factors(*shape, r, dtype)


def _same(a, b):
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ("losses", "N", "P", "Q"))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_steps_on_the_simplex_are_the_same_for_any_number_of_threads(dtype):
    rng, r, n = np.random.default_rng(0), 20, 3001
    A = rng.gamma(0.5, 1.0, (50, r))
    F, last = (rng.dirichlet(np.full(r, 0.3), n).T.astype(dtype) + dtype(1e-9) for _ in range(2))
    N, P = rng.gamma(1.0, 1.0, (2, r, n)).astype(dtype)

    def steps(threads):
        set_num_threads(threads)
        first = multiplier_step(F, {0.0: P}, {1.0: N}, 1.0, 1e-12)
        return first, *simplex_step_ahead(F, 10 * N, 1e-12, 5, 1.0, last, 0.5, gram=A.T @ A)

    alone = steps(1)
    for threads in (2, 5):
        assert all(np.array_equal(a, b) for a, b in zip(alone, steps(threads), strict=True))


@pytest.mark.parametrize(("shape", "omega", "dtype", "layout"), CASES)
def test_any_number_of_threads_gives_the_same_bits(shape, omega, dtype, layout):
    data, W, H = _problem(shape, dtype, layout)
    half = np.full(len(omega), 0.5)
    for ask in (Ask(omega), Ask(omega, half), Ask(omega, half, curvature=half)):
        results = []
        for count in (1, 2, 3, 5):
            set_num_threads(count)
            results += [data.sweep(W, H, ask), data.T.sweep(H.T, W.T, ask)]
        assert all(_same(result, results[0]) for result in results[2::2])
        assert all(_same(result, results[1]) for result in results[3::2])


def test_threadpoolctl_sees_and_limits_the_core():
    open_data(np.ones((3, 3)), "native")
    set_num_threads(4)
    found = [pool for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "drnmf"]
    assert [pool["num_threads"] for pool in found] == [4]
    with threadpoolctl.threadpool_limits(1):
        assert get_num_threads() == 1
    assert get_num_threads() == 4


def _run(code, **environment):
    env = {**os.environ, **environment}
    result = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], env=env, capture_output=True, text=True)
    return result.returncode, result.stdout.strip(), result.stderr


def test_omp_num_threads_is_respected():
    code = "from drnmf._core import get_num_threads; print(get_num_threads())"
    assert _run(code, OMP_NUM_THREADS="3")[1] == "3"


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs CPU affinity")
def test_affinity_is_respected():
    code = """
        import os
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        from drnmf._core import get_num_threads
        print(get_num_threads())
    """
    env = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    result = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], env=env, capture_output=True, text=True)
    assert result.stdout.strip() == "1"


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs CPU affinity")
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two cores")
def test_workers_stay_off_their_callers_core_and_a_bound_caller_does_not_bind_them():
    """A worker woken while another pool spins would else queue behind the very thread that waits for it."""
    code = """
        import os
        import numpy as np
        from drnmf.backends.base import Ask
        from drnmf._core import set_num_threads
        from drnmf.backends.open import open_data
        from drnmf.losses.beta import KL

        data, everywhere = open_data(np.ones((400, 500)), "native"), os.sched_getaffinity(0)

        def sweep():
            data.sweep(np.ones((400, 3), order="F"), np.ones((3, 500)), Ask((KL,)))

        sweep()  # alone: whatever else starts threads has them now
        before = set(os.listdir("/proc/self/task"))
        set_num_threads(2)
        sweep()
        (worker,) = [int(task) for task in set(os.listdir("/proc/self/task")) - before]
        for cpu in sorted(everywhere)[:2]:
            os.sched_setaffinity(0, {cpu})  # the caller moves there at once
            os.sched_setaffinity(0, everywhere)
            sweep()
            assert len(os.sched_getaffinity(worker)) == len(everywhere) - 1, os.sched_getaffinity(worker)
            assert os.sched_getaffinity(worker) < everywhere
        free = os.sched_getaffinity(worker)
        os.sched_setaffinity(0, {min(free)})
        sweep()
        assert os.sched_getaffinity(worker) == free, os.sched_getaffinity(worker)
    """
    status, _, errors = _run(code, OMP_NUM_THREADS="1")
    assert status == 0, errors


def _sweep_losses(seed):
    X = entries((200, 300), np.float64, zeros=0.1, seed=seed)
    W, H = factors(200, 300, 5, np.float64)
    return open_data(X, "native").sweep(W, H, Ask((IS, KL))).losses


def _send_losses(connection, seed):
    connection.send(_sweep_losses(seed))
    connection.close()


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forked_children_work():
    set_num_threads(2)
    wanted = _sweep_losses(0)  # the pool of the parent is up
    context = multiprocessing.get_context("fork")
    for _ in range(3):
        ours, theirs = context.Pipe()
        child = context.Process(target=_send_losses, args=(theirs, 0))
        child.start()
        assert ours.poll(20), "the forked child hangs"
        assert np.array_equal(ours.recv(), wanted)
        child.join(20)
        assert child.exitcode == 0
    assert np.array_equal(_sweep_losses(0), wanted)


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_joblib(backend):
    wanted = [_sweep_losses(seed) for seed in range(4)]
    got = joblib.Parallel(n_jobs=2, backend=backend)(joblib.delayed(_sweep_losses)(seed) for seed in range(4))
    assert np.array_equal(got, wanted)


def test_many_python_threads_at_once():
    set_num_threads(2)
    wanted = [_sweep_losses(seed) for seed in range(6)]
    with ThreadPoolExecutor(6) as pool:
        for _ in range(5):
            assert np.array_equal(list(pool.map(_sweep_losses, range(6))), wanted)


def test_many_python_threads_on_one_x():
    """One of them borrows the memory kept for sweeps over X, the others bring their own."""
    data, (W, H) = (
        open_data(entries((600, 700), np.float64, zeros=0.1, seed=0), "native"),
        factors(600, 700, 5, np.float64),
    )

    def losses(scale):
        return data.sweep(scale * W, H, Ask((IS, KL))).losses

    scales = [1.0, 2.0, 3.0, 4.0]
    wanted = [losses(scale) for scale in scales]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(20):
            assert np.array_equal(list(pool.map(losses, scales)), wanted)


def test_a_copy_of_x_in_another_process_begins_with_memory_of_its_own():
    for X in (np.ones((20, 30)), sp.csr_array(np.ones((20, 30)))):
        data = open_data(X, "native")
        data.T.sweep(np.ones((30, 2)), np.ones((2, 20)), Ask((KL,)))
        copy = pickle.loads(pickle.dumps(data))
        assert copy.memory is not data.memory
        assert data.T.memory is data.memory
        ours, theirs = (d.sweep(np.ones((20, 2)), np.ones((2, 30)), Ask((KL,))) for d in (data, copy))
        assert _same(ours, theirs)


def test_the_gil_is_released():
    data, W, H = _problem((1500, 1500), np.float64, "C", r=30)
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    ticker = threading.Thread(target=tick)
    ticker.start()
    start = time.perf_counter()
    data.sweep(W, H, Ask((Beta(0.5), Beta(1.5), Beta(3.0))))
    end = time.perf_counter()
    done.set()
    ticker.join()
    assert sum(start < t < end for t in ticks) >= 2


@pytest.mark.parametrize("layout", ["C", "F"])
def test_ctrl_c_answers_within_a_second(layout):
    data, W, H = _problem((3000, 3000), np.float64, layout, r=150)
    omega = tuple(Beta(0.1 + 0.37 * k) for k in range(12))

    def sweep_for_long():
        for _ in range(1000):
            data.sweep(W, H, Ask(omega))

    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    start = time.perf_counter()
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            sweep_for_long()
    finally:
        timer.cancel()
    assert time.perf_counter() - start < 2.0
    assert np.isfinite(data.sweep(W, H, Ask((FROBENIUS,))).losses).all()  # and the pool still works
