"""Modules that wait until something of them is asked for."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from drnmf.loading import later

FIT = """
import sys
import numpy as np
import drnmf
import drnmf.problem.scikit
theirs = set(sys.modules) - {"pandas", "scipy.stats"}
X = np.random.default_rng(0).gamma(1.0, size=(30, 20))
drnmf.BetaNMF(3).fit(X)
loaded = {"pandas", "scipy.stats", "scipy.optimize", "scipy.interpolate"} & set(sys.modules) - theirs
assert not loaded, loaded
import scipy.stats
from sklearn.utils import fixes
assert fixes._mode(np.array([1, 2, 2])).mode == 2
try:
    import pandas
except ImportError:
    assert fixes.pd is None
else:
    assert fixes.pd.DataFrame is pandas.DataFrame and pandas is sys.modules["pandas"] is not fixes.pd
    drnmf.BetaNMF(3).set_output(transform="pandas").fit_transform(X).loc[0]
"""


def test_a_small_fit_waits_for_no_statistics_and_no_frames():
    done = subprocess.run([sys.executable, "-c", FIT], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    folder = tmp_path / "made_up"
    folder.mkdir()
    (folder / "__init__.py").write_text("value = 1\n")
    (folder / "inner.py").write_text("value = 2\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("made_up", "made_up.inner"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "made_up"


def test_a_module_that_waits_runs_once_it_is_used_and_is_nobody_elses(made: str):
    with later(made):
        import made_up as first  # type: ignore[import-not-found]
    assert made not in sys.modules
    import made_up as second

    assert first is not second
    assert first.value == second.value == 1
    assert sys.modules[made] is second
    with pytest.raises(AttributeError, match="absent"):
        _ = first.absent


def test_names_and_parts_of_it_may_be_imported_within_the_block(made: str):
    with later(made):
        assert find_spec(made) is not None
        import made_up.inner
        from made_up import value

        assert value == 1
    assert made_up.inner.value == 2
    assert isinstance(sys.modules[made].__file__, str)


def test_what_is_loaded_or_missing_stays_as_it_is():
    with later("sys", "no_such_module"):
        assert "no_such_module" not in sys.modules
        with pytest.raises(ImportError):
            import no_such_module  # type: ignore[import-not-found]  # noqa: F401
    assert sys.modules["sys"] is sys
