"""The rooms in memory, and how all of them stand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import final

from trio_reactor.rooms.errors import RoomNotHeld, RoomNotReadable, TooLarge
from trio_reactor.rooms.model.held import HeldRoom
from trio_reactor.rooms.model.status import Attention, RoomStatus, State
from trio_reactor.rooms.model.terms import Listing
from trio_reactor.rooms.sync.fencing import Fences
from trio_reactor.rooms.sync.standing import Standing, Tally, standing_of
from trio_reactor.rooms.sync.steps import next_step

from .room import Room

__all__ = ["Registry"]


@final
class Registry:
    """Every room that is listed or held, and the fences of those that are lost.

    Args:
        wanted: The rooms that are asked for; `None`: all of them.
        interrupted: The rooms whose erasure was cut short.
        most: How many rooms there may be.
        on_standing: Called when how all of them stand may have changed.
    """

    def __init__(
        self,
        *,
        wanted: Iterable[str] | None,
        interrupted: Iterable[str],
        most: int,
        on_standing: Callable[[], None],
    ) -> None:
        self.wanted = None if wanted is None else set(wanted)
        self.fences = Fences(interrupted)
        self.tally = Tally()
        self._rooms: dict[str, Room] = {}
        self._most = most
        self._on_standing = on_standing

    def __iter__(self) -> Iterator[Room]:
        """The rooms, in the order in which they came."""
        return iter(tuple(self._rooms.values()))

    def __len__(self) -> int:
        return len(self._rooms)

    def get(self, name: str) -> Room | None:
        """A room that is not lost."""
        return self._rooms.get(name)

    def find(self, name: str) -> Room:
        """A room.

        Raises:
            RoomNotReadable: It is lost.
            RoomNotHeld: There is none of that name.
        """
        room = self._rooms.get(name)
        if room is not None:
            return room
        if name in self.fences:
            raise RoomNotReadable(name)
        raise RoomNotHeld(name, f"{name}: there is no such room here")

    def load(self, found: Iterable[HeldRoom]) -> None:
        """Take in what a store has."""
        for each in found:
            name = each.listing.room
            if name not in self.fences:
                self._add(Room.of(each, wanted=self._wants(name)))

    def list(self, listing: Listing) -> tuple[Room, bool]:
        """Take a room into the listing; returns it, and whether something about it is new.

        Raises:
            TooLarge: There are as many as may be.
        """
        room = self._rooms.get(listing.room)
        if room is None:
            if len(self._rooms) >= self._most:
                raise TooLarge(
                    f"{listing.room}: max_rooms={self._most} are listed",
                    bound="max_rooms",
                    limit=self._most,
                )
            room = self._add(Room(listing, wanted=self._wants(listing.room)))
            return room, True
        fresh = room.listing != listing or not room.listed
        room.listing = listing
        room.listed = True
        return room, fresh

    def drop(self, room: Room) -> None:
        """Take a room that is not held out of the listing."""
        if self._rooms.get(room.name) is room:
            del self._rooms[room.name]
            self.tally.remove(room.standing)
            room.lost = True
            self._on_standing()

    def fence(self, names: Iterable[str]) -> tuple[tuple[str, ...], tuple[Room, ...]]:
        """Lose rooms, in this one step.

        Returns:
            The names that have to be erased, and the rooms that were here.
        """
        fresh = self.fences.raise_(names)
        gone: list[Room] = []
        for name in fresh:
            room = self._rooms.pop(name, None)
            if room is not None:
                room.lost = True
                room.transfer = room.offered = None
                self.tally.remove(room.standing)
                gone.append(room)
        self._on_standing()
        return fresh, tuple(gone)

    def want(self, names: Iterable[str]) -> tuple[Room, ...]:
        """Ask for rooms; returns those that are listed and were not asked for."""
        if self.wanted is None:
            return ()
        self.wanted.update(names)
        fresh = [room for room in self if not room.wanted and self._wants(room.name)]
        for room in fresh:
            room.wanted = True
            self.count(room)
        return tuple(fresh)

    def _wants(self, name: str) -> bool:
        return self.wanted is None or name in self.wanted

    # ----------------------------------------------------------------------------------- standing

    def _add(self, room: Room) -> Room:
        self._rooms[room.name] = room
        room.standing = self._standing(room)
        self.tally.add(room.standing)
        return room

    def count(self, room: Room) -> None:
        """Count how a room stands anew; something about it has changed."""
        if room.lost or self._rooms.get(room.name) is not room:
            return
        standing = self._standing(room)
        if standing != room.standing:
            self.tally.remove(room.standing)
            room.standing = standing
            self.tally.add(standing)
        self._on_standing()

    def _standing(self, room: Room) -> Standing:
        facts = room.facts("open", writable=False, converses=False)
        return standing_of(
            followed=facts.followed,
            held=room.held is not None,
            step_is_due=next_step(facts) != "rest" or room.unheard,
            queued=room.queued > 0 or room.unsaid > 0,
            attention=self._attention(room),
        )

    def _attention(self, room: Room) -> Iterator[Attention]:
        if room.refused is not None:
            yield room.refused
        if room.drafts:
            yield "drafts"
        if not room.listed:
            yield "not-listed"

    def status(self, room: Room, *, reachable: bool) -> RoomStatus:
        """How a room stands."""
        standing = room.standing
        state: State
        if standing.attention and room.refused is not None:
            state = "needs-attention"
        elif not reachable:
            state = "unreachable"
        elif standing.behind or standing.queued:
            state = "transferring"
        elif standing.attention:
            state = "needs-attention"
        else:
            state = "synchronized"
        return RoomStatus(
            room=room.name,
            state=state,
            held=room.held is not None,
            version=room.held,
            queued=room.queued + room.unsaid,
            attention=standing.attention,
        )
