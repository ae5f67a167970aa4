"""The world a program runs in: its clock, its wall time, its chance and its names.

Every module takes these from the one `World` it was given and from nowhere else.  `SystemWorld` is
the real one.  `SeededWorld` draws all of it from a seed, so that a simulated run replays to the
byte; it is what `trio_reactor.testing` runs on.
"""

from __future__ import annotations

import itertools
import random
import secrets
import time
from typing import Final, Protocol, final

import trio

__all__ = ["SeededWorld", "SystemWorld", "World"]

_MACHINE_CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class World(Protocol):
    """Where time, chance and identifiers come from."""

    @property
    def random(self) -> random.Random:
        """The source of chance, for jitter and choices; never for secrets."""
        ...

    def clock(self) -> float:
        """Elapsed time in seconds on Trio's clock; virtual where Trio's clock is."""
        ...

    def wall(self) -> float:
        """Wall time in seconds since 1970 UTC, for instants that are recorded."""
        ...

    def boottime(self) -> float:
        """Seconds on a clock that all processes of the machine share.

        It is for instants that another process is told, and where the system can tell, it counts
        while the machine sleeps too.
        """
        ...

    def token(self) -> str:
        """A fresh unguessable token of 32 hexadecimal digits."""
        ...

    def identifier(self, kind: str) -> str:
        """A fresh name for something of this kind, such as `attempt-7`, unique in this world."""
        ...


class _Names:
    """Counts what was named, by kind."""

    def __init__(self) -> None:
        self._counts: dict[str, itertools.count[int]] = {}

    def identifier(self, kind: str) -> str:
        """A fresh name for something of this kind."""
        count = self._counts.get(kind)
        if count is None:
            count = self._counts[kind] = itertools.count(1)
        return f"{kind}-{next(count)}"


@final
class SystemWorld(_Names):
    """The real world: Trio's clock, the machine's wall time, its entropy."""

    def __init__(self) -> None:
        super().__init__()
        self._random = random.Random(secrets.randbits(128))  # noqa: S311 - jitter, not secrets

    @property
    def random(self) -> random.Random:
        """The source of chance."""
        return self._random

    def clock(self) -> float:
        """Elapsed seconds on Trio's clock."""
        return trio.current_time()

    def wall(self) -> float:
        """Seconds since 1970 UTC."""
        return time.time()

    def boottime(self) -> float:
        """Seconds since the machine was started."""
        return time.clock_gettime(_MACHINE_CLOCK)

    def token(self) -> str:
        """A token from the operating system's entropy."""
        return secrets.token_hex(16)


@final
class SeededWorld(_Names):
    """A world in which everything follows from a seed and from Trio's (virtual) clock.

    Args:
        seed: What all chance and every token is drawn from.
        epoch: The wall time, in seconds since 1970 UTC, at clock zero.
    """

    def __init__(self, seed: int, *, epoch: float = 1_700_000_000.0) -> None:
        super().__init__()
        self.seed = seed
        self._epoch = epoch
        self._random = random.Random(seed)  # noqa: S311 - a simulation replays
        self._tokens = random.Random(f"tokens:{seed}")  # noqa: S311 - a simulation replays

    @property
    def random(self) -> random.Random:
        """The seeded source of chance."""
        return self._random

    def clock(self) -> float:
        """Elapsed seconds on Trio's clock."""
        return trio.current_time()

    def wall(self) -> float:
        """Wall time that runs with the clock; `jump` sets it apart."""
        return self._epoch + trio.current_time()

    def boottime(self) -> float:
        """Seconds since a machine was started that had run for a thousand at the clock's zero."""
        return 1_000.0 + trio.current_time()

    def jump(self, seconds: float) -> None:
        """Set the wall time forward, or back if negative, as clocks in life are."""
        self._epoch += seconds

    def token(self) -> str:
        """A token drawn from the seed."""
        return f"{self._tokens.getrandbits(128):032x}"
