"""scikit-learn's NMF with the engine of this package inside: ``from drnmf.sklearn import NMF``."""

from drnmf.sklearn.mini_batch import MiniBatchNMF
from drnmf.sklearn.nmf import NMF, non_negative_factorization

__all__ = ["NMF", "MiniBatchNMF", "non_negative_factorization"]
