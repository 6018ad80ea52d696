"""Run a program that uses scikit-learn's NMF on the engine of this package, without a change to it.

``python -m drnmf.accelerate script.py`` does so for a script, `swapped` for a block of code.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar

import sklearn.decomposition
from sklearn.base import BaseEstimator
from sklearn.decomposition import _nmf as their_module

import drnmf.sklearn as ours
from drnmf.sklearn.nmf import Translated

if TYPE_CHECKING:
    from drnmf.sklearn.engine import Settings

__all__ = ["Tally", "swapped"]

Given = Any
"""Whatever a program hands to scikit-learn: arrays, frames, sparse matrices, None."""
Made = Any
"""What scikit-learn hands back: arrays, tuples of them, or the estimator."""
_REFUSED = (ValueError, TypeError, RuntimeError, NotImplementedError)

_non_negative_factorization = sklearn.decomposition.non_negative_factorization


@dataclass
class Tally:
    """What ran where."""

    here: Counter[str] = field(default_factory=Counter)  # name of a call -> how often it ran on this package
    # (name of a call, why) -> how often it ran on scikit-learn's own code
    there: Counter[tuple[str, str]] = field(default_factory=Counter)
    device: str | None = None  # where fits run that name no device

    def fell_back(self, what: str, why: str) -> None:
        """Count a call on scikit-learn, and say so the first time."""
        self.there[what, why] += 1
        if self.there[what, why] == 1:
            print(f"drnmf.accelerate: {what} runs on scikit-learn: {why}", file=sys.stderr)

    def report(self) -> str:
        """Say in a few lines what ran where."""
        here, there = sum(self.here.values()), sum(self.there.values())
        if not here + there:
            return "drnmf.accelerate: nothing of NMF was called in this process."
        lines = [
            f"drnmf.accelerate: {here} of {here + there} calls ran on drnmf ({100 * here / (here + there):.0f} %)."
        ]
        lines += [f"  drnmf         {count:6d}  {what}" for what, count in sorted(self.here.items())]
        lines += [f"  scikit-learn  {count:6d}  {what}: {why}" for (what, why), count in sorted(self.there.items())]
        return "\n".join(lines)


_tally = Tally()


def _tried(what: str, here: Callable[[], Made], there: Callable[[], Made]) -> Made:
    """Run on this package, and where it refuses on scikit-learn: what both refuse is scikit-learn's error."""
    try:
        found = here()
    except _REFUSED as error:
        why = (str(error).splitlines() or [type(error).__name__])[0]
    else:
        _tally.here[what] += 1
        return found
    found = there()  # no longer while the error is handled: scikit-learn's would be shown below ours
    _tally.fell_back(what, why)
    return found


class _Counted(Translated):
    """An estimator whose calls are counted, and left to scikit-learn where they are refused here."""

    _theirs: ClassVar[type[BaseEstimator]]

    def fit_transform(
        self, X: Given, y: Given = None, W: Given = None, H: Given = None, sample_weight: Given = None
    ) -> Made:
        """Fit, and return W, as in `drnmf.sklearn`."""

        def there() -> Made:
            plain, more = self._plain(), {} if sample_weight is None else {"sample_weight": sample_weight}
            found = plain.fit_transform(X, W=W, H=H, **more)
            self.__dict__.update(vars(plain))
            return found

        here = super().fit_transform  # of the estimator of `drnmf.sklearn` that this class stands before
        return _tried(f"{type(self).__name__}.fit", lambda: here(X, y, W, H, sample_weight), there)

    def transform(self, X: Given) -> Made:
        """Compute W for new rows, as in `drnmf.sklearn`."""

        def there() -> Made:
            plain = self._plain()
            plain.__dict__.update(vars(self))
            return plain.transform(X)

        here = super().transform
        return _tried(f"{type(self).__name__}.transform", lambda: here(X), there)

    def _plain(self) -> BaseEstimator:
        # not `get_params`: a subclass of the program has parameters of its own
        return self._theirs(**{name: getattr(self, name) for name in self._theirs._get_param_names()})

    def _settings(self) -> Settings:
        found = super()._settings()
        return found if self.device is not None or _tally.device is None else found.on(_tally.device)


class NMF(_Counted, ours.NMF):
    """Count the calls of `drnmf.sklearn.NMF`, and leave to scikit-learn what that refuses."""

    _theirs = sklearn.decomposition.NMF


@wraps(_non_negative_factorization)
def non_negative_factorization(X: Given, *values: Given, **given: Given) -> Made:
    """Count the calls of `drnmf.sklearn.non_negative_factorization`."""
    placed: dict[str, Given] = {"device": _tally.device} | given
    plain = {name: value for name, value in given.items() if name != "device"}
    return _tried(
        "non_negative_factorization",
        lambda: ours.non_negative_factorization(X, *values, **placed),
        lambda: _non_negative_factorization(X, *values, **plain),
    )


class MiniBatchNMF(_Counted, ours.MiniBatchNMF):
    """Count the calls of `drnmf.sklearn.MiniBatchNMF`, and leave fits to scikit-learn that it refuses."""

    _theirs = sklearn.decomposition.MiniBatchNMF

    def partial_fit(self, X: Given, y: Given = None, W: Given = None, H: Given = None) -> Made:
        """Take a batch into account; one that is refused is an error, for the stream before it is here."""
        found = super().partial_fit(X, y, W, H)
        _tally.here["MiniBatchNMF.partial_fit"] += 1
        return found


_NAMES = {"NMF": NMF, "MiniBatchNMF": MiniBatchNMF, "non_negative_factorization": non_negative_factorization}


@contextmanager
def swapped(device: str | None = None) -> Iterator[Tally]:
    """Replace scikit-learn's NMF while a block runs, also in libraries that are imported in it.

    Parameters
    ----------
    device : where to fit, as in `drnmf.sklearn.NMF`

    Returns
    -------
    tally : a context that gives a Tally, whose `report()` says what ran where

    Examples
    --------
    >>> import numpy as np
    >>> with swapped() as tally:
    ...     from sklearn.decomposition import NMF
    ...
    ...     W = NMF(2).fit_transform(np.random.default_rng(0).uniform(size=(6, 4)))
    >>> print(tally.report())
    drnmf.accelerate: 1 of 1 calls ran on drnmf (100 %).
      drnmf              1  NMF.fit
    """
    global _tally
    before, _tally = _tally, Tally(device=device)
    places = [
        (module, name, getattr(module, name)) for module in (sklearn.decomposition, their_module) for name in _NAMES
    ]
    for module, name, _ in places:
        setattr(module, name, _NAMES[name])
    try:
        yield _tally
    finally:
        for module, name, theirs in places:
            setattr(module, name, theirs)
        _tally = before
