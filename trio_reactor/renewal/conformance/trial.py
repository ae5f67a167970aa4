"""A case under way: opens the source under test, waits for facts, and says what is wrong."""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import cast, final

import trio

from trio_reactor.errors import is_expected
from trio_reactor.renewal.source import (
    Commit,
    Playable,
    Predecessor,
    Reconnectable,
    Source,
    SourceState,
)
from trio_reactor.testing import conformance

from .ears import Ears
from .rig import Length, Rig

__all__ = ["Trial", "uncommitted"]


def uncommitted() -> None:
    """Let a request leave, and do nothing about it."""


@final
class Trial(conformance.Trial[Rig]):
    """What the body of a case works with.

    Args:
        rig: The other side.
        required: The rule that is tested.
    """

    def __init__(self, rig: Rig, required: str) -> None:
        super().__init__(rig, required)
        self._identity: str | None = None

    @property
    def subject(self) -> str:
        """The name of the rig, and the identity of the source if it has one."""
        return self.rig.name if self._identity is None else f"{self.rig.name} {self._identity!r}"

    def require_expected(self, failure: BaseException, doing: str) -> None:
        """Raise unless a failure is one that an adapter may raise."""
        if not is_expected(failure):
            raise self.broken(f"raised {failure!r}, a defect, {doing}") from failure

    # ------------------------------------------------------------------------------ the source

    @contextlib.asynccontextmanager
    async def opened(self, predecessor: Predecessor | None = None) -> AsyncGenerator[Source]:
        """A source, open, and left after the block."""
        manager = self.rig.opener(predecessor or Predecessor())
        with trio.CancelScope() as scope:
            scope.deadline = trio.current_time() + self.rig.patience
            async with manager as source:
                scope.deadline = math.inf
                identity = cast("object", source.id)
                self._identity = identity if isinstance(identity, str) else repr(identity)
                yield source
        if scope.cancelled_caught:
            self.fail(f"did not open within {self.rig.patience:g} s")

    @contextlib.asynccontextmanager
    async def playing(self) -> AsyncGenerator[Playable]:
        """A source that plays clips."""
        async with self.opened() as source:
            if not isinstance(source, Playable):
                self.fail("is not Playable")
            yield source

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncGenerator[tuple[Playable, Ears]]:
        """A source that plays clips, and hears its events and its media from the start."""
        async with self.playing() as source:
            ears = Ears()
            await source.attach(ears.events)
            await source.open_media(ears.media)
            yield source, ears

    def reconnectable(self, source: Source) -> Reconnectable:
        """The source, which can reconnect."""
        if not isinstance(source, Reconnectable):
            self.fail("is not Reconnectable")
        return source

    async def enqueue(
        self,
        source: Playable,
        length: Length = "short",
        *,
        position: int | None = None,
        commit: Commit = uncommitted,
    ) -> str:
        """Queue a clip."""
        return await source.enqueue(self.rig.request(length), position=position, commit=commit)

    async def state(self, source: Playable, ears: Ears | None = None) -> SourceState:
        """Its state, which it gives with its events from then on: to these ears, or to none."""
        return await source.attach((ears or Ears()).events)

    async def clips(self, source: Playable, ears: Ears | None = None) -> list[str]:
        """The identities of its clips, in playing order; its events go where `state` says."""
        return [clip.id for clip in (await self.state(source, ears)).clips]

    async def close(self, source: Source) -> None:
        """Close it, within patience."""
        with self.soon("did not close"):
            await source.close()

    # ------------------------------------------------------------------------- waiting for facts

    async def heard(self, ears: Ears, fact: Callable[[], object], did_not: str) -> None:
        """Wait until the sinks were told what makes this true."""
        with self.soon(did_not):
            while not fact():
                await ears.changed.wait()

    async def ready(self, ears: Ears, clip: str) -> None:
        """Wait until a clip could be played."""
        await self.heard(ears, lambda: ears.ready(clip), "did not tell that a clip is ready")

    async def started(self, ears: Ears, clip: str) -> None:
        """Wait until a clip is on air."""
        await self.heard(ears, lambda: ears.started(clip), "did not start a clip")

    async def over(self, ears: Ears, clip: str) -> None:
        """Wait until a clip is over."""
        await self.heard(ears, lambda: ears.over(clip), "did not tell the end of a clip")

    async def until_allocated(self, count: int, after: str) -> None:
        """Wait until the other side has this many sessions."""
        await self.comes_true(lambda: self.rig.allocated() == count)
        found = self.rig.allocated()
        self.require(found == count, f"has {found} allocated instead of {count} {after}")

    async def until_heard(self, source: Source, given: bytes) -> None:
        """Wait until the other side has heard as much as the source was given."""
        await self.comes_true(lambda: len(self.rig.heard(source)) >= len(given))
        found = self.rig.heard(source)
        self.require(found == given, f"was given {len(given)} bytes, and other {len(found)} came")

    async def quiet(self) -> None:
        """Let the time pass in which nothing must happen."""
        await trio.sleep(self.rig.quiet)

    async def leaves_promptly(self, call: Callable[[], Awaitable[object]], name: str) -> None:
        """Call what is not answered, cancel it, and see that it leaves without delay."""
        before = trio.current_time()
        with trio.move_on_after(self.rig.quiet):
            try:
                await call()
            except Exception as failure:  # noqa: BLE001 - what may come of it, if it is expected
                self.require_expected(failure, f"in {name} that was not answered")
        took = trio.current_time() - before - self.rig.quiet
        self.require(
            took <= self.rig.prompt,
            f"took {took:g} s to leave {name} that was not answered and was cancelled",
        )
