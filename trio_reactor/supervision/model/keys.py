"""What a session is opened for, and how it is referred to."""

from __future__ import annotations

import hmac
from typing import Final

import msgspec

__all__ = ["MAX_NAME", "Handle", "Key", "check_name"]

MAX_NAME: Final = 256
"""The most characters of an identity, an instance or a request id."""


class Key(msgspec.Struct, frozen=True, order=True, forbid_unknown_fields=True):
    """What at most one execution exists for at a time.

    Raises:
        ValueError: If a part is too long, holds a control character, or is no text that can be
            encoded; or the identity is empty.
    """

    identity: str
    """What runs: a plugin, a kernel, a tenant."""
    instance: str = ""
    """Which of several of it."""

    def __post_init__(self) -> None:
        check_name("identity", self.identity)
        if self.instance:
            check_name("instance", self.instance)

    def __str__(self) -> str:
        return f"{self.identity}/{self.instance}" if self.instance else self.identity


class Handle(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The right to one session: who has it may renew, load and dispose of that session alone.

    It may be given to another process.  Its token is a secret and is not shown.
    """

    key: Key
    generation: int
    """Which of the key's sessions, from 1; it only rises."""
    token: str
    """Unguessable."""

    def __repr__(self) -> str:
        return f"<Handle {self}>"

    def __str__(self) -> str:
        return f"{self.key} generation {self.generation}"

    def matches(self, other: Handle) -> bool:
        """Whether it is the same session's, in a time that tells nothing of the token."""
        mine, others = (  # whatever is offered for a token is compared, also what is no text
            handle.token.encode("utf-8", "surrogatepass") for handle in (self, other)
        )
        same = hmac.compare_digest(mine, others)
        return same and self.key == other.key and self.generation == other.generation


def check_name(what: str, name: str) -> None:
    """See that a name can be used as one.

    Raises:
        ValueError: If it is empty, too long, holds a control character or cannot be encoded.
    """
    if not name:
        raise ValueError(f"{what} must not be empty")
    if len(name) > MAX_NAME:
        raise ValueError(f"{what} has {len(name)} characters; {MAX_NAME} are allowed")
    if not name.isprintable():
        raise ValueError(f"{what} holds a character that is not printable")
