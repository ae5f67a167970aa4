"""The names of rooms, members, clients and threads."""

from __future__ import annotations

from typing import Final

__all__ = ["MAX_NAME", "check_name"]

MAX_NAME: Final = 256
"""The most characters of a room's name, a member's, a client's, a thread's or a message's."""


def check_name(what: str, name: object) -> str:
    """See that a name can be used as one.

    Raises:
        TypeError: It is no text.
        ValueError: It is empty, too long, or holds a character that cannot be printed.
    """
    if not isinstance(name, str):
        raise TypeError(f"{what} must be a text, not {name!r}")
    if not name:
        raise ValueError(f"{what} must not be empty")
    if len(name) > MAX_NAME:
        raise ValueError(f"{what} has {len(name)} characters; {MAX_NAME} are allowed")
    if not name.isprintable():
        raise ValueError(f"{what} holds a character that is not printable")
    return name
