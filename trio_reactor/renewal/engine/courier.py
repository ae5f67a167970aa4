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
    """Where one courier is given what it carries, and waits for that."""

    def __init__(self) -> None:
        self._given: Carried | None = None
        self._called = trio.Event()

    def give(self, dispatch: Carried) -> None:
        """Give it this, and call it if it waits."""
        self._given = dispatch
        self._called.set()

    async def wait(self) -> None:
        """Wait until something is there."""
        await self._called.wait()

    async def carry(self) -> bool:
        """Carry what is there, if anything is; nothing of it is kept afterwards."""
        given, self._given = self._given, None
        self._called = trio.Event()
        if given is None:
            return False
        await given.run()
        return True


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
        if self._idle:
            self._idle.pop().give(dispatch)
            return
        post = _Post()
        post.give(dispatch)
        self._owner.start_soon(self._work, post, name=self._name)

    async def _work(self, post: _Post) -> None:
        while True:
            await post.carry()
            if len(self._idle) >= MAX_IDLE:
                return
            self._idle.append(post)
            try:
                await post.wait()
            except trio.Cancelled:
                # What it is given in the step in which it is cancelled has to be ended, too.
                if not await post.carry():
                    self._idle.remove(post)
                raise
