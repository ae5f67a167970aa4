"""Edits: what is to be changed in a room, as its author meant it.

An edit is one step of one author: one or more operations on paths, taken whole or not at all.  Each
operation carries the *base* it was made on, the revision of the entry its author saw (`None`: there
was none), and the authority refuses it, as a conflict, if that is no longer what is there.

A *submission* is an edit on its way.  It is named by the client's incarnation and a sequence that
rises by one a room, and one is in flight at a time, so that an authority can tell a repeated one
from a new one by remembering no more than the last of each client.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

__all__ = [
    "Delete",
    "Move",
    "Operation",
    "Put",
    "PutBinary",
    "Submission",
    "paths_of",
]


class Put(msgspec.Struct, frozen=True, tag="put"):
    """Write a document, new or in the place of what is there."""

    path: str
    text: str
    base: int | None = None


class PutBinary(msgspec.Struct, frozen=True, tag="put-binary"):
    """Write a binary whose bytes the authority was, or will have been, sent."""

    path: str
    digest: str
    size: int
    base: int | None = None


class Delete(msgspec.Struct, frozen=True, tag="delete"):
    """Delete what is at a path."""

    path: str
    base: int | None = None


class Move(msgspec.Struct, frozen=True, tag="move"):
    """Move what is at a path to another one, at which there is nothing."""

    path: str
    to: str
    base: int | None = None


Operation: TypeAlias = Put | PutBinary | Delete | Move


class Submission(msgspec.Struct, frozen=True):
    """An edit on its way to the authority."""

    room: str
    client: str
    """The incarnation of the client's store; new whenever the store is."""
    sequence: int
    """Which of this client's in this room, from 1."""
    operations: tuple[Operation, ...]


def paths_of(operation: Operation) -> tuple[str, ...]:
    """The paths at which an operation changes what is there."""
    if isinstance(operation, Move):
        return (operation.path, operation.to)
    return (operation.path,)
