"""A provider that lets one request leave, and answers it, when the test says so."""

from __future__ import annotations

from typing import Any

import trio

from trio_reactor.renewal.simulation.source import SimulatedSource
from trio_reactor.renewal.source import ClipRequest, Commit

__all__ = ["Desk"]


class Desk:
    """Stands between one source and the requests for clips that it is sent.

    Attributes:
        asked: The requests that were given to the source.
        positions: Their positions.
        sent: How many of them have left.
        may_leave: Before that is set, none leaves.
        answered: Before that is set, none is answered.
        answer: What all of them are answered with; a failure is raised.
    """

    def __init__(self, source: SimulatedSource, *, holds: bool = False) -> None:
        self.asked: list[ClipRequest] = []
        self.positions: list[int | None] = []
        self.sent = 0
        self.may_leave = trio.Event()
        self.answered = trio.Event()
        self.answer: Any = "clip"
        if not holds:
            self.may_leave.set()
        source.enqueue = self.enqueue  # type: ignore[method-assign]

    async def enqueue(
        self, request: ClipRequest, /, *, position: int | None = None, commit: Commit
    ) -> str:
        self.asked.append(request)
        self.positions.append(position)
        await self.may_leave.wait()
        commit()
        self.sent += 1
        await self.answered.wait()
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer  # type: ignore[no-any-return]
