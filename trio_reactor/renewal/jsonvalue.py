"""JSON as a value: what requests, contexts and records are made of, and an exact copy of it.

`copy_json` takes what an application or an adapter gives and returns a deep copy that is JSON and
nothing else: what a codec would quietly turn into something near it (a tuple, a key that is a
number, a `nan`) is refused, and named by where it is.  The bound in size is spent while it is
copied, so that what is larger, or only shares its parts, is never copied whole.
"""

from __future__ import annotations

from math import isfinite
from typing import Final, TypeAlias, cast, final

import msgspec

from trio_reactor.wording import a_kind

__all__ = ["MAX_DEPTH", "MAX_INTEGER", "MIN_INTEGER", "Json", "NotJson", "copy_json"]

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
"""What a request may be made of."""

MAX_DEPTH: Final = 64
"""How many lists and dictionaries may lie in one another; one that contains itself is deeper."""

MIN_INTEGER: Final = -(2**63)
"""The smallest integer: the least that has 64 bits with a sign."""

MAX_INTEGER: Final = 2**64 - 1
"""The largest integer: the most that has 64 bits without one."""

_SHOWN: Final = 64
"""How many characters of a key are told."""

_encoded = msgspec.json.Encoder().encode


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
        NotJson: It is something else, has an integer below `MIN_INTEGER` or above `MAX_INTEGER`, is
            nested deeper than `MAX_DEPTH`, or larger.
    """
    try:
        return _Copy(max_bytes).copy(value, MAX_DEPTH)
    except _Fault as fault:
        where = "".join(reversed(fault.where))
        raise NotJson(f"{what}{where}: {fault}") from None


class _Fault(Exception):
    """What is wrong with a value, and where it is, from the inside out."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.where: list[str] = []


@final
class _Copy:
    """One copying, with what is left of the bound."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._left = max_bytes

    def copy(self, value: object, depth: int) -> Json:
        # By the exact type: what is of a subclass may be anything in JSON.
        kind = type(value)
        if kind is str:
            text = cast("str", value)
            self._spend_text(text)
            return text
        if kind is int:
            number = cast("int", value)
            if not MIN_INTEGER <= number <= MAX_INTEGER:
                raise _Fault("an integer of more than 64 bits")
            self._spend(len(str(number)))
            return number
        if kind is dict:
            return self._dict(cast("dict[object, object]", value), depth)
        if kind is list:
            return self._list(cast("list[object]", value), depth)
        if value is None or kind is bool:
            self._spend(5 if value is False else 4)
            return cast("bool | None", value)
        if kind is float:
            real = cast("float", value)
            if not isfinite(real):
                raise _Fault(f"{real} is not JSON")
            self._spend(len(_encoded(real)))
            return real
        raise _Fault(f"{a_kind(value)} is not JSON")

    def _list(self, value: list[object], depth: int) -> list[Json]:
        if depth == 0:
            raise _Fault(f"deeper than {MAX_DEPTH}")
        self._spend(2 + max(0, len(value) - 1))  # the brackets and the commas
        copied: list[Json] = []
        for index, each in enumerate(value):
            try:
                copied.append(self.copy(each, depth - 1))
            except _Fault as fault:
                fault.where.append(f"[{index}]")
                raise
        return copied

    def _dict(self, value: dict[object, object], depth: int) -> dict[str, Json]:
        if depth == 0:
            raise _Fault(f"deeper than {MAX_DEPTH}")
        self._spend(2 + max(0, 2 * len(value) - 1))  # the braces, the colons and the commas
        copied: dict[str, Json] = {}
        for key, each in value.items():
            if type(key) is not str:
                raise _Fault(f"a key is {a_kind(key)}, not text")
            self._spend_text(key)
            try:
                copied[key] = self.copy(each, depth - 1)
            except _Fault as fault:
                fault.where.append(f".{key[:_SHOWN]}")
                raise
        return copied

    def _spend_text(self, text: str) -> None:
        if len(text) + 2 > self._left:  # it has as many bytes at least: encode nothing larger
            self._spend(len(text) + 2)
        try:
            self._spend(len(_encoded(text)))
        except UnicodeEncodeError:
            raise _Fault("text that is not Unicode") from None

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise _Fault(f"larger than {self._max_bytes} bytes")
