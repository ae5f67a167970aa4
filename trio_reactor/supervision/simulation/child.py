"""A child that is only simulated, and keeps the rules that a real one keeps."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVarTuple, Unpack, final

import msgspec
import trio
from trio.testing import MemoryReceiveStream, MemorySendStream, memory_stream_one_way_pair

from trio_reactor.errors import ReactorError, Refused
from trio_reactor.supervision.errors import CodeFailed
from trio_reactor.supervision.execution.protocol import LaunchOrder, OutputStatistics
from trio_reactor.supervision.model.child import Child, ProcessIdentity
from trio_reactor.supervision.model.ends import ExitStatus
from trio_reactor.supervision.model.work import CodeIdentity
from trio_reactor.testing.faults import Faults

from .options import Program
from .witness import Run

if TYPE_CHECKING:
    from .machine import SimulatedMachine

__all__ = ["SimulatedChild", "SimulatedOutput"]

Ts = TypeVarTuple("Ts")

_KILLED: Final = ExitStatus(signal=9)
_CRASHED: Final = ExitStatus(signal=11)
_CHUNK: Final = 65_536


@final
class SimulatedOutput:
    """What a child wrote, the last of it kept; implements `Output`.

    Args:
        most: How many bytes are kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept = b""
        self._written = 0

    def write(self, data: bytes) -> None:
        """Take what the child writes."""
        self._written += len(data)
        self._kept = (self._kept + data)[-self._most :] if self._most else b""

    def tail(self) -> bytes:
        """The last bytes of it."""
        return self._kept

    def statistics(self) -> OutputStatistics:
        """How much was written and dropped."""
        return OutputStatistics(self._written, self._written - len(self._kept))


@final
class SimulatedChild:
    """One child of a machine.  It outlives whoever launched it, as far as the rules let it.

    It waits until it is started, ends at its deadline, which is that of its launch until it was
    told another, and when its supervisor is gone, at once or at its deadline, as it was ordered.

    Args:
        machine: Where it is.
        order: What it is made from.
        process: Which process it is.
        secret: What it proves, and has proved to it, when it is adopted.
    """

    def __init__(
        self,
        machine: SimulatedMachine,
        order: LaunchOrder,
        process: ProcessIdentity,
        secret: str,
    ) -> None:
        self.machine = machine
        self.order = order
        self.process = process
        self.secret = secret
        self.program: Program = machine.program(order.work)
        self.output = SimulatedOutput(machine.options.max_output)
        self.deadline = order.launch.by
        """When it ends itself, in seconds on the machine's clock."""
        self.owned = True
        """Whether whoever launched or adopted it lives."""
        self.orphaned = order.orphaned
        self.exit: ExitStatus | None = None
        """How it ended, from the moment it did."""
        self.ended = trio.Event()
        self.loaded = trio.Event()
        """Set when its code is loaded, or could not be, or it has ended."""
        self.code: CodeIdentity | None = None
        self.failure: CodeFailed | None = None
        self.heard: float | None = None
        """When it last gave a sign of life, on the world's clock."""
        self._world = machine.world
        self._faults: Faults = machine.faults
        self._started = False
        self._runs = False
        self._hangs = False
        self._told = 0
        self._told_at = 0.0
        self._lease = trio.CancelScope()
        self._sending = trio.Lock()
        self._to_parent: MemorySendStream
        self._from_parent: MemoryReceiveStream
        self._nursery: trio.Nursery | None = None
        self._early: list[Callable[[], Awaitable[object]]] = []
        """What it was to do before it was there."""
        self.channel = self._new_channel()
        """The application's end of its channel."""

    def __repr__(self) -> str:
        ended = "lives" if self.exit is None else f"ended with {self.exit}"
        return f"<SimulatedChild {self.process.pid} of {self.order.key}: {ended}>"

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self.exit is None

    @property
    def identity(self) -> Child:
        """What it can be found by."""
        return Child(self.process, f"simulated:{self.process.pid}", self.secret)

    # ------------------------------------------------------------------------ what it is told

    def tell(self, message: tuple[int, float]) -> None:
        """Tell it a deadline; one that comes after a newer one is not heard."""
        number, deadline = message
        if number > self._told and self.alive:
            self._told, self._told_at = number, self._world.boottime()
            self.deadline = deadline
            self._lease.deadline = self._on_the_clock(deadline)
            self.machine.note("told", self, deadline=deadline)

    def begin(self) -> None:
        """Have it load its code; once."""
        if self.alive and not self._started:
            self._started = True
            self._soon(self._run)

    def interrupt(self) -> None:
        """Ask it to end."""
        if self.alive:
            self._soon(self._obey)

    def kill(self) -> None:
        """Have it end, whatever it does."""
        if self.alive:
            self._soon(self._end_after, self.machine.options.kill_delay, _KILLED)

    def orphan(self) -> None:
        """Find out that whoever held it is gone."""
        self.owned = False
        self._let_go()
        if self.alive and self.orphaned == "kill":
            self._soon(self._end_after, self.machine.options.orphan_delay, _KILLED)

    def is_adoptable(self) -> bool:
        """Whether it runs code, and nobody holds it."""
        return self.alive and self.code is not None and not self.owned and self.orphaned == "adopt"

    def adopted(self, order: LaunchOrder) -> None:
        """Be held by somebody else, over a channel of its own; its deadline stays."""
        self.owned = True
        self.orphaned = order.orphaned
        self._told = 0  # the numbers are those of who tells
        self.channel = self._new_channel()
        self._soon(self._listen, self._from_parent)

    def end(self, exit: ExitStatus) -> None:  # noqa: A002 - the field's name of it
        """End, now."""
        if not self.alive:
            return
        self.exit = exit
        if self._runs:
            # A deadline that is told when it is over can be kept from then on only.
            self.machine.witness.ended(self.process.pid, max(self.deadline, self._told_at))
        self.machine.note("ended" if self._runs else "ended-unused", self, exit=str(exit))
        self._let_go()
        self.loaded.set()
        self.ended.set()

    # --------------------------------------------------------------------------------- its life

    async def live(self, task_status: trio.TaskStatus[None]) -> None:
        """Be there until the end; the machine runs it in a task of its own."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._guard)
            nursery.start_soon(self._meet_end)
            for act in self._early:
                nursery.start_soon(act)
            task_status.started()
            await self.ended.wait()
            nursery.cancel_scope.cancel()

    def _soon(self, act: Callable[[Unpack[Ts]], Awaitable[object]], *args: Unpack[Ts]) -> None:
        """Do this beside; one that is found while it is made does it when it is there."""
        if self._nursery is None:
            self._early.append(partial(act, *args))
        else:
            self._nursery.start_soon(act, *args)

    def _on_the_clock(self, instant: float) -> float:
        return self._world.clock() + (instant - self._world.boottime())

    async def _guard(self) -> None:
        self._lease.deadline = self._on_the_clock(self.deadline)
        with self._lease:
            await self.ended.wait()
        self.end(_KILLED)

    async def _meet_end(self) -> None:
        try:
            await self._faults.meet("life")
        except ReactorError:
            self.end(ExitStatus(code=1))
        except RuntimeError:
            self.end(_CRASHED)

    async def _run(self) -> None:
        self._runs = True
        self.heard = self._world.clock()
        now, pid = self._world.boottime(), self.process.pid
        order = self.order
        self.machine.witness.began(Run(order.key, order.generation, pid, now, None, self.deadline))
        self.machine.note("runs", self)
        try:
            await self._faults.meet("load")
        except Refused as failure:
            await self._break(str(failure))
            return
        except ReactorError:
            self.end(ExitStatus(code=1))
            return
        except RuntimeError:
            self.end(_CRASHED)
            return
        await trio.sleep(self.program.load_delay)
        if self.program.dies_loading is not None:
            self.end(self.program.dies_loading)
            return
        if self.program.broken is not None:
            await self._break(self.program.broken)
            return
        digest = hashlib.sha256(msgspec.json.encode(order.work)).hexdigest()
        self.code = CodeIdentity(str(order.work), f"sha256:{digest}", "1", "simulation")
        self.output.write(self.program.prints)
        self.loaded.set()
        start = self._soon
        start(self._listen, self._from_parent)
        start(self._send, self.program.says)
        start(self._meet_silence)
        if self.program.beats is not None:
            start(self._beat, self.program.beats)
        if self.program.silent_after is not None:
            start(self._fall_silent, self.program.silent_after)
        if self.program.runs_for is not None:
            start(partial(self._leave_after, self.program.runs_for, self.program.exit))

    async def _break(self, detail: str) -> None:
        self.failure = CodeFailed(f"{self.order.work} could not be loaded", detail=detail)
        self.loaded.set()
        await trio.lowlevel.checkpoint()
        self.end(ExitStatus(code=1))

    async def _beat(self, every: float) -> None:
        while not self._hangs:
            self.heard = self._world.clock()
            await trio.sleep(every)

    async def _meet_silence(self) -> None:
        try:
            await self._faults.meet("hang")
        except (ReactorError, RuntimeError):
            self._hangs = True

    async def _fall_silent(self, after: float) -> None:
        await trio.sleep(after)
        self._hangs = True

    async def _obey(self) -> None:
        # A guard that waits for its start obeys by itself; code does what its program says.
        if not self._started:
            self.end(self.program.obeys_with)
        elif self.program.obeys_after is not None:
            await self._leave_after(self.program.obeys_after, self.program.obeys_with)

    async def _leave_after(self, seconds: float, status: ExitStatus) -> None:
        await trio.sleep(seconds)
        if not self._hangs:
            await self._send(self.program.last_words)
            self.end(status)

    async def _end_after(self, seconds: float, status: ExitStatus) -> None:
        await trio.sleep(seconds)
        self.end(status)

    # ------------------------------------------------------------------------------ its channel

    def _new_channel(self) -> trio.StapledStream[MemorySendStream, MemoryReceiveStream]:
        self._to_parent, from_child = memory_stream_one_way_pair()
        to_child, self._from_parent = memory_stream_one_way_pair()
        return trio.StapledStream(to_child, from_child)

    def _let_go(self) -> None:
        """Close its end: what was sent can still be received at the other."""
        self._to_parent.close()
        self._from_parent.close()

    async def _send(self, data: bytes) -> None:
        if not data or self._hangs:
            return
        try:
            async with self._sending:
                await self._to_parent.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return  # nobody is there who could hear it
        self.heard = self._world.clock()

    async def _listen(self, stream: MemoryReceiveStream) -> None:
        while True:
            try:
                data = await stream.receive_some(_CHUNK)
            except trio.ClosedResourceError:
                return  # its holder is gone; whoever adopts it brings another
            if not data:
                return
            if self.program.echoes:
                await self._send(bytes(data))
