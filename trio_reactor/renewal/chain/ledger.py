"""The ledger of clean-ups: what became of every source, kept within a bound.

It is asked before each open and told after each close.  It keeps either every
clean-up, and then bounds how many sessions there can be; or all that are not proven complete and
the newest of those that are, and counts the older ones by kind.  What is not proven is never
forgotten: when there is no room for one more of those, nothing more is opened.
"""

from __future__ import annotations

import logging
from typing import final

from trio_reactor.errors import Overflow
from trio_reactor.renewal.evidence import Cleanup
from trio_reactor.renewal.options import RenewalOptions, Retention
from trio_reactor.renewal.summary import OmittedCleanups, RenewalReport, SourceCleanup

__all__ = ["CleanupLedger"]

_log = logging.getLogger("trio_reactor.renewal")


@final
class CleanupLedger:
    """Records what became of each source, once, within its bounds.

    Args:
        options: `retention`, `session_limit`, `retained_successful_cleanups` and
            `max_unresolved_cleanups` count.
        name: What the renewal is called, for the log.
    """

    def __init__(self, options: RenewalOptions, name: str = "renewal") -> None:
        self._name = name
        self._retention: Retention = options.retention
        self._limit = options.session_limit
        self._max_unresolved = (
            options.max_unresolved_cleanups if options.retention == "bounded" else None
        )
        self._max_successful = options.retained_successful_cleanups
        self._reserved: dict[int, str | None] = {}
        self._unresolved: dict[int, Cleanup] = {}
        self._successful: list[SourceCleanup] = []
        self._omitted = OmittedCleanups()
        self._incarnations = 0
        self._sessions = 0

    @property
    def incarnations(self) -> int:
        """How many reservations there were."""
        return self._incarnations

    @property
    def outstanding(self) -> int:
        """How many reservations have no record yet."""
        return len(self._reserved)

    @property
    def unresolved(self) -> int:
        """How many clean-ups are not proven complete."""
        return len(self._unresolved)

    def reserve(self) -> int:
        """Make room for the clean-up of one more source, before it is opened.

        Returns:
            Its incarnation number, from 1.

        Raises:
            Overflow: If there is no room: nothing more may be opened.
        """
        if self._limit is not None and self._sessions + len(self._reserved) >= self._limit:
            raise Overflow(f"max_sessions: {self._limit} sessions have been opened")
        if (
            self._max_unresolved is not None
            and len(self._unresolved) + len(self._reserved) >= self._max_unresolved
        ):
            raise Overflow(self._too_many_unresolved())
        self._incarnations += 1
        self._reserved[self._incarnations] = None
        return self._incarnations

    def identify(self, incarnation: int, source: str) -> None:
        """Note the identity of a source that was opened.

        Raises:
            ValueError: If the incarnation has no reservation, or its record already.
        """
        self._check(incarnation)
        self._reserved[incarnation] = source

    def record(self, incarnation: int, cleanup: Cleanup) -> None:
        """Record what became of a source, in the place of its reservation.

        The first that is not proven complete is logged as a warning: more of its kind will follow.

        Raises:
            ValueError: If the incarnation has no reservation, or its record already; `combine`
                what comes from several sides first.
        """
        self._check(incarnation)
        del self._reserved[incarnation]
        # What allocated nothing was no session, so opens that fail do not use up the sessions.
        self._sessions += cleanup.allocation != "none"
        if not cleanup.complete:
            if not self._unresolved:
                _log.warning(
                    "%s: the clean-up of source %s is not proven complete",
                    self._name,
                    _told(incarnation, cleanup),
                )
            self._unresolved[incarnation] = cleanup
            return
        self._successful.append(SourceCleanup(incarnation, cleanup))
        if self._retention == "bounded" and len(self._successful) > self._max_successful:
            self._omitted = self._omitted.plus(self._successful.pop(0).cleanup)

    def report(self) -> RenewalReport:
        """What is known now; a reservation without a record counts as unresolved."""
        kept = dict(self._unresolved)
        for number, source in self._reserved.items():
            kept[number] = Cleanup.of(
                source, allocation="owned", termination="unconfirmed", connection="failed"
            )
        kept |= {record.incarnation: record.cleanup for record in self._successful}
        retained = tuple(SourceCleanup(number, kept[number]) for number in sorted(kept))
        return RenewalReport(
            retention=self._retention,
            total=self._incarnations,
            complete=all(record.cleanup.complete for record in retained),
            retained=retained,
            omitted=self._omitted,
        )

    def _too_many_unresolved(self) -> str:
        coming = len(self._reserved)
        said = (
            f"max_unresolved_cleanups={self._max_unresolved} leaves no room for another source: "
            f"{len(self._unresolved)} clean-ups are not proven complete, "
            f"{coming} {'is' if coming == 1 else 'are'} still to come"
        )
        if self._unresolved:
            newest = max(self._unresolved)
            said += f"; the newest is of source {_told(newest, self._unresolved[newest])}"
        return said

    def _check(self, incarnation: int) -> None:
        if incarnation not in self._reserved:
            raise ValueError(f"source {incarnation} has no reservation, or its record already")


def _told(incarnation: int, cleanup: Cleanup) -> str:
    """A clean-up that is not complete, in words: whose it is, what it says and what is missing."""
    return (
        f"{incarnation} (allocation={cleanup.allocation!r}, termination={cleanup.termination!r}, "
        f"connection={cleanup.connection!r}): {cleanup.missing}"
    )
