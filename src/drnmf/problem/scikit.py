"""scikit-learn's names that this package uses, without what takes most of their import.

`sklearn.base` imports scipy.stats and, where it is installed, pandas: three quarters of its time, for two functions
that no fit calls (docs/development/performance.md).
"""

from drnmf.loading import later

with later("scipy.stats", "pandas"):
    from sklearn import get_config
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils import check_random_state
    from sklearn.utils.validation import check_array, check_is_fitted, validate_data

__all__ = [
    "BaseEstimator",
    "ClassNamePrefixFeaturesOutMixin",
    "ConvergenceWarning",
    "TransformerMixin",
    "check_array",
    "check_is_fitted",
    "check_random_state",
    "clone",
    "get_config",
    "validate_data",
]
