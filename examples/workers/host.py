"""The host: a process that opens sessions for plugins and works with them.

It is started by `story`, tells what happens on its standard output, and ends in order when its
standard input does.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, final

import msgspec
import trio

from trio_reactor.channel import EventChannel, Subscription
from trio_reactor.errors import Closed, Lost, ReactorError, is_expected, leaves
from trio_reactor.events import Event
from trio_reactor.supervision import (
    CodeIdentity,
    Command,
    Handle,
    Key,
    LeaseExpired,
    Loaded,
    LocalProcesses,
    PythonCode,
    SessionStopped,
    SqliteStore,
    StopReason,
    Supervisor,
    SupervisorOptions,
    SupervisorPoisoned,
    Work,
    open_supervisor,
)
from trio_reactor.supervision import events as told
from trio_reactor.world import SystemWorld

from .catalogue import (
    BUILT_IN,
    FRAGILE,
    PARSING,
    PONDERING,
    SUMMING_UP,
    Plugin,
    Question,
    equals,
    of_file,
)
from .client import Client
from .facts import CODEC, Answered, Done, Launched, Problem, Ready, Renewed, Said

__all__ = ["Orders", "run"]

LEASE = 6.0
"""Seconds that a session lives unless it is renewed."""
BRIEF_LEASE = 1.5
"""The same of the one that is let run out."""
ONCE_LEASE = 30.0
"""The same of one that does one thing and ends, and that nobody renews."""
PATIENCE = 1.2
"""Seconds that the one which hangs may be silent."""
HANGING = 6.0
"""Seconds within which it must be seen to hang."""
TELLING = 5.0
"""Seconds that whoever listens has to take what is left to tell."""
PACE = 0.1
"""Seconds between two requests to a plugin that is kept running."""
OPTIONS = SupervisorOptions(
    lease=LEASE, max_lease=60.0, grace=1.0, load_timeout=10.0, orphaned="kill"
)


class Orders(msgspec.Struct, frozen=True):
    """What a host is to do."""

    directory: str
    """Where its journal is."""
    life: Literal["first", "second"]
    """The first is killed in the midst of it; the second comes to its end."""
    files: tuple[str, ...] = ()
    """The user's plugins."""


class Surprise(Exception):
    """Something was not as it must be."""


async def run(orders: Orders) -> None:
    """Be the host, until its work is done or its standard input ends.

    Raises:
        ReactorError: The journal cannot be used, or something that was left may still run.
        Surprise: Something was not as it must be.
    """
    channel = EventChannel(world=SystemWorld(), name="host")
    with (
        channel.subscribe(capacity=65_536) as facts,
        channel.subscribe(told.SessionStopped, capacity=65_536) as stops,
    ):
        async with trio.open_nursery() as telling:
            work = trio.CancelScope()
            telling.start_soon(_tell, facts, work)
            with work:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_end_with_input, work)
                    async with open_supervisor(
                        SqliteStore(Path(orders.directory, "journal.db")),
                        LocalProcesses(),
                        options=OPTIONS,
                        events=channel,
                        name="workers",
                    ) as supervisor:
                        await Host(supervisor, channel, nursery).live(orders, stops)
                    nursery.cancel_scope.cancel()
                channel.publish(Done())
            channel.end()
            telling.cancel_scope.deadline = trio.current_time() + TELLING


async def _tell(facts: Subscription[Event], work: trio.CancelScope) -> None:
    """Tell what happens, until all is told or nobody listens."""
    async with trio.lowlevel.FdStream(sys.stdout.fileno()) as out:
        try:
            async for envelope in facts:
                await out.send_all(CODEC.encode_json(envelope) + b"\n")
        except trio.BrokenResourceError:
            work.cancel()


async def _end_with_input(work: trio.CancelScope) -> None:
    """Whoever started it holds the other end: it is gone, or wants the host to end."""
    async with trio.lowlevel.FdStream(sys.stdin.fileno()) as held:
        async for _ in held:
            pass
    work.cancel()


@final
class Host:
    """Works with plugins, each in a session of its own."""

    def __init__(
        self, supervisor: Supervisor, channel: EventChannel, nursery: trio.Nursery
    ) -> None:
        self._supervisor = supervisor
        self._channel = channel
        self._nursery = nursery
        self._ends: dict[tuple[Key, int], told.SessionStopped] = {}
        self._another = trio.Event()

    async def live(self, orders: Orders, stops: Subscription[told.SessionStopped]) -> None:
        """Do what is to be done in one of the host's lives; the first only ends with the process.

        Raises:
            Surprise: Something was not as it must be.
        """
        self._nursery.start_soon(self._watch, stops)
        plugins = [*BUILT_IN]
        for number, file in enumerate(orders.files, 1):
            plugins.append(of_file(Path(file), number))
        first = orders.life == "first"
        async with trio.open_nursery() as nursery:
            async with trio.open_nursery() as beginning:
                for plugin in plugins:
                    begun = trio.Event()
                    nursery.start_soon(self._keep, plugin, begun, first)
                    beginning.start_soon(begun.wait)
                if first:
                    for scene in (
                        self._run_out,
                        self._supersede,
                        self._crash,
                        self._hang,
                        self._specifiers,
                        self._program,
                    ):
                        beginning.start_soon(scene)
            if first:
                self._channel.publish(Ready())

    # ------------------------------------------------------------------------- what goes on

    async def _keep(self, plugin: Plugin, begun: trio.Event, for_ever: bool) -> None:
        """Keep a plugin running and ask it; one that is of no use is told, and left."""
        try:
            async with self._running(plugin) as (handle, client):
                try:
                    await self._work_with(plugin, handle, client, begun, for_ever)
                finally:
                    with trio.CancelScope(shield=True):  # within the budgets of a stop
                        await self._supervisor.dispose(handle)
        except (ReactorError, Surprise) as failure:
            if isinstance(failure, SupervisorPoisoned | Closed):
                raise  # not the plugin's
            self._channel.publish(Problem(str(plugin), in_words(failure)))
        finally:
            begun.set()

    async def _work_with(
        self, plugin: Plugin, handle: Handle, client: Client, begun: trio.Event, for_ever: bool
    ) -> None:
        questions = plugin.questions or tuple(
            Question(request, equals(right)) for request, right in await client.examples()
        )
        for question in questions:
            await self._ask(handle, client, question)
        self._renew(handle)
        begun.set()
        while for_ever:
            for question in questions:
                await trio.sleep(PACE)
                await self._ask(handle, client, question)
            if not questions:
                await trio.sleep_forever()

    async def _run_out(self) -> None:
        """One session's lease is not renewed any more, and runs out."""
        plugin = _under("forgotten", PARSING)
        handle = await self._open(plugin.key, BRIEF_LEASE)
        try:
            await self._load(handle, plugin.work, None)
            client = Client(self._supervisor.channel(handle))
            await self._ask(handle, client, plugin.questions[0])
        except (LeaseExpired, Lost):
            pass  # on a machine that is so slow it has run out by now
        await self._stopped(handle, "expired")
        try:
            self._supervisor.renew(handle)
        except LeaseExpired:
            return
        raise Surprise(f"{handle} could be renewed after its lease had run out")

    async def _supersede(self) -> None:
        """A newer session of the same key takes the place of one that works."""
        plugin = _under("tenant", SUMMING_UP)
        async with self._running(plugin) as (old, client):
            await self._ask(old, client, plugin.questions[0])
            self._renew(old)
        async with self._running(plugin) as (new, client):
            await self._stopped(old, "superseded")
            try:
                self._supervisor.renew(old)
            except SessionStopped:
                pass
            else:
                raise Surprise(f"{old} could be renewed after {new} had been opened")
            for question in plugin.questions:
                await self._ask(new, client, question)
            await self._supervisor.dispose(new)

    async def _crash(self) -> None:
        """A plugin crashes while it is asked."""
        async with self._running(FRAGILE) as (handle, client):
            await self._ask(handle, client, FRAGILE.questions[0])
            try:
                await client.ask("crash")
            except Lost:
                pass
            else:
                raise Surprise(f"{handle} answered after it had crashed")
        stopped = await self._stopped(handle, "exited")
        if stopped.stop.exit is None or stopped.stop.exit.signal != signal.SIGSEGV:
            raise Surprise(f"{handle} ended with {stopped.stop.exit}, not with a crash")
        self._say(handle, "its last words", self._supervisor.output(handle).tail().decode())

    async def _hang(self) -> None:
        """A plugin does not answer any more, nor gives another sign of life."""
        async with self._running(PONDERING, hang_timeout=PATIENCE) as (handle, client):
            await self._ask(handle, client, PONDERING.questions[0])
            with trio.move_on_after(HANGING) as waiting:
                try:
                    await client.ask("why")
                except Lost:
                    pass
                else:
                    raise Surprise(f"{handle} has found an answer")
        if waiting.cancelled_caught:
            raise Surprise(f"{handle} was silent for {HANGING:g} s and was not stopped for it")
        stopped = await self._stopped(handle, "unresponsive")
        stack = stopped.stop.stack or ""
        if "thinking_for_ever" not in stack:
            raise Surprise(f"{handle} was not seen where it hung, but in: {stack}")
        self._say(handle, "where it hung", stack)

    async def _specifiers(self) -> None:
        """Callables of installed modules, as they are: they take one argument, and here it is."""
        # It writes where it is to a file that it is given, and a session is one: its channel.
        handle = await self._once(Key("faulthandler"), PythonCode("faulthandler:dump_traceback"))
        told = await _all_of(self._supervisor.channel(handle))
        self._right(handle, b"most recent call first" in told)
        handle = await self._once(Key("pprint"), PythonCode("rich.pretty:pprint"))
        await self._stopped(handle, "exited")
        self._right(handle, b"ChildSession object" in self._supervisor.output(handle).tail())

    async def _program(self) -> None:
        """A program that is no Python at all, with the channel for its input and output."""
        through = 'exec sort -n <&"$TRIO_REACTOR_CHANNEL" >&"$TRIO_REACTOR_CHANNEL"'
        handle = await self._once(Key("sort"), Command(("/bin/sh", "-c", through)))
        channel = self._supervisor.channel(handle)
        await channel.send_all(b"".join(b"%d\n" % (number * 7 % 100) for number in range(100)))
        await channel.send_eof()
        told = await _all_of(channel)
        self._right(handle, told.split() == [b"%d" % number for number in range(100)])

    # -------------------------------------------------------------------------- what it takes

    @asynccontextmanager
    async def _running(
        self, plugin: Plugin, *, lease: float = LEASE, hang_timeout: float | None = None
    ) -> AsyncGenerator[tuple[Handle, Client]]:
        """A session in which a plugin runs, renewed as long as the block."""
        handle = await self._open(plugin.key, lease)
        renewing = trio.CancelScope()
        self._nursery.start_soon(self._renew_often, handle, lease, renewing)
        try:
            code = await self._load(handle, plugin.work, hang_timeout)
            if plugin.file is not None and code.origin != plugin.file:
                await self._supervisor.dispose(handle)
                raise Surprise(f"its name is that of another module, {code.origin}")
            yield handle, Client(self._supervisor.channel(handle))
        finally:
            renewing.cancel()

    async def _once(self, key: Key, work: Work) -> Handle:
        """A session of what does one thing and ends."""
        handle = await self._open(key, ONCE_LEASE)
        try:
            await self._load(handle, work, None)
        except SessionStopped as stopped:
            # It may be over before it could be told that it was loaded.
            if stopped.reason != "exited" or stopped.exit_code != 0:
                raise
        return handle

    async def _open(self, key: Key, lease: float) -> Handle:
        known = await self._supervisor.high_water(key)
        session = await self._supervisor.open(key, expected_generation=known, lease=lease)
        self._renew(session.handle)
        return session.handle

    async def _load(self, handle: Handle, work: Work, hang_timeout: float | None) -> CodeIdentity:
        code = await self._supervisor.load(handle, work, hang_timeout=hang_timeout)
        phase = self._supervisor.status(handle).phase
        if isinstance(phase, Loaded):
            launched = Launched(handle.key, handle.generation, phase.launch.nonce)
            self._channel.publish(launched)
        return code

    async def _renew_often(self, handle: Handle, lease: float, scope: trio.CancelScope) -> None:
        with scope:
            while True:
                await trio.sleep(lease / 3)
                try:
                    self._renew(handle)
                except (LeaseExpired, SessionStopped):
                    return  # who uses it learns that by using it

    def _renew(self, handle: Handle) -> None:
        until = time.clock_gettime(time.CLOCK_BOOTTIME) + self._supervisor.renew(handle)
        self._channel.publish(Renewed(handle.key, handle.generation, until))

    async def _ask(self, handle: Handle, client: Client, question: Question) -> None:
        self._right(handle, question.is_right(await client.ask(question.request)), question.request)

    def _right(self, handle: Handle, right: bool, request: object = None) -> None:
        if not right:
            raise Surprise(f"{handle} gave a wrong answer to {str(request)[:80]!r}")
        self._channel.publish(Answered(handle.key, handle.generation))

    def _say(self, handle: Handle, what: str, text: str) -> None:
        self._channel.publish(Said(handle.key, handle.generation, what, text))

    async def _watch(self, stops: Subscription[told.SessionStopped]) -> None:
        async for envelope in stops:
            stopped = envelope.event
            self._ends[stopped.key, stopped.generation] = stopped
            another, self._another = self._another, trio.Event()
            another.set()

    async def _stopped(self, handle: Handle, reason: StopReason) -> told.SessionStopped:
        """Sleep until a session has stopped; that it is for this reason is checked."""
        while (handle.key, handle.generation) not in self._ends:
            await self._another.wait()
        stopped = self._ends[handle.key, handle.generation]
        if stopped.stop.reason != reason:
            raise Surprise(f"{handle} stopped as {stopped.stop.reason}, not as {reason}")
        return stopped


async def _all_of(stream: trio.abc.ReceiveStream) -> bytes:
    received = bytearray()
    while piece := await stream.receive_some():
        received += piece
    return bytes(received)


def _under(name: str, plugin: Plugin) -> Plugin:
    """The same code under another key."""
    return msgspec.structs.replace(plugin, key=Key(name))


def in_words(failure: BaseException) -> str:
    """What went wrong, in one line, with what foreign code said of it at the end."""
    words = [str(failure)]
    if isinstance(failure, ReactorError) and failure.detail:
        words += failure.detail.strip().splitlines()[-1:]
    return ": ".join(" ".join(word.split()) for word in words)


def main() -> None:
    """Be the host that the one argument, JSON, says."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it says when it ends
    orders = msgspec.json.decode(sys.argv[1], type=Orders)
    try:
        trio.run(run, orders)
    except BaseException as failure:
        if not is_expected(failure, (Surprise,)):
            raise  # a defect, to be seen whole
        print("; ".join(in_words(leaf) for leaf in leaves(failure)), file=sys.stderr)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
