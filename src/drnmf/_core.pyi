"""The compiled core (src/drnmf/_native)."""

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

class Ask:
    def __init__(
        self,
        omega: Sequence[tuple[int, float]],
        weights: Sequence[float],
        parts: bool,
        losses: bool,
        scale: float,
        zero: float,
        floor: float,
        ceiling: float,
        squared_norm: float,
        identity_limit: float,
        curvature: Sequence[float],
    ) -> None: ...

class Observed:
    def __init__(
        self,
        values: NDArray[Any] | None,
        stored: NDArray[Any] | None,
        rows: NDArray[Any] | None,
        columns: NDArray[Any] | None,
        row_codes: NDArray[Any] | None,
        column_codes: NDArray[Any] | None,
        threshold: int,
        classes: int,
        inverted: bool,
    ) -> None: ...

class Workspace:
    def __init__(self) -> None: ...

class BlockOfDescent:
    def __init__(
        self,
        stored: Sequence[NDArray[Any]],
        F: NDArray[Any],
        last: NDArray[Any],
        ask: Ask,
        N: NDArray[Any],
        P: NDArray[Any],
        Q: NDArray[Any],
        gram: NDArray[Any],
        floor: float,
        weight: float,
        /,
    ) -> None: ...

class Descent:
    def __init__(
        self, H: BlockOfDescent, W: BlockOfDescent, losses: NDArray[Any], memory: Workspace, vanished: float, /
    ) -> None: ...
    def iterate(self, passes: int, pace_H: float, pace_W: float, /) -> None: ...

_Pass = tuple[NDArray[Any], NDArray[Any], Ask, NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]
"""Both factors, the question, and what is written: N, P, Q, gram and the losses (`backends.host.native._Pass`)."""

def sweep_dense(X: NDArray[Any], /, *rest: *tuple[*_Pass, Workspace, Observed | None, NDArray[Any] | None]) -> None: ...
def sweep_parts(
    X: NDArray[Any],
    /,
    *rest: *tuple[*_Pass, Workspace, Sequence[int], bool, Sequence[float], Sequence[float]],
) -> None: ...
def sweep_sparse(
    values: NDArray[Any],
    starts: NDArray[Any],
    indices: NDArray[Any],
    m: int,
    n: int,
    /,
    *rest: *tuple[*_Pass, Workspace, Observed | None, NDArray[Any] | None, bool],
) -> None: ...
def quadratic_step(
    F: NDArray[Any],
    N: NDArray[Any],
    P: NDArray[Any],
    Q: NDArray[Any],
    gram: NDArray[Any] | None,
    floor: float,
    largest: float,
    scale: float,
    passes: int,
    out: NDArray[Any],
) -> None: ...
def simplex_step(
    F: NDArray[Any],
    slope: NDArray[Any],
    Q: NDArray[Any] | None,
    sizes: NDArray[Any] | None,
    gram: NDArray[Any] | None,
    floor: float,
    tolerance: float,
    moves: int,
    out: NDArray[Any],
    last: NDArray[Any] | None,
    totals: NDArray[Any] | None,
    pace: float,
    further: NDArray[Any] | None,
) -> None: ...
def multiplier_step(
    F: NDArray[Any],
    plus: NDArray[Any] | None,
    minus: NDArray[Any] | None,
    terms: list[NDArray[Any]],
    exponents: list[float],
    rising: int,
    totals: NDArray[Any],
    floor: float,
    tolerance: float,
    steps: int,
    out: NDArray[Any],
) -> None: ...
def hals_step(
    F: NDArray[Any],
    N: NDArray[Any],
    gram: NDArray[Any],
    floor: float,
    smallest: float,
    passes: int,
    stepped: NDArray[Any],
    /,
) -> None: ...
def hals_step_ahead(
    F: NDArray[Any],
    N: NDArray[Any],
    gram: NDArray[Any],
    floor: float,
    smallest: float,
    passes: int,
    last: NDArray[Any],
    pace: float,
    stepped: NDArray[Any],
    further: NDArray[Any],
    /,
) -> None: ...
def multiplicative_step(
    F: NDArray[Any],
    N: NDArray[Any],
    P: NDArray[Any],
    coefficients: Sequence[float],
    floor: float,
    out: NDArray[Any],
    /,
) -> None: ...
def moments(X: NDArray[Any], scale: float, /) -> tuple[float, float, int]: ...
def instruction_set() -> str: ...
def supported_instruction_sets() -> list[str]: ...
def get_num_threads() -> int: ...
def set_num_threads(count: int, /) -> None: ...
def default_num_threads() -> int: ...
def vector_log(x: NDArray[Any], out: NDArray[Any], /) -> None: ...
def vector_exp(x: NDArray[Any], out: NDArray[Any], /) -> None: ...
