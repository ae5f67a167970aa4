"""All cases, those that apply, and all of them at once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, get_args

from trio_reactor.errors import leaves

from .case import Case
from .holding import HOLDING
from .lasting import LASTING
from .rig import Capability, Rig
from .trial import Nonconforming

__all__ = ["CASES", "Environment", "cases", "run_all"]

CASES: Final[tuple[Case, ...]] = (*HOLDING.cases, *LASTING.cases)
"""Every case there is."""

_CAPABILITIES: Final[frozenset[str]] = frozenset(get_args(Capability))

Environment = Callable[[], AbstractAsyncContextManager[Rig]]
"""Makes a fresh rig, with whatever has to run beside it."""


def cases(kind: type[Rig]) -> tuple[Case, ...]:
    """The cases that apply to rigs of this kind, by its capabilities.

    Raises:
        ValueError: One of its capabilities is none that there is.
    """
    unknown = sorted(kind.capabilities - _CAPABILITIES)
    if unknown:
        raise ValueError(
            f"{kind.__name__}.capabilities names {', '.join(map(repr, unknown))}; there are "
            f"{', '.join(map(repr, sorted(_CAPABILITIES)))}"
        )
    return tuple(case for case in CASES if case.applies_to(kind))


async def run_all(
    kind: type[Rig], environment: Environment, told: Callable[[str], None] | None = None
) -> tuple[str, ...]:
    """Run every case that applies, one after the other, each in an environment of its own.

    Args:
        kind: The kind of rig.
        environment: Makes one, for each case.
        told: Called with one line after each case: whether its sentence holds.

    Returns:
        The sentences that hold.

    Raises:
        ExceptionGroup: Of a `Nonconforming` for each that does not.
        Exception: What the rig or its environment raised, at once.
        ValueError: One of its capabilities is none that there is.
    """
    hold: list[str] = []
    broken: list[Nonconforming] = []
    for case in cases(kind):
        try:
            async with environment() as rig:
                await case.run(rig)
        except Exception as failure:
            told_of = list(leaves(failure))
            found = [leaf for leaf in told_of if isinstance(leaf, Nonconforming)]
            if len(found) != len(told_of):
                raise
            broken.extend(found)
            verdict = "does not hold"
        else:
            hold.append(case.sentence)
            verdict = "holds"
        if told is not None:
            told(f"{verdict}: {case.sentence}")
    if broken:
        raise ExceptionGroup(f"{kind.name} does not conform", broken)
    return tuple(hold)
