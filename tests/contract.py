"""What scikit-learn's checks of an estimator cannot find in a factorisation."""

from __future__ import annotations

_WHY = "a fit under weights and one of repeated rows begin elsewhere, and their minima agree to fewer digits"

OTHER_MINIMA = {f"check_sample_weight_equivalence_on_{kind}_data": _WHY for kind in ("dense", "sparse")}
"""Name of a check -> why it fails; tests/estimators/test_sample_weight.py looks at the same from the same start."""
