"""What is to go wrong with all links of a provider."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import TypeVar, final

from trio_reactor.testing.faults import Fails, Faults
from trio_reactor.world import World

from .lies import LIES, Lie

__all__ = ["Script"]

T = TypeVar("T")


@final
class Script:
    """Counts what happens and says what becomes of it.

    Args:
        world: Its time.
        faults: What goes wrong, and where.
        lies: Which answers are lies: by place, by the number of the answer there, from 1.

    Raises:
        ValueError: A lie is planned where it cannot be told.
    """

    def __init__(self, world: World, faults: Faults, lies: Mapping[str, Mapping[int, Lie]]) -> None:
        self.world = world
        self.faults = faults
        self.lies_told: list[Lie] = []
        self._lies = lies
        self._answers: Counter[str] = Counter()
        for place, planned in lies.items():
            wrong = sorted(set(planned.values()) - set(LIES.get(place, ())))
            if wrong:
                raise ValueError(f"no lie at {place!r}: {', '.join(wrong)}")

    def link_ends_at(self) -> float:
        """When, on the clock, a link that is made now is lost.

        Raises:
            ValueError: The plan has something else for a link than its failing.
        """
        fault = self.faults.at("link")
        match fault:
            case None:
                return math.inf
            case Fails(after=seconds):
                return self.world.clock() + seconds
            case _:
                raise ValueError(f"{fault} at 'link', which only fails")

    def lie(self, place: str) -> Lie | None:
        """Count an answer at a place; the lie that is told instead, if one is."""
        self._answers[place] += 1
        return self._lies.get(place, {}).get(self._answers[place])

    def told(self, lie: Lie, true: T, said: T) -> T:
        """Note that a lie was told, if it was; returns what is said."""
        if said != true:
            self.lies_told.append(lie)
        return said
