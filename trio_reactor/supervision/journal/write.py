"""One write: what is to become durable, who is told, and who waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, final

import trio

from trio_reactor.errors import ReactorError
from trio_reactor.supervision.store.protocol import Change

__all__ = ["Write", "afresh"]

R = TypeVar("R", bound=ReactorError)


@final
class Write:
    """One transition on its way into the journal.  Made by `Writer.submit`."""

    __slots__ = (
        "_change",
        "_claimed",
        "_committed",
        "_event",
        "_failure",
        "_refused",
        "_settled",
        "_vain",
    )

    def __init__(
        self,
        change: Change,
        committed: Callable[[], None],
        refused: Callable[[BaseException], None],
        vain: BaseException | None,
    ) -> None:
        self._change = change
        self._committed: Callable[[], None] | None = committed
        self._refused: Callable[[BaseException], None] | None = refused
        self._vain = vain
        """What the journal had failed with when this was submitted."""
        self._settled = False
        self._failure: ReactorError | None = None
        self._claimed = False
        self._event: trio.Event | None = None

    def __repr__(self) -> str:
        state = "waits" if not self._settled else "refused" if self._failure else "durable"
        return f"<Write of {self._change.record.handle}: {state}>"

    @property
    def settled(self) -> bool:
        """Whether it is durable or refused."""
        return self._settled

    @property
    def failure(self) -> ReactorError | None:
        """What it was refused for, to look at; `None` if it is durable, or not settled yet."""
        return self._failure

    async def wait(self) -> None:
        """Wait until it is durable.  Always a checkpoint.

        Cancelling abandons the wait, never the write.

        Raises:
            StaleSession, RecordRefused: It alone was refused.
            StoreError: The journal failed with it, or before it; `outcome` says what became of it.
            HostFenced: This host may no longer write.
            Closed: The writer ended before its turn.
        """
        if self._settled:
            await trio.lowlevel.checkpoint()
        else:
            if self._event is None:
                self._event = trio.Event()
            await self._event.wait()
        failure = self._failure
        if failure is None:
            return
        if self._claimed:
            failure = afresh(failure)
        self._claimed = True
        try:
            raise failure
        finally:
            del failure  # this frame is in its traceback

    # ---------------------------------------------------------------------- called by the writer

    def _settle(self, failure: ReactorError | None) -> None:
        """Say what became of it, and tell its callback; wakes nobody.  What that raises goes on."""
        committed, refused = self._committed, self._refused
        self._settled, self._failure = True, failure
        self._committed = self._refused = None  # they hold whatever they were made of
        if failure is None:
            if committed is not None:
                committed()
        elif refused is not None:
            refused(failure)

    def _wake(self) -> None:
        if self._event is not None:
            self._event.set()


def afresh(failure: R) -> R:
    """Another error of the same kind that says the same, with the first as its cause.

    One exception object that is raised to many grows its traceback with each of them.
    """
    kind = type(failure)
    fresh = kind.__new__(kind, *failure.args)
    fresh.__dict__.update({k: v for k, v in failure.__dict__.items() if k != "__notes__"})
    fresh.__cause__ = failure
    return fresh
