"""When a service is restarted, and how often."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from trio_reactor.options import Options
from trio_reactor.supervision.options import MAX_DURATION

__all__ = ["Restart", "RestartPolicy"]

Restart = Literal["on-failure", "always", "never"]
"""When the next session follows one that ended by itself: unless its code ended with status 0
(`on-failure`), whatever it ended with (`always`), or never."""

_Positive = Annotated[float, Field(gt=0, le=MAX_DURATION)]


class RestartPolicy(Options):
    """How a service is restarted.

    Raises:
        pydantic.ValidationError: A `ValueError` that names each option that is wrong or unknown.
    """

    pause: _Positive = 0.5
    """Seconds before the first restart."""

    max_pause: _Positive = 60.0
    """The longest pause, in seconds, before jitter."""

    factor: Annotated[float, Field(ge=1, le=100)] = 2.0
    """By how much each pause in a row is longer than the one before."""

    jitter: Annotated[float, Field(ge=0, le=1)] = 0.2
    """The greatest part of a pause that chance adds to it."""

    max_restarts: Annotated[int, Field(ge=0, le=10_000)] = 10
    """Restarts within `window` after which the next end is the last."""

    window: _Positive = 300.0
    """Seconds in which restarts are counted."""

    steady: _Positive = 60.0
    """Seconds that code must have run for the pauses to begin anew."""

    @model_validator(mode="after")
    def _pauses_can_be(self) -> RestartPolicy:
        if self.pause > self.max_pause:
            raise ValueError(f"pause={self.pause} is longer than max_pause={self.max_pause}")
        return self
