"""What is known of a story: numbers, and a table of its sessions.  Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from rich.table import Table

from trio_reactor.events import Event
from trio_reactor.supervision import (
    Command,
    Exited,
    Key,
    Killed,
    NotStarted,
    Stop,
    Termination,
)
from trio_reactor.supervision.events import (
    SessionLoading,
    SessionOpened,
    SessionRecovered,
    SessionStopped,
    SessionStopping,
)

from .facts import Answered, Launched, Problem, Renewed, Said

__all__ = ["Ledger", "Numbers", "Row"]


class Numbers(msgspec.Struct, frozen=True):
    """The result, as `--json` prints it."""

    sessions: int
    calls: int
    """Requests that were answered, and rightly."""
    expired: int
    superseded: int
    recovered: int
    orphans: int
    """Processes that the operating system had when they should have ended."""


class Row(msgspec.Struct):
    """One session."""

    key: Key
    generation: int
    runs: str = ""
    until: float | None = None
    """When its lease runs out, on the machine's clock."""
    calls: int = 0
    nonce: str | None = None
    state: str = "open"
    ended: str = ""


class Ledger:
    """All that was told so far."""

    def __init__(self) -> None:
        self.rows: dict[tuple[Key, int], Row] = {}
        self.problems: dict[str, Problem] = {}
        """The first of each plugin."""
        self.said: list[Said] = []
        self.reasons: dict[str, int] = {}
        """How many sessions stopped for each reason."""
        self.recovered = 0
        self.orphans: set[tuple[int, int]] = set()
        """Their process ids, each with when it was started."""
        self.at_work = 0
        """Processes below the host just before it was killed."""
        self.left = 0
        """Of these, the ones that still lived once it was seen to be dead."""

    @property
    def numbers(self) -> Numbers:
        """What it comes to."""
        return Numbers(
            sessions=len(self.rows),
            calls=sum(row.calls for row in self.rows.values()),
            expired=self.reasons.get("expired", 0),
            superseded=self.reasons.get("superseded", 0),
            recovered=self.recovered,
            orphans=len(self.orphans),
        )

    def apply(self, event: Event) -> None:
        """Take note of what was told."""
        match event:
            case SessionOpened(key=key, generation=generation):
                self.rows[key, generation] = Row(key, generation)
            case SessionLoading(key=key, generation=generation, work=work):
                row = self.rows[key, generation]
                row.state = "loading"
                row.runs = " ".join(work.argv[:1]) if isinstance(work, Command) else str(work)
            case Launched(key=key, generation=generation, nonce=nonce):
                self.rows[key, generation].nonce = nonce
                if self.rows[key, generation].state == "loading":
                    self.rows[key, generation].state = "running"
            case Renewed(key=key, generation=generation, until=until):
                self.rows[key, generation].until = until
            case Answered(key=key, generation=generation):
                self.rows[key, generation].calls += 1
            case SessionStopping(key=key, generation=generation):
                if (stopping := self.rows.get((key, generation))) is not None:
                    stopping.state, stopping.until = "stopping", None
            case SessionStopped(key=key, generation=generation, stop=stop, termination=end):
                self.reasons[stop.reason] = self.reasons.get(stop.reason, 0) + 1
                # A journal that is used again may hold what a story of another time left behind.
                if (stopped := self.rows.get((key, generation))) is not None:
                    stopped.state, stopped.until = "stopped", None
                    stopped.ended = _in_words(stop, end)
            case SessionRecovered():
                self.recovered += 1
            case Problem(plugin=plugin):
                self.problems.setdefault(plugin, event)
            case Said():
                self.said.append(event)
            case _:
                pass

    def running(self) -> Iterable[Row]:
        """The sessions that have not stopped."""
        return [row for row in self.rows.values() if row.state != "stopped"]

    def table(self, now: float) -> Table:
        """All sessions, for a person.

        Args:
            now: What the machine's clock says.
        """
        table = Table(title="sessions")
        table.add_column("session", no_wrap=True)
        table.add_column("runs", overflow="fold")
        table.add_column("gen", justify="right")
        table.add_column("lease left", justify="right")
        table.add_column("calls", justify="right")
        table.add_column("how it ended", overflow="fold")
        for row in sorted(self.rows.values(), key=lambda row: (row.key, row.generation)):
            left = "" if row.until is None else f"{max(row.until - now, 0.0):.1f} s"
            table.add_row(
                str(row.key),
                row.runs.removeprefix("examples.workers."),
                str(row.generation),
                left,
                str(row.calls),
                row.ended or row.state,
            )
        return table


def _in_words(stop: Stop, termination: Termination) -> str:
    match termination:
        case NotStarted():
            return f"{stop.reason}: nothing of it ran"
        case Exited(exit=status):
            return f"{stop.reason}: {status}"
        case Killed(exit=status) if status.code is None and status.signal is None:
            return f"{stop.reason}: nothing of it is left"
        case Killed(exit=status):
            return f"{stop.reason}: killed, {status}"
