"""scikit-learn's NMF with the engine of this package inside: ``from drnmf.sklearn import NMF``."""

from drnmf.sklearn.nmf import NMF, non_negative_factorization

__all__ = ["NMF", "non_negative_factorization"]
