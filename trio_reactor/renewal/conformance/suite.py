"""All cases, those that apply, and all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, get_args

from trio_reactor.errors import leaves

from .case import Case
from .connection import CONNECTION, RECONNECTING
from .guarded import RigFailed
from .lasting import ANNOUNCING, EXCLUSIVE, MORTAL, RESUMABLE
from .life import CAPABILITIES, LIFE
from .media import MEDIA
from .playing import PLAYING
from .receiving import RECEPTIVE
from .recording import RECORDABLE
from .rig import Capability, Rig
from .trial import Nonconforming

__all__ = ["CASES", "Environment", "cases", "run_all"]

CASES: Final[tuple[Case, ...]] = tuple(
    case
    for part in (
        LIFE,
        EXCLUSIVE,
        RESUMABLE,
        RECORDABLE,
        MORTAL,
        ANNOUNCING,
        PLAYING,
        MEDIA,
        CONNECTION,
        RECONNECTING,
        RECEPTIVE,
    )
    for case in part.cases
)
"""Every case there is."""

_CAPABILITIES: Final[frozenset[str]] = frozenset(get_args(Capability))

Environment = Callable[[], AbstractAsyncContextManager[Rig]]
"""Makes a fresh rig, with whatever has to run beside it."""


def cases(kind: type[Rig]) -> tuple[Case, ...]:
    """The cases that apply to rigs of this kind: by its capabilities, and by what it can cause.

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

    If the source has other capabilities than its rig says, the rest would test what it is not: then
    it stops there.  It also stops where the rig fails.

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
    hold: list[str] = []
    broken: list[Nonconforming | RigFailed] = []
    for case in cases(kind):
        found = await _found(case, kind, environment)
        if told is not None:
            told(f"{_verdict(found)}: {case.sentence}")
        if not found:
            hold.append(case.sentence)
            continue
        broken.extend(found)
        if case is CAPABILITIES or any(isinstance(each, RigFailed) for each in found):
            break
    if len(broken) == 1 and isinstance(broken[0], RigFailed):
        raise broken[0] from broken[0].__cause__
    if broken:
        raise ExceptionGroup(f"{kind.name} does not conform", broken)
    return tuple(hold)


def _verdict(found: Sequence[Nonconforming | RigFailed]) -> str:
    if not found:
        return "holds"
    return "not tested" if isinstance(found[0], RigFailed) else "does not hold"


async def _found(
    case: Case, kind: type[Rig], environment: Environment
) -> Sequence[Nonconforming | RigFailed]:
    """What is wrong with the source by one case; or, alone, that its rig failed."""
    try:
        async with environment() as rig:
            await case.run(rig)
    except Exception as failure:  # noqa: BLE001 - told, as what it is
        told = tuple(leaves(failure))  # a nursery of the environment's may have put it into a group
        rigs = [each for each in told if isinstance(each, RigFailed)]
        broken = [each for each in told if isinstance(each, Nonconforming)]
        if rigs or len(broken) == len(told):
            return rigs[:1] or broken
        failed = RigFailed(kind.name, f"around the case {case.sentence!r}")
        failed.__cause__ = failure
        return [failed]
    return ()
