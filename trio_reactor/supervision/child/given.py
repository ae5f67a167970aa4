"""What a guard is started with, and how long what it is told and tells may be.

These are the numbers of its descriptors: its supervisor gives it each under its number.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as `typing` has it, whose import would take as long as all the rest
if TYPE_CHECKING:
    from typing import Final

CONTROL: Final = 3
"""Where the supervisor speaks: a socket that keeps messages apart."""
CHANNEL: Final = 4
"""The code's end of the channel."""
TIMER: Final = 5
"""The deadline."""
PAGE: Final = 6
"""Where the deadline can be read."""
CODE: Final = 7
"""The compiled text of the guard and of the code's side."""
LISTEN: Final = 8
"""Where an adopter comes to; this and what follows only where adoption is allowed."""
CHANNEL_KEPT: Final = 9
"""The application's end of the channel, so that the code sees no end of it meanwhile."""
OUTPUT_KEPT: Final = 10
"""Where the code's output is read, so that the code does not block on it meanwhile."""

MAX_MESSAGE: Final = 262_144
"""Bytes of a message of the supervisor's."""
MAX_FRAME: Final = 65_536
"""Bytes of what the code's side says at once."""
