"""What the channel's tests have in common: some events, and a world whose every instant shows."""

from __future__ import annotations

import random

from trio_reactor.events import Envelope, Event


class Said(Event, frozen=True):
    """Somebody said something."""

    number: int


class Sung(Event, frozen=True):
    """Somebody sang something."""

    number: int


class Shouted(Said, frozen=True):
    """A way of saying."""


class CountingWorld:
    """A world whose clocks advance by one with every look, so that no Trio run is needed."""

    def __init__(self) -> None:
        self.random = random.Random(0)
        self._clock = 0.0
        self._wall = 1_700_000_000.0

    def clock(self) -> float:
        """One second later than the last time."""
        self._clock += 1
        return self._clock

    def wall(self) -> float:
        """One second later than the last time."""
        self._wall += 1
        return self._wall

    def token(self) -> str:
        """Not asked for by a channel."""
        raise NotImplementedError

    def identifier(self, kind: str) -> str:
        """Not asked for by a channel."""
        raise NotImplementedError


def numbers(envelopes: list[Envelope[Said]] | list[Envelope[Event]]) -> list[int]:
    """The numbers of what was said or sung."""
    return [envelope.event.number for envelope in envelopes]  # type: ignore[attr-defined]
