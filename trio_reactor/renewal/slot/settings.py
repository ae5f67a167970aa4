"""What an application has set, which every later source is to have too."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final, Generic, Protocol, TypeVar, final

import trio

from trio_reactor.errors import ReactorError, Refused
from trio_reactor.renewal.errors import sole
from trio_reactor.renewal.source import Playable

__all__ = ["Applied", "Setting", "Wanted", "is_refusal"]

T = TypeVar("T")

MAX_WISHES: Final = 64
"""How many wishes one setting remembers, for when the newer ones are refused."""


def is_refusal(failure: BaseException) -> bool:
    """Whether the other side answered, and nothing came of what it was asked.

    An adapter's nursery may have put that into a group.
    """
    failure = sole(failure)
    return isinstance(failure, Refused) or (
        isinstance(failure, ReactorError) and failure.outcome == "replied"
    )


@final
class Setting(Generic[T]):
    """One value that is wanted.

    Args:
        value: What is wanted until something else is.
    """

    def __init__(self, value: T) -> None:
        self._last = 0
        self._wishes: dict[int, T] = {0: value}
        """By age: what is wanted is the last, and the one before where that is refused."""

    @property
    def wanted(self) -> T:
        """What is wanted now."""
        return self._wishes[self.newest]

    @property
    def newest(self) -> int:
        """Which wish that is."""
        return max(self._wishes)

    def want(self, value: T) -> int:
        """Want this from now on; returns which wish it is."""
        self._last += 1
        self._wishes[self._last] = value
        if len(self._wishes) > MAX_WISHES:
            del self._wishes[min(self._wishes)]
        return self._last

    @contextmanager
    def telling(self, wish: int) -> Generator[None]:
        """Around telling a source of a wish, which is refused, or stays.

        If it comes to a refusal, it is not wanted any more: then that is which was wanted before.
        After any other failure it stays wanted: the source that did not take it is replaced, or
        could not be told yet.
        """
        try:
            yield
        except BaseException as failure:
            # Also where it is cancelled: whoever replaces the source tells the next one.
            if is_refusal(failure):
                self.drop(wish)
            else:
                self.keep(wish)
            raise
        self.keep(wish)

    def drop(self, wish: int) -> bool:
        """Want this no more, if something was wanted before; returns whether that is so."""
        if len(self._wishes) == 1 or wish not in self._wishes:
            return False
        del self._wishes[wish]
        return True

    def keep(self, wish: int) -> None:
        """Keep a wish: nothing that is older is wanted again."""
        if wish in self._wishes:
            self._wishes = {each: value for each, value in self._wishes.items() if each >= wish}


class Wanted(Protocol):
    """What an application has set."""

    autoplay: Setting[bool]
    """Whether what is ready is played."""
    canvas: Setting[tuple[int, int] | None]
    """The size of the picture, in pixels; the source's own if it is `None`."""


@final
class Applied:
    """What one connection of a source was told of the settings, and the one who tells it.

    Whoever has something to be told comes here, one at a time, so that what is told last is what is
    wanted last.

    Args:
        source: Who is told.
        wanted: What is wanted.
        plays: Whether the source is on air; one that is not is not to play.
    """

    def __init__(self, source: Playable, wanted: Wanted, plays: Callable[[], bool]) -> None:
        self._source = source
        self._wanted = wanted
        self._plays = plays
        self._lock = trio.Lock()
        # What it has taken; `None` where that is not known.
        self._canvas: tuple[int, int] | None = None
        self._autoplay: bool | None = None
        self.tellers = 0
        """How many have begun to tell it, and are not done; whoever begins counts itself."""
        self._refused: Callable[[], bool] | None = None

    @property
    def settled(self) -> bool:
        """Whether it has taken everything that is wanted of it."""
        return self._has_canvas and self._has_autoplay

    def take_back(self) -> bool:
        """Want no more what the source refused last, if something was wanted before.

        Returns whether that is so.
        """
        refused, self._refused = self._refused, None
        return refused is not None and refused()

    @property
    def _has_canvas(self) -> bool:
        wanted = self._wanted.canvas.wanted
        return wanted is None or wanted == self._canvas

    @property
    def _has_autoplay(self) -> bool:
        return not self._plays() or self._wanted.autoplay.wanted == self._autoplay

    async def tell(self) -> None:
        """Tell the source until it has taken everything; no checkpoint is after the last look.

        Raises:
            BaseException: What the source raised.
        """
        async with self._lock:
            while not self.settled:
                await self._tell_canvas()
                await self._tell_autoplay()

    async def tell_canvas(self) -> None:
        """Tell the source of the canvas, in any case; see `tell`."""
        async with self._lock:
            await self._tell_canvas(again=True)

    async def tell_autoplay(self) -> None:
        """Tell the source whether to play, in any case, if it is on air; see `tell`."""
        async with self._lock:
            await self._tell_autoplay(again=True)

    async def _tell_canvas(self, *, again: bool = False) -> None:
        setting = self._wanted.canvas
        while (again and setting.wanted is not None) or not self._has_canvas:
            again = False
            wish, wanted, before = setting.newest, setting.wanted, self._canvas
            assert wanted is not None  # noqa: S101 - it has not got it
            self._canvas = None
            try:
                await self._source.set_canvas(*wanted)
            except Exception as failure:
                if is_refusal(failure):
                    self._canvas = before
                    self._refused = functools.partial(setting.drop, wish)
                raise
            self._canvas = wanted

    async def _tell_autoplay(self, *, again: bool = False) -> None:
        setting = self._wanted.autoplay
        while (again and self._plays()) or not self._has_autoplay:
            again = False
            wish, wanted, before = setting.newest, setting.wanted, self._autoplay
            self._autoplay = None
            try:
                await self._source.set_autoplay(wanted)
            except Exception as failure:
                if is_refusal(failure):
                    self._autoplay = before
                    self._refused = functools.partial(setting.drop, wish)
                raise
            self._autoplay = wanted
