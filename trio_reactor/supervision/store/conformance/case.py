"""One case: what it needs, and what it requires."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import final

import msgspec

from .rig import Capability, Rig
from .trial import Trial

__all__ = ["Case", "Register"]

Body = Callable[[Trial], Awaitable[None]]


class Case(msgspec.Struct, frozen=True):
    """One rule, and how it is tested."""

    sentence: str
    """The rule, as a sentence."""
    body: Body
    needs: frozenset[Capability]
    """The capabilities that it is about."""

    def __str__(self) -> str:
        return self.sentence

    def applies_to(self, kind: type[Rig]) -> bool:
        """Whether it can be tested with rigs of this kind."""
        return self.needs <= kind.capabilities

    async def run(self, rig: Rig) -> None:
        """Test the rule at this rig, which was not used before.

        Raises:
            Nonconforming: The store does not keep it.
        """
        await self.body(Trial(rig, self.sentence))


@final
class Register:
    """The cases of one part of the suite, in the order in which they are written."""

    def __init__(self) -> None:
        self.cases: list[Case] = []

    def case(self, sentence: str, *needs: Capability) -> Callable[[Body], Body]:
        """Add a case, whose body tests it."""

        def add(body: Body) -> Body:
            self.cases.append(Case(sentence, body, frozenset(needs)))
            return body

        return add
