"""JSON as a value: what requests, contexts and records are made of, and an exact copy of it.

`copy_json` takes what an application or an adapter gives and returns a deep copy that is JSON and
nothing else: what a codec would quietly turn into something near it (a tuple, a key that is a
number, a `nan`) is refused, and named by where it is.
"""

from __future__ import annotations

import math
from typing import Final, TypeAlias, cast

import msgspec

__all__ = ["MAX_DEPTH", "Json", "NotJson", "copy_json"]

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
"""What a request may be made of."""

MAX_DEPTH: Final = 64
"""How deep lists and dictionaries may be nested; one that contains itself is deeper."""

MAX_INTEGER: Final = 2**63
"""What an integer is smaller than, on either side of 0: beyond, readers of JSON disagree."""


class NotJson(ValueError):
    """A value is not JSON, or too large; the message says where."""


def copy_json(value: object, *, what: str, max_bytes: int) -> Json:
    """A deep copy of a value, if it is JSON.

    Args:
        value: Of `None`, booleans, integers, finite floats, strings, lists, and dictionaries whose
            keys are strings; of these types exactly.
        what: What it is called in messages.
        max_bytes: How many bytes it may be when it is encoded, without spaces, in UTF-8.

    Raises:
        NotJson: It is something else, nested deeper than `MAX_DEPTH`, or larger.
    """
    copied = _copy(value, what, 0)
    try:
        size = len(msgspec.json.encode(copied))
    except UnicodeEncodeError:
        raise NotJson(f"{what} has a string that is no Unicode text") from None
    if size > max_bytes:
        raise NotJson(f"{what} is {size} bytes, {max_bytes} at most may be")
    return copied


def _copy(value: object, where: str, depth: int) -> Json:
    if depth > MAX_DEPTH:
        raise NotJson(f"{where[:200]} is nested deeper than {MAX_DEPTH}")
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return cast("Json", value)
    if kind is int:
        number = cast("int", value)
        if not -MAX_INTEGER <= number < MAX_INTEGER:
            raise NotJson(f"{where} is an integer of more than 64 bits")
        return number
    if kind is float:
        real = cast("float", value)
        if not math.isfinite(real):
            raise NotJson(f"{where} is {real}")
        return real
    if kind is list:
        items = cast("list[object]", value)
        return [_copy(item, f"{where}[{index}]", depth + 1) for index, item in enumerate(items)]
    if kind is dict:
        copied: dict[str, Json] = {}
        for key, item in cast("dict[object, object]", value).items():
            if type(key) is not str:
                raise NotJson(f"{where} has a key of type {type(key).__name__}")
            copied[key] = _copy(item, f"{where}.{key}", depth + 1)
        return copied
    raise NotJson(f"{where} is of type {kind.__name__}")
