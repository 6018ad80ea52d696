"""Losses by name and by number: what users write, and what files hold."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from drnmf.losses.base import Loss, Omega
from drnmf.losses.beta import NAMES, SHORT, Beta, as_beta
from drnmf.losses.negative_binomial import NegativeBinomial

_SHORT = {name.lower(): beta for beta, name in SHORT.items()}
_PRINTED = re.compile(r"beta\s*=\s*(?P<beta>[^\s]+)|nb\((?P<size>[^()]+)\)", re.IGNORECASE)


def as_loss(value: Any) -> Loss:
    """Turn a beta, a name or a loss into a loss.

    Parameters
    ----------
    value : number >= 0, a name ("kullback-leibler", "KL", "nb:30", and all that results print: "beta=0.5", "NB(30)"),
        or a loss such as ``NegativeBinomial(30)``

    Raises
    ------
    ValueError
        Where the value is none of them.

    Examples
    --------
    >>> as_loss(1), as_loss("itakura-saito"), as_loss("nb:30")
    (Beta(beta=1.0), Beta(beta=0.0), NegativeBinomial(size=30.0))
    >>> as_loss("KL"), as_loss("beta=0.5"), as_loss("NB(30)")
    (Beta(beta=1.0), Beta(beta=0.5), NegativeBinomial(size=30.0))
    """
    if isinstance(value, Beta | NegativeBinomial):
        return Beta(as_beta(value.beta)) if isinstance(value, Beta) else value
    if isinstance(value, str):
        value = _from_printed(value.strip())
    if isinstance(value, str) and value.lower().startswith("nb:"):
        try:
            return NegativeBinomial(float(value[3:]))
        except ValueError:
            raise ValueError(f"{value!r} is not a negative binomial: write nb:SIZE, for example nb:30.") from None
    return Beta(as_beta(value))


def _from_printed(name: str) -> str | float:
    """Turn the name that a loss is printed with into what `as_beta` and `nb:` take; other text stays as it is."""
    found = _PRINTED.fullmatch(name)
    if found is not None and found["size"]:
        return f"nb:{found['size']}"
    if found is not None:
        try:
            return float(found["beta"])
        except ValueError:
            return name
    return _SHORT.get(name.lower(), name.lower() if name.lower() in NAMES else name)


def as_losses(values: Any) -> Omega:
    """Turn what a user wrote for Omega into distinct losses, in the order given.

    >>> [loss.name for loss in as_losses(("itakura-saito", 1))]
    ['IS', 'KL']
    """
    single = isinstance(values, str | Beta | NegativeBinomial) or not isinstance(values, Iterable)
    omega = tuple(as_loss(value) for value in ((values,) if single else tuple(values)))
    if not omega:
        raise ValueError("betas is empty: name at least one loss, for example betas=(0, 1).")
    repeated = [loss for i, loss in enumerate(omega) if loss in omega[:i]]
    if repeated:
        named = tuple(loss.key for loss in omega)
        raise ValueError(f"betas={named} holds {repeated[0].key} twice: every loss must be named once.")
    return omega


def text_of(loss: Loss) -> str:
    """Write a loss as text that `as_loss` reads back exactly.

    >>> as_loss(float(text_of(Beta(0.1)))) == Beta(0.1), text_of(NegativeBinomial(30))
    (True, 'nb:30.0')
    """
    return f"nb:{loss.size!r}" if isinstance(loss, NegativeBinomial) else repr(loss.beta)


def from_text(text: str) -> Loss:
    """Read what `text_of` wrote."""
    return as_loss(text if text.startswith("nb:") else float(text))


__all__ = ["NAMES", "as_loss", "as_losses", "from_text", "text_of"]
