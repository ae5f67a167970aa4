"""One case: what it needs, what it requires, and what is raised where that does not hold."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, final

import msgspec
import trio

from trio_reactor.errors import leaves

from .guarded import RigFailed
from .rig import Capability, Cause, Rig, causes_of
from .trial import Nonconforming, Trial

__all__ = ["Case", "Nonconforming", "Register"]

BUDGET: Final = 20.0
"""How many times the patience of its rig one case may take."""

Body = Callable[[Trial], Awaitable[None]]


class Case(msgspec.Struct, frozen=True):
    """One rule, and how it is tested."""

    sentence: str
    """The rule, as a sentence."""
    body: Body
    needs: frozenset[Capability]
    """The capabilities that it is about."""
    causes: frozenset[Cause]
    """What its rig has to be able to cause."""

    def __str__(self) -> str:
        return self.sentence

    def applies_to(self, kind: type[Rig]) -> bool:
        """Whether it can be tested with rigs of this kind."""
        return self.needs <= kind.capabilities and self.causes <= causes_of(kind)

    async def run(self, rig: Rig) -> None:
        """Test the rule at this rig, which was not used before.

        Raises:
            Nonconforming: The source does not keep it.
            RigFailed: A method of the rig raised something; nothing is said about the source.
        """
        trial = Trial(rig, self.sentence)
        try:
            with trio.move_on_after(BUDGET * rig.patience) as budget:
                await self.body(trial)
        except Exception as failure:
            told = tuple(leaves(failure))
            # The rig's before the source's: where it failed the source may only have suffered.
            found: Nonconforming | RigFailed | None = next(
                (leaf for leaf in told if isinstance(leaf, RigFailed)), None
            ) or next((leaf for leaf in told if isinstance(leaf, Nonconforming)), None)
            if found is failure:
                raise
            if found is not None:
                raise found from found.__cause__
            raise trial.broken(f"raised {failure!r}") from failure
        if budget.cancelled_caught:
            raise trial.broken(f"did not come to an end within {BUDGET * rig.patience:g} s")


@final
class Register:
    """The cases of one part of the suite, in the order in which they are written."""

    def __init__(self, *needs: Capability) -> None:
        self._needs = frozenset(needs)
        self.cases: list[Case] = []

    def case(
        self, sentence: str, *causes: Cause, needs: tuple[Capability, ...] = ()
    ) -> Callable[[Body], Body]:
        """Add a case, whose body tests it."""

        def add(body: Body) -> Body:
            self.cases.append(Case(sentence, body, self._needs | set(needs), frozenset(causes)))
            return body

        return add
