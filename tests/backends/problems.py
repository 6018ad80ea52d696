"""Small factorization problems with odd shapes, the questions that every Data is asked, and the oracle's answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.backends.base import Ask, Data, Observed, Sweep
from drnmf.backends.host.dense import DenseMatrix
from drnmf.backends.observed import Entries
from drnmf.losses.base import Omega
from drnmf.losses.names import from_text

_SETS = "0, 1, 2, 0.5, 0 1, 1 2, 2 1, 0 2, 0 1 2, 0 0.5 1.5 3, nb:30, 0 nb:30, 1 2 nb:30, nb:2 0 1.5"
LOSS_SETS: dict[str, Omega] = {name: tuple(map(from_text, name.split())) for name in _SETS.split(", ")}
"""Name -> losses: both families, alone and mixed."""

# (m, n, r): one entry, tall, wide, odd, and ranks around the widths of vectors and register blocks
SHAPES = ((1, 1, 1), (401, 20, 7), (20, 1000, 10), (41, 401, 1), (41, 401, 7), (70, 130, 64), (33, 65, 100))


def observed(shape: tuple[int, int]) -> Entries:
    """Weights between 0 and 2 with zeros among them, and an unobserved row and column where there are several."""
    rng = np.random.default_rng(5)
    M = rng.uniform(0.0, 2.0, shape) * (rng.random(shape) < 0.8)
    if min(shape) > 3:
        M[1] = 0.0
        M[:, 0] = 0.0
    return Entries(M if M.any() else np.ones(shape))


def _numbers(omega: Omega, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random(len(omega))


Question = Callable[[Omega, Observed], Ask]

ASKS: dict[str, Question] = {
    "separate": lambda omega, M: Ask(omega),
    "weighted": lambda omega, M: Ask(omega, _numbers(omega, 1)),
    "losses": lambda omega, M: Ask(omega, None),
    "silent": lambda omega, M: Ask(omega, losses=False),
    "falling": lambda omega, M: Ask(omega, positive=False),
    "falling observed": lambda omega, M: Ask(omega, observed=M, positive=False),
    "separate curved": lambda omega, M: Ask(omega, curvature=_numbers(omega, 2)),
    "weighted curved": lambda omega, M: Ask(omega, _numbers(omega, 1), curvature=_numbers(omega, 1)),
    "curvature": lambda omega, M: Ask(omega, None, False, _numbers(omega, 2)),
    "separate observed": lambda omega, M: Ask(omega, observed=M),
    "weighted curved observed": lambda omega, M: Ask(omega, _numbers(omega, 1), True, _numbers(omega, 2), M),
}
"""What a sweep can be asked: parts separate, weighted or none; with and without losses, curvature and weights."""

AT_LARGE_RANK = ("separate", "weighted curved", "separate observed")
"""Those that large ranks are asked: the curvature grows with the square of the rank."""

OTHER_SIDE = ("weighted curved", "separate observed")
"""The questions that X transposed is asked too."""


def entries(shape: tuple[int, int], dtype: Any, zeros: float, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.gamma(1.0, 1.0, shape).astype(dtype)
    X[rng.random(shape) < zeros] = 0
    if min(shape) > 3:  # an empty row and an empty column
        X[2] = 0
        X[:, 3] = 0
    return X


def _csr(X: np.ndarray, index: type) -> Any:
    stored = sp.csr_array(X)
    stored.indices, stored.indptr = stored.indices.astype(index), stored.indptr.astype(index)
    return stored


LAYOUTS: dict[str, Callable[[np.ndarray], Any]] = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "strided": lambda X: np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
    "csr32": lambda X: _csr(X, np.int32),
    "csr64": lambda X: _csr(X, np.int64),
}
DENSE, SPARSE = ("C", "F", "strided"), ("csr32", "csr64")


def factors(m: int, n: int, r: int, dtype: Any, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """W and H as the loop holds them: component-first, in the working dtype."""
    rng = np.random.default_rng(seed)
    A, B = rng.random((r, m)) + 0.01, (rng.random((r, n)) + 0.01) * (2.0 / r)
    return A.astype(dtype).T, B.astype(dtype)


def oracle(X: np.ndarray, W: np.ndarray, H: np.ndarray, ask: Ask, mean: float) -> Sweep:
    """The answer of NumPy's tiles in float64."""
    W, H = W.astype(np.float64), H.astype(np.float64)
    return completed(DenseMatrix.of(X.astype(np.float64), mean).sweep(W, H, ask), H, ask)


def completed(sweep: Sweep, H: np.ndarray, ask: Ask) -> Sweep:
    """The sweep with what all columns share put back into every one of them, and P made from it where that is left."""
    if ask.shared is None:
        assert sweep.gram is None
        return sweep
    gram = np.asarray(sweep.gram)
    assert gram.shape == (len(H), len(H))
    packed = gram[np.tril_indices(len(gram))][:, None] + np.zeros(H.shape[1])
    Q = (packed if sweep.Q is None else sweep.Q + packed).astype(H.dtype)
    if not ask.shared_alone:
        return Sweep(sweep.losses, sweep.N, sweep.P, Q)
    assert sweep.Q is None
    assert len(sweep.P) == 0
    weight = 1.0 if ask.weights is None else ask.weights[0]
    P = (weight / ask.shared * gram @ H).astype(H.dtype)[None]
    return Sweep(sweep.losses, sweep.N, P[: ask.slots], Q)


def _slot(F: Any, parts: Any, slot: int) -> Any:
    return parts[slot]


def _all(F: Any, parts: Any) -> Any:
    return parts


def answer(data: Data, W: np.ndarray, H: np.ndarray, ask: Ask) -> Sweep:
    """What any Data says, brought to the host by nothing but the protocol."""
    A, B = data.T.space.put(W.T), data.space.put(H)
    (sweep,) = data.space.read(data.sweep(A.T, B, ask))
    space, dtype = data.space, data.dtype

    def stacked(part: Any) -> np.ndarray:
        slots = [space.get(space.map(_slot, B, part, slot)) for slot in range(ask.slots)]
        return np.stack(slots) if slots else np.empty((0, *H.shape), dtype)

    def fetched(part: Any) -> Any:
        return None if part is None else space.get(space.map(_all, B, part))

    left_out = ask.shared_alone or (not ask.positive and isinstance(sweep.P, np.ndarray) and not len(sweep.P))
    P = np.empty((0, *H.shape), dtype) if left_out else stacked(sweep.P)
    Q = None if ask.curvature is None or ask.shared_alone else fetched(sweep.Q)
    found = Sweep(sweep.losses, stacked(sweep.N), P, Q, _gram_of(data, B, sweep, ask))
    return completed(found, H.astype(dtype), ask)


def _gram_of(data: Data, B: Any, sweep: Sweep, ask: Ask) -> Any:
    """The shared part, which every piece of a factor knows whole."""
    if ask.shared is None:
        return None
    if data.space.whole:
        return data.space.get(sweep.gram)
    pieces = data.space.sum(_counted, B, sweep.gram)
    return pieces[0] / pieces[1].flat[0]


def _counted(F: Any, gram: Any) -> np.ndarray:
    return np.stack([gram, np.ones_like(gram)])
