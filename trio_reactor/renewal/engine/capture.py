"""What a caller gives: a request as a deep copy of what is JSON, and arguments, within bounds.

What is captured here is the application's no more: to change the original changes nothing.
"""

from __future__ import annotations

from typing import Final, cast

from trio_reactor.renewal.jsonvalue import Json, copy_json
from trio_reactor.renewal.slot.validity import MAX_IDENTITY, is_identity
from trio_reactor.renewal.source import ClipRequest
from trio_reactor.wording import a_kind

__all__ = [
    "MAX_NUMBER",
    "MAX_PAYLOAD_SIZE",
    "capture",
    "check_flag",
    "check_name",
    "check_position",
    "check_size",
]

MAX_PAYLOAD_SIZE: Final = 1024 * 1024
"""How large a payload may be, in bytes of compact JSON."""

MAX_NUMBER: Final = 2**31 - 1
"""The largest position in a queue, and the largest side of a picture in pixels."""


def capture(request: ClipRequest) -> ClipRequest:
    """A copy of a request that shares nothing with it.

    Raises:
        ValueError: The payload is no `dict`, holds what is not JSON, is too deep or too large; or
            the name of the clip it continues is none.  The message says where.
    """
    if request.continue_from is not None:
        check_name("continue_from", request.continue_from)
    payload = cast("object", request.payload)
    if type(payload) is not dict:
        raise ValueError(f"payload: {a_kind(payload)} is not a dict")
    copied = copy_json(cast("object", payload), what="payload", max_bytes=MAX_PAYLOAD_SIZE)
    return ClipRequest(cast("dict[str, Json]", copied), request.continue_from)


def check_name(what: str, name: object) -> None:
    """Raise `ValueError` unless this is text of 1 to `MAX_IDENTITY` characters."""
    if not is_identity(name):
        raise ValueError(f"{what}: a name is Unicode text of 1 to {MAX_IDENTITY} characters")


def check_position(position: object) -> None:
    """Raise `ValueError` unless this is a place in a queue: an integer from 0 to `MAX_NUMBER`."""
    if type(position) is not int or not 0 <= position <= MAX_NUMBER:
        raise ValueError(f"position: a place in a queue is an integer from 0 to {MAX_NUMBER}")


def check_size(what: str, size: object) -> None:
    """Raise `ValueError` unless this is a side of a picture: an integer from 1 to `MAX_NUMBER`."""
    if type(size) is not int or not 1 <= size <= MAX_NUMBER:
        raise ValueError(f"{what}: a size in pixels is an integer from 1 to {MAX_NUMBER}")


def check_flag(what: str, flag: object) -> None:
    """Raise `ValueError` unless this is `True` or `False`, not what stands for one of them."""
    if type(flag) is not bool:
        raise ValueError(f"{what}: it is True or False, not {a_kind(flag)}")
