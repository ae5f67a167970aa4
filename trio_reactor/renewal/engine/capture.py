"""A request as it was given: a deep copy of what is JSON, within bounds.

What is captured here is the application's no more: to change the original changes nothing.
"""

from __future__ import annotations

from math import isfinite
from typing import Final, cast, final

from trio_reactor.renewal.slot.validity import MAX_IDENTITY
from trio_reactor.renewal.source import ClipRequest, Json

__all__ = ["MAX_DEPTH", "MAX_PAYLOAD_SIZE", "capture", "check_name"]

MAX_DEPTH: Final = 64
"""How deep lists and dicts may lie in one another; the payload itself is the first."""

MAX_PAYLOAD_SIZE: Final = 1024 * 1024
"""How large a payload may be, in bytes of compact JSON, escapes apart."""


def capture(request: ClipRequest) -> ClipRequest:
    """A copy of a request that shares nothing with it.

    Raises:
        ValueError: The payload holds what is not JSON, is too deep or too large; or the name of the
            clip it continues is none.  The message says where.
    """
    if request.continue_from is not None:
        check_name("continue_from", request.continue_from)
    payload = cast("object", request.payload)
    kind: type[object] = type(payload)
    if kind is not dict:
        raise ValueError(f"payload: a {kind.__qualname__} is not a dict")
    try:
        copied = _Copy().copy(payload, MAX_DEPTH)
    except _Fault as fault:
        where = "".join(reversed(fault.where))
        raise ValueError(f"payload{where}: {fault}") from None
    return ClipRequest(cast("dict[str, Json]", copied), request.continue_from)


def check_name(what: str, name: object) -> None:
    """Raise `ValueError` unless this is text of 1 to `MAX_IDENTITY` characters."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_IDENTITY:
        raise ValueError(f"{what}: a name is text of 1 to {MAX_IDENTITY} characters")


class _Fault(Exception):
    """What is wrong with a value, and where it is, from the inside out."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.where: list[str] = []


@final
class _Copy:
    """One copying, with what is left of the bound."""

    def __init__(self) -> None:
        self._left = MAX_PAYLOAD_SIZE

    def copy(self, value: object, depth: int) -> Json:
        # By the exact type: what is of a subclass may be anything in JSON.
        kind = type(value)
        if kind is str:
            text = cast("str", value)
            self._spend_text(text)
            return text
        if kind is int:
            number = cast("int", value)
            if not -(2**63) <= number < 2**64:
                raise _Fault("an integer of more than 64 bits")
            self._spend(len(str(number)))
            return number
        if kind is dict:
            return self._dict(cast("dict[object, object]", value), depth)
        if kind is list:
            return self._list(cast("list[object]", value), depth)
        if value is None or kind is bool:
            self._spend(4)
            return cast("bool | None", value)
        if kind is float:
            real = cast("float", value)
            if not isfinite(real):
                raise _Fault(f"{real} is not JSON")
            self._spend(len(repr(real)))
            return real
        raise _Fault(f"a {kind.__qualname__} is not JSON")

    def _list(self, value: list[object], depth: int) -> list[Json]:
        if depth == 0:
            raise _Fault(f"deeper than {MAX_DEPTH}")
        self._spend(2 + len(value))  # the brackets and the commas
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
        self._spend(2 + 2 * len(value))  # the braces, the colons and the commas
        copied: dict[str, Json] = {}
        for key, each in value.items():
            if type(key) is not str:
                raise _Fault(f"a key is a {type(key).__qualname__}, not text")
            self._spend_text(key)
            try:
                copied[key] = self.copy(each, depth - 1)
            except _Fault as fault:
                fault.where.append(f".{key[:_SHOWN]}")
                raise
        return copied

    def _spend_text(self, text: str) -> None:
        if text.isascii():
            self._spend(len(text) + 2)
            return
        if len(text) > self._left:
            self._spend(len(text))
        try:
            self._spend(len(text.encode()) + 2)
        except UnicodeEncodeError:
            raise _Fault("text that is not Unicode") from None

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise _Fault(f"larger than {MAX_PAYLOAD_SIZE} bytes")


_SHOWN: Final = 64
"""How many characters of a key are told."""
