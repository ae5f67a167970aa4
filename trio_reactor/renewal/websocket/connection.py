"""One socket on which a session speaks: the greeting, the questions, and what is heard."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NoReturn, TypeVar, final

import trio

from trio_reactor.errors import ReactorError, TimedOut
from trio_reactor.renewal.evidence import Cleanup
from trio_reactor.renewal.source import EventSink, OpenFailed

from .link import Disconnected, Link
from .media import Account
from .requests import Requests
from .wire import (
    MAX_REQUEST_BYTES,
    SESSION_OVER,
    VERSION,
    CloseCode,
    Command,
    Denied,
    Happened,
    Hello,
    Losses,
    Malformed,
    Picture,
    Refusal,
    RefusalCode,
    Reply,
    Request,
    Result,
    Sound,
    Welcome,
    WireError,
    decode_from_server,
    encode,
)

__all__ = ["NEVER_OPENED", "PERHAPS_ALLOCATED", "Connection", "greet"]

R = TypeVar("R", bound=Result)

GIVE_UP: Final = 1.0
"""Seconds for telling a server that a session asked for is no longer wanted."""

PERMANENT: Final[frozenset[RefusalCode]] = frozenset({"version", "not-authorised"})
"""Refusals that another attempt would only repeat."""

MISUNDERSTOOD: Final = frozenset({1002, 1003, 1007, 1009})
"""Close codes that tell of two sides that do not speak the same protocol."""

NEVER_OPENED = Cleanup.of(
    None, allocation="none", termination="not-needed", connection="never-opened"
)
"""The evidence of an opening that did not get so far as to ask for a session."""

NOTHING_ALLOCATED = Cleanup.of(
    None, allocation="none", termination="not-needed", connection="closed"
)
"""The evidence of an opening in which the server is known to have allocated nothing."""

PERHAPS_ALLOCATED = Cleanup.of(
    None, allocation="owned", termination="unconfirmed", connection="failed"
)
"""The evidence of an opening that ended between the question and the answer."""


async def greet(link: Link, hello: Hello, peer: str) -> Welcome:
    """Ask for a session, new or begun.

    Given up while it waits, a new session is closed in the ordinary way, which ends it: the server
    may be just about to open it.

    Args:
        link: The open link to the server.
        hello: What to ask with.
        peer: The server, for messages.

    Raises:
        OpenFailed: If the server says no, says something else, or goes.
    """
    question = encode(hello, bound=MAX_REQUEST_BYTES)
    try:
        await link.send(question)
        try:
            answer = decode_from_server(await link.receive())
            # Whoever asked must not learn of its cancellation after it was shielded.
            await trio.lowlevel.checkpoint_if_cancelled()
        except trio.Cancelled:
            if hello.resume is None:
                with trio.CancelScope(shield=True) as scope:
                    scope.deadline = trio.current_time() + GIVE_UP
                    await link.close(CloseCode.DONE, "no longer wanted")
            raise
    except WireError as failure:
        await link.close(CloseCode.VIOLATION, failure.message)
        raise _something_else(peer, failure) from failure
    except Disconnected as failure:
        over = failure.code in SESSION_OVER
        raise OpenFailed(
            f"{peer} gave no session: {failure.message}",
            permanent=failure.code in MISUNDERSTOOD,
            outcome="replied" if over else "unknown",
            retryable=over,
            cleanup=NOTHING_ALLOCATED if over else PERHAPS_ALLOCATED,
            detail=failure.detail,
        ) from failure
    match answer:
        case Welcome(version=version) if version != VERSION:
            await link.close(CloseCode.DONE, "another version of the protocol")
            raise OpenFailed(
                f"{peer} speaks version {version} of the protocol, not {VERSION}",
                permanent=True,
                outcome="replied",
                cleanup=PERHAPS_ALLOCATED,
            )
        case Welcome(grace=grace) if not (math.isfinite(grace) and grace >= 0):
            await link.close(CloseCode.DONE, "a grace that is no duration")
            raise _something_else(peer, None)
        case Welcome():
            return answer
        case Refusal():
            raise _refused(peer, answer)
        case _:
            await link.close(CloseCode.VIOLATION, "a greeting was expected")
            raise _something_else(peer, None)


def _something_else(peer: str, failure: WireError | None) -> OpenFailed:
    return OpenFailed(
        f"{peer} speaks WebSocket, but another protocol on it",
        permanent=True,
        outcome="unknown",
        cleanup=PERHAPS_ALLOCATED,
        detail=None if failure is None else failure.detail,
    )


def _refused(peer: str, refusal: Refusal) -> OpenFailed:
    permanent = refusal.code in PERMANENT
    gone = refusal.code == "no-such-session"
    return OpenFailed(
        f"{peer} refused a session: {refusal.code}",
        permanent=permanent,
        resumption_refused=gone,
        outcome="replied",
        retryable=not permanent and not gone,
        cleanup=NOTHING_ALLOCATED,
        detail=refusal.reason,
    )


@final
class Connection:
    """A greeted link, with the session's account of its media.

    Args:
        peer: The server, for messages.
        link: The link.
        account: The session's account of its media.
        scope: What its task runs in; cancelled to end it.
        reply_timeout: Seconds that a request may wait for its answer.
        max_pending: Requests that may wait at a time.
    """

    def __init__(
        self,
        peer: str,
        link: Link,
        account: Account,
        scope: trio.CancelScope,
        *,
        reply_timeout: float,
        max_pending: int,
    ) -> None:
        self.link = link
        self.gone = trio.Event()
        """Set once its task has released everything."""
        self._peer = peer
        self._account = account
        self._scope = scope
        self._reply_timeout = reply_timeout
        self._requests = Requests(peer, bound=max_pending)
        self._events: EventSink | None = None

    def end(self) -> None:
        """Ask its task to end, at once and without a word to the server; `gone` tells when."""
        self._scope.cancel()

    def listen(self, sink: EventSink) -> None:
        """Give every event from now on to this sink; the one before ends without an error."""
        before, self._events = self._events, sink
        if before is not None:
            before.lost(None)

    async def ask(
        self,
        command: Command,
        expected: type[R],
        *,
        before: Callable[[], None] | None = None,
        on_reply: Callable[[R], None] | None = None,
    ) -> R:
        """Send a request and wait for its answer.

        Cancelled before it left, it does not leave.  Cancelled after, it is not taken back: the
        server carries it out, and the answer is ignored.

        Args:
            command: What is asked for.
            expected: What answers it.
            before: Called right before it leaves; if it raises, it does not.
            on_reply: Called with the answer between what was heard before and what is after it.

        Raises:
            Refused: The server said no.
            Lost: The connection ended; the outcome is `unknown` once it may have left.
            TimedOut: No answer came in time; so is the outcome.
            Overflow: Too many requests are waiting.
            TooLarge: It is over its bound.
        """
        with self._requests.open(expected, on_reply=on_reply) as pending:
            message = encode(Request(pending.number, command), bound=MAX_REQUEST_BYTES)

            def leaves() -> None:
                if before is not None:
                    before()
                pending.submitted = True

            with trio.move_on_after(self._reply_timeout):
                try:
                    await self.link.send(message, before=leaves)
                except Disconnected as cause:
                    raise pending.lost(cause) from cause
                return await pending.wait()
            raise TimedOut(
                f"{self._peer} did not answer within {self._reply_timeout} s",
                outcome="unknown" if pending.submitted else "not-submitted",
            )

    async def read(self) -> NoReturn:
        """Hear what the server says, until it ends, and pass it on in the step in which it came.

        Raises:
            Disconnected: When the link has ended.
            WireError: If the server said what it must not; it was told so.
        """
        while True:
            message = await self.link.receive()
            try:
                self._hear(message)
            except WireError as failure:
                await self.link.close(CloseCode.VIOLATION, failure.message)
                raise

    def lose(self, cause: ReactorError, *, told: Exception | None) -> None:
        """Fail whoever waits for an answer, and tell the sinks."""
        self._requests.lose(cause)
        self._account.end(told)
        events, self._events = self._events, None
        if events is not None:
            events.lost(told)

    def _hear(self, message: bytes) -> None:
        match decode_from_server(message):
            case Picture() as picture:
                self._account.picture(picture)
            case Sound() as sound:
                self._account.sound(sound)
            case Happened(event=event):
                if self._events is not None:
                    self._events.event(event)
            case Reply() | Denied() as answer:
                self._requests.answer(answer)
            case Losses() as losses:
                self._account.losses(losses)
            case Welcome() | Refusal():
                raise Malformed("a greeting in the middle of a conversation", outcome="replied")
