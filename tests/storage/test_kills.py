"""kill -9 in the middle of a fit, again and again: what is found in the end is what would have been found anyway."""

from __future__ import annotations

import multiprocessing
import random
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drnmf.storage.checkpoint import CheckpointError
from tests import kept_fits

KILLS = 20


@pytest.fixture(scope="module")
def processes() -> Any:
    """Real processes, forked from one that has imported the library already."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        pytest.skip("no forkserver on this system")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.kept_fits"])
    return context


def run(processes: Any, *arguments: Any) -> int:
    process = processes.Process(target=kept_fits.work, args=arguments)
    process.start()
    process.join(timeout=120)
    assert process.exitcode is not None
    return int(process.exitcode)


def check(out: Path, expected: dict[str, Any]) -> None:
    with np.load(out) as found:
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("case", sorted(kept_fits.CASES))
def test_killed_on_the_way_to_the_disk(case: str, tmp_path: Path, processes: Any, monkeypatch: Any) -> None:
    """Each life ends at a random one of the steps still to come: opening, flushing, renaming, removing, or between."""
    monkeypatch.delenv("DRNMF_BACKEND", raising=False)
    seed, rng = 0, random.Random(case)
    whole = tmp_path / "whole.npz"
    assert run(processes, case, str(tmp_path / "unkilled"), str(whole), None, seed) == 0
    steps = int(np.load(whole)["steps"])
    expected = kept_fits.fit(case, None, seed)
    assert case != "interval" or len(expected["betas_"]) == 4
    check(whole, expected)
    folder, out = str(tmp_path / "kept"), tmp_path / "out.npz"
    most = 3 * steps // (2 * KILLS)  # a life takes half of that on average: something is left for the last one
    ended = set()
    for _ in range(KILLS):
        assert run(processes, case, folder, str(out), rng.randint(1, most), seed) == -signal.SIGKILL
        ended.add(len(list(Path(folder).glob("run-*.npz"))))
    assert not out.exists()
    runs = len(list((tmp_path / "unkilled").glob("run-*.npz")))
    assert len(ended) > runs // 2  # reference fits, fits from several starts and rounds of an interval were all hit
    assert run(processes, case, folder, str(out), None, seed) == 0
    assert int(np.load(out)["steps"]) < steps
    check(out, expected)


@pytest.mark.slow
def test_killed_from_outside(tmp_path: Path, processes: Any, monkeypatch: Any) -> None:
    """SIGKILL at moments of the clock that know nothing of what the fit is doing."""
    monkeypatch.delenv("DRNMF_BACKEND", raising=False)
    case, seed, rng = "references and starts", 11, random.Random(11)
    expected = kept_fits.fit(case, None, seed)
    whole = tmp_path / "whole.npz"
    began = time.perf_counter()
    assert run(processes, case, str(tmp_path / "unkilled"), str(whole), None, seed) == 0
    span = time.perf_counter() - began
    kills = lives = 0
    while kills < KILLS:
        folder, out = tmp_path / f"life-{lives}", tmp_path / f"out-{lives}.npz"
        process = processes.Process(target=kept_fits.work, args=(case, str(folder), str(out), None, seed))
        process.start()
        time.sleep(rng.uniform(0, span))
        process.kill()
        process.join(timeout=60)
        if process.exitcode == 0:  # it was quicker: the next one begins anew
            check(out, expected)
            lives += 1
        else:
            assert process.exitcode == -signal.SIGKILL
            kills += 1
    assert run(processes, case, str(folder), str(out), None, seed) == 0
    check(out, expected)


def test_a_folder_is_free_again_when_its_process_is_gone(tmp_path: Path, processes: Any, monkeypatch: Any) -> None:
    monkeypatch.delenv("DRNMF_BACKEND", raising=False)
    ready = processes.Event()
    process = processes.Process(target=kept_fits.hold, args=(str(tmp_path), ready))
    process.start()
    assert ready.wait(timeout=60)
    with pytest.raises(CheckpointError, match="in use by another process"):
        kept_fits.fit("sparse", str(tmp_path))
    process.kill()
    process.join(timeout=60)
    kept_fits.fit("sparse", str(tmp_path))
