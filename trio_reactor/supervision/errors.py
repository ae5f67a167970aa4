"""What can go wrong with supervision, beside what can go wrong with anything."""

from __future__ import annotations

from trio_reactor.errors import Expired, Failed, Outcome, Overflow, ReactorError, Refused

__all__ = [
    "AdmissionFull",
    "AdoptionFailed",
    "CodeFailed",
    "ExecutionFailed",
    "HostFenced",
    "KeyHeld",
    "LeaseExpired",
    "LimitRefused",
    "RecordRefused",
    "RecordUnreadable",
    "RestartsExhausted",
    "SessionConflict",
    "SessionStopped",
    "StaleSession",
    "StoreBusy",
    "StoreError",
    "StoreFailed",
    "StoreUnusable",
    "SupervisorPoisoned",
    "TerminationUnconfirmed",
]


class StaleSession(Refused):
    """There is no such session: unknown, forged, of another generation, or forgotten."""


class LeaseExpired(Expired):
    """The session stopped because its lease ran out."""


class SessionStopped(ReactorError):
    """The session is stopping or stopped, for another reason than its lease.

    Args:
        message: What happened, in the library's words.
        reason: Why it stopped; one of `StopReason`.
        exit_code: How its execution had ended, if that is known and it was not by a signal.
        exit_signal: The signal it ended by.
        detail: What the code said, if it was its own failure.
    """

    def __init__(
        self,
        message: str,
        *,
        reason: str,
        exit_code: int | None = None,
        exit_signal: int | None = None,
        detail: str | None = None,
    ) -> None:
        super().__init__(message, outcome="replied", detail=detail)
        self.reason = reason
        self.exit_code = exit_code
        self.exit_signal = exit_signal


class SessionConflict(Refused):
    """The session was asked to load something else before."""


class KeyHeld(Refused):
    """Another host that lives holds the key.

    Args:
        message: What happened, in the library's words.
        host: The incarnation that holds it.
    """

    def __init__(self, message: str, *, host: str) -> None:
        super().__init__(message, outcome="replied", retryable=True)
        self.host = host


class AdmissionFull(Overflow):
    """There are as many sessions as may be."""


class ExecutionFailed(ReactorError):
    """The execution could not be made, or did not do what it has to."""


class LimitRefused(ExecutionFailed):
    """A limit cannot be enforced here, and is not to be taken without.

    Args:
        message: Which, and why.
        limit: Its name.
    """

    def __init__(self, message: str, *, limit: str) -> None:
        super().__init__(message)
        self.limit = limit


class CodeFailed(ReactorError):
    """The user's code could not be loaded: it is missing, does not import, or failed in that.

    What it said is the `detail`.
    """


class AdoptionFailed(ExecutionFailed):
    """A child that is to be adopted did not prove who it is, or cannot be adopted."""


class TerminationUnconfirmed(ReactorError):
    """It could not be observed that an execution has ended: it may still run.

    Args:
        message: Which, in words.
        causes: Everything that went wrong in ending it.
    """

    def __init__(self, message: str, *, causes: tuple[BaseException, ...] = ()) -> None:
        super().__init__(message, outcome="unknown")
        self.causes = causes


class SupervisorPoisoned(Failed):
    """The supervisor can no longer vouch for what it holds; what broke it is the cause."""


class HostFenced(Failed):
    """Another host has taken this one for dead; everything it held is being ended."""


class RestartsExhausted(ReactorError):
    """A service's sessions ended too often; its key alone is given up.

    Args:
        message: What happened, in the library's words.
        restarts: How often it was restarted within the window.
        window: Seconds.
        why: What the last session ended with.
        detail: What the code said, if it was its own failure.
    """

    def __init__(
        self, message: str, *, restarts: int, window: float, why: str, detail: str | None = None
    ) -> None:
        super().__init__(message, outcome="replied", detail=detail)
        self.restarts = restarts
        self.window = window
        self.why = why


class StoreError(ReactorError):
    """A journal could not be used.

    Args:
        message: What happened, in the library's words.
        store: Which: a path or an address without its password.
        outcome: What became of the operation.
        retryable: Whether trying again can help and cannot do harm.
        detail: What the database said.
    """

    def __init__(
        self,
        message: str,
        *,
        store: str,
        outcome: Outcome = "not-submitted",
        retryable: bool = False,
        detail: str | None = None,
    ) -> None:
        super().__init__(message, outcome=outcome, retryable=retryable, detail=detail)
        self.store = store


class StoreBusy(StoreError):
    """Another supervisor uses it."""


class StoreUnusable(StoreError):
    """It is not a journal of sessions, or is damaged, read-only or of another version."""


class StoreFailed(StoreError):
    """It was lost, is full, or failed while it was used."""


class RecordRefused(Refused):
    """A record cannot be written down; the others are untouched."""


class RecordUnreadable(ReactorError):
    """A record cannot be read; nothing was overwritten.

    Args:
        message: What is wrong with it.
        name: Where it was found.
        detail: What the decoder said.
    """

    def __init__(self, message: str, *, name: str, detail: str | None = None) -> None:
        super().__init__(message, detail=detail)
        self.name = name
