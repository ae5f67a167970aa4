"""The outside witness of a simulated machine: who ran the user's code, when, and what was wrong."""

from __future__ import annotations

from typing import Protocol, final

import msgspec

from trio_reactor.supervision.model.keys import Key
from trio_reactor.world import World

__all__ = ["Recorder", "Run", "Witness"]

_HAIR = 1e-6
"""Seconds by which two clocks of one machine may differ when they are added up."""


class Recorder(Protocol):
    """Hears what happens on a machine; `Simulation.record` is one."""

    def __call__(self, what: str, /, **about: object) -> None:
        """Take one fact: `made`, `told`, `runs`, `ended` or `seen-ended`.

        Each comes with the `child`, its process id, the `key` and the `generation`.  A child that
        ends before it ran any code is told of as `ended-unused`, so that `Ended("runs",
        until="ended", by="child")` holds.
        """
        ...


class Run(msgspec.Struct, frozen=True):
    """One interval in which a child ran the user's code, in seconds on the machine's clock."""

    key: Key
    generation: int
    child: int
    """Its process id."""
    since: float
    until: float | None
    """`None`: it still does."""
    deadline: float
    """The last one that it was told."""


@final
class Witness:
    """Sees which child runs the user's code, whatever anybody says of it.

    Args:
        world: Whose machine it is.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._runs: dict[int, Run] = {}
        self._violations: list[str] = []

    @property
    def runs(self) -> tuple[Run, ...]:
        """Every interval, in the order in which they began."""
        return tuple(self._runs.values())

    @property
    def violations(self) -> tuple[str, ...]:
        """What should not have happened, in words."""
        return tuple(self._violations)

    def running(self, key: Key | None = None) -> tuple[Run, ...]:
        """The intervals that last: of this key, or of all."""
        runs = self._runs.values()
        return tuple(run for run in runs if run.until is None and key in {None, run.key})

    def began(self, run: Run) -> None:
        """A child begins to run code."""
        for other in self.running(run.key):
            self._violations.append(
                f"generation {run.generation} of {run.key} began to run (process {run.child}) "
                f"while generation {other.generation} ran (process {other.child})"
            )
        before = [other for other in self._runs.values() if other.key == run.key]
        if any(other.generation > run.generation for other in before):
            self._violations.append(
                f"generation {run.generation} of {run.key} began to run after a later one"
            )
        self._runs[run.child] = run

    def ended(self, child: int, deadline: float) -> None:
        """A child that ran code has ended; it was told that deadline last."""
        run = self._runs[child]
        now = self._world.boottime()
        self._runs[child] = msgspec.structs.replace(run, until=now, deadline=deadline)
        if now > deadline + _HAIR:
            self._violations.append(
                f"generation {run.generation} of {run.key} ran until {now:g} (process {child}), "
                f"and had been told to end by {deadline:g}"
            )
