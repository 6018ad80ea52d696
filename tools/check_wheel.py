"""Try an installed wheel, without the source tree: is the compiled extension in it, do a fit and the commands work?

python tools/check_wheel.py
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import drnmf
from drnmf import DRNMF, _core
from drnmf.backends.core import chosen_backend


def check(holds: bool, what: str) -> None:
    if not holds:
        sys.exit(f"{what}: this wheel is not fit for use")


def main() -> None:
    source = Path(__file__).resolve().parents[1] / "src"
    check(source not in Path(drnmf.__file__).resolve().parents, "the source tree was imported, not the wheel")
    check(chosen_backend() == "native", "the compiled extension is not in use")
    check((Path(drnmf.__file__).parent / "py.typed").exists(), "py.typed is missing")
    X = np.random.default_rng(0).gamma(2.0, size=(60, 40))
    for isa in _core.supported_instruction_sets():
        code = "import numpy, drnmf; print(drnmf.BetaNMF(2, random_state=0).fit(numpy.eye(5) + 1).reconstruction_err_)"
        subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "DRNMF_ISA": isa})
    model = DRNMF(5, betas=(0, 1), random_state=0).fit(X)
    check(bool(model.reconstruction_err_ < 1.2), "the robust fit is far from its references")
    subprocess.run([sys.executable, "-m", "drnmf", "info"], check=True)
    print(f"drnmf {drnmf.__version__} works from {Path(drnmf.__file__).parent}")


if __name__ == "__main__":
    main()
