"""kill -9 in the middle, then the same command again: nothing finished is computed twice, the result is the same."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from drnmf.apps.paper import runner
from drnmf.apps.paper.fits import Options
from drnmf.apps.paper.runner import EXPERIMENTS


def command(folder: Path, out: Path) -> list[str]:
    call = "from drnmf.cli import app; app()"
    arguments = ["reproduce", "table-audio", "--data", str(folder), "--out", str(out)]
    return [sys.executable, "-c", call, *arguments, "--seeds", "3", "--max-iter", "60", "--threads", "1"]


def test_kill_and_resume(folder: Path, tmp_path: Path) -> None:
    out, units = tmp_path / "out", tmp_path / "out" / "units" / "table-audio"
    process = subprocess.Popen(command(folder, out), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while len(list(units.glob("*.npz"))) < 4:
        assert process.poll() is None, (process.stderr.read() if process.stderr else b"").decode()
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    before = {path.name: path.stat().st_mtime_ns for path in units.glob("*.npz")}
    assert 4 <= len(before) < 27, "killed too late to show anything"
    assert not (out / "table-audio.csv").exists()

    subprocess.run(command(folder, out), check=True, capture_output=True)
    after = {path.name: path.stat().st_mtime_ns for path in units.glob("*.npz")}
    assert len(after) == 27
    assert {name: after[name] for name in before} == before

    whole = tmp_path / "whole"
    runner.run([EXPERIMENTS["table-audio"]], Options(folder, seeds=3, max_iter=60), whole)
    runner.render([EXPERIMENTS["table-audio"]], whole)
    assert (out / "table-audio.csv").read_bytes() == (whole / "table-audio.csv").read_bytes()
