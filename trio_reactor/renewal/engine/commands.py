"""The commands of a renewal: to the source on air, or to the one that has the clip.

What is set is kept beside that: the chain tells whichever source has not taken what is wanted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar, final

from trio_reactor.errors import ReactorError
from trio_reactor.owner import Owner
from trio_reactor.renewal.errors import QueueFull, SessionRecovering, SessionRetired
from trio_reactor.renewal.policy import phases
from trio_reactor.renewal.slot.settings import Applied, Setting
from trio_reactor.renewal.slot.slot import Slot
from trio_reactor.renewal.source import Commit, Playable

from .capture import check_flag, check_position, check_size
from .dispatch import Dispatch
from .engine import Engine

if TYPE_CHECKING:
    from trio_reactor.renewal.chain.chain import Chain

__all__ = ["Commands"]

T = TypeVar("T")


@final
class Commands:
    """The commands of one renewal; each is described where the application gives it.

    Args:
        owner: Runs them.
        chain: Has the sources, and what was set.
        engine: Finds the source of a clip, and sends.
    """

    def __init__(self, owner: Owner, chain: Chain, engine: Engine) -> None:
        self._owner = owner
        self._chain = chain
        self._engine = engine

    async def set_autoplay(self, enabled: bool) -> None:
        """See `Renewal.set_autoplay`."""
        check_flag("enabled", enabled)
        await self._set(self._chain.autoplay, enabled, Applied.tell_autoplay)

    async def set_canvas(self, width: int, height: int) -> None:
        """See `Renewal.set_canvas`."""
        check_size("width", width)
        check_size("height", height)
        await self._set(self._chain.canvas, (width, height), Applied.tell_canvas)

    async def pause_and_stop(self) -> None:
        """See `Renewal.pause_and_stop`."""
        self._owner.check()
        self._engine.check_plays()
        slot, source = self._on_air()
        await self._command(slot, source.pause_and_stop).outcome()

    async def remove(self, clip: str) -> None:
        """See `Renewal.remove`."""
        slot, source = self._engine.holder(clip)
        await self._command(slot, lambda: source.remove(clip)).outcome()

    async def move(self, clip: str, position: int) -> None:
        """See `Renewal.move`."""
        check_position(position)
        slot, source = self._engine.holder(clip)

        async def move() -> None:
            await source.move(clip, position)
            slot.book.moved(clip, position)

        await self._command(slot, move).outcome()

    def _on_air(self) -> tuple[Slot, Playable]:
        self._engine.check_room()
        slot = self._chain.on_air
        if self._chain.finished:
            raise SessionRetired(f"{self._owner.name}: the last source is gone")
        playable = None if slot is None else slot.playable
        if slot is None or playable is None or not phases.takes_work(slot.phase):
            raise SessionRecovering(f"{self._owner.name}: no source takes this now", retryable=True)
        return slot, playable

    async def _set(
        self, setting: Setting[T], value: T, tell: Callable[[Applied], Awaitable[None]]
    ) -> None:
        """Want this, and wait for what the source on air says to it.

        The chain tells whichever source has not taken what is wanted.  The one on air is told from
        here, where a refusal has somebody to hear it, and is told also if its caller leaves.
        """
        self._owner.check()
        self._engine.check_plays()
        chain = self._chain
        wish = setting.want(value)
        try:
            slot, _ = self._on_air()
        except ReactorError as failure:
            if not isinstance(failure, QueueFull):
                setting.keep(wish)
            chain.changed()
            raise
        applied = slot.applied
        assert applied is not None  # noqa: S101 - it plays clips

        async def send(commit: Commit) -> None:
            commit()
            with setting.telling(wish):
                await tell(applied)

        def over(_: Dispatch[None]) -> None:
            applied.tellers -= 1
            chain.changed()

        dispatch = Dispatch(
            chain,
            slot,
            send,
            check=lambda: chain.check_working(slot),
            over=over,
            withdraws=False,
        )
        self._engine.begin(dispatch)
        applied.tellers += 1
        await dispatch.outcome()

    def _command(self, slot: Slot, command: Callable[[], Awaitable[None]]) -> Dispatch[None]:
        """Begin a command to one source."""

        async def send(commit: Commit) -> None:
            commit()
            await command()

        chain = self._chain
        dispatch = Dispatch(chain, slot, send, check=lambda: chain.check_working(slot))
        return self._engine.begin(dispatch)
