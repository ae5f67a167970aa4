"""What the author of a store supplies."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Literal, TypeAlias

from trio_reactor.supervision.model.keys import Handle
from trio_reactor.supervision.store.protocol import Store
from trio_reactor.testing import conformance

__all__ = ["Capability", "Rig"]

Capability: TypeAlias = Literal["exclusive", "damageable"]
"""What a store can beside holding a journal.  `exclusive`: one supervisor at a time has it, and the
next one all of it.  `damageable`: its rig can damage a record that is in it."""


class Rig(conformance.Rig):
    """The store under test, whose journal is new when a case begins."""

    capabilities: ClassVar[frozenset[Capability]] = frozenset()
    """What the store is expected to be able to do."""

    patience: float = 20.0

    @abstractmethod
    def store(self) -> Store:
        """A store with the same journal each time, as another supervisor would make it."""
        ...

    async def damage(self, handle: Handle, /) -> None:
        """Damage the record of a session, while the journal is not open."""
        raise NotImplementedError
