"""A provider at which everything can go wrong."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, final

from trio_reactor.rooms.provider.protocol import Client, Provider
from trio_reactor.testing.faults import Fails, Fault, Faults, Never, Slow, Twice
from trio_reactor.world import World

from .lies import LIES, Lie
from .link import FaultyLink
from .script import Script

__all__ = ["MENU", "FaultyProvider", "draw_lies"]

_CALLS: Final = ("discover", "hold", "bootstrap", "refresh", "submit", "upload", "messages", "say")
_FAILING: Final = (Fails("lost"), Fails("timed-out", after=2.0), Slow(3.0), Never())

MENU: Final[Mapping[str, Sequence[Fault]]] = {
    "connect": (Fails("lost"), Fails("timed-out", after=5.0), Slow(2.0)),
    **dict.fromkeys(_CALLS, _FAILING),
    **{f"{call}-copy": (Twice(),) for call in _CALLS},
    **{f"{call}-answer": _FAILING for call in _CALLS},
    "link": (Fails("lost", after=60.0), Fails("lost", after=1.0)),
    "event": (Slow(3.0), Twice(), Fails("lost", after=0.5), Never()),
}
"""What can go wrong that is not against the contract, for `Plan.draw`."""


def draw_lies(
    chance: random.Random, *, rate: float = 0.1, tries: int = 20
) -> dict[str, dict[int, Lie]]:
    """Draw which answers are lies.

    Args:
        chance: What it is drawn from.
        rate: The chance, from 0 to 1, that an answer is one.
        tries: How many answers at each place may be one.
    """
    return {
        place: {
            number: chance.choice(choices)
            for number in range(1, tries + 1)
            if chance.random() < rate
        }
        for place, choices in LIES.items()
    }


@final
class FaultyProvider:
    """Another provider, and what goes wrong with it; implements `Provider`.

    Args:
        inner: What connects in the end.
        world: Its time.
        faults: What goes wrong, and where; nothing by default.
        lies: Which answers are not what the contract says: by place, by the number of the answer
            there, from 1.  One that cannot be told of what is answered is not told.

    Raises:
        ValueError: A lie is planned where it cannot be told.
    """

    def __init__(
        self,
        inner: Provider,
        *,
        world: World,
        faults: Faults | None = None,
        lies: Mapping[str, Mapping[int, Lie]] | None = None,
    ) -> None:
        self.script = Script(world, Faults() if faults is None else faults, lies or {})
        """What goes wrong."""
        self._inner = inner
        self._links: dict[int, FaultyLink] = {}
        self._connected = 0

    def __repr__(self) -> str:
        return f"<FaultyProvider over {self._inner!r}>"

    @property
    def lies_told(self) -> tuple[Lie, ...]:
        """Those that were told so far, in order."""
        return tuple(self.script.lies_told)

    @property
    def links(self) -> tuple[FaultyLink, ...]:
        """Those there are, in the order in which they were made."""
        return tuple(self._links.values())

    @asynccontextmanager
    async def connect(self, client: Client, /) -> AsyncGenerator[FaultyLink]:
        """Connect, for a block."""
        await self.script.faults.meet("connect")
        async with self._inner.connect(client) as inner:
            link = FaultyLink(self.script, inner)
            self._connected += 1
            number = self._connected
            self._links[number] = link
            try:
                yield link
            finally:
                del self._links[number]
                link.lose()

    def lose(self) -> None:
        """Lose every link there is."""
        for link in self.links:
            link.lose()
