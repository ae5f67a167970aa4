"""Conversations: hearing what was said in a room, and saying what waits."""

from __future__ import annotations

from typing import final

from trio_reactor.rooms.errors import (
    ProviderFault,
)
from trio_reactor.rooms.events import MessageHeard
from trio_reactor.rooms.provider.protocol import Conversing, Link

from .core import Core
from .generation import Generation
from .room import Room

__all__ = ["Talking"]


@final
class Talking:
    """Catches up with conversations.

    Args:
        core: What the parts of the connection share.
    """

    def __init__(self, core: Core) -> None:
        self._core = core

    async def converse(self, room: Room, generation: Generation, link: Link) -> None:
        """Hear what was said, then say what waits."""
        core = self._core
        assert isinstance(link, Conversing)  # noqa: S101 - it is asked for only then
        room.unheard = False
        while await self._hear(room, generation, link):
            pass
        for thread, identity, text in await core.read(
            room, lambda content, number: content.unsaid(number)
        ):
            await self._say(room, generation, link, thread, identity, text)

    async def _hear(self, room: Room, generation: Generation, link: Conversing) -> bool:
        """Hear a page of what was said; returns whether there is more."""
        core, position = self._core, room.position
        page = await core.ask(room, generation, link.messages, room.name, position)
        if page.room != room.name:
            raise ProviderFault(f"{room.name}: another room was answered", room=room.name)
        if page.more and page.position == position:
            raise ProviderFault(f"{room.name}: messages lead nowhere", room=room.name)

        def heard(_: None) -> None:
            room.position = page.position or position
            for message in page.messages:
                core.say(MessageHeard(room.name, message))

        await core.write(
            room,
            lambda content, number: content.hear(number, page.messages, page.position),
            heard,
        )
        return page.more

    async def _say(
        self,
        room: Room,
        generation: Generation,
        link: Conversing,
        thread: str,
        identity: str,
        text: str,
    ) -> None:
        """Say a message; the same one said again is not said twice."""
        core = self._core
        said = await core.ask(room, generation, link.say, room.name, thread, identity, text)
        if said.thread != thread or said.id != identity:
            raise ProviderFault(f"{room.name}: another message was answered", room=room.name)

        def unsaid(_: None) -> None:
            room.unheard = True  # its place among the others is heard of with them

        await core.write(
            room, lambda content, number: content.unsay(number, thread, identity), unsaid
        )
