"""A worker: a task of the owner's, shielded, whose crash is the owner's terminal failure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVarTuple, Unpack, final

import trio
from trio.lowlevel import disable_ki_protection, enable_ki_protection

from .verdict import split_cancelled, stray

__all__ = ["Worker", "unprotected"]

Ts = TypeVarTuple("Ts")


@final
class Worker:
    """One worker.

    Args:
        name: What it is called in messages.
        drain: Whether close lets it finish before anything held retires.
        ended: Told, in the worker's last step, that it ended, and what it crashed with.
    """

    __slots__ = ("_ended", "drain", "name", "scope")

    def __init__(
        self, name: str, drain: bool, ended: Callable[[Worker, BaseException | None], None]
    ) -> None:
        self.name = name
        self.drain = drain
        self.scope = trio.CancelScope(shield=True)
        self._ended = ended

    @enable_ki_protection
    async def run(self, fn: Callable[[Unpack[Ts]], Awaitable[object]], *args: Unpack[Ts]) -> None:
        """Run the function to its end; raises nothing."""
        crash: BaseException | None = None
        try:
            with self.scope:
                await unprotected(fn, *args)
        except BaseException as raised:  # noqa: BLE001 - told below, whatever it is
            # The scope has absorbed its own cancellation by now.
            crash = split_cancelled(raised) or stray(self.name)
        try:
            self._ended(self, crash)
        finally:
            del crash  # its traceback holds this frame


@disable_ki_protection
async def unprotected(fn: Callable[[Unpack[Ts]], Awaitable[object]], *args: Unpack[Ts]) -> None:
    """Call code of a user's, which an interrupt may strike, from code which it may not."""
    await fn(*args)
