"""What a connection has to say, as events.

The order in which a reader sees those of one room is the order in which things happened.  None
holds a document's text: what changed is told by its path, and read from the store.
"""

from __future__ import annotations

from typing import Final

from trio_reactor.events import Event, FailureRecord

from .model.answers import Message
from .model.held import DraftReason
from .model.status import Status
from .model.terms import Listing

__all__ = [
    "MAX_NAMED_PATHS",
    "ROOMS_EVENTS",
    "AuthorityRestored",
    "ConnectionOpened",
    "ConnectionRefused",
    "ConnectionUnreachable",
    "DraftMade",
    "EditAccepted",
    "EditQueued",
    "ErasureFailed",
    "MessageHeard",
    "ProviderFaulty",
    "RoomChanged",
    "RoomErased",
    "RoomListed",
    "RoomLost",
    "RoomRefused",
    "RoomUnlisted",
    "RoomsClosed",
    "RoomsEvent",
    "StatusChanged",
    "StorageLost",
]

MAX_NAMED_PATHS: Final = 1_024
"""How many paths a change names at most; beyond that the whole room is to be looked at again."""


class RoomsEvent(Event, frozen=True):
    """Any event of a connection to rooms."""


class RoomListed(RoomsEvent, frozen=True):
    """A room is in the listing, or something about its listing is new."""

    listing: Listing
    held: bool


class RoomUnlisted(RoomsEvent, frozen=True):
    """A room is not listed any more; what is held of it is kept, if anything is."""

    room: str
    kept: bool


class RoomChanged(RoomsEvent, frozen=True):
    """What is to be seen in a room has changed."""

    room: str
    change: int
    """Which change of this store's; they only rise."""
    now: int | None
    """The version that is held now."""
    paths: tuple[str, ...] | None
    """Where; `None`: anywhere, because the room is new, was read anew, or too much has changed."""


class RoomLost(RoomsEvent, frozen=True):
    """A room is gone: nothing of it is shown, and it is being erased."""

    room: str


class RoomErased(RoomsEvent, frozen=True):
    """Nothing of a lost room is left in the store's files."""

    room: str


class ErasureFailed(RoomsEvent, frozen=True):
    """A lost room could not be erased; it stays lost, and the next start tries again."""

    rooms: tuple[str, ...]
    failure: FailureRecord


class EditQueued(RoomsEvent, frozen=True):
    """An edit is durable, and waits for the authority."""

    room: str
    edit: int


class EditAccepted(RoomsEvent, frozen=True):
    """The authority has applied an edit."""

    room: str
    edit: int
    became: int
    """The room's version that it became."""


class DraftMade(RoomsEvent, frozen=True):
    """An edit was given back, with all of its text."""

    room: str
    draft: int
    reason: DraftReason
    code: str


class MessageHeard(RoomsEvent, frozen=True):
    """A message of a conversation is here."""

    room: str
    message: Message


class RoomRefused(RoomsEvent, frozen=True):
    """The authority refuses something about one room."""

    room: str
    code: str
    retryable: bool


class ProviderFaulty(RoomsEvent, frozen=True):
    """What a provider gave cannot be; if it was of one room's, that alone is set aside."""

    room: str | None
    failure: FailureRecord


class ConnectionOpened(RoomsEvent, frozen=True):
    """The authority was reached, and all that is followed was seen to once."""

    member: str
    generation: int


class ConnectionUnreachable(RoomsEvent, frozen=True):
    """The authority was not reached, or was lost; it is tried again by itself."""

    generation: int
    failure: FailureRecord
    pause: float
    """Seconds until then."""


class ConnectionRefused(RoomsEvent, frozen=True):
    """The authority does not want this connection."""

    code: str
    reauthorize: bool
    """Whether signing in again may help."""
    failure: FailureRecord


class AuthorityRestored(RoomsEvent, frozen=True):
    """The authority went back to an older state; what it had accepted since is offered again."""

    room: str | None
    """Which room's version went back; `None`: it began another history."""
    drafts: int
    """How many edits became drafts by that."""


class StorageLost(RoomsEvent, frozen=True):
    """The local store is not what its witness saw: it is missing, or an old copy."""

    loss: str


class StatusChanged(RoomsEvent, frozen=True):
    """How all the rooms stand is new."""

    status: Status


class RoomsClosed(RoomsEvent, frozen=True):
    """The connection is over."""

    reason: str
    failures: int


ROOMS_EVENTS: Final[tuple[type[RoomsEvent], ...]] = (
    RoomListed,
    RoomUnlisted,
    RoomChanged,
    RoomLost,
    RoomErased,
    ErasureFailed,
    EditQueued,
    EditAccepted,
    DraftMade,
    MessageHeard,
    RoomRefused,
    ProviderFaulty,
    ConnectionOpened,
    ConnectionUnreachable,
    ConnectionRefused,
    AuthorityRestored,
    StorageLost,
    StatusChanged,
    RoomsClosed,
)
"""All of them."""
