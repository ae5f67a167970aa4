"""A link at which everything can go wrong."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from typing import TypeVar, assert_never, final

import trio

from trio_reactor.errors import Lost
from trio_reactor.rooms.model.answers import (
    Answer,
    Discontinued,
    HistoryPage,
    Message,
    MessagePage,
    Page,
    Refreshed,
)
from trio_reactor.rooms.model.edits import Submission
from trio_reactor.rooms.model.terms import Discovery, Limits
from trio_reactor.rooms.provider.protocol import (
    Acting,
    Announcement,
    Conversing,
    Historic,
    Holding,
    Link,
    Storing,
)
from trio_reactor.testing.faults import Crashes, Fails, Never, Slow, Swapped, Twice

from . import lies
from .script import Script

__all__ = ["FaultyEvents", "FaultyLink"]

T = TypeVar("T")


@final
class FaultyLink:
    """A link of another provider's, and what goes wrong with it; implements all that it can be.

    Args:
        script: What goes wrong.
        inner: What is asked in the end.
    """

    def __init__(self, script: Script, inner: Link) -> None:
        self.script = script
        self._inner = inner
        self._limits = Limits()
        self._page: Page | None = None
        self._going: dict[trio.CancelScope, None] = {}
        self._lost = False
        self._ends_at = script.link_ends_at()
        events = inner.events
        self._events = None if events is None else FaultyEvents(self, events)

    def __repr__(self) -> str:
        return f"<FaultyLink{': lost' if self._lost else ''} over {self._inner!r}>"

    @property
    def events(self) -> trio.abc.ReceiveChannel[Announcement] | None:
        """What the authority announces, as it arrives."""
        return self._events

    def lose(self) -> None:
        """Lose it: what is going on ends with `Lost`, and so does what is asked from now on."""
        self._lost = True
        for scope in tuple(self._going):
            scope.cancel()

    def end_in(self, seconds: float) -> None:
        """Lose it then at the latest."""
        self._ends_at = min(self._ends_at, self.script.world.clock() + seconds)
        for scope in self._going:
            scope.deadline = self._ends_at

    @contextmanager
    def while_it_lasts(self, doing: str) -> Generator[None]:
        """A block that ends with `Lost` when the link does."""
        if self._lost or self.script.world.clock() >= self._ends_at:
            raise Lost(f"{doing}: the link was lost")
        with trio.CancelScope(deadline=self._ends_at) as scope:
            self._going[scope] = None
            try:
                yield
            finally:
                del self._going[scope]
        if scope.cancelled_caught:
            self._lost = True
            raise Lost(f"{doing}: the link was lost", outcome="unknown")

    # -------------------------------------------------------------------------------------- calls

    async def discover(self) -> Discovery:
        """As of the other link."""
        true = await self._exchange("discover", self._inner.discover)
        self._limits = true.terms.limits
        lie = self.script.lie("discover")
        if lie is None:
            return true
        return self.script.told(lie, true, lies.about_discovery(lie, true))

    async def hold(self, holding: Holding, /) -> tuple[str, ...]:
        """As of the other link."""
        return await self._exchange("hold", lambda: self._inner.hold(holding))

    def published(self, room: str, version: int, /) -> None:
        """As of the other link."""
        if not self._lost:
            self._inner.published(room, version)

    async def bootstrap(
        self, room: str, selection: str, token: str | None, /
    ) -> Page | Discontinued:
        """As of the other link."""
        true = await self._exchange(
            "bootstrap", lambda: self._inner.bootstrap(room, selection, token)
        )
        before, self._page = self._page, true if isinstance(true, Page) else None
        if before is not None and (token is None or before.room != room):
            before = None
        lie = self.script.lie("bootstrap")
        if lie is None:
            return true
        return self.script.told(lie, true, lies.about_page(lie, true, before, self._limits))

    async def refresh(self, room: str, since: int, /) -> Refreshed:
        """As of the other link."""
        true = await self._exchange("refresh", lambda: self._inner.refresh(room, since))
        lie = self.script.lie("refresh")
        if lie is None:
            return true
        return self.script.told(lie, true, lies.about_change(lie, true, self._limits))

    async def submit(self, submission: Submission, /) -> Answer:
        """As of the other link."""
        true = await self._exchange("submit", lambda: self._inner.submit(submission))
        lie = self.script.lie("submit")
        if lie is None:
            return true
        return self.script.told(lie, true, lies.about_answer(lie, true))

    async def history(self, room: str, path: str, token: str | None, /) -> HistoryPage:
        """As of the other link."""
        inner = self._inner
        if not isinstance(inner, Historic):
            raise TypeError(f"{inner!r} has no history")
        return await self._exchange("history", lambda: inner.history(room, path, token))

    async def binary(self, room: str, digest: str, offset: int, most: int, /) -> bytes:
        """As of the other link."""
        inner = self._storing()
        return await self._exchange("binary", lambda: inner.binary(room, digest, offset, most))

    async def upload(self, room: str, digest: str, size: int, offset: int, data: bytes, /) -> int:
        """As of the other link."""
        inner = self._storing()
        return await self._exchange(
            "upload", lambda: inner.upload(room, digest, size, offset, data)
        )

    async def messages(self, room: str, position: str, /) -> MessagePage:
        """As of the other link."""
        inner = self._conversing()
        return await self._exchange("messages", lambda: inner.messages(room, position))

    async def say(self, room: str, thread: str, message: str, text: str, /) -> Message:
        """As of the other link."""
        inner = self._conversing()
        return await self._exchange("say", lambda: inner.say(room, thread, message, text))

    async def act(
        self, action: str, room: str | None, inputs: Mapping[str, str | int | float | bool], /
    ) -> str:
        """As of the other link."""
        inner = self._inner
        if not isinstance(inner, Acting):
            raise TypeError(f"{inner!r} has no actions")
        return await self._exchange("act", lambda: inner.act(action, room, inputs))

    def _storing(self) -> Storing:
        if not isinstance(self._inner, Storing):
            raise TypeError(f"{self._inner!r} stores no binaries")
        return self._inner

    def _conversing(self) -> Conversing:
        if not isinstance(self._inner, Conversing):
            raise TypeError(f"{self._inner!r} has no conversations")
        return self._inner

    async def _exchange(self, place: str, call: Callable[[], Awaitable[T]]) -> T:
        faults = self.script.faults
        with self.while_it_lasts(place):
            await faults.meet(place)
            copied = faults.at(f"{place}-copy")
            answer = await call()
            match copied:
                case None:
                    pass
                case Twice():
                    await call()
                case _:
                    raise ValueError(f"{copied} at '{place}-copy', where a call is only sent twice")
            await faults.meet(f"{place}-answer")
            return answer
        raise AssertionError("what was not lost has returned")


@final
class FaultyEvents(trio.abc.ReceiveChannel[Announcement]):
    """Announcements as they arrive: in order, and some late, twice, or never.

    Args:
        link: Whose.
        inner: Where they come from.
    """

    def __init__(self, link: FaultyLink, inner: trio.abc.ReceiveChannel[Announcement]) -> None:
        self._link = link
        self._inner = inner
        self._arriving: deque[Announcement] = deque()
        self._due = 0.0
        self._silent = False

    async def receive(self) -> Announcement:
        """The next announcement.  Always a checkpoint; none is lost if it is cancelled."""
        with self._link.while_it_lasts("event"):
            if not self._arriving:
                await self._more()
            # What arrives late keeps its place if whoever waits for it gives up.
            await trio.sleep(max(0.0, self._due - self._link.script.world.clock()))
            if self._silent:
                await trio.sleep_forever()
            return self._arriving.popleft()
        raise AssertionError("what was not lost has returned")

    async def aclose(self) -> None:
        """Read no more."""
        await self._inner.aclose()

    async def _more(self) -> None:
        script = self._link.script
        true = await self._inner.receive()
        lie = script.lie("event")
        told = true
        if lie is not None:
            told = script.told(lie, true, lies.about_announcement(lie, true))
        self._arriving.append(told)
        match script.faults.at("event"):
            case None:
                pass
            case Slow(seconds):
                self._due = script.world.clock() + seconds
            case Twice():
                self._arriving.append(told)
            case Never():
                self._silent = True
            case Fails(after=seconds):
                # Until its end nothing more arrives, so that none is missed before it.
                self._silent = True
                self._link.end_in(seconds)
            case Swapped() | Crashes() as fault:
                raise ValueError(f"{fault} at 'event', where announcements stay in order")
            case _ as never:
                assert_never(never)
