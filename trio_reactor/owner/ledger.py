"""What an owner has at the moment, and the account of what became of everything it had.

All of it is synchronous and tells nobody to wait.  Nothing here decides: attempts and workers say
what happened to them, and whoever reads the account does what follows.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, final

from trio_reactor.channel import Publisher
from trio_reactor.errors import ReactorError, is_expected, leaves
from trio_reactor.events import Event, FailureRecord

from .failures import FailureLog
from .records import AttemptEnded, AttemptHeld
from .verdict import without

if TYPE_CHECKING:
    from .attempt import Attempt
    from .ends import EndReason
    from .worker import Worker

__all__ = ["Ledger", "named"]

T = TypeVar("T")
R = TypeVar("R", bound=ReactorError)

_log = logging.getLogger("trio_reactor.owner")

NAMED = 32
"""How many overdue things are named one by one."""


@final
class Ledger:
    """The account of one owner.

    Args:
        name: The owner's, for the log.
        events: Where what becomes of attempts is published.
        retained: Failures that are kept.
        crashed: Told of what ends the program rather than the thing: `SystemExit` and the like.
    """

    def __init__(
        self,
        name: str,
        events: Publisher | None,
        retained: int,
        crashed: Callable[[BaseException], object],
    ) -> None:
        self.attempts: dict[Attempt[Any], None] = {}
        self.workers: dict[Worker, None] = {}
        self.opening = 0
        self.draining = 0
        self.acquired = 0
        self.lost = 0
        self.expired = 0
        self.failures = FailureLog(retained)
        self.timed_out: list[str] = []
        """What did not leave within the budget of close."""
        self.progress: Callable[[], None] | None = None
        """Told that something ended, once there is a close that waits for it."""
        self._name = name
        self._events = events
        self._crashed = crashed
        # Errors that only say that the owner stops: who ends with one did as it was told.
        self._refusals: weakref.WeakSet[ReactorError] = weakref.WeakSet()

    # ------------------------------------------------------------------------------------ attempts

    def started(self, attempt: Attempt[Any]) -> None:
        """An attempt has begun to open."""
        self.attempts[attempt] = None
        self.opening += 1

    def opened(self, attempt: Attempt[Any]) -> None:
        """It has opened; whether it is held it knows."""
        self.opening -= 1
        self.acquired += 1
        if self._events is not None and attempt.held:
            self.publish(lambda: AttemptHeld(attempt.name))
        self._advance()

    def departed(self, attempt: Attempt[Any], reason: EndReason) -> None:
        """It was held, and begins to leave."""
        self.lost += reason == "lost"
        self.expired += reason == "expired"
        _log.debug("%s: %s leaves: %s", self._name, attempt.name, reason)

    def ended(self, attempt: Attempt[Any], *, received: bool, late: bool) -> None:
        """It has left altogether.

        Args:
            attempt: The attempt.
            received: Whether its failure, if there is one, is somebody's already.
            late: Whether it was cancelled at the end of its budget.
        """
        del self.attempts[attempt]
        if not attempt._entered:
            self.opening -= 1
        if late:
            _log.warning("%s: %s did not leave within its budget", self._name, attempt.name)
            if self.progress is not None:
                self.timed_out.append(attempt.name)
        failure = attempt.failure
        if self._events is not None:
            record = None if failure is None else FailureRecord.of(failure)
            self.publish(lambda: AttemptEnded(attempt.name, attempt.reason or "failed", record))
        if failure is not None:
            self._record(attempt, failure, received=received)
        self._advance()

    def _record(self, attempt: Attempt[Any], failure: BaseException, *, received: bool) -> None:
        real = self.not_refused(failure)
        if real is None:
            return
        if not all(isinstance(leaf, Exception) for leaf in leaves(real)):
            self._crashed(real)
        elif not is_expected(real, attempt._declared):
            self.failures.defect(real, None if received else attempt)
        elif not received:
            self.failures.expected(attempt, real)

    # ------------------------------------------------------------------------------------- workers

    def employed(self, worker: Worker) -> None:
        """A worker has begun."""
        self.workers[worker] = None
        self.draining += worker.drain

    def released(self, worker: Worker) -> None:
        """It has ended."""
        del self.workers[worker]
        self.draining -= worker.drain
        self._advance()

    def _advance(self) -> None:
        if self.progress is not None:
            self.progress()

    # ------------------------------------------------------------------------------------ refusals

    def refusal(self, error: R) -> R:
        """Remember that this error only says that the owner stops."""
        self._refusals.add(error)
        return error

    def not_refused(self, failure: BaseException) -> BaseException | None:
        """What is left of a failure without what only says that the owner stops."""
        return without(failure, lambda leaf: leaf in self._refusals)

    # --------------------------------------------------------------------------------- telling it

    def call(self, callback: Callable[[T], object], argument: T) -> None:
        """Run a synchronous callback of a user's; what it raises is a defect, and recorded."""
        try:
            callback(argument)
        except Exception as defect:  # noqa: BLE001 - recorded, and raised by close
            self.failures.defect(defect)
        except BaseException as crash:  # noqa: BLE001 - SystemExit, say; the block raises it
            self._crashed(crash)

    def publish(self, event: Callable[[], Event]) -> None:
        """Publish an event; that it cannot be made or published is a defect, and recorded."""
        if self._events is not None and not self._events.ended:
            try:
                self._events.publish(event())
            except Exception as defect:  # noqa: BLE001 - recorded, and raised by close
                self.failures.defect(defect)


def named(names: list[str]) -> tuple[str, ...]:
    """The first so many of these names, then how many more there are."""
    if len(names) <= NAMED:
        return tuple(names)
    return (*names[:NAMED], f"and {len(names) - NAMED} more")
