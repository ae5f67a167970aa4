"""How a simulated machine behaves, and what its programs do."""

from __future__ import annotations

from math import isfinite
from typing import Annotated

import msgspec
from pydantic import Field

from trio_reactor.options import Options
from trio_reactor.supervision.model.ends import ExitStatus
from trio_reactor.supervision.model.work import Enforcement

__all__ = ["MachineOptions", "Program"]

_Delay = Annotated[float, Field(ge=0)]


class MachineOptions(Options):
    """How a machine and its children behave.  Durations are in seconds.

    Raises:
        pydantic.ValidationError: A `ValueError` that names each option that is wrong or unknown.
    """

    launch_delay: _Delay = 0.05
    """How long it takes to make a child."""
    kill_delay: _Delay = 0.01
    """How long a child that is killed takes to end."""
    exit_delay: _Delay = 0.0
    """How long after its end a child is seen to have ended."""
    orphan_delay: _Delay = 0.01
    """How long a child takes to end whose supervisor is gone, where it ends then."""
    adopt_delay: _Delay = 0.02
    """How long it takes both ends to prove themselves."""
    confirmation: _Delay = 5.0
    """How long leaving a child, or recovering one, looks for an end before it says that there was
    none to be seen."""
    max_output: Annotated[int, Field(ge=0)] = 4_096
    """The most bytes that are kept of what a child wrote."""
    enforcement: Enforcement = "cgroup"
    """How limits hold here."""
    unenforceable: frozenset[str] = frozenset()
    """The names of the limits that cannot be enforced here: a launch with one is refused."""
    stubborn: bool = False
    """Whether a launch that is cancelled goes on and leaves only when the child exists."""


class Program(msgspec.Struct, frozen=True):
    """What a child's code does.

    Raises:
        ValueError: If a duration is negative or not finite, or it beats without a pause.
    """

    load_delay: float = 0.05
    """Seconds that it takes to load."""
    broken: str | None = None
    """What its loading fails with, as a failure of the code."""
    dies_loading: ExitStatus | None = None
    """How its process ends while it loads, without a word; `None`: it does not."""
    runs_for: float | None = None
    """Seconds after which it ends by itself, counted from when it is loaded; `None`: never."""
    exit: ExitStatus = ExitStatus(code=0)
    """How it ends then."""
    obeys_after: float | None = 0.1
    """Seconds from when it is asked to end until it does; `None`: it ignores that."""
    obeys_with: ExitStatus = ExitStatus(signal=15)
    """How it ends then."""
    beats: float | None = None
    """Seconds between two signs of life; `None`: it gives none of itself."""
    silent_after: float | None = None
    """Seconds after which its loop is blocked, counted from when it is loaded: it gives no sign of
    life, hears nothing, and does not end before it is killed; `None`: never."""
    echoes: bool = False
    """Whether it sends back what it receives on its channel."""
    says: bytes = b""
    """What it sends on its channel when it is loaded."""
    last_words: bytes = b""
    """What it sends on its channel before it ends, by itself or when it is asked to."""
    prints: bytes = b""
    """What it writes to its output when it is loaded."""

    def __post_init__(self) -> None:
        for name in ("load_delay", "runs_for", "obeys_after", "beats", "silent_after"):
            seconds: float | None = getattr(self, name)
            if seconds is not None and not (isfinite(seconds) and seconds >= 0):
                raise ValueError(f"{name} must be finite and not negative, not {seconds}")
        if self.beats == 0:
            raise ValueError("beats must be longer than nothing: time would stand still")
