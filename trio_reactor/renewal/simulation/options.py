"""How the sources of a simulated provider behave."""

from __future__ import annotations

import math
from typing import Final

import msgspec

__all__ = ["SMALLEST", "SimulationOptions"]

SMALLEST: Final = 16
"""How many pixels hold the stamp of a picture."""


class SimulationOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the sources of a provider behave.  Durations are in seconds.

    Raises:
        ValueError: If a number is out of its range.
    """

    lifetime: float | None = 60.0
    """How long a source lives, from when it was opened; `None` for no end."""
    cut_after: float | None = 1.0
    """How long after its life a source is cut off; `None` for never."""
    open_delay: float = 0.2
    build_delay: float = 0.5
    """How long a clip takes to build, where the request does not say."""
    reply_delay: float = 0.01
    """How long a request and its answer take, there and back."""
    reconnect_delay: float = 0.05
    close_delay: float = 0.01
    frame_rate: float = 25.0
    """Pictures a second."""
    width: int = 32
    height: int = 18
    """The size of a picture, in pixels of one byte; at least 16 of them hold the stamp."""
    sound: bool = True
    sample_rate: int = 48_000
    """Samples a second and channel, in Hz."""
    channels: int = 2
    reconnectable: bool = True
    exclusive: bool = False
    """Whether the provider refuses a second source while one lives."""
    resumable: bool = False
    """Whether a source leaves its successor a handle to resume from."""
    refuses_resumption: bool = False
    """Whether a source that is given a handle to resume from refuses it, and so does not open."""
    generation_step: int = 1
    """How much a source's media generation rises each time; 0 is against the protocol."""
    stubborn: bool = False
    """Whether an open that is cancelled while it takes its `open_delay` succeeds all the same."""

    def __post_init__(self) -> None:
        delays = (
            self.open_delay,
            self.build_delay,
            self.reply_delay,
            self.reconnect_delay,
            self.close_delay,
            self.cut_after or 0.0,
        )
        if min(delays) < 0 or not all(map(math.isfinite, delays)):
            raise ValueError("a delay is a finite number of seconds, at least 0")
        if not (math.isfinite(self.frame_rate) and self.frame_rate > 0):
            raise ValueError(f"frame_rate is more than 0, not {self.frame_rate}")
        if self.width < 1 or self.height < 1 or self.width * self.height < SMALLEST:
            raise ValueError(f"a picture has at least {SMALLEST} pixels")
        if self.sample_rate < 1 or self.channels < 1:
            raise ValueError("sample_rate and channels are at least 1")
