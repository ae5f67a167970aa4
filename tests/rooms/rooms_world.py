"""A randomized world of rooms: several clients, a provider with faults, rooms granted and revoked.

Whatever is written has a word of its own, so that at the end of each run it can be told what became
of it.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import trio

from trio_reactor.rooms import (
    Delete,
    EditRefused,
    Move,
    Operation,
    Put,
    ReplicaStore,
    RoomNotHeld,
    RoomNotReadable,
    Rooms,
    RoomsOptions,
    TooLarge,
    open_rooms,
)
from trio_reactor.rooms.events import RoomLost, StatusChanged
from trio_reactor.rooms.model.answers import Accepted
from trio_reactor.rooms.model.paths import folded
from trio_reactor.rooms.provider.memory import MemoryAuthority, MemoryOptions, MemoryProvider
from trio_reactor.rooms.simulation import MENU, FaultyProvider
from trio_reactor.testing import Plan, Simulation

ROOMS = ("plans", "notes", "letters")
PATHS = ("a.md", "b.md", "c.md", "dir/d.md", "A.md")
MEMBERS = {"ada at home": "ada", "ada away": "ada", "ben": "ben"}
PLACE = "/dev/shm" if Path("/dev/shm").is_dir() else None


def draw_faults(chance: random.Random) -> Plan:
    """What goes wrong, at first: later there has to be quiet."""
    return Plan.draw(chance, MENU, rate=0.08, tries=12)


class World:
    """One run of it."""

    def __init__(self, sim: Simulation, directory: Path) -> None:
        self.sim = sim
        self.directory = directory
        self.applied: Counter[str] = Counter()
        self.acknowledged: dict[str, dict[str, str]] = {client: {} for client in MEMBERS}
        """By client: the words that were acknowledged, with their rooms."""
        self.excused: dict[str, set[str]] = {client: set() for client in MEMBERS}
        """By client: the words that were lost together with their room."""
        self.quiet = trio.Event()
        self.words = 0
        chance = sim.random
        options = MemoryOptions(
            page_size=chance.choice((1, 2, 100)),
            max_log=chance.choice((3, 1000)),
            change_bytes=chance.choice((0, 4096)),
            part_bytes=chance.choice((60, 65_536)),
            paging=chance.choice(("snapshot", "replay")),
            max_announcements=chance.choice((2, 1000)),
        )
        self.authority = MemoryAuthority(world=sim.world, options=options)
        self._hear_what_is_applied()
        for room in ROOMS:
            self.authority.create(room)
            for member in ("ada", "ben"):
                self.authority.grant(member, room)

    def _hear_what_is_applied(self) -> None:
        apply = self.authority._apply

        def heard(room: Any, operations: Any, *about: Any) -> Any:
            answer = apply(room, operations, *about)
            if isinstance(answer, Accepted):
                self.applied.update(each.text for each in operations if isinstance(each, Put))
            return answer

        self.authority._apply = heard  # type: ignore[method-assign]

    def word(self, room: str) -> str:
        self.words += 1
        return f"{room}word{self.words}"

    # -------------------------------------------------------------------------------- the operator

    async def operate(self) -> None:
        chance, authority = self.sim.random, self.authority
        for _ in range(chance.randrange(4, 14)):
            await trio.sleep(chance.uniform(0, 6))
            room = chance.choice(ROOMS)
            act = chance.choice(("put", "put", "put", "delete", "revoke", "trim", "halt", "cut"))
            self.sim.record("operator", act=act)
            match act:
                case "put":
                    self._put(room, chance.choice(PATHS))
                case "delete":
                    there = sorted(authority.room(room).entries)
                    if there:
                        authority.delete(room, chance.choice(there))
                case "revoke":
                    member = chance.choice(("ada", "ben"))
                    authority.revoke(member, room)
                    await trio.sleep(chance.uniform(0, 6))
                    authority.grant(member, room)
                case "trim":
                    authority.trim(room, authority.room(room).version)
                case "halt":
                    authority.halt()
                    await trio.sleep(chance.uniform(0, 6))
                    authority.resume()
                case _:
                    authority.cut()

    def _put(self, room: str, path: str) -> None:
        there = self.authority.room(room).colliding(folded(path))
        self.authority.put(room, there or path, self.word(room))

    # --------------------------------------------------------------------------------- the clients

    async def live(self, client: str) -> None:
        """One client: it opens its rooms, works, and closes them, several times."""
        chance = self.sim.random
        provider = FaultyProvider(
            MemoryProvider(self.authority, member=MEMBERS[client]),
            world=self.sim.world,
            faults=self.sim.faults,
        )
        store = ReplicaStore(self.directory / f"{client}.db", inline=True)
        for _ in range(chance.randrange(1, 3)):
            async with self._open(provider, store) as rooms, trio.open_nursery() as nursery:
                nursery.start_soon(self._watch, client, rooms)
                for _ in range(chance.randrange(3, 10)):
                    await trio.sleep(chance.uniform(0, 4))
                    await self._act(client, rooms)
                if chance.random() < 0.3:
                    await rooms.stop(chance.uniform(0, 5))
                nursery.cancel_scope.cancel()
            self.sim.record("closed", client=client)
        async with self._open(provider, store) as rooms, trio.open_nursery() as nursery:
            nursery.start_soon(self._watch, client, rooms)
            await self.quiet.wait()
            await self._converge(client, rooms)
            nursery.cancel_scope.cancel()

    def _open(self, provider: Any, store: ReplicaStore) -> Any:
        options = RoomsOptions(connect_timeout=20.0, request_timeout=10.0, max_pause=5.0)
        return open_rooms(provider, store, world=self.sim.world, options=options)

    async def _watch(self, client: str, rooms: Rooms) -> None:
        """See that what is said is so."""
        with rooms.events.subscribe(RoomLost, StatusChanged, capacity=10_000) as events:
            async for envelope in events:
                event = envelope.event
                if isinstance(event, RoomLost):
                    self.sim.record("lost", client=client, room=event.room)
                    self._excuse(client, event.room)
                elif isinstance(event, StatusChanged) and event.status.state == "synchronized":
                    self.sim.record("synchronized", client=client)

    def _excuse(self, client: str, room: str) -> None:
        for word, of in self.acknowledged[client].items():
            if of == room:
                self.excused[client].add(word)

    async def _act(self, client: str, rooms: Rooms) -> None:
        chance = self.sim.random
        room, path = chance.choice(ROOMS), chance.choice(PATHS)
        act = chance.choice(("put", "put", "put", "both", "delete", "move", "read", "lose", "stop"))
        self.see(rooms)
        try:
            match act:
                case "put":
                    await self._edit(client, rooms, room, path)
                case "both":
                    await self._edit(client, rooms, room, path, Put("both.md", self.word(room)))
                case "delete":
                    await rooms.edit(room, Delete(path))
                case "move":
                    await rooms.edit(room, Move(path, f"moved{self.words}.md"))
                case "read":
                    for found in await rooms.search(f"{room}word1"):
                        assert found.room in {listing.room for listing in rooms.listed()}
                    await rooms.documents(room)
                case "lose" if chance.random() < 0.3:
                    await rooms.lose([room])
                    assert room in rooms._core.registry.fences or rooms._core.registry.get(room)
                    # Whatever was acknowledged before is gone with the room that was lost.
                    self._excuse(client, room)
                case _:
                    if chance.random() < 0.2:
                        self.authority.cut(MEMBERS[client])
        except (RoomNotReadable, RoomNotHeld, EditRefused, TooLarge) as refusal:
            self.sim.record("refused", by=type(refusal).__name__)
        self.see(rooms)

    async def _edit(
        self, client: str, rooms: Rooms, room: str, path: str, *more: Operation
    ) -> None:
        word = self.word(room)
        operations = (Put(path, word), *more)
        with trio.move_on_after(self.sim.random.choice((0.0, 100.0))):
            await rooms.edit(room, *operations)
            for operation in operations:
                if isinstance(operation, Put):
                    self.acknowledged[client][operation.text] = room
            self.sim.record("acknowledged", client=client, word=word)

    def see(self, rooms: Rooms) -> None:
        """What is counted is what is there, and no status says more than is so."""
        registry, core = rooms._core.registry, rooms._core
        standing = [registry._standing(room) for room in registry]
        assert registry.tally.rooms == len(standing)
        assert registry.tally.behind == sum(each.behind for each in standing)
        assert registry.tally.queued == sum(each.queued for each in standing)
        if core.status.state == "synchronized":
            assert not registry.tally.behind
            assert not registry.tally.queued
            assert core.status.synchronized is not None
        for room in registry:
            assert room.name not in registry.fences

    # -------------------------------------------------------------------------------------- the end

    async def _converge(self, client: str, rooms: Rooms) -> None:
        """All is quiet: the replica is what the authority has, and nothing is missing."""
        core, member = rooms._core, MEMBERS[client]
        with trio.move_on_after(2_000) as scope:
            while True:
                tally = core.registry.tally
                if (
                    core.reach == "open"
                    and not tally.behind
                    and not tally.queued
                    and not core.erasures
                    and all(
                        room.held == self.authority.room(room.name).version
                        for room in core.registry
                    )
                ):
                    break
                if core.reach == "open":
                    await rooms.refresh()
                await trio.sleep(5)
        self.see(rooms)
        assert not scope.cancelled_caught, self._why_not(client, rooms)
        await rooms.refresh()
        await trio.sleep(50)
        listed = {listing.room for listing in rooms.listed()}
        assert listed == set(self.authority._grants[member]), (client, listed)
        for room in sorted(listed):
            seen = {each.entry.path: each.entry for each in await rooms.documents(room)}
            there = self.authority.room(room).entries
            assert seen == there, (client, room, seen, there)
        drafts = {
            getattr(step.operation, "text", "")
            for room in listed
            for draft in await rooms.drafts(room)
            for step in draft.steps
        }
        for word in self.acknowledged[client].keys() - self.excused[client]:
            assert word in drafts or self.applied[word], f"{client}: {word} is lost"
            assert not (word in drafts and self.applied[word]), f"{client}: {word} is both"
        self.sim.record("converged", client=client)

    def _why_not(self, client: str, rooms: Rooms) -> str:
        core = rooms._core
        facts = {
            room.name: (room.facts("open", writable=True, converses=True), room.refused)
            for room in core.registry
        }
        return f"{client} does not converge: {core.status} {facts} {core.registry.fences.unerased}"


async def rooms_world(sim: Simulation) -> None:
    """One run: a busy time, then quiet, in which everything must come together."""
    with tempfile.TemporaryDirectory(dir=PLACE, prefix="rooms-world-") as directory:
        world = World(sim, Path(directory))
        async with trio.open_nursery() as nursery:
            for client in MEMBERS:
                nursery.start_soon(world.live, client)
            nursery.start_soon(world.operate)
            await trio.sleep(120)
            world.quiet.set()
        for word, count in world.applied.items():
            assert count == 1, f"{word} was applied {count} times"
