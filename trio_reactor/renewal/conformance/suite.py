"""All cases, those that apply, and all of them at once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final

from .case import Case
from .connection import CONNECTION, RECONNECTING
from .lasting import EXCLUSIVE, MORTAL, RESUMABLE
from .life import LIFE
from .media import MEDIA
from .playing import PLAYING
from .rig import Rig
from .trial import Nonconforming

__all__ = ["CASES", "Environment", "cases", "run_all"]

CASES: Final[tuple[Case, ...]] = tuple(
    case
    for part in (LIFE, EXCLUSIVE, RESUMABLE, MORTAL, PLAYING, MEDIA, CONNECTION, RECONNECTING)
    for case in part.cases
)
"""Every case there is."""

Environment = Callable[[], AbstractAsyncContextManager[Rig]]
"""Makes a fresh rig, with whatever has to run beside it."""


def cases(kind: type[Rig]) -> tuple[Case, ...]:
    """The cases that apply to rigs of this kind: by its capabilities, and by what it can cause."""
    return tuple(case for case in CASES if case.applies_to(kind))


async def run_all(kind: type[Rig], environment: Environment) -> tuple[str, ...]:
    """Run every case that applies, one after the other, each in an environment of its own.

    Returns:
        The sentences that hold.

    Raises:
        ExceptionGroup: Of a `Nonconforming` for each that does not.
    """
    hold: list[str] = []
    broken: list[Nonconforming] = []
    for case in cases(kind):
        try:
            async with environment() as rig:
                await case.run(rig)
        except Nonconforming as failure:
            broken.append(failure)
        except ExceptionGroup as group:
            # A nursery of the environment's has put it into a group.
            found, others = group.split(Nonconforming)
            if others is not None:
                raise
            assert found is not None  # noqa: S101 - a group that has no others has it
            broken.extend(each for each in _leaves(found))
        else:
            hold.append(case.sentence)
    if broken:
        raise ExceptionGroup(f"{kind.name} does not conform", broken)
    return tuple(hold)


def _leaves(group: ExceptionGroup[Nonconforming]) -> list[Nonconforming]:
    found: list[Nonconforming] = []
    for each in group.exceptions:
        found += _leaves(each) if isinstance(each, ExceptionGroup) else [each]
    return found
