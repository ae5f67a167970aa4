"""All cases of a suite, those that apply, and all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeAlias, TypeVar, final

from trio_reactor.errors import leaves

from .case import Case, Part
from .outcome import Failed, NotApplicable, Outcome, Passed, Report, Untested
from .rig import Rig, optionals
from .trial import Nonconforming, RigFailed, Trial

__all__ = ["Environment", "Suite"]

R = TypeVar("R", bound=Rig)
T = TypeVar("T", bound=Trial[Rig])

Environment: TypeAlias = Callable[[], AbstractAsyncContextManager[R]]
"""Makes a fresh rig, with whatever has to run beside it."""


@final
class Suite(Generic[R, T]):
    """The cases for one protocol.

    Args:
        rig: What is supplied to it: the class that the rigs for it are subclasses of.
        parts: The cases, in this order.
        capabilities: All capabilities that a rig can claim.

    Raises:
        ValueError: Two cases have one sentence, a case needs what no rig can offer, or a capability
            has the name of something else that a rig has.
    """

    def __init__(
        self, rig: type[Rig], *parts: Part[R, T], capabilities: Collection[str] = ()
    ) -> None:
        self.capabilities = frozenset(capabilities)
        self.cases: tuple[Case[R, T], ...] = tuple(case for part in parts for case in part.cases)
        offered = self.capabilities | optionals(rig)
        for capability in sorted(self.capabilities):
            if hasattr(rig, capability):
                raise ValueError(f"the capability {capability!r} is an attribute of the rig too")
        seen: set[str] = set()
        for case in self.cases:
            if case.sentence in seen:
                raise ValueError(f"two cases say {case.sentence!r}")
            seen.add(case.sentence)
            unknown = sorted(case.needs - offered)
            if unknown:
                raise ValueError(
                    f"the case {case.sentence!r} needs {_quoted(unknown)}; there are "
                    f"{_quoted(sorted(offered))}"
                )

    def cases_for(self, kind: type[R]) -> tuple[Case[R, T], ...]:
        """The cases that apply to rigs of this kind: by its capabilities, and what it overrides.

        Raises:
            ValueError: One of its capabilities is none that there is.
        """
        self._check(kind)
        return tuple(case for case in self.cases if case.applies_to(kind))

    async def outcome(
        self, case: Case[R, T], kind: type[R], environment: Environment[R]
    ) -> Outcome:
        """Run one case, if it applies, in an environment of its own.

        What the environment raises around the case is a failure of the rig's.  The time that it
        takes to enter and to leave it is not bounded.
        """
        lacks = case.lacks(kind)
        if lacks:
            return NotApplicable(f"it needs {_quoted(lacks)}")
        try:
            async with environment() as rig:
                await case.run(rig)
        except Exception as failure:  # noqa: BLE001 - told, as what it is
            # A nursery of the environment's may have put it into a group.
            told = tuple(leaves(failure))
            rigs = [each for each in told if isinstance(each, RigFailed)]
            broken = tuple(each for each in told if isinstance(each, Nonconforming))
            if not rigs and len(broken) == len(told):
                return Failed(broken)
            if not rigs:
                rigs = [RigFailed(kind.name, f"around the case {case.sentence!r}")]
                rigs[0].__cause__ = failure
            return Untested(str(rigs[0]), rigs[0])
        return Passed()

    async def report(
        self,
        kind: type[R],
        environment: Environment[R],
        told: Callable[[str], None] | None = None,
    ) -> Report:
        """Run every case that applies, one after the other, each in an environment of its own.

        Where a decisive case does not hold, or the rig fails, the rest is not tested.

        Args:
            kind: The kind of rig.
            environment: Makes one, for each case.
            told: Called with one line after each case that applies: whether its sentence holds.

        Raises:
            ValueError: One of the capabilities is none that there is.
        """
        self._check(kind)
        stopped: str | None = None
        outcomes: dict[str, Outcome] = {}
        for case in self.cases:
            if stopped is not None and case.applies_to(kind):
                outcomes[case.sentence] = Untested(stopped)
                continue
            found = await self.outcome(case, kind, environment)
            outcomes[case.sentence] = found
            if told is not None and not isinstance(found, NotApplicable):
                told(f"{found}: {case.sentence}")
            match found:
                case Untested():
                    stopped = "the rig failed before"
                case Failed() if case.decisive:
                    stopped = f"it does not hold that {case.sentence}"
                case _:
                    pass
        return Report(kind.name, outcomes)

    async def run_all(
        self,
        kind: type[R],
        environment: Environment[R],
        told: Callable[[str], None] | None = None,
    ) -> tuple[str, ...]:
        """Run every case that applies, as `report` does, and raise what is wrong.

        Args:
            kind: The kind of rig.
            environment: Makes one, for each case.
            told: Called with one line after each case: whether its sentence holds.

        Returns:
            The sentences that hold.

        Raises:
            ExceptionGroup: Of a `Nonconforming` for each that does not.
            RigFailed: The rig or its environment failed; in the group if rules were broken before.
            ValueError: One of its capabilities is none that there is.
        """
        report = await self.report(kind, environment, told)
        report.raise_broken()
        return report.holding

    def _check(self, kind: type[R]) -> None:
        unknown = sorted(kind.claims() - self.capabilities)
        if unknown:
            raise ValueError(
                f"{kind.__name__}.capabilities names {_quoted(unknown)}; there are "
                f"{_quoted(sorted(self.capabilities))}"
            )


def _quoted(names: Collection[str]) -> str:
    return ", ".join(map(repr, names))
