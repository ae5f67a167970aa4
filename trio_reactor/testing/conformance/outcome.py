"""What came of a case, and of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, assert_never, final

import msgspec

from .trial import Nonconforming, RigFailed

__all__ = ["Failed", "NotApplicable", "Outcome", "Passed", "Report", "Untested"]


@final
class Passed(msgspec.Struct, frozen=True):
    """The rule holds."""

    def __str__(self) -> str:
        return "holds"


@final
class Failed(msgspec.Struct, frozen=True):
    """The rule does not hold."""

    failures: tuple[Nonconforming, ...]
    """What was done instead; more than one if the rig's surroundings have told more."""

    def __str__(self) -> str:
        return "does not hold"


@final
class Untested(msgspec.Struct, frozen=True):
    """Nothing is known of the rule."""

    reason: str
    failure: RigFailed | None = None
    """How the rig failed, if it is for that."""

    def __str__(self) -> str:
        return "not tested"


@final
class NotApplicable(msgspec.Struct, frozen=True):
    """The rule is about what the rig does not offer."""

    reason: str

    def __str__(self) -> str:
        return "does not apply"


Outcome: TypeAlias = Passed | Failed | Untested | NotApplicable


@final
class Report(msgspec.Struct, frozen=True):
    """What came of all the cases of a suite; as a string, a line for each."""

    subject: str
    """What the implementation is called."""
    outcomes: Mapping[str, Outcome]
    """The outcome of each case, by its sentence, in the order of the suite."""

    @property
    def holding(self) -> tuple[str, ...]:
        """The sentences that hold."""
        return tuple(
            sentence for sentence, found in self.outcomes.items() if isinstance(found, Passed)
        )

    def raise_broken(self) -> None:
        """Raise what was found to be wrong, if anything was.

        Raises:
            ExceptionGroup: Of a `Nonconforming` for each rule that does not hold.
            RigFailed: The rig failed; in the group if rules were broken before.
        """
        wrong: list[Nonconforming | RigFailed] = []
        for found in self.outcomes.values():
            if isinstance(found, Failed):
                wrong.extend(found.failures)
            elif isinstance(found, Untested) and found.failure is not None:
                wrong.append(found.failure)
        if len(wrong) == 1 and isinstance(wrong[0], RigFailed):
            raise wrong[0] from wrong[0].__cause__
        if wrong:
            raise ExceptionGroup(f"{self.subject} does not conform", wrong)

    def __str__(self) -> str:
        return "\n".join(
            f"{found}: {sentence}{_why(found)}" for sentence, found in self.outcomes.items()
        )


def _why(found: Outcome) -> str:
    match found:
        case Passed():
            return ""
        case Failed(failures):
            return "".join(f"\n  {failure}" for failure in failures)
        case Untested(reason) | NotApplicable(reason):
            return f" ({reason})"
        case _ as never:
            assert_never(never)
