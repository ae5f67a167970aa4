"""What the tests of the owner tell their stories with."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import trio

from trio_reactor.errors import leaves

__all__ = ["Adapter", "Thing", "caught", "collected", "leaves_of", "opened", "outcome", "stubborn"]


class Adapter(Exception):
    """An exception of an adapter's own, which is a defect unless it is declared."""


class Thing:
    """A thing with a nursery of its own, which notes what becomes of it.

    Args:
        opening: Seconds it takes to open, or an event that opens it.
        hardy: Whether it opens even if that is cancelled.
        refuses: What opening it raises.
        leaving: Seconds it takes to leave, which can be cancelled.
        holds_out: Seconds beyond, which cannot.
        complains: What leaving it raises.
        notes: A list to share with others.
        name: What it calls itself in these notes.
    """

    def __init__(
        self,
        *,
        opening: float | trio.Event = 0.0,
        hardy: bool = False,
        refuses: BaseException | None = None,
        leaving: float = 0.0,
        holds_out: float = 0.0,
        complains: BaseException | None = None,
        notes: list[str] | None = None,
        name: str = "thing",
    ) -> None:
        self.notes: list[str] = [] if notes is None else notes
        self.name = name
        self.entered_by: trio.lowlevel.Task | None = None
        self.left_by: trio.lowlevel.Task | None = None
        self.exits = 0
        self.is_open = False
        self._opening = opening
        self._hardy = hardy
        self._refuses = refuses
        self._leaving = leaving
        self._holds_out = holds_out
        self._complains = complains

    def note(self, what: str) -> None:
        self.notes.append(f"{self.name} {what}")

    async def __aenter__(self) -> Self:
        self.entered_by = trio.lowlevel.current_task()
        self.note("opening")
        try:
            with trio.CancelScope(shield=self._hardy):
                if isinstance(self._opening, trio.Event):
                    await self._opening.wait()
                else:
                    await trio.sleep(self._opening)
        except trio.Cancelled:
            self.note("given up")
            raise
        if self._refuses is not None:
            raise self._refuses
        self._manager = trio.open_nursery()
        self._nursery = await self._manager.__aenter__()
        self.is_open = True
        self.note("open")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        self.left_by = trio.lowlevel.current_task()
        self.exits += 1
        self.is_open = False
        self.note("leaving")
        try:
            if error is None:
                await trio.sleep(self._leaving)
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(self._holds_out)
            self._nursery.cancel_scope.cancel()
            self.note("left")
            result = await self._manager.__aexit__(kind, error, traceback)
        if self._complains is not None:
            raise self._complains
        return result

    def die(self, failure: BaseException) -> None:
        """Let a task in its nursery raise this."""

        async def fail() -> None:
            raise failure

        self._nursery.start_soon(fail)

    def vanish(self) -> None:
        """End without an error: its nursery is cancelled, and swallows that."""
        self._nursery.cancel_scope.cancel()


def opened(thing: Thing) -> Callable[[], Thing]:
    """A factory that gives this thing."""
    return lambda: thing


async def stubborn(seconds: float) -> None:
    """Not to be cancelled for so long."""
    with trio.CancelScope(shield=True):
        await trio.sleep(seconds)


async def outcome(awaitable: Awaitable[object]) -> object:
    """What comes of it: what it returns or raises, but a cancellation goes on."""
    try:
        return await awaitable
    except trio.Cancelled:
        raise
    except BaseException as error:  # noqa: BLE001 - it is what comes of it
        return error


def leaves_of(error: BaseException | None) -> list[BaseException]:
    """The leaves of an error, in their order; none of `None`."""
    return [] if error is None else list(leaves(error))


class caught:  # noqa: N801 - reads as a word in a story
    """A block whose error, whatever it is, is kept: `with caught() as it: …; it.error`."""

    error: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        self.error = error
        return error is not None

    @property
    def leaves(self) -> list[BaseException]:
        return leaves_of(self.error)


@contextmanager
def collected() -> Iterator[None]:
    """A block without garbage collection: what goes there goes because nobody refers to it."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
