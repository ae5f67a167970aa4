"""Subscribing by type, so that both type checkers see what comes of it.

`subscribe(A, B)` gives a `Subscription[A | B]`.  Neither `A | B` as one argument nor `*types` can
say that, so there is one overload for each number of types.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar, overload

from trio_reactor.events import Event

from .subscription import Subscription

__all__ = ["DEFAULT_CAPACITY", "Observable"]

DEFAULT_CAPACITY = 256
"""How many positions a subscription may be behind if it does not say."""

A = TypeVar("A", bound=Event)
B = TypeVar("B", bound=Event)
C = TypeVar("C", bound=Event)
D = TypeVar("D", bound=Event)
E = TypeVar("E", bound=Event)
F = TypeVar("F", bound=Event)
G = TypeVar("G", bound=Event)
H = TypeVar("H", bound=Event)
S = TypeVar("S")


class Observable(ABC):
    """What events can be received from."""

    @abstractmethod
    def _subscribe(self, types: tuple[type[Event], ...], capacity: int) -> Subscription[Event]:
        """A subscription that starts now."""

    @overload
    def subscribe(self, a: type[A], /, *, capacity: int = ...) -> Subscription[A]: ...
    @overload
    def subscribe(
        self, a: type[A], b: type[B], /, *, capacity: int = ...
    ) -> Subscription[A | B]: ...
    @overload
    def subscribe(
        self, a: type[A], b: type[B], c: type[C], /, *, capacity: int = ...
    ) -> Subscription[A | B | C]: ...
    @overload
    def subscribe(
        self, a: type[A], b: type[B], c: type[C], d: type[D], /, *, capacity: int = ...
    ) -> Subscription[A | B | C | D]: ...
    @overload
    def subscribe(
        self, a: type[A], b: type[B], c: type[C], d: type[D], e: type[E], /, *, capacity: int = ...
    ) -> Subscription[A | B | C | D | E]: ...
    @overload
    def subscribe(
        self,
        a: type[A],
        b: type[B],
        c: type[C],
        d: type[D],
        e: type[E],
        f: type[F],
        /,
        *,
        capacity: int = ...,
    ) -> Subscription[A | B | C | D | E | F]: ...
    @overload
    def subscribe(
        self,
        a: type[A],
        b: type[B],
        c: type[C],
        d: type[D],
        e: type[E],
        f: type[F],
        g: type[G],
        /,
        *,
        capacity: int = ...,
    ) -> Subscription[A | B | C | D | E | F | G]: ...
    @overload
    def subscribe(
        self,
        a: type[A],
        b: type[B],
        c: type[C],
        d: type[D],
        e: type[E],
        f: type[F],
        g: type[G],
        h: type[H],
        /,
        *,
        capacity: int = ...,
    ) -> Subscription[A | B | C | D | E | F | G | H]: ...
    @overload
    def subscribe(self, *types: type[Event], capacity: int = ...) -> Subscription[Event]: ...
    def subscribe(
        self, *types: type[Event], capacity: int = DEFAULT_CAPACITY
    ) -> Subscription[Event]:
        """Receive every event that is published from now on.

        Args:
            *types: Only events of these classes and their subclasses; none means all.  Up to eight
                narrow the type of what is received.
            capacity: How many positions the subscription may be behind before it fails.  All
                positions of the channel count, whatever the filter lets through.

        Raises:
            TypeError: If one of the types is no class of events; a generic one is named bare.
            ValueError: If the capacity is out of bounds.
            Overflow: If there are as many subscriptions as there may be.
        """
        return self._subscribe(types, capacity)

    @overload
    def observe(
        self, state: Callable[[], S], a: type[A], /, *, capacity: int = ...
    ) -> AbstractContextManager[tuple[S, Subscription[A]]]: ...
    @overload
    def observe(
        self, state: Callable[[], S], a: type[A], b: type[B], /, *, capacity: int = ...
    ) -> AbstractContextManager[tuple[S, Subscription[A | B]]]: ...
    @overload
    def observe(
        self, state: Callable[[], S], a: type[A], b: type[B], c: type[C], /, *, capacity: int = ...
    ) -> AbstractContextManager[tuple[S, Subscription[A | B | C]]]: ...
    @overload
    def observe(
        self,
        state: Callable[[], S],
        a: type[A],
        b: type[B],
        c: type[C],
        d: type[D],
        /,
        *,
        capacity: int = ...,
    ) -> AbstractContextManager[tuple[S, Subscription[A | B | C | D]]]: ...
    @overload
    def observe(
        self,
        state: Callable[[], S],
        a: type[A],
        b: type[B],
        c: type[C],
        d: type[D],
        e: type[E],
        /,
        *,
        capacity: int = ...,
    ) -> AbstractContextManager[tuple[S, Subscription[A | B | C | D | E]]]: ...
    @overload
    def observe(
        self,
        state: Callable[[], S],
        a: type[A],
        b: type[B],
        c: type[C],
        d: type[D],
        e: type[E],
        f: type[F],
        /,
        *,
        capacity: int = ...,
    ) -> AbstractContextManager[tuple[S, Subscription[A | B | C | D | E | F]]]: ...
    @overload
    def observe(
        self,
        state: Callable[[], S],
        a: type[A],
        b: type[B],
        c: type[C],
        d: type[D],
        e: type[E],
        f: type[F],
        g: type[G],
        /,
        *,
        capacity: int = ...,
    ) -> AbstractContextManager[tuple[S, Subscription[A | B | C | D | E | F | G]]]: ...
    @overload
    def observe(
        self,
        state: Callable[[], S],
        a: type[A],
        b: type[B],
        c: type[C],
        d: type[D],
        e: type[E],
        f: type[F],
        g: type[G],
        h: type[H],
        /,
        *,
        capacity: int = ...,
    ) -> AbstractContextManager[tuple[S, Subscription[A | B | C | D | E | F | G | H]]]: ...
    @overload
    def observe(
        self, state: Callable[[], S], /, *types: type[Event], capacity: int = ...
    ) -> AbstractContextManager[tuple[S, Subscription[Event]]]: ...
    def observe(
        self, state: Callable[[], S], /, *types: type[Event], capacity: int = DEFAULT_CAPACITY
    ) -> AbstractContextManager[tuple[S, Subscription[Event]]]:
        """The current state and every later event, with no gap between them.

        The context manager subscribes and calls `state` in one synchronous step when it is entered,
        gives both, and closes the subscription when it is left::

            with channel.observe(lambda: room.members, Joined, Left) as (members, changes):
                async for envelope in changes:
                    ...

        Args:
            state: Returns the state as it is now, without awaiting.
            *types: As for `subscribe`.
            capacity: As for `subscribe`.

        Raises:
            TypeError: When entered, if one of the types is no class of events.
            ValueError: When entered, if the capacity is out of bounds.
            Overflow: When entered, if there are as many subscriptions as there may be.
        """
        return self._observe(state, types, capacity)

    @contextmanager
    def _observe(
        self, state: Callable[[], S], types: tuple[type[Event], ...], capacity: int
    ) -> Generator[tuple[S, Subscription[Event]]]:
        with self._subscribe(types, capacity) as subscription:
            yield state(), subscription
