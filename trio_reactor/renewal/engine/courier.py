"""The tasks that carry dispatches: one at a time each, and kept for the next.

To start a task costs more than to wake one, and a session that is busy sends one request after the
other.  So a courier that is done waits for the next dispatch, unless enough others wait already.
"""

from __future__ import annotations

from typing import Final, Protocol, final

import trio

from trio_reactor.owner import Owner

__all__ = ["MAX_IDLE", "Carried", "Couriers"]

MAX_IDLE: Final = 2
"""How many couriers of one renewal are kept while there is nothing to carry."""


class Carried(Protocol):
    """What a courier carries."""

    async def run(self) -> None:
        """Carry it to its end; raises nothing but `Cancelled`."""
        ...


@final
class _Post:
    """Where one courier waits."""

    def __init__(self) -> None:
        self.given: Carried | None = None
        self.called = trio.Event()


@final
class Couriers:
    """The couriers of one renewal: workers of its owner.

    Args:
        owner: Runs them.
    """

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._name = f"{owner.name} command"
        self._idle: list[_Post] = []

    def carry(self, dispatch: Carried) -> None:
        """Have a dispatch run, in a task that is not the caller's.

        Raises:
            Closed, Failed: No commands are taken; it is not run.
            Overflow: The owner has as many workers as it may.
        """
        self._owner.check()
        if not self._idle:
            self._owner.start_soon(self._work, dispatch, name=self._name)
            return
        post = self._idle.pop()
        post.given = dispatch
        post.called.set()

    async def _work(self, dispatch: Carried) -> None:
        while True:
            await dispatch.run()
            del dispatch  # it would keep its source alive
            if len(self._idle) >= MAX_IDLE:
                return
            post = _Post()
            self._idle.append(post)
            try:
                await post.called.wait()
            except trio.Cancelled:
                # One that was called in the step in which it was cancelled still ends what it got.
                if post.given is not None:
                    await post.given.run()
                else:
                    self._idle.remove(post)
                raise
            assert post.given is not None  # noqa: S101 - it was called
            dispatch = post.given
