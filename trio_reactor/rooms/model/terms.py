"""What an authority is, offers and allows; and what it lists."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

__all__ = [
    "CONTRACT",
    "Action",
    "Discovery",
    "Input",
    "Limits",
    "Listing",
    "Terms",
]

CONTRACT: Final = 1
"""The version of what is said between a connection and an authority."""


class Limits(msgspec.Struct, frozen=True):
    """What an authority takes at most."""

    max_document_bytes: int = 1_048_576
    """Of one document's text in UTF-8."""
    max_binary_bytes: int = 67_108_864
    """Of one binary."""
    max_operations: int = 256
    """Of one edit."""
    max_submission_bytes: int = 4_194_304
    """Of all texts of one edit together."""
    max_message_bytes: int = 65_536
    """Of one message of a conversation."""
    max_entries: int = 100_000
    """Of one room."""


class Input(msgspec.Struct, frozen=True):
    """One value that an action takes."""

    name: str
    kind: Literal["text", "integer", "number", "boolean"] = "text"
    required: bool = True
    max_length: int = 4_096
    """Characters of a text."""
    choices: tuple[str, ...] = ()
    """The only texts that are taken, if there are any."""


class Action(msgspec.Struct, frozen=True):
    """Something that an authority does when it is asked to."""

    name: str
    title: str = ""
    scope: Literal["account", "room"] = "account"
    inputs: tuple[Input, ...] = ()


class Terms(msgspec.Struct, frozen=True):
    """What an authority offers."""

    contract: int = CONTRACT
    capabilities: tuple[str, ...] = ()
    """What it can do beyond reading and writing: `history`, `binaries`, `conversations`, `actions`,
    or the authority's own."""
    model: str = ""
    """The identity of what its documents mean, if applications have to agree on that."""
    limits: Limits = Limits()
    actions: tuple[Action, ...] = ()
    exhaustive: bool = True
    """Whether it lists every room that may be read: a room that is not listed is lost then."""


class Listing(msgspec.Struct, frozen=True):
    """A room as it is listed."""

    room: str
    title: str = ""
    version: int = 0
    selection: str = ""
    """What of it this member is shown.  Two versions of different selections cannot be compared."""
    readonly: tuple[str, ...] = ()
    """Directories that may not be written; the empty path is the whole room."""
    actions: tuple[Action, ...] = ()
    """What can be asked of this room alone."""
    position: str = ""
    """How far its conversations are; empty: nothing was ever said."""


class Discovery(msgspec.Struct, frozen=True):
    """What an authority answers to whoever connects."""

    epoch: str
    """One authority's history.  Set once; another one means that it began anew, or was restored."""
    member: str
    """Who is signed in."""
    terms: Terms
    rooms: tuple[Listing, ...]
