"""Whether options are of the kinds that their names promise, whatever file they came from."""

from __future__ import annotations

import math
from dataclasses import fields
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from knowledge_sheaves.errors import InputError

LARGEST = 1 << 53
_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def is_usual_number(value: object) -> bool:
    """Tell whether a value is a number to calculate with: finite, and no whole one of 5,000 digits.

    >>> [is_usual_number(value) for value in (1, 2.5, float("nan"), 10**400, True, "1")]
    [True, True, False, False, False, False]
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) if isinstance(value, float) else abs(value) <= LARGEST


def check_kinds(options: Any) -> None:
    """Refuse an option of a dataclass whose value is not what its annotation says.

    >>> from knowledge_sheaves.embedding import model_config
    >>> model_config("rotate", lifted=[1])
    Traceback (most recent call last):
    knowledge_sheaves.errors.InputError: lifted must be true or false, not [1].
    """
    hints = get_type_hints(type(options))
    for field in fields(options):
        kinds, value = _alternatives(hints[field.name]), getattr(options, field.name)
        if not any(_fits(value, kind) for kind in kinds):
            words = " or ".join(_words(kind) for kind in kinds)
            raise InputError(f"{field.name} must be {words}, not {value!r}.")


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _fits(value: object, kind: Any) -> bool:
    if get_origin(kind) is Literal:
        return isinstance(value, str) and value in get_args(kind)
    if kind in (int, float):
        return is_usual_number(value) and (kind is float or isinstance(value, int))
    return isinstance(value, kind)


def _words(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return ", ".join(get_args(kind))
    return "nothing" if kind is NoneType else _WORDS.get(kind, kind.__name__)
