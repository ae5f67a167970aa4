"""The requests of one connection that wait for their answers, by number.

Synchronous and without I/O: whoever reads the socket settles them, whoever asked waits.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from functools import partial
from typing import Generic, Self, TypeVar, cast, final

import trio

from trio_reactor.errors import Lost, Overflow, ReactorError, Refused

from .wire import Denied, Malformed, Reply, Result

__all__ = ["Pending", "Requests"]

logger = logging.getLogger("trio_reactor.websocket")

R = TypeVar("R", bound=Result)


@final
class Pending(Generic[R]):
    """One request that waits for its answer; once its block is left, that is ignored."""

    def __init__(
        self,
        table: dict[int, Pending[Result]],
        number: int,
        expected: type[R],
        on_reply: Callable[[R], None] | None,
    ) -> None:
        self._table = table
        self.number = number
        self.submitted = False
        """Whether its first byte may have left."""
        self._expected = expected
        self._on_reply = on_reply
        self._settled = trio.Event()
        self._result: R | None = None
        self._failure: Callable[[], ReactorError] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._table.pop(self.number, None)

    async def wait(self) -> R:
        """The answer.  A checkpoint; a cancelled call changes nothing, the answer is then ignored.

        Raises:
            Refused: The server said no.
            Lost: The connection ended first, with the outcome `unknown` once it was submitted.
        """
        await self._settled.wait()
        if self._failure is not None:
            raise self._failure()
        return cast("R", self._result)

    def succeed(self, result: Result) -> None:
        """Settle it with its answer, in the step in which that was read.

        Raises:
            Malformed: If it answers something else than was asked for; then nothing is settled.
        """
        if not isinstance(result, self._expected):
            raise Malformed(
                f"request {self.number} was answered with something else than was asked for",
                outcome="replied",
            )
        if self._on_reply is not None:
            self._on_reply(result)
        self._result = result
        self._settled.set()

    def lost(self, cause: ReactorError) -> Lost:
        """What it fails with if the connection has ended for this cause."""
        failure = Lost(
            f"{cause.message}, before it answered",
            outcome="unknown" if self.submitted else "not-submitted",
            detail=cause.detail,
        )
        failure.__cause__ = cause
        return failure

    def fail(self, failure: Callable[[], ReactorError]) -> None:
        """Settle it with a failure, made when it is raised."""
        self._failure = failure
        self._settled.set()


@final
class Requests:
    """The table of them.

    Args:
        peer: Who answers, for messages.
        bound: How many may wait at a time.
    """

    def __init__(self, peer: str, *, bound: int) -> None:
        self._peer = peer
        self._bound = bound
        self._numbers = itertools.count(1)
        self._pending: dict[int, Pending[Result]] = {}
        self._lost: ReactorError | None = None

    def __len__(self) -> int:
        return len(self._pending)

    def open(self, expected: type[R], *, on_reply: Callable[[R], None] | None = None) -> Pending[R]:
        """A request of its own number; once this block is left, its answer is ignored.

        Args:
            expected: What it is answered with.
            on_reply: Called with the answer between the messages before and after it, so that what
                follows finds what the answer changed.

        Raises:
            Overflow: If too many are waiting already.
            Lost: If the connection has ended.
        """
        if self._lost is not None:
            raise Lost(self._lost.message, detail=self._lost.detail) from self._lost
        if len(self._pending) >= self._bound:
            raise Overflow(
                f"{self._bound} requests to {self._peer} wait for an answer", retryable=True
            )
        pending = Pending(self._pending, next(self._numbers), expected, on_reply)
        self._pending[pending.number] = cast("Pending[Result]", pending)
        return pending

    def answer(self, message: Reply | Denied) -> None:
        """Settle the request that a message answers; a second or late answer changes nothing.

        Raises:
            Malformed: If the answer is none to what was asked.
        """
        pending = self._pending.get(message.id)
        if pending is None:
            logger.debug("%s: an answer that nobody waits for", self._peer)
            return
        if isinstance(message, Reply):
            pending.succeed(message.result)
        else:
            pending.fail(_refused(self._peer, message))
        del self._pending[message.id]

    def lose(self, cause: ReactorError) -> None:
        """Fail every request: the connection has ended.  Idempotent."""
        if self._lost is not None:
            return
        self._lost = cause
        for pending in self._pending.values():
            pending.fail(partial(pending.lost, cause))
        self._pending.clear()


def _refused(peer: str, message: Denied) -> Callable[[], ReactorError]:
    return lambda: Refused(
        f"{peer} refused a request: {message.code}",
        outcome="replied",
        retryable=message.code == "full",
        detail=message.reason,
    )
