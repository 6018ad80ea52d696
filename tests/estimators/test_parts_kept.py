"""Fits of parts of X that are stopped and resumed: the same bits as without a stop."""

from __future__ import annotations

import numpy as np
import pytest

from drnmf import Rowwise
from tests.keeping import After, Stopped, dr, same
from tests.kept_fits import matrix, outcome

GROUPS = np.arange(30) % 3
CASES = {
    "groups": ((2,), matrix(), {"groups": GROUPS}),
    "groups and losses": ((1, 2), matrix(), {"groups": GROUPS}),
    "rows": ((2, Rowwise(2, "sqrt")), matrix(), {}),
    "tables": ({"a": 1, "b": 2}, {"a": matrix()[:, :12], "b": matrix()[:, 12:]}, {}),
}


@pytest.mark.parametrize("name", list(CASES))
@pytest.mark.parametrize("at", [3, 25])
def test_a_resumed_fit_has_the_same_bits(tmp_path, name, at, caplog):
    betas, X, given = CASES[name]
    model = dr(betas=betas, max_iter=20, n_init=2)
    whole = outcome(model, model.fit_transform(X, **given))
    model.set_params(solver__checkpoint=tmp_path, solver__checkpoint_every=0, solver__callback=After(at))
    with pytest.raises(Stopped):
        model.fit(X, **given)
    model.set_params(solver__callback=None)
    kept = sorted(tmp_path.glob("run-*.npz"))
    when = [path.stat().st_mtime_ns for path in kept]
    same(whole, outcome(model, model.fit_transform(X, **given)))
    assert not [record for record in caplog.records if "ignored" in record.getMessage()]
    assert [path.stat().st_mtime_ns for path in kept] == when  # no run that had ended is made again


def test_another_division_is_another_fit(tmp_path):
    model = dr(betas=(2,), max_iter=20)
    model.set_params(solver__checkpoint=tmp_path, solver__checkpoint_every=0, solver__callback=After(3))
    with pytest.raises(Stopped):
        model.fit(matrix(), groups=GROUPS)
    model.set_params(solver__callback=None)
    with pytest.raises(ValueError, match="SHA-256 of the parts"):
        model.fit(matrix(), groups=GROUPS[::-1])
