"""scikit-learn's own tests of NMF, read from the package that is installed, with the names of this one in their place.

Nothing is copied: their file is executed here. Tests of private functions alone are left out.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import sklearn.decomposition

import drnmf.sklearn

PATH = Path(sklearn.decomposition.__file__).parent / "tests" / "test_nmf.py"
THEIRS = "from sklearn.decomposition import NMF, MiniBatchNMF, non_negative_factorization\n"
PRIVATE = (
    "test_initialize_nn_output",
    "test_initialize_close",
    "test_initialize_variants",
    "test_beta_divergence",
    "test_special_sparse_dot",
    "test_nmf_underflow",
)
CONTINUITY = (
    "after 20 steps at beta = -1.2 a change of 1e-5 in beta moves one entry of W in 100 by 1.3e-4, where 1e-4 is "
    "allowed: the steps are longer than scikit-learn's, and so is what a change of beta makes of them"
)
FAILS = {
    "test_nmf_multiplicative_update_sparse[csr_matrix]": CONTINUITY,
    "test_nmf_multiplicative_update_sparse[csr_array]": CONTINUITY,
    "test_nmf_float32_float64_consistency[NMF-solver0]": "7 components of 7 columns: the fit goes on to an error that "
    "float32 does not resolve, and 6 entries of W in 350 differ by up to 5e-5, where 1e-5 is allowed",
    "test_nmf_float32_float64_consistency[NMF-solver1]": "the same: 1 entry of W in 350 differs by 1.7e-5",
    "test_nmf_float32_float64_consistency[MiniBatchNMF-solver2]": "the same: X times 1 + 1e-7 moves an entry of W "
    "by 4e-4 in float64 already; the error is 0.025 where scikit-learn's is 0.92",
    "test_nmf_true_reconstruction": "three rows a batch, and three components that fit the first one exactly: when it "
    "comes again H moves by less than tol and the fit is over, by scikit-learn's rule; with tol=0 it ends at 1e-14",
}
"""Name of a test -> why it fails."""


if not PATH.exists():
    pytest.skip("this scikit-learn comes without its tests", allow_module_level=True)
source = PATH.read_text(encoding="utf-8")
if THEIRS not in source:
    pytest.skip("the tests of this scikit-learn import other names", allow_module_level=True)
NMF, MiniBatchNMF = drnmf.sklearn.NMF, drnmf.sklearn.MiniBatchNMF
non_negative_factorization = drnmf.sklearn.non_negative_factorization
exec(compile(source.replace(THEIRS, "\n"), str(PATH), "exec"), globals())
for name in PRIVATE:
    globals().pop(name, None)

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def known_failure(request: pytest.FixtureRequest) -> None:
    """Expect the failures that are listed, and no other; where rounding decides, another NumPy may pass."""
    reason = FAILS.get(request.node.name)
    if reason is not None:
        request.applymarker(pytest.mark.xfail(strict="float32" not in request.node.name, reason=reason))


def test_every_known_failure_is_a_test():
    assert all(name.partition("[")[0] in globals() for name in FAILS)
