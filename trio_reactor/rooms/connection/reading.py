"""Reading rooms: whole, page by page, or what is new of them."""

from __future__ import annotations

from typing import assert_never, final

from trio_reactor.rooms import events
from trio_reactor.rooms.errors import (
    ProviderFault,
)
from trio_reactor.rooms.model.answers import (
    Advanced,
    BeyondHorizon,
    Current,
    Discontinued,
    Page,
)
from trio_reactor.rooms.model.checking import check_advanced, check_page
from trio_reactor.rooms.model.held import Draft, Transfer
from trio_reactor.rooms.provider.protocol import Link
from trio_reactor.rooms.store.content import Content, Landing

from .core import Core
from .generation import Generation
from .room import Room

__all__ = ["Reading"]

_REPEATS = 3
"""How often in a row a page that is here already is taken for a repeat."""


@final
class Reading:
    """Reads rooms from the authority, and publishes what it gave.

    Args:
        core: What the parts of the connection share.
    """

    def __init__(self, core: Core) -> None:
        self._core = core

    async def bootstrap(self, room: Room, generation: Generation, link: Link) -> None:
        """Read a whole room, page by page, from where that stopped."""
        core = self._core
        selection, held = room.listing.selection, room.held
        transfer = room.transfer
        if transfer is not None and transfer.selection != selection:
            transfer = None
        repeats = discontinued = 0
        while True:
            token = None if transfer is None else transfer.token
            page = await self._core.ask(
                room, generation, link.bootstrap, room.name, selection, token
            )
            match page:
                case Discontinued():
                    discontinued += 1
                    if transfer is None or discontinued > core.options.max_faults:
                        raise ProviderFault(
                            f"{room.name}: a transfer is discontinued over and over",
                            room=room.name,
                        )
                    await core.write(room, lambda content, number: content.abandon(number))
                    transfer = room.transfer = None
                    continue
                case Page():
                    pass
                case _:
                    assert_never(page)
            if (
                transfer is not None
                and page.transfer == transfer.name
                and page.number < transfer.next
                and repeats < _REPEATS
            ):
                repeats += 1
                continue
            repeats = 0
            check_page(
                page,
                room=room.name,
                transfer=None if transfer is None else transfer.name,
                number=0 if transfer is None else transfer.next,
                version=None if transfer is None else transfer.version,
                limits=generation.terms.limits,
            )
            generation.check()
            if page.next is None:
                if held is not None and page.version < held and not room.renewed:
                    # Nobody else moves this room: it is the authority that went back.
                    await self.restore(room, page.version)
                    generation.check()
                await self._publish_whole(room, generation, page, selection)
                return
            transfer = Transfer(page.transfer, selection, page.version, page.number + 1, page.next)
            await self._stage(room, page, transfer)
            generation.check()

    async def _stage(self, room: Room, page: Page, transfer: Transfer) -> None:
        """Keep a page, and where the transfer goes on."""

        def staged(_: None) -> None:
            room.transfer = transfer

        await self._core.write(
            room,
            lambda content, number: content.stage(number, page, transfer.selection),
            staged,
        )

    async def _publish_whole(
        self, room: Room, generation: Generation, page: Page, selection: str
    ) -> None:
        core = self._core

        def publish(content: Content, number: int) -> Landing | int | None:
            return content.publish_whole(number, page, selection) or content.version(number)

        def published(landing: Landing | int | None) -> None:
            room.renewed = room.expired = room.owed = room.unconfirmed = False
            room.transfer = None
            room.selection = selection
            core.landed(room, generation, landing)
            if room.listing.selection != selection:
                room.renewed = True  # it was listed anew meanwhile

        await core.write(room, publish, published)

    async def refresh(self, room: Room, generation: Generation, link: Link) -> None:
        """Read what is newer than what is held."""
        since = room.held
        assert since is not None  # noqa: S101 - it is refreshed because it is held
        offered, room.offered = room.offered, None
        if offered is not None and offered.since == since:
            answer: Advanced | Current | BeyondHorizon = offered
        else:
            answer = await self._core.ask(room, generation, link.refresh, room.name, since)
            if answer.room != room.name:
                raise ProviderFault(f"{room.name}: another room was answered", room=room.name)
        if room.held != since:
            return  # it has moved meanwhile
        match answer:
            case Current(version=version):
                if version > since:
                    raise ProviderFault(
                        f"{room.name}: version {version} is said to be no newer than {since}",
                        room=room.name,
                    )
                if version < since or room.waiting == "accepted":
                    await self.restore(room, version)
                    return
                room.known = since
                room.unconfirmed = False
                room.faults = 0
            case BeyondHorizon():
                room.owed = True
                room.unconfirmed = False
            case Advanced():
                check_advanced(answer, room=room.name, since=since, limits=generation.terms.limits)
                room.known = max(room.known, answer.version + answer.more)
                await self._publish_change(room, generation, answer)
            case _:
                assert_never(answer)

    async def _publish_change(self, room: Room, generation: Generation, change: Advanced) -> None:
        def publish(content: Content, number: int) -> Landing | int | None:
            return content.publish_change(
                number,
                since=change.since,
                version=change.version,
                entries=change.entries,
                removed=change.removed,
            ) or content.version(number)

        def published(landing: Landing | int | None) -> None:
            room.unconfirmed = room.expired = False
            self._core.landed(room, generation, landing)

        await self._core.write(room, publish, published)

    async def restore(self, room: Room, version: int) -> None:
        """Take in that the authority went back: what it had accepted since is offered again."""
        core = self._core
        written = core.world.wall()

        def restore(content: Content, number: int) -> tuple[Draft, ...]:
            return content.restored(number, version, written=written)

        def restored(drafts: tuple[Draft, ...]) -> None:
            room.known = version
            room.renewed = True
            room.unconfirmed = False
            core.say(events.AuthorityRestored(room.name, len(drafts)))
            core.say_drafts(room, drafts)

        await core.write(room, restore, restored)
