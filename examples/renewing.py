"""One connection that is always fresh, out of connections that each live two seconds.

A small server answers questions, many at a time on one connection, and drops every connection after
two seconds.  It takes its time to greet a new one.  Fifty tasks ask it all along: each borrows the
connection on air, asks, and gives it back.  None of them ever works on a dead connection, and none
waits for a new one to open.

    python -m examples.renewing --seconds 10
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import random
from collections import deque
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from typing import Annotated, final

import msgspec
import trio
import typer
from rich.console import Console
from rich.table import Table

from trio_reactor import Subscription
from trio_reactor.errors import EXPECTED, Lost
from trio_reactor.renewal import Cleanup, Predecessor, Renewal, RenewalOptions, open_renewal
from trio_reactor.renewal.events import HandedOver, Replaced

__all__ = ["app"]

LIFETIME = 2.0
"""Seconds after which the server drops a connection."""

GREETING = 0.3
"""Seconds that the server takes to greet one: what nobody is to wait for."""

ANSWERING = 0.02
"""Seconds that it takes to answer at most."""

SENDING = 1.0
"""Seconds that sending a question may take, also for one who is cancelled meanwhile."""

PAUSE = 0.1
"""Seconds between two questions of one task, on average."""

MAX_LINE = 1024
"""Bytes of a question or an answer."""


class Numbers(msgspec.Struct):
    """What came of it."""

    requests: int = 0
    errors: int = 0
    renewals: int = 0
    max_wait_ms: float = 0.0
    """The longest that a task waited to be given the connection."""

    def waited(self, seconds: float) -> None:
        """Take what one task waited."""
        self.max_wait_ms = max(self.max_wait_ms, round(seconds * 1000, 3))


# ------------------------------------------------------------------------------------- the server


async def serve_one(stream: trio.abc.HalfCloseableStream) -> None:
    """Greet a client, answer its questions as each is ready, and drop it at the end of its life."""
    with trio.move_on_after(LIFETIME):
        await trio.sleep(GREETING)
        await stream.send_all(b"%.3f\n" % LIFETIME)
        lines, sending = Lines(stream), trio.Lock()

        async def answer(line: bytes) -> None:
            await trio.sleep(random.uniform(0, ANSWERING))  # noqa: S311 - only for variety
            async with sending:
                await stream.send_all(line.upper() + b"\n")

        try:
            async with trio.open_nursery() as nursery:
                while (line := await lines.receive()) is not None:
                    nursery.start_soon(answer, line)
        except* trio.BrokenResourceError:
            pass  # the client has gone first


@final
class Lines:
    """The lines that come on a stream."""

    def __init__(self, stream: trio.abc.ReceiveStream) -> None:
        self._stream = stream
        self._whole: deque[bytes] = deque()
        self._rest = b""

    async def receive(self) -> bytes | None:
        """The next line; `None` once the stream has ended."""
        while not self._whole:
            chunk = await self._stream.receive_some()
            if not chunk or len(self._rest) > MAX_LINE:
                return None
            *whole, self._rest = (self._rest + chunk).split(b"\n")
            self._whole.extend(whole)
        return self._whole.popleft()


# ---------------------------------------------------------------------------------- the connection


@final
class Question:
    """One that was asked, and what became of it."""

    def __init__(self) -> None:
        self.over = trio.Event()
        self.answer: bytes | None = None
        """The answer; `None` if the connection ended before it came."""


@final
class Connection:
    """One connection: a source for the renewal, and something to ask for the application."""

    def __init__(
        self, identity: str, stream: trio.abc.HalfCloseableStream, lifetime: float
    ) -> None:
        self.id = identity
        self.lifetime = lifetime
        self._stream = stream
        self._sending = trio.Lock()
        self._numbers = itertools.count()
        self._asked: dict[bytes, Question] = {}
        self._ended = trio.Event()
        self._cut = False
        """Whether it was given up, rather than ended by the server."""

    async def ask(self, question: str) -> str:
        """Ask, while others ask too; the answer is found by its number.

        Cancelled, it still sends the whole of the question, for no more than `SENDING` seconds.

        Raises:
            Lost: The connection ended.
        """
        number = b"%d" % next(self._numbers)
        asked = self._asked[number] = Question()
        try:
            await self._send(b"%b %b\n" % (number, question.encode()))
            await asked.over.wait()
        finally:
            del self._asked[number]
        if asked.answer is None:
            raise Lost("the connection ended before the answer came", outcome="unknown")
        return asked.answer.decode()

    async def _send(self, line: bytes) -> None:
        async with self._sending:
            # The others share the stream: after half a line none of theirs would be understood.
            with trio.move_on_after(SENDING, shield=True) as budget:
                await self._stream.send_all(line)
            if budget.cancelled_caught:
                self._cut = True
                await trio.aclose_forcefully(self._stream)
                raise Lost("the server does not read any more", outcome="unknown")

    async def read(self, lines: Lines) -> None:
        """Hand out the answers; returns when the connection has ended."""
        try:
            # Reset, or closed on this side, rather than ended.
            with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                while (line := await lines.receive()) is not None:
                    number, _, answer = line.partition(b" ")
                    asked = self._asked.get(number)
                    if asked is not None:  # who asked may have been cancelled
                        asked.answer = answer
                        asked.over.set()
        finally:
            self._ended.set()
            for asked in self._asked.values():
                asked.over.set()

    async def wait_lost(self) -> None:
        """Return when it has ended: so a dropped connection is noticed at once."""
        await self._ended.wait()

    async def close(self) -> Cleanup:
        """Say goodbye, and wait until the server has hung up."""
        with trio.move_on_after(1), contextlib.suppress(*EXPECTED):
            async with self._sending:  # after who sends just now
                await self._stream.send_eof()
            await self._ended.wait()
        by_server = self._ended.is_set() and not self._cut
        await self._stream.aclose()
        return Cleanup.of(
            self.id,
            allocation="owned",
            termination="confirmed" if by_server else "unconfirmed",
            connection="closed",
        )


@final
class Client:
    """Opens connections to one server; a `SourceOpener`."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._numbers = itertools.count(1)

    @asynccontextmanager
    async def __call__(self, _: Predecessor) -> AsyncGenerator[Connection]:
        began = trio.current_time()
        async with await trio.open_tcp_stream("127.0.0.1", self._port) as stream:
            lines = Lines(stream)
            greeting = await lines.receive()
            if greeting is None:
                raise Lost("the server hung up without a greeting")
            # Its life began after we had begun to connect: so it is not over before we think so.
            lifetime = float(greeting) - (trio.current_time() - began)
            connection = Connection(f"connection-{next(self._numbers)}", stream, lifetime)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(connection.read, lines)
                yield connection
                nursery.cancel_scope.cancel()


# --------------------------------------------------------------------------------- the application


async def ask_all_along(
    renewal: Renewal[Connection], task: int, until: float, numbers: Numbers
) -> None:
    """Ask one question after another, each on whichever connection is on air."""
    for number in itertools.count():
        if trio.current_time() >= until:
            return
        question = f"question {number} of task {task}"
        came = trio.current_time()
        try:
            async with renewal.borrow() as connection:
                numbers.waited(trio.current_time() - came)
                if await connection.ask(question) != question.upper():
                    numbers.errors += 1
        except EXPECTED:
            numbers.errors += 1
        numbers.requests += 1
        await trio.sleep(random.uniform(0, 2 * PAUSE))  # noqa: S311 - only for variety


async def keep_asking(client: Client, seconds: float, tasks: int) -> Numbers:
    """Let so many tasks ask for so long, on connections that this client opens."""
    numbers = Numbers()

    async def count(events: Subscription[HandedOver | Replaced]) -> None:
        async for _ in events:
            numbers.renewals += 1

    # Half of its life is time enough to open another, also for a server that is slow to greet.
    options = RenewalOptions(lead=LIFETIME / 2, jitter=0.2)
    async with open_renewal(client, options=options) as renewal:
        with renewal.observe(HandedOver, Replaced) as (_, events):
            async with trio.open_nursery() as counting:
                counting.start_soon(count, events)
                until = trio.current_time() + seconds
                async with trio.open_nursery() as asking:
                    for task in range(tasks):
                        asking.start_soon(ask_all_along, renewal, task, until, numbers)
                counting.cancel_scope.cancel()
    return numbers


async def run(seconds: float, tasks: int) -> Numbers:
    """Do it with a server of our own."""
    async with trio.open_nursery() as background:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        background.start_soon(trio.serve_listeners, serve_one, [listener])
        numbers = await keep_asking(Client(listener.socket.getsockname()[1]), seconds, tasks)
        background.cancel_scope.cancel()
    return numbers


# ------------------------------------------------------------------------------- the command line

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    *,
    seconds: Annotated[float, typer.Option(min=0.1, max=86_400, help="Seconds to ask for.")] = 10.0,
    tasks: Annotated[int, typer.Option(min=1, max=1000, help="Tasks that ask.")] = 50,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one line of JSON instead of a table.")
    ] = False,
) -> None:
    """Keep one connection fresh on a server that drops each after two seconds, while many ask."""
    numbers: Numbers | None = None
    try:
        if not as_json:
            with printing():
                typer.echo(f"{tasks} tasks ask for {seconds:g} s …")
        numbers = trio.run(run, seconds, tasks)
    except* KeyboardInterrupt:
        typer.echo("interrupted", err=True)
    if numbers is None:
        raise typer.Exit(130)
    with printing():
        tell(numbers, seconds=seconds, tasks=tasks, as_json=as_json)
    raise typer.Exit(1 if numbers.errors else 0)


@contextlib.contextmanager
def printing() -> Generator[None]:
    """A block that prints; what cannot be written is told in a line."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise  # nobody reads it any more, which is no error of ours
        typer.echo(f"error: cannot write the result: {error.strerror}", err=True)
        raise typer.Exit(1) from error


def tell(numbers: Numbers, *, seconds: float, tasks: int, as_json: bool) -> None:
    """Print what came of it."""
    if as_json:
        typer.echo(msgspec.json.encode(numbers))
    else:
        table = Table(
            title=f"{tasks} tasks, {seconds:g} s, a connection dropped every {LIFETIME:g} s"
        )
        for heading in ("requests", "errors", "renewals", "longest wait"):
            table.add_column(heading, justify="right")
        table.add_row(
            f"{numbers.requests:,}",
            str(numbers.errors),
            str(numbers.renewals),
            f"{numbers.max_wait_ms:.1f} ms",
        )
        Console().print(table)
        took = f"The server takes {GREETING * 1000:g} ms to greet a new connection"
        waited = "nobody" if numbers.max_wait_ms < GREETING * 1000 else "somebody"
        Console().print(f"{took}, and {waited} waited for it.", highlight=False)


if __name__ == "__main__":
    app()
