"""What can go wrong with rooms, beside what can go wrong with anything."""

from __future__ import annotations

from trio_reactor.errors import Closed, Failed, Outcome, ReactorError, Refused

__all__ = [
    "ActionRefused",
    "ConnectionRefused",
    "EditRefused",
    "ErasureFailed",
    "PathRefused",
    "ProviderFault",
    "ReplicaBusy",
    "ReplicaError",
    "ReplicaFailed",
    "ReplicaUnusable",
    "RoomNotHeld",
    "RoomNotReadable",
    "RoomRefused",
    "RoomsStopped",
    "SearchRefused",
    "TooLarge",
    "Undecodable",
]


class RoomNotReadable(Refused):
    """The room may not be read, or not any more; nothing of it is here.

    Args:
        room: Which.
    """

    code = "room-not-readable"

    def __init__(self, room: str, message: str | None = None) -> None:
        super().__init__(message or f"{room}: this room may not be read")
        self.room = room


class RoomNotHeld(Refused):
    """The room is not held here: it is unknown, was not asked for, or has not arrived yet.

    Args:
        room: Which.
    """

    def __init__(self, room: str, message: str | None = None) -> None:
        super().__init__(message or f"{room}: this room is not held")
        self.room = room


class RoomRefused(Refused):
    """The authority refuses something about one room; other rooms go on.

    Args:
        room: Which.
        code: What it refuses, for programs.
        retryable: Whether it may be asked again later.
        after: Seconds before that makes sense.
        detail: What it says, for a person.
    """

    def __init__(
        self,
        room: str,
        code: str,
        *,
        retryable: bool = False,
        after: float = 0.0,
        detail: str | None = None,
    ) -> None:
        super().__init__(
            f"{room}: the authority refuses this: {code}",
            outcome="replied",
            retryable=retryable,
            detail=detail,
        )
        self.room = room
        self.code = code
        self.after = after


class ConnectionRefused(Refused):
    """The authority does not want this connection; nothing is asked until `reauthorize`.

    Args:
        message: Why, in the library's words.
        code: Why, for programs: `unauthorized`, `contract`, `capabilities`, `model`, `member`, or
            the provider's own.
        reauthorize: Whether signing in again may help.
        detail: What the authority says, for a person.
    """

    def __init__(
        self, message: str, *, code: str, reauthorize: bool = False, detail: str | None = None
    ) -> None:
        super().__init__(message, outcome="replied", detail=detail)
        self.code = code
        self.reauthorize = reauthorize


class ProviderFault(ReactorError):
    """What a provider gave is not what the contract says.

    Args:
        message: What is wrong with it.
        room: Whose it was, if of one room's alone.
        detail: What was found, for a person.
    """

    def __init__(self, message: str, *, room: str | None = None, detail: str | None = None) -> None:
        super().__init__(message, outcome="replied", detail=detail)
        self.room = room


class Undecodable(ProviderFault):
    """Something about a room cannot be decoded; that room alone is read anew."""


class EditRefused(Refused):
    """An edit cannot be made here; nothing was queued, and what was typed is the caller's still.

    Args:
        room: Of which room.
        path: At which path.
        code: Why, for programs: `read-only`, `gone`, `exists`, `stale`, `collision`, `kind`.
        message: Why, in words.
    """

    def __init__(self, room: str, path: str, code: str, message: str) -> None:
        super().__init__(f"{room}: {path}: {message}")
        self.room = room
        self.path = path
        self.code = code


class PathRefused(EditRefused, ValueError):
    """A path cannot be one of a document's."""

    def __init__(self, room: str, path: str, message: str) -> None:
        super().__init__(room, path, "path", message)


class TooLarge(Refused):
    """Something is over one of the bounds.

    Args:
        message: What, and which bound.
        bound: Its name.
        limit: Its value.
    """

    def __init__(self, message: str, *, bound: str, limit: int, retryable: bool = False) -> None:
        super().__init__(message, retryable=retryable)
        self.bound = bound
        self.limit = limit


class ActionRefused(Refused, ValueError):
    """An action's input is not what it takes; nothing was sent.

    Args:
        action: Which.
        message: What is wrong, naming the input.
    """

    def __init__(self, action: str, message: str) -> None:
        super().__init__(f"{action}: {message}")
        self.action = action


class SearchRefused(Refused, ValueError):
    """What is looked for is no full-text query.

    Args:
        query: What was given.
        detail: What is wrong with it, in the database's words.
    """

    def __init__(self, query: str, detail: str) -> None:
        shown = ascii(query) if len(query) <= 80 else f"{query[:80]!a}…"
        super().__init__(f"{shown}: this is no query", detail=detail)
        self.query = query


class ErasureFailed(ReactorError):
    """A lost room's bytes could not be erased; it stays fenced, and the next start tries again.

    Args:
        rooms: Which.
    """

    def __init__(self, rooms: tuple[str, ...]) -> None:
        named = ", ".join(rooms[:8]) + (f" and {len(rooms) - 8} more" if len(rooms) > 8 else "")
        super().__init__(f"not erased yet, and fenced until it is: {named}", outcome="replied")
        self.rooms = rooms


class RoomsStopped(Closed):
    """The connection is stopping or stopped, and begins nothing new."""


class ReplicaError(ReactorError):
    """The local store could not be used.

    Args:
        message: What happened, in the library's words.
        store: Which: a path.
        outcome: What became of the operation.
        retryable: Whether trying again can help and cannot do harm.
        detail: What the database said.
    """

    def __init__(
        self,
        message: str,
        *,
        store: str,
        outcome: Outcome = "not-submitted",
        retryable: bool = False,
        detail: str | None = None,
    ) -> None:
        super().__init__(message, outcome=outcome, retryable=retryable, detail=detail)
        self.store = store


class ReplicaBusy(ReplicaError):
    """Another process uses it."""


class ReplicaUnusable(ReplicaError):
    """It is no store of rooms, or is damaged, read-only, of another version or another member's."""


class ReplicaFailed(ReplicaError, Failed):
    """It was lost, is full, or failed while it was used."""
