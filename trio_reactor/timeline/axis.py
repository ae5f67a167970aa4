"""The axis of a timeline: round steps, and times in words."""

from __future__ import annotations

import math
from typing import Final

__all__ = ["clock", "seconds", "tick_label", "ticks"]

MAX_TICKS: Final = 12

_MINUTE: Final = 60.0
_HOUR: Final = 3600.0
_DAY: Final = 86400.0
_ROUND: Final = (30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, _HOUR, 2 * _HOUR, 4 * _HOUR)
"""Steps that are round in minutes and hours, which are not the ones round in seconds."""


def ticks(duration: float) -> tuple[float, list[float]]:
    """A round step, and its multiples within the duration: at most `MAX_TICKS` of them after 0.

    Args:
        duration: In seconds, above zero.
    """
    least = duration / MAX_TICKS
    if least > 10:
        days = _DAY * math.ceil(least / _DAY)
        step = next((candidate for candidate in _ROUND if candidate >= least), days)
    else:
        magnitude = 10.0 ** math.floor(math.log10(least))
        step = next(f * magnitude for f in (1, 2, 5, 10) if f * magnitude >= least)
    return step, [step * index for index in range(math.floor(duration / step + 1e-9) + 1)]


def tick_label(tick: float, step: float) -> str:
    """What stands below a tick, as exact as the step between ticks asks for."""
    if step >= _ROUND[0]:
        return clock(tick)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    return f"{tick:.{decimals}f} s"


def seconds(duration: float) -> str:
    """A duration in words."""
    if duration < _MINUTE:
        return f"{duration:.2f} s"
    return f"{clock(duration)} {'min' if duration < _HOUR else 'h'}"


def clock(duration: float) -> str:
    """A duration as minutes and seconds, with hours where there are any."""
    minutes, rest = divmod(round(duration), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
