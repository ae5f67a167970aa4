"""One case: what it needs, what it requires, and what is raised where that does not hold."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, final

import msgspec
import trio

from trio_reactor.errors import leaves

from .rig import Capability, Need, Rig, has
from .trial import Nonconforming, RigFailed, Trial

__all__ = ["Case", "Register"]

BUDGET: Final = 20.0
"""How many times the patience of its rig one case may take."""

Body = Callable[[Trial], Awaitable[None]]


class Case(msgspec.Struct, frozen=True):
    """One rule, and how it is tested."""

    sentence: str
    """The rule, as a sentence."""
    body: Body
    needs: frozenset[Need]
    """What its rig has to have."""
    capabilities: frozenset[Capability]
    """The capabilities that it is about."""

    def __str__(self) -> str:
        return self.sentence

    def applies_to(self, kind: type[Rig]) -> bool:
        """Whether it can be tested with rigs of this kind."""
        return self.capabilities <= kind.capabilities and self.needs <= has(kind)

    async def run(self, rig: Rig) -> None:
        """Test the rule at this rig, which was not used before.

        Raises:
            Nonconforming: The execution does not keep it.
            RigFailed: A method of the rig raised something; nothing is said about the execution.
        """
        trial = Trial(rig, self.sentence)
        try:
            with trio.move_on_after(BUDGET * rig.patience) as budget:
                await self.body(trial)
        except Exception as failure:
            told = tuple(leaves(failure))
            found = _first(told, RigFailed) or _first(told, Nonconforming)
            if found is failure:
                raise
            if found is not None:
                raise found from found.__cause__
            raise trial.broken(f"raised {failure!r}") from failure
        if budget.cancelled_caught:
            raise trial.broken(f"did not come to an end within {BUDGET * rig.patience:g} s")


def _first(
    told: tuple[BaseException, ...], kind: type[RigFailed | Nonconforming]
) -> RigFailed | Nonconforming | None:
    return next((leaf for leaf in told if isinstance(leaf, kind)), None)


@final
class Register:
    """The cases of one part of the suite, in the order in which they are written."""

    def __init__(self, *capabilities: Capability) -> None:
        self._capabilities = frozenset(capabilities)
        self.cases: list[Case] = []

    def case(
        self, sentence: str, *needs: Need, capabilities: tuple[Capability, ...] = ()
    ) -> Callable[[Body], Body]:
        """Add a case, whose body tests it."""

        def add(body: Body) -> Body:
            about = self._capabilities | set(capabilities)
            self.cases.append(Case(sentence, body, frozenset(needs), about))
            return body

        return add
