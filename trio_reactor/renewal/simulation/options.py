"""How the sources of a simulated provider behave."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field, model_validator

from trio_reactor.options import Options

__all__ = ["SMALLEST", "SimulationOptions"]

SMALLEST: Final = 16
"""How many pixels hold the stamp of a picture."""

_Delay = Annotated[float, Field(ge=0)]
_Positive = Annotated[float, Field(gt=0)]
_Count = Annotated[int, Field(ge=1)]


class SimulationOptions(Options):
    """How the sources of a provider behave.  Durations are in seconds.

    Raises:
        pydantic.ValidationError: A `ValueError` that names each option that is wrong or unknown.
    """

    lifetime: Annotated[float, Field(allow_inf_nan=True)] | None = 60.0
    """How long a source says that it lives, from when it was opened; `None` for no end.  Any number
    is allowed, also one that makes no sense."""
    cut_after: _Delay | None = 1.0
    """How long after its life a source is cut off; `None` for never."""
    open_delay: _Delay = 0.2
    build_delay: _Delay = 0.5
    """How long a clip takes to build, where the request does not say."""
    reply_delay: _Delay = 0.01
    """How long a request and its answer take, there and back."""
    reconnect_delay: _Delay = 0.05
    close_delay: _Delay = 0.01
    frame_rate: _Positive = 25.0
    """Pictures a second."""
    width: _Count = 32
    height: _Count = 18
    """The size of a picture, in pixels of one byte; at least 16 of them hold the stamp."""
    sound: bool = True
    sample_rate: _Count = 48_000
    """Samples a second and channel, in Hz."""
    channels: _Count = 2
    reconnectable: bool = True
    exclusive: bool = False
    """Whether the provider refuses a second source while one lives."""
    resumable: bool = False
    """Whether a source leaves its successor a handle to resume from."""
    refuses_resumption: bool = False
    """Whether a source that is given a handle to resume from refuses it, and so does not open."""
    outlives: bool = False
    """Whether a session runs on at the provider that was left without a confirmed `close`."""
    generation_step: Annotated[int, Field(ge=0)] = 1
    """How much a source's media generation rises each time; 0 is against the protocol."""
    stubborn: bool = False
    """Whether an open that is cancelled while it takes its `open_delay` succeeds all the same."""

    @model_validator(mode="after")
    def _holds_a_stamp(self) -> SimulationOptions:
        if self.width * self.height < SMALLEST:
            raise ValueError(f"width, height: a picture has at least {SMALLEST} pixels")
        return self
