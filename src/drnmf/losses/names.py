"""Losses by name and by number: what users write, and what files hold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

from drnmf.losses.base import Loss, Omega, Sized, is_unsized
from drnmf.losses.beta import NAMES, SHORT, Beta, as_beta
from drnmf.losses.huber import Huber
from drnmf.losses.negative_binomial import NegativeBinomial
from drnmf.losses.part import Part, Rowwise

_SHORT = {name.lower(): beta for beta, name in SHORT.items()}
FAMILIES: dict[str, type[Any]] = {kind.title.lower(): kind for kind in (NegativeBinomial, Huber)}
"""Losses that are not beta-divergences, by the word of their texts; behind that of `Sized` stands a number."""
_TEXTED = tuple(FAMILIES.values())
TYPES: tuple[type[Any], ...] = (Beta, *_TEXTED, Part, Rowwise)
"""The losses of the package, of which files may speak."""
_PRINTED = re.compile(
    rf"beta\s*=?\s*(?P<beta>[^\s]+)|(?P<word>{'|'.join(FAMILIES)})\((?P<size>[^()]+)\)", re.IGNORECASE
)


def as_loss(value: Any) -> Loss:
    """Turn a beta, a name or a loss into a loss.

    A name is "kullback-leibler", "KL", "nb:30", and all that results print: "beta 0.5", "NB(30)". A loss is
    ``NegativeBinomial(30)``, or an object of your own with every member of `Loss`.

    >>> as_loss(1), as_loss("itakura-saito"), as_loss("nb:30")
    (Beta(beta=1.0), Beta(beta=0.0), NegativeBinomial(size=30.0))
    >>> as_loss("KL"), as_loss("beta 0.5"), as_loss("NB(30)")
    (Beta(beta=1.0), Beta(beta=0.5), NegativeBinomial(size=30.0))
    """
    if is_unsized(value, NegativeBinomial):
        raise ValueError(
            f"{value!r} asks X for the size of a negative binomial, which BetaNMF, DRNMF and noise_profile do: name a "
            "size here, nb:30."
        )
    if isinstance(value, Beta):
        return Beta(as_beta(value.beta))
    if _is_loss(value):
        return value
    if isinstance(value, str):
        value = _from_printed(value.strip())
    word, colon, size = value.partition(":") if isinstance(value, str) else ("", "", "")
    kind = FAMILIES.get(word.lower())
    if kind is not None and bool(colon) == issubclass(kind, Sized):
        try:
            return kind(size) if colon else kind()
        except ValueError:
            raise ValueError(f"{value!r} is no loss: write {word}:SIZE, a number > 0, for example {word}:30.") from None
    if isinstance(value, str) and value.lower().startswith("rows:"):
        _, rho, base = [*value.split(":", 2), "", ""][:3]
        return Rowwise(as_loss(_number(base)), rho.lower())
    if hasattr(value, "terms"):
        raise ValueError(f"beta={value!r} is no loss: {_what_is_wrong(value)} (docs/extending.md shows a whole one).")
    return Beta(as_beta(value))


def _number(text: str) -> float | str:
    """Read a number; other text stays as it is."""
    try:
        return float(text)
    except ValueError:
        return text


def _from_printed(name: str) -> str | float:
    """Turn the name that a loss is printed with into what `as_beta` and `FAMILIES` take; other text stays as it is."""
    found = _PRINTED.fullmatch(name)
    if found is not None and found["size"]:
        return f"{found['word']}:{found['size']}"
    if found is not None:
        try:
            return float(found["beta"])
        except ValueError:
            return name
    return _SHORT.get(name.lower(), name.lower() if name.lower() in NAMES else name)


def _is_loss(value: object) -> TypeGuard[Loss]:
    return not isinstance(value, str | float | int | type) and isinstance(value, Loss)


def _what_is_wrong(value: object) -> str:
    """What an object that has terms lacks to be a loss."""
    if isinstance(value, type):
        return f"it is a class; write {value.__name__}(...)"
    return "it has no " + ", ".join(name for name in vars(Loss) if name[0] != "_" and not hasattr(value, name))


def as_losses(values: Any) -> Omega:
    """Turn what a user wrote for Omega into distinct losses, in the order given.

    >>> [loss.name for loss in as_losses(("itakura-saito", 1))]
    ['IS', 'KL']
    """
    single = isinstance(values, str) or _is_loss(values) or not isinstance(values, Iterable)
    omega = tuple(as_loss(value) for value in ((values,) if single else tuple(values)))
    if not omega:
        raise ValueError("betas is empty: name at least one loss, for example betas=(0, 1).")
    repeated = [loss for i, loss in enumerate(omega) if loss in omega[:i]]
    if repeated:
        named = tuple(loss.key for loss in omega)
        raise ValueError(f"betas={named} holds {repeated[0].key} twice: every loss must be named once.")
    return omega


def every_loss(betas: Mapping[str, object]) -> Omega:
    """List the losses of several tables, each once.

    >>> [loss.name for loss in every_loss({"rna": 1, "protein": 2, "lipids": 2})]
    ['KL', 'Fro']
    """
    return tuple(dict.fromkeys(as_loss(value) for value in betas.values()))


_NOISES = {0.0: "relative error", 1.0: "counts", 2.0: "constant error"}


def noise_of(loss: Loss, counts: bool = True) -> str:
    """Say in words for which noise a loss is made; the name of the loss where no words are known.

    `counts` says whether X holds any: a variance in proportion to the mean is Poisson's only then.

    >>> noise_of(Beta(1.0)), noise_of(NegativeBinomial(46)), noise_of(Beta(0.75)), noise_of(Beta(3.0))
    ('counts', 'overdispersed counts', 'between relative error and counts', 'flatter than constant error')
    >>> noise_of(Beta(1.0), counts=False), noise_of(NegativeBinomial(46), counts=False)
    ('error like the root of the mean', 'between relative error and counts')
    """
    if isinstance(loss, NegativeBinomial):
        return "overdispersed counts" if counts else f"between {_NOISES[0.0]} and {_NOISES[1.0]}"
    if not isinstance(loss, Beta):
        return loss.name
    if loss.beta > 2.0:
        return f"flatter than {_NOISES[2.0]}"
    low = float(int(loss.beta))
    if loss.beta == 1.0 and not counts:
        return "error like the root of the mean"
    return _NOISES.get(loss.beta) or f"between {_NOISES[low]} and {_NOISES[low + 1.0]}"


def text_of(loss: Loss) -> str:
    """Write a loss as text that `from_text` reads back exactly; a loss of another family than the package's is refused.

    >>> as_loss(float(text_of(Beta(0.1)))) == Beta(0.1), text_of(NegativeBinomial(30))
    (True, 'nb:30.0')
    """
    if isinstance(loss, _TEXTED):
        return str(loss.text)
    if isinstance(loss, Beta):
        return repr(loss.beta)
    raise ValueError(f"the loss {loss.name!r} has no text form: only the losses of the package have one.")


def as_written(value: object) -> Any:
    """Turn a loss of the package into the number or text that a user writes for it; leave anything else as it is.

    >>> as_written(Beta(1.0)), as_written(NegativeBinomial(30)), as_written("mu")
    (1.0, 'nb:30.0', 'mu')
    """
    if isinstance(value, Beta):
        return value.beta
    return value.text if isinstance(value, _TEXTED) else value


def from_text(text: str) -> Loss:
    """Read what `text_of` wrote, or the key of an objective of a part of X.

    >>> from_text("1, hospital B").name
    'KL, hospital B'
    """
    base, comma, label = text.partition(", ")
    return Part(from_text(base), 0, label) if comma else as_loss(_number(text))
