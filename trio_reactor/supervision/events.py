"""What a supervisor has to say, as events.

Each names the session by its key and generation, never by its token.  The order in which a reader
sees those of one session is the order in which things happened: `SessionOpened`, `SessionLoading`,
`ChildRegistered`, `SessionLoaded`, `SessionStopping`, `SessionStopped`, as far as it got.  Each is
published when it is visible, and so, but for `SessionStopping`, when the journal has it.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from trio_reactor.events import Event, FailureRecord

from .model.child import ProcessIdentity
from .model.ends import Stop, Termination
from .model.keys import Key
from .model.work import CodeIdentity, Enforced, Limits, Work

__all__ = [
    "SUPERVISION_EVENTS",
    "ChildRegistered",
    "CleanupFailed",
    "KeyTaken",
    "ServiceEnded",
    "ServiceGaveUp",
    "ServiceRestarting",
    "ServiceStarted",
    "SessionAdopted",
    "SessionForgotten",
    "SessionLoaded",
    "SessionLoading",
    "SessionOpened",
    "SessionRecovered",
    "SessionStopped",
    "SessionStopping",
    "SupervisionEvent",
    "SupervisorClosed",
    "SupervisorPoisoned",
]


class SupervisionEvent(Event, frozen=True):
    """Any event of a supervisor."""


class SessionOpened(SupervisionEvent, frozen=True):
    """A session was opened; it is leased from now on."""

    key: Key
    generation: int
    lease: float
    limits: Limits


class SessionLoading(SupervisionEvent, frozen=True):
    """Code is to run in it: its launch is journaled, and it is being launched."""

    key: Key
    generation: int
    work: Work


class ChildRegistered(SupervisionEvent, frozen=True):
    """Its child exists and is known; it may load the code now."""

    key: Key
    generation: int
    process: ProcessIdentity | None
    enforced: Enforced


class SessionLoaded(SupervisionEvent, frozen=True):
    """Its code runs."""

    key: Key
    generation: int
    code: CodeIdentity


class SessionStopping(SupervisionEvent, frozen=True):
    """It is fenced, and its execution is being ended."""

    key: Key
    generation: int
    stop: Stop


class SessionStopped(SupervisionEvent, frozen=True):
    """It is over: the end of its execution was observed."""

    key: Key
    generation: int
    stop: Stop
    termination: Termination


class SessionRecovered(SupervisionEvent, frozen=True):
    """What an earlier supervisor left behind was found, ended and confirmed; it is over."""

    key: Key
    generation: int
    stop: Stop
    termination: Termination


class SessionAdopted(SupervisionEvent, frozen=True):
    """A live execution of an earlier supervisor was taken over, with its lease."""

    key: Key
    generation: int
    remaining: float
    """Seconds that its lease has left."""


class KeyTaken(SupervisionEvent, frozen=True):
    """A key is taken from a host that died: nothing of it runs there any more."""

    key: Key
    generation: int
    """Of the session that it had there."""
    host: str
    """The incarnation that had it."""


class SessionForgotten(SupervisionEvent, frozen=True):
    """The record of a stopped session was evicted."""

    key: Key
    generation: int


class CleanupFailed(SupervisionEvent, frozen=True):
    """A session's execution has ended for certain, and something went wrong in seeing to it."""

    key: Key
    generation: int
    failures: tuple[FailureRecord, ...]


class ServiceStarted(SupervisionEvent, frozen=True):
    """A key is kept running from now on."""

    key: Key
    work: Work
    restart: str
    """When it is restarted: `on-failure`, `always` or `never`."""


class ServiceRestarting(SupervisionEvent, frozen=True):
    """A kept key's session ended, or could not be opened; there will be another after a pause."""

    key: Key
    generation: int | None
    """Of the session that ended; `None` if there was none yet."""
    pause: float
    """Seconds until then."""
    why: str
    """What the session ended with."""
    restarts: int
    """How often it was restarted within the window, this one included."""


class ServiceGaveUp(SupervisionEvent, frozen=True):
    """A kept key's sessions ended too often; it is not restarted again."""

    key: Key
    why: str
    """What the last session ended with."""
    restarts: int
    """How often it was restarted within the window."""
    window: float
    """Seconds."""


class ServiceEnded(SupervisionEvent, frozen=True):
    """A key is not kept running any more.  The last event of its service."""

    key: Key
    why: str
    restarts: int
    """How often it was restarted in all."""


class SupervisorPoisoned(SupervisionEvent, frozen=True):
    """The supervisor can no longer vouch for what it holds.

    Nothing is opened, loaded or renewed any more, and every execution ends at its lease.
    """

    failure: FailureRecord


class SupervisorClosed(SupervisionEvent, frozen=True):
    """It has closed: no execution of its runs.  The last event of it."""

    reason: str
    failures: int
    """How many failures close raises."""


AnySupervisionEvent: TypeAlias = (
    SessionOpened
    | SessionLoading
    | ChildRegistered
    | SessionLoaded
    | SessionStopping
    | SessionStopped
    | SessionRecovered
    | SessionAdopted
    | KeyTaken
    | SessionForgotten
    | CleanupFailed
    | ServiceStarted
    | ServiceRestarting
    | ServiceGaveUp
    | ServiceEnded
    | SupervisorPoisoned
    | SupervisorClosed
)

SUPERVISION_EVENTS: Final[tuple[type[SupervisionEvent], ...]] = (
    SessionOpened,
    SessionLoading,
    ChildRegistered,
    SessionLoaded,
    SessionStopping,
    SessionStopped,
    SessionRecovered,
    SessionAdopted,
    KeyTaken,
    SessionForgotten,
    CleanupFailed,
    ServiceStarted,
    ServiceRestarting,
    ServiceGaveUp,
    ServiceEnded,
    SupervisorPoisoned,
    SupervisorClosed,
)
"""The classes of them all, for an `EventCodec`."""
