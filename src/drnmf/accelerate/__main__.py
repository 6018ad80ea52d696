"""`python -m drnmf.accelerate script.py args...`: run a program with scikit-learn's NMF on this package."""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path
from types import TracebackType

from drnmf.accelerate import swapped
from drnmf.problem.device import is_device


def main(given: list[str]) -> None:
    """Run a script, or a module with -m, and say at the end what ran where."""
    parser = argparse.ArgumentParser(
        prog="python -m drnmf.accelerate",
        usage="%(prog)s [--device DEVICE] (SCRIPT | -m MODULE) [ARGS ...]",
        description="Run a program with scikit-learn's NMF on the engine of drnmf.",
    )
    parser.add_argument("--device", help="where to fit: auto, cpu, cuda, cuda:N or cuda-blocks")
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, help="run a module, with what follows its name")
    parser.add_argument("script", nargs=argparse.REMAINDER, help="run a file, with what follows it")
    asked = parser.parse_args(given)
    program = asked.module or asked.script
    if not program:
        parser.error("name a script, or a module with -m")
    if not asked.module and not Path(program[0]).is_file():
        parser.error(f"{program[0]}: no such file")
    if asked.device is not None and not is_device(asked.device):
        parser.error(f"--device {asked.device} is not known: auto, cpu, cuda, cuda:N or cuda-blocks")
    with swapped(asked.device) as tally:
        try:
            _run(program, bool(asked.module))
        finally:
            print(tally.report(), file=sys.stderr)


def _run(program: list[str], module: bool) -> None:
    sys.argv = program
    if module:
        sys.path.insert(0, "")
        runpy.run_module(program[0], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, str(Path(program[0]).resolve().parent))
        runpy.run_path(program[0], run_name="__main__")


def _shown(kind: type[BaseException], error: BaseException, frames: TracebackType | None) -> None:
    """Show an error of the program as Python would without this module: from its own first line on."""
    ours = (__file__, runpy.run_path.__code__.co_filename)
    while frames is not None and frames.tb_frame.f_code.co_filename in ours:
        frames = frames.tb_next
    sys.__excepthook__(kind, error.with_traceback(frames), frames)


if __name__ == "__main__":
    sys.excepthook = _shown
    main(sys.argv[1:])
