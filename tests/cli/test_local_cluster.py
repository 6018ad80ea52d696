"""A cluster of this machine whose workers cannot start any more ends, and whoever waits for it is told."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from drnmf.cli.local_cluster import local_cluster

distributed = pytest.importorskip("distributed")


def test_workers_that_die_while_they_start_again_end_the_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken, preload = tmp_path / "broken", tmp_path / "preload.py"
    preload.write_text(f"import os\nif os.path.exists({str(broken)!r}): raise RuntimeError('no worker today')\n")
    monkeypatch.setenv("DASK_DISTRIBUTED__WORKER__PRELOAD", str(preload))
    with pytest.raises(OSError, match="all workers have ended"):
        _wait_for_a_worker(tmp_path / "scratch", broken)
    assert not (tmp_path / "scratch").exists()


def _wait_for_a_worker(scratch: Path, broken: Path) -> None:
    """Kill the only worker once no other can start, and ask for one more result."""
    with local_cluster(1, 1, scratch, patience=1.0) as address, distributed.Client(address) as client:
        worker = client.submit(os.getpid).result()
        broken.touch()
        os.kill(worker, signal.SIGKILL)
        client.submit(os.getpid, pure=False).result(timeout=20)
