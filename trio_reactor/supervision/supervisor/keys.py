"""Who knows what a key has been through, and whether this supervisor may have it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, final

import trio

from trio_reactor.supervision.hosts.tenure import Tenure
from trio_reactor.supervision.model.keys import Key
from trio_reactor.supervision.model.records import Stopped
from trio_reactor.supervision.store.protocol import KeyFacts, SharedJournal

from .registry import Registry

__all__ = ["Keys", "LocalKeys", "SharedKeys"]


class Keys(Protocol):
    """What an open must know of its key."""

    @property
    def host(self) -> str:
        """This supervisor's incarnation, where several share a journal; else empty."""
        ...

    async def claim(self, key: Key, expected: int) -> int:
        """The key's highest generation; 0: none.  Returns once no other host holds the key.

        Raises:
            KeyHeld: A host that lives holds it.
        """
        ...

    async def high_water(self, key: Key) -> int:
        """The key's highest generation, whoever holds it; always a checkpoint."""
        ...


@final
class LocalKeys:
    """Of a journal that this supervisor has alone: all there is to know is known."""

    host = ""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def claim(self, key: Key, expected: int) -> int:
        """The key's highest generation.  No checkpoint."""
        return self._registry.high_water(key)

    async def high_water(self, key: Key) -> int:
        """The key's highest generation."""
        await trio.lowlevel.checkpoint()
        return self._registry.high_water(key)


@final
class SharedKeys:
    """Of a journal that several share: the journal is asked, and dead hosts' keys are taken.

    Args:
        journal: The journal.
        tenure: What this host may hold in it.
        taken: Called with what is known of a key that is taken from a dead host.
    """

    def __init__(
        self, journal: SharedJournal, tenure: Tenure, taken: Callable[[Key, KeyFacts], None]
    ) -> None:
        self._journal = journal
        self._tenure = tenure
        self._taken = taken

    @property
    def host(self) -> str:
        """This incarnation of this host."""
        return self._journal.incarnation

    async def claim(self, key: Key, expected: int) -> int:
        """The key's highest generation, once no other host that lives holds it."""
        facts = await self._tenure.claim(key, expected_generation=expected or None)
        left = facts.record is not None and not isinstance(facts.record.phase, Stopped)
        if left and facts.generation == expected and facts.host != self._journal.incarnation:
            self._taken(key, facts)
        return facts.generation

    async def high_water(self, key: Key) -> int:
        """The key's highest generation, as the journal has it."""
        return (await self._journal.look(key)).generation
