"""The block of an owner: entering it, feeling its surroundings, and leaving it."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import final

import trio
from trio.lowlevel import enable_ki_protection

from trio_reactor.channel import Publisher
from trio_reactor.errors import leaves
from trio_reactor.world import SystemWorld, World

from .owner import Owner
from .records import OwnerOptions
from .using import out_of, settle
from .verdict import verdict

__all__ = ["open_owner"]


def open_owner(
    name: str = "owner",
    *,
    world: World | None = None,
    events: Publisher | None = None,
    options: OwnerOptions | None = None,
) -> AbstractAsyncContextManager[Owner]:
    """Make the block of an owner; what it gives is the owner.

    Leaving the block closes it and waits for everything it started, shielded and within
    `cleanup_timeout`.

    Args:
        name: What it is called in messages and events.
        world: Where clock and chance come from; the real ones by default.
        events: Where it publishes what becomes of its attempts; it ends them when it has closed.
        options: Budgets and bounds.

    Raises:
        BaseException: The body's error, the terminal failure, what close found, or a group of
            them: nothing shadows anything else.  See `trio_reactor.owner.verdict`.
    """
    return _Block(Owner(name, world or SystemWorld(), events, options or OwnerOptions()))


@final
class _Block:
    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._parked = trio.Event()
        self._nursery = trio.open_nursery()

    @enable_ki_protection
    async def __aenter__(self) -> Owner:
        owner = self._owner
        if owner._nursery is not None:
            raise RuntimeError(f"the block of {owner.name} is entered once")
        owner._nursery = await self._nursery.__aenter__()
        owner._body.__enter__()
        owner._nursery.start_soon(self._watch_surroundings, name=f"{owner.name} sentinel")
        try:
            with trio.CancelScope(shield=True):
                await self._parked.wait()
        except BaseException as interrupt:  # KeyboardInterrupt: leave in order
            await self.__aexit__(type(interrupt), interrupt, interrupt.__traceback__)
            raise
        return owner

    @enable_ki_protection
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        owner = self._owner
        body = out_of(owner._body, error)
        owner._begin_close("its block was left")
        interrupts: list[BaseException] = []
        while not owner._done.is_set():
            try:
                with trio.CancelScope(shield=True):
                    await owner._done.wait()
            except BaseException as interrupt:  # noqa: BLE001 - KeyboardInterrupt; raised below
                interrupts.append(interrupt)
        try:
            # Without the body's error: a nursery would wrap it.
            await self._nursery.__aexit__(None, None, None)
        except BaseException as foreign:  # noqa: BLE001 - KeyboardInterrupt, wrapped; raised below
            interrupts.extend(leaves(foreign))
        raised = verdict(owner.name, body, owner.failure, [*owner._close_failures, *interrupts])
        try:
            return settle(error, raised)
        finally:
            del error, traceback, body, raised, interrupts  # this frame is in its traceback

    async def _watch_surroundings(self) -> None:
        """Park where the surrounding scope's cancellation is felt, in its own synchronous step.

        The abort function marks the fence and wakes this very task, which then does the rest.  To
        catch `Cancelled` instead would lag by one batch, and let it out of the nursery.
        """
        owner = self._owner
        task = trio.lowlevel.current_task()

        @enable_ki_protection
        def cancelled(_: object) -> trio.lowlevel.Abort:
            owner.stopping.mark("the surrounding scope was cancelled")
            owner._sentinel = None
            trio.lowlevel.reschedule(task)
            return trio.lowlevel.Abort.FAILED

        self._parked.set()
        if owner._done.is_set():
            return  # interrupted while it was entered
        owner._sentinel = task
        await trio.lowlevel.wait_task_rescheduled(cancelled)
        if owner.stopping.is_set:
            owner._stop_opening()
            owner.stopping.announce()
