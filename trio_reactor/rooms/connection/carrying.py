"""Carrying a room: one step after the other, until there is nothing to be done about it.

One task of a generation's carries a room at a time.  Each step asks the authority, passes two
fences (the room's and the generation's), and has the store and memory changed in one step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never, final

import trio

from trio_reactor.errors import is_expected
from trio_reactor.events import FailureRecord
from trio_reactor.rooms import events
from trio_reactor.rooms.errors import (
    ConnectionRefused,
    ProviderFault,
    ReplicaError,
    RoomNotReadable,
    RoomRefused,
)
from trio_reactor.rooms.provider.protocol import Conversing
from trio_reactor.rooms.sync.answering import (
    Merge,
)
from trio_reactor.rooms.sync.steps import Step, next_step

from .core import Core, only
from .generation import Generation
from .reading import Reading
from .room import Room
from .submitting import Submitting
from .talking import Talking

__all__ = ["Carrying"]


@final
class Carrying:
    """Carries rooms.

    Args:
        core: What the parts of the connection share.
        merge_of: How documents at a path of a room are merged, if they are.
    """

    def __init__(self, core: Core, merge_of: Callable[[str, str], Merge | None]) -> None:
        self._core = core
        self.reading = Reading(core)
        self._submitting = Submitting(core, merge_of, self.later)
        self._talking = Talking(core)

    def wake(self, room: Room, generation: Generation | None) -> None:
        """See to it that a room is carried, if there is something to be done about it."""
        self._core.registry.count(room)
        if (
            generation is None
            or not generation.live
            or generation.nursery is None
            or room.lost
            or room.carrier is generation
            or self._step(room, generation) == "rest"
        ):
            return
        room.carrier = generation
        generation.began()
        generation.nursery.start_soon(self._carry, room, generation, name=f"carrying {room.name}")

    def _step(self, room: Room, generation: Generation) -> Step:
        facts = room.facts(
            generation.phase,
            writable=not self._core.halted,
            converses=isinstance(generation.link, Conversing),
        )
        return next_step(facts)

    async def _carry(self, room: Room, generation: Generation) -> None:
        try:
            while not room.lost and generation.live:
                step = self._step(room, generation)
                if step == "rest":
                    break
                try:
                    async with generation.reads:
                        room.check()
                        generation.check()
                        await self._take(step, room, generation)
                except Exception as raised:  # noqa: BLE001 - what is a defect is raised again
                    self.met(only(raised), room, generation)
        finally:
            # In one step with the decision to rest: whoever wakes it now starts another task.
            if room.carrier is generation:
                room.carrier = None
            generation.rested()
            self._core.registry.count(room)

    async def _take(self, step: Step, room: Room, generation: Generation) -> None:
        """Take one step."""
        link = generation.link
        assert link is not None  # noqa: S101 - rooms are carried while there is one
        match step:
            case "bootstrap":
                await self.reading.bootstrap(room, generation, link)
            case "refresh":
                await self.reading.refresh(room, generation, link)
            case "submit":
                await self._submitting.submit(room, generation, link)
            case "converse":
                await self._talking.converse(room, generation, link)
            case "rest":
                await trio.lowlevel.checkpoint()
            case _:
                assert_never(step)

    def met(self, failure: BaseException, room: Room, generation: Generation) -> None:
        """Take in what went wrong about a room; what is a defect is raised."""
        core = self._core
        match failure:
            case RoomNotReadable():
                if not room.lost and generation.live:
                    core.fence((room.name,))
            case RoomRefused() if generation.live and not room.lost:
                room.refused = "room-refused"
                core.say(events.RoomRefused(room.name, failure.code, failure.retryable))
                if failure.retryable:
                    self.later(room, generation, failure.after)
            case ProviderFault() if generation.live and not room.lost:
                core.say(events.ProviderFaulty(room.name, FailureRecord.of(failure)))
                room.faults += 1
                room.renewed = True
                room.offered = room.transfer = None
                if room.faults >= core.options.max_faults:
                    room.refused = "provider-fault"
            case ConnectionRefused():
                generation.end(failure)
            case ReplicaError() if not room.lost:
                room.refused = "store"
                if failure.retryable:
                    self.later(room, generation, 0.0)
            case _ if not is_expected(failure):
                raise failure
            case _ if generation.live and not room.lost:
                generation.end(failure)
            case _:
                pass  # a fence was met: it concerns nobody any more

    def later(self, room: Room, generation: Generation, after: float) -> None:
        """Ask again about a room that was refused for the time being."""
        pause = max(after, self._core.options.pause)
        if generation.nursery is not None and generation.live:
            room.resting = True
            generation.nursery.start_soon(self._resume, room, generation, pause)

    async def _resume(self, room: Room, generation: Generation, pause: float) -> None:
        await trio.sleep(pause)
        if generation.live and not room.lost:
            room.resting = False
            room.refused = None
            self.wake(room, generation)
