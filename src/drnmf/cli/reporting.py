"""drnmf report and drnmf resume, which take an earlier run, and drnmf info."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from drnmf.cli import keeping, options
from drnmf.cli.common import errors, say
from drnmf.cli.discover import discover
from drnmf.cli.fit import fit, pareto
from drnmf.runs.output import check_out_file


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN_DIR", help="The folder of an earlier run.", show_default=False)],
    out: Annotated[Path | None, typer.Option("--out", help="Where to write (default: report.html in RUN_DIR).")] = None,
) -> None:
    """Make the page of an earlier run: one self-contained report.html."""
    from drnmf.report import write_report

    if out is not None:
        check_out_file(out)
        out.parent.mkdir(parents=True, exist_ok=True)
    where = write_report(run, out)
    say(f"{where} ({where.stat().st_size / 1e6:.1f} MB)")


def resume(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder that --checkpoint named.", show_default=False)
    ],
    out: Annotated[Path | None, typer.Option("--out", help="Folder for the results (default: as before).")] = None,
    overwrite: options.Overwrite = False,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
) -> None:
    """Resume a fit, a front or a discovery that was stopped, from its checkpoint, with the options it had."""
    stored = keeping.recall(folder, {"fit": fit, "pareto": pareto, "discover": discover})
    stored.check_input(folder)
    anew: dict[str, object] = {"out": out, "threads": threads, "quiet": quiet or None}
    chosen = stored.options | {name: value for name, value in anew.items() if value is not None}
    say(f"Resuming {chosen['x']}.", errors)
    stored.command(**chosen, checkpoint=folder, overwrite=overwrite)


def info() -> None:
    """Describe version, backend, instruction set, threads, GPU and packages: what to paste into a bug report."""
    lines = environment()
    width = max(map(len, lines))
    for name, text in lines.items():
        say(f"{name:<{width}}  {text}")


REQUIRED = ("numpy", "scipy", "scikit-learn", "joblib", "threadpoolctl", "typer", "rich")
EXTRAS = {
    "plot": ("matplotlib",),
    "audio": ("soundfile", "fast-bss-eval"),
    "tables": ("pyarrow", "openpyxl"),
    "report": ("plotly",),
    "dask": ("dask", "distributed", "zarr"),
    "anndata": ("anndata",),
    "cuda": ("torch", "triton"),
}
"""Optional packages under the extra that installs them."""


def environment() -> dict[str, str]:
    """Describe the package, its backend and its machine, one line each, in the order in which they are printed."""
    from drnmf import __version__
    from drnmf.backends.core import chosen_backend, native_core

    core = native_core()
    system = f"{platform.python_implementation()}, {platform.system()} {platform.release()}, {platform.machine()}"
    return {
        "drnmf": __version__,
        "python": f"{platform.python_version()} ({system})",
        **{name: _version(name) for name in REQUIRED},
        "backend": chosen_backend(),
        "instruction set": "none (not compiled)" if core is None else _instruction_set(core),
        "threads": f"{1 if core is None else core.get_num_threads()} (the machine has {os.cpu_count()} CPUs)",
        "GPU": _gpu(),
        **{name: _version(name, extra) for extra, names in EXTRAS.items() for name in names},
    }


def _version(package: str, extra: str | None = None) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed" if extra is None else f"not installed (pip install 'drnmf[{extra}]')"


def _instruction_set(core: ModuleType) -> str:
    available = ", ".join(core.supported_instruction_sets())
    return f"{core.instruction_set()} (this machine has: {available})"


def _gpu() -> str:
    from drnmf.problem.device import missing_gpu

    why = missing_gpu("cuda")
    if why is not None:
        return f"none: {why}"
    import torch

    return ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))
