"""A room as it is in memory: what decisions about it are made from, and nothing of its content."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from trio_reactor.rooms.errors import RoomNotHeld, RoomNotReadable
from trio_reactor.rooms.model.answers import Advanced
from trio_reactor.rooms.model.held import HeldRoom, Transfer
from trio_reactor.rooms.model.status import Attention
from trio_reactor.rooms.model.terms import Listing
from trio_reactor.rooms.store.content import Glance
from trio_reactor.rooms.sync.standing import Standing
from trio_reactor.rooms.sync.steps import Phase, RoomFacts, Waiting

if TYPE_CHECKING:
    from .generation import Generation

__all__ = ["Room"]


@final
class Room:
    """One room that is not lost; once it is, this object is fenced for good.

    A room that is given back is another object, so whatever is still under way for this one finds
    the fence up, however late it comes.
    """

    __slots__ = (
        "carrier",
        "doubted",
        "drafts",
        "expired",
        "faults",
        "held",
        "known",
        "listed",
        "listing",
        "lost",
        "name",
        "offered",
        "owed",
        "position",
        "queued",
        "refused",
        "renewed",
        "resting",
        "selection",
        "standing",
        "transfer",
        "unconfirmed",
        "unheard",
        "unsaid",
        "waiting",
        "wanted",
    )

    def __init__(self, listing: Listing, *, wanted: bool) -> None:
        self.name = listing.room
        self.listing = listing
        self.listed = True
        self.wanted = wanted
        self.lost = False
        self.held: int | None = None
        self.selection: str | None = None
        self.known = listing.version
        self.renewed = False
        self.expired = False
        self.owed = False
        self.unconfirmed = False
        self.refused: Attention | None = None
        self.faults = 0
        self.doubted: int | None = None
        self.resting = False
        self.transfer: Transfer | None = None
        self.offered: Advanced | None = None
        self.waiting: Waiting = "nothing"
        self.queued = self.drafts = self.unsaid = 0
        self.position = ""
        self.unheard = False
        self.carrier: Generation | None = None
        self.standing = Standing()

    def __repr__(self) -> str:
        return f"<Room {self.name}: {'lost' if self.lost else self.held}>"

    @classmethod
    def of(cls, found: HeldRoom, *, wanted: bool) -> Room:
        """The room as a store has it."""
        room = cls(found.listing, wanted=wanted)
        room.listed = found.listed
        room.held = found.version
        room.selection = found.selection
        room.renewed = found.version is not None and found.selection is None
        room.transfer = found.transfer
        room.position = found.position
        room.queued = found.queued
        room.drafts = found.drafts
        room.unsaid = found.unsaid
        room.waiting = "queued" if found.queued else "nothing"
        return room

    def check(self) -> None:
        """Pass the fence.

        Raises:
            RoomNotReadable: The room is lost.
        """
        if self.lost:
            raise RoomNotReadable(self.name)

    def check_held(self) -> None:
        """See that there is something to be read.

        Raises:
            RoomNotReadable: The room is lost.
            RoomNotHeld: Nothing of it has arrived.
        """
        self.check()
        if self.held is None:
            raise RoomNotHeld(self.name)

    def glanced(self, glance: Glance) -> None:
        """Take in what waits."""
        self.waiting = glance.waiting
        self.queued = glance.queued
        self.drafts = glance.drafts
        self.unsaid = glance.unsaid

    def facts(self, phase: Phase, *, writable: bool, converses: bool) -> RoomFacts:
        """What decisions are made from."""
        return RoomFacts(
            phase=phase,
            followed=self.listed and self.wanted,
            refused=self.refused is not None,
            held=self.held,
            known=self.known,
            renewed=self.renewed,
            expired=self.expired,
            owed=self.owed,
            unconfirmed=self.unconfirmed,
            waiting=self.waiting,
            writable=writable and not self.resting,
            talk=converses and (self.unheard or self.unsaid > 0) and not self.resting,
        )
