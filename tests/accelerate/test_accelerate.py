"""`python -m drnmf.accelerate`: programs that know nothing of this package run on it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import warnings

import numpy as np
import pytest
import sklearn.decomposition
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from drnmf.accelerate import swapped

X = np.random.default_rng(0).uniform(size=(12, 8))

SCRIPT = """
import sys
import library
print(library.run(), sys.argv[1:], __name__)
"""
LIBRARY = """
import numpy as np
from sklearn.decomposition import NMF, non_negative_factorization

def run():
    X = np.random.default_rng(0).uniform(size=(12, 8))
    model = NMF(2, random_state=0)
    model.fit(X).transform(X)
    non_negative_factorization(X, n_components=2, solver="mu", beta_loss="kullback-leibler")
    return type(model).__module__
"""


def run(folder, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "drnmf.accelerate", *arguments], cwd=folder, capture_output=True, text=True
    )


@pytest.mark.parametrize("how", [("script.py",), ("-m", "script"), ("--device", "cpu", "script.py")])
def test_libraries_that_a_script_imports_run_here(tmp_path, how):
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "library.py").write_text(LIBRARY)
    done = run(tmp_path, *how, "--device", "mine", "1")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "drnmf.accelerate ['--device', 'mine', '1'] __main__\n"
    assert "3 of 3 calls ran on drnmf (100 %)" in done.stderr


@pytest.mark.slow
def test_a_script_that_fails_fails_as_it_would(tmp_path):
    (tmp_path / "script.py").write_text("import sys; sys.exit(3)")
    done = run(tmp_path, "script.py")
    assert done.returncode == 3
    assert "nothing of NMF was called" in done.stderr
    assert "no such file" in run(tmp_path, "other.py").stderr


def test_an_error_of_a_script_is_shown_as_python_shows_it(tmp_path):
    (tmp_path / "script.py").write_text("raise RuntimeError('mine')")
    done = run(tmp_path, "script.py")
    assert done.returncode == 1
    assert "RuntimeError: mine" in done.stderr
    assert not {"runpy", "__main__.py"} & set(re.findall(r"[\w.]+", done.stderr))


@pytest.mark.filterwarnings("ignore")
def test_what_is_refused_here_runs_there_with_a_line(capsys):
    with swapped() as tally, np.errstate(all="ignore"):
        huge = sklearn.decomposition.NMF(2, init="random", random_state=0, max_iter=5).fit(X * 1e300)
        huge.transform(X * 1e300)
    assert huge.components_.shape == (2, 8)
    assert "NMF.fit" not in tally.here
    said = capsys.readouterr().err
    assert "drnmf.accelerate: NMF.fit runs on scikit-learn: Losses leave the range of float64" in said


def test_batches_run_here(capsys):
    with swapped("cpu") as tally:
        model = sklearn.decomposition.MiniBatchNMF(2, batch_size=4, random_state=0)
        assert model.fit(X).transform(X).shape == (12, 2)
        model.partial_fit(X)
    assert tally.here == {"MiniBatchNMF.fit": 1, "MiniBatchNMF.transform": 1, "MiniBatchNMF.partial_fit": 1}
    assert model._settings().device is None
    assert not tally.there


def test_what_both_refuse_is_their_error():
    with swapped() as tally, pytest.raises(ValueError, match="Negative values in data passed to NMF init"):
        sklearn.decomposition.NMF(2).fit(-X)
    assert not tally.there


def test_what_both_refuse_is_shown_as_their_error_alone(tmp_path):
    script = "import numpy as np\nfrom sklearn.decomposition import NMF\nNMF(2).fit(-np.eye(3))"
    (tmp_path / "script.py").write_text(script)
    done = run(tmp_path, "script.py")
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1
    assert done.stderr.endswith("ValueError: Negative values in data passed to NMF initialization.\n")


def test_a_device_that_nobody_knows_is_refused_before_the_script_runs(tmp_path):
    (tmp_path / "script.py").write_text("print('ran')")
    done = run(tmp_path, "--device", "gpu", "script.py")
    assert done.returncode == 2
    assert "--device gpu is not known: auto, cpu" in done.stderr
    assert not done.stdout


def test_an_interrupted_fit_ends_its_script_as_an_interrupt_does(tmp_path):
    script = """
import os, signal, threading
import numpy as np
from sklearn.decomposition import NMF

signal.signal(signal.SIGINT, signal.default_int_handler)
X = np.random.default_rng(0).uniform(0.1, 1.0, (200, 100))
NMF(2).fit(X)
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
NMF(10, init="random", solver="mu", beta_loss=0, max_iter=10**6, tol=0).fit(X)
"""
    (tmp_path / "script.py").write_text(script)
    done = run(tmp_path, "script.py")
    assert done.stderr.endswith("KeyboardInterrupt\n")
    assert done.returncode == -signal.SIGINT


def test_subclasses_of_a_program_fit_and_fall_back():
    with swapped() as tally, np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")

        class Named(sklearn.decomposition.NMF):
            def __init__(self, n_components=2, name=""):
                super().__init__(n_components=n_components)
                self.name = name

        class Alone(sklearn.decomposition.NMF):
            def __init__(self, n_components=2):  # without a call of the one above
                self.__dict__.update(vars(sklearn.decomposition.NMF(n_components)))
                del self.__dict__["device"]

            def fit_transform(self, X, y=None):
                return 2 * super().fit_transform(X)

        for kind in (Named, Alone):
            model = kind(3).fit(X)
            assert model.components_.shape == (3, 8)
            assert type(model)(3).fit(X * 1e300).transform(X * 1e300).shape == (12, 3)
    assert tally.here == {"Named.fit": 1, "Alone.fit": 1}
    assert {what for what, _ in tally.there} == {"Named.fit", "Named.transform", "Alone.fit", "Alone.transform"}


def test_a_search_over_a_pipeline_runs_here_and_names_come_back():
    theirs = sklearn.decomposition.NMF
    with swapped() as tally:
        pipeline = make_pipeline(sklearn.decomposition.NMF(random_state=0))
        grid = {"nmf__n_components": [1, 2], "nmf__solver": ["cd", "mu"]}
        GridSearchCV(pipeline, grid, scoring=lambda model, X, y=None: -model[-1].reconstruction_err_, cv=2).fit(X)
    assert sklearn.decomposition.NMF is theirs
    assert tally.here["NMF.fit"] == 9
    assert not tally.there
