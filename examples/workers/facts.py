"""What the host tells whoever started it: facts, as events beside those of its supervisor.

They go over its standard output, one line of JSON each, in the one order in which they happened.
"""

from __future__ import annotations

from typing import Final

from trio_reactor.events import Event, EventCodec
from trio_reactor.supervision import SUPERVISION_EVENTS, Key

__all__ = ["CODEC", "Answered", "Done", "Launched", "Problem", "Ready", "Renewed", "Said"]


class Launched(Event, frozen=True):
    """A session's code was loaded; its processes carry this in their environment."""

    key: Key
    generation: int
    nonce: str


class Answered(Event, frozen=True):
    """A plugin gave the right answer."""

    key: Key
    generation: int


class Renewed(Event, frozen=True):
    """A session was opened or renewed."""

    key: Key
    generation: int
    until: float
    """When its lease runs out now, in seconds on the machine's clock (`CLOCK_BOOTTIME`)."""


class Said(Event, frozen=True):
    """Something that a session left for a person to read: its last words, or where it hung."""

    key: Key
    generation: int
    what: str
    text: str


class Problem(Event, frozen=True):
    """A plugin is of no use; the others go on."""

    plugin: str
    message: str


class Ready(Event, frozen=True):
    """All that is to happen before the host is killed has happened, and all others work."""


class Done(Event, frozen=True):
    """The host has come to its end, and goes."""


CODEC: Final = EventCodec(
    *SUPERVISION_EVENTS, Launched, Answered, Renewed, Said, Problem, Ready, Done
)
