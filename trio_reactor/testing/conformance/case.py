"""One case: a rule, what it needs, and its test; and the parts of a suite that cases are in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar, final

import msgspec
import trio

from trio_reactor.errors import leaves

from .rig import Rig
from .trial import Nonconforming, RigFailed, Trial

__all__ = ["PATIENCES", "Case", "Part"]

PATIENCES: Final = 20.0
"""How many times the patience of its rig one case may take, if it does not say."""

R = TypeVar("R", bound=Rig)
T = TypeVar("T", bound=Trial[Rig])


@final
class Case(msgspec.Struct, Generic[R, T], frozen=True):
    """One rule, and how it is tested."""

    sentence: str
    """The rule, as a sentence."""
    trial: Callable[[R, str], T]
    """Makes what the body works with, of a rig and the rule."""
    body: Callable[[T], Awaitable[None]]
    needs: frozenset[str] = frozenset()
    """What its rig has to offer: capabilities, and optional methods."""
    decisive: bool = False
    """Whether the other cases say nothing where this one does not hold."""
    patiences: float = PATIENCES
    """How many times the patience of its rig it may take."""

    def __str__(self) -> str:
        return self.sentence

    def lacks(self, kind: type[R]) -> tuple[str, ...]:
        """What it needs and rigs of this kind do not offer, in alphabetical order."""
        return tuple(sorted(need for need in self.needs if not kind.offers(need)))

    def applies_to(self, kind: type[R]) -> bool:
        """Whether it can be tested with rigs of this kind."""
        return not self.lacks(kind)

    async def run(self, rig: R) -> None:
        """Test the rule at this rig, which was not used before.

        It takes `patiences` times the rig's patience at most.

        Raises:
            Nonconforming: The implementation does not keep it.
            RigFailed: A method of the rig raised something; nothing is said about the
                implementation.
        """
        trial = self.trial(rig, self.sentence)
        seconds = self.patiences * rig.patience
        try:
            with trio.move_on_after(seconds) as budget:
                await self.body(trial)
        except Exception as failure:
            told = tuple(leaves(failure))
            # The rig's before the other: where it failed what is under test may only have suffered.
            found = _first(told, RigFailed) or _first(told, Nonconforming)
            if found is failure:
                raise
            if found is not None:
                raise found from found.__cause__
            raise trial.broken(f"raised {failure!r}") from failure
        if budget.cancelled_caught:
            raise trial.broken(f"did not come to an end within {seconds:g} s")


def _first(
    told: tuple[BaseException, ...], kind: type[RigFailed | Nonconforming]
) -> RigFailed | Nonconforming | None:
    return next((leaf for leaf in told if isinstance(leaf, kind)), None)


@final
class Part(Generic[R, T]):
    """The cases of one part of a suite, in the order in which they are written.

    Args:
        trial: Makes what their bodies work with, of a rig and a rule; most often a `Trial` class.
        needs: What each of them needs.
    """

    def __init__(self, trial: Callable[[R, str], T], *needs: str) -> None:
        self._trial = trial
        self._needs = frozenset(needs)
        self._cases: list[Case[R, T]] = []

    @property
    def cases(self) -> tuple[Case[R, T], ...]:
        """Those there are so far."""
        return tuple(self._cases)

    def case(
        self, sentence: str, *needs: str, decisive: bool = False, patiences: float = PATIENCES
    ) -> Callable[[Callable[[T], Awaitable[None]]], Callable[[T], Awaitable[None]]]:
        """Add a case, whose body tests it.

        Args:
            sentence: The rule, as a sentence.
            needs: What it needs, beside what all of this part do.
            decisive: Whether the other cases say nothing where this one does not hold.
            patiences: How many times the patience of its rig it may take.
        """

        def add(body: Callable[[T], Awaitable[None]]) -> Callable[[T], Awaitable[None]]:
            needed = self._needs | frozenset(needs)
            self._cases.append(
                Case(sentence, self._trial, body, needed, decisive=decisive, patiences=patiences)
            )
            return body

        return add
