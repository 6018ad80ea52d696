"""A parameter is one dataclass field: what it is, how it is checked, its words and its option stand in its metadata.

`get_params`, checks, the table in the docstring, options of commands, model files and summaries are made from it.
"""

from __future__ import annotations

import functools
import math
import numbers
import re
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, TypeVar


def check_integer(name: str, value: object, least: int) -> int:
    """Check an integer with a lower bound."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"{name}={value!r} must be an integer >= {least}.")
    return int(value)


def check_number(name: str, value: object, least: float, strict: bool = False) -> float:
    """Check a finite real number with a lower bound."""
    bound = ">" if strict else ">="
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not math.isfinite(float(value)):
        raise ValueError(f"{name}={value!r} must be a finite number {bound} {least:g}.")
    if value < least or (strict and value == least):
        raise ValueError(f"{name}={value!r} must be {bound} {least:g}.")
    return float(value)


def check_choice(name: str, value: object, choices: Iterable[str]) -> str:
    """Check that a value is one of a few words."""
    if value not in (known := list(choices)):
        raise ValueError(f"{name}={value!r} is not known: use one of {known}.")
    return str(value)


T = TypeVar("T", bound=type)
KEY = "drnmf"
"""Of a `Parameter` in the metadata of its field."""
_WIDTH = 116


@dataclass(frozen=True)
class Kind:
    """What values a parameter takes."""

    text: str  # what the docstring says of them
    none: bool = False  # None is one of them, which leaves the choice to the library or means "without"
    type: type = str  # of the option on the command line
    least: float | None = None  # the smallest number that the option takes
    names: tuple[str, ...] = ()  # the words that it takes
    # turns a value other than None into what the library uses, or raises a ValueError that names the parameter
    test: Callable[[str, object], object] | None = None

    def check(self, name: str, value: object) -> Any:
        """Return the value of a parameter as the library uses it; a ValueError names one that it cannot use."""
        return value if self.test is None or (self.none and value is None) else self.test(name, value)


def integer(least: int, none: bool = False) -> Kind:
    """Describe integers from a least one on."""
    return Kind(f"int >= {least}", none, int, least, test=lambda name, value: check_integer(name, value, least))


def rank_or_auto() -> Kind:
    """Describe a number of components, or the word that leaves it to the data."""

    def test(name: str, value: object) -> Any:
        return value if isinstance(value, str) and value == "auto" else check_integer(name, value, 1)

    return Kind('int >= 1, or "auto"', type=int, test=test)


def number(none: bool = False, strict: bool = False) -> Kind:
    """Describe finite numbers that are not negative, `strict` also not zero: on the command line from 0.001 on."""
    kind = Kind(f"float {'>' if strict else '>='} 0", none, float, 0.001 if strict else 0.0)
    return replace(kind, test=lambda name, value: check_number(name, value, 0.0, strict))


def choice(*names: str, none: bool = False) -> Kind:
    """Describe a few words."""
    return Kind(_listed(names), none, names=names, test=lambda name, value: check_choice(name, value, names))


def named(names: Iterable[str], more: str) -> Kind:
    """Describe words that stand for something, which is checked where it is looked up; Python takes `more` too."""
    return Kind(f"{_listed(names)}, or {more}", names=tuple(names))


def _listed(names: Iterable[str]) -> str:
    return "{" + ", ".join(f'"{name}"' for name in names) + "}"


@dataclass(frozen=True)
class Parameter:
    """What a field says of its parameter."""

    kind: Kind  # what values it takes
    help: str  # what it is, in a sentence for docstring and command line
    more: str = ""  # further sentences for the docstring
    option: str | None = None  # its name on the command line, None where it has none
    result: bool = True  # whether it changes what a fit finds
    saved: bool = True  # whether a model file keeps it


def parameter(default: Any, *words: Any, **more: Any) -> Any:
    """Make the field of a parameter: its default, then what `Parameter` says of it."""
    return field(default=default, metadata={KEY: Parameter(*words, **more)})


def parameters_of(owner: object) -> dict[str, Parameter]:
    """List the parameters of a class or an object by name, in the order of their fields."""
    return dict(_of_class(owner if isinstance(owner, type) else type(owner)))


@functools.cache  # a fit asks some fifteen times
def _of_class(cls: Any) -> dict[str, Parameter]:
    return {own.name: own.metadata[KEY] for own in fields(cls) if KEY in own.metadata}


def checked(owner: object, name: str) -> Any:
    """Check a parameter of an object and return its value."""
    cls: object = type(owner)
    return _of_class(cls)[name].kind.check(name, getattr(owner, name))


def documented(moved: dict[str, str] | None = None) -> Callable[[T], T]:
    """Write the table of the parameters into the docstring of a dataclass, before its other sections.

    `moved` says of parameters that another object has what to write instead.
    """

    def decorate(cls: T) -> T:
        if cls.__doc__ is not None:
            text = cls.__doc__
            section = re.search(r"\n    (Attributes|Examples|Notes)\n    -", text)
            at = section.start() if section else len(text.rstrip())
            cls.__doc__ = text[:at].rstrip() + "\n\n" + table_of(cls) + "\n" + text[at:]
        if moved:
            _explain(cls, moved)
        return cls

    return decorate


def table_of(cls: type) -> str:
    """Write the section "Parameters" of a docstring: the first, those of the class itself, then what it inherits."""
    lines = ["Parameters", "----------"]
    first, own = fields(cls)[:1], [one for one in fields(cls)[1:] if one.name in vars(cls)["__annotations__"]]
    for one in dict.fromkeys((*first, *own, *fields(cls))):
        if KEY in one.metadata:
            known: Parameter = one.metadata[KEY]
            none = " or None" if known.kind.none else ""
            shown = "" if one.default is MISSING else f", default {_shown(one.default)}"
            lines.append(f"{one.name} : {known.kind.text}{none}{shown}")
            words = " ".join(filter(None, (known.help, known.more)))
            lines += ["    " + line for line in textwrap.wrap(words, _WIDTH - 8, break_long_words=False)]
    return textwrap.indent("\n".join(lines), "    ")


def _shown(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _explain(cls: type, moved: dict[str, str]) -> None:
    """Let the constructor say where a parameter is that it does not take."""
    init: Callable[..., None] = cls.__init__  # type: ignore[misc]

    @functools.wraps(init)
    def explained(self: object, *values: object, **given: object) -> None:
        for name in moved.keys() & given.keys():
            raise TypeError(f"{cls.__name__} takes no {name}: {moved[name]}")
        init(self, *values, **given)

    cls.__init__ = explained  # type: ignore[misc]
