"""One simulated child, as the supervisor that holds it sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import trio

from trio_reactor.errors import ReactorError
from trio_reactor.supervision.errors import CodeFailed, ExecutionFailed, TerminationUnconfirmed
from trio_reactor.supervision.model.child import Child
from trio_reactor.supervision.model.ends import ExitStatus
from trio_reactor.supervision.model.work import CodeIdentity, Enforced
from trio_reactor.testing.faults import Wire

from .child import SimulatedChild, SimulatedOutput

if TYPE_CHECKING:
    from .execution import SimulatedExecution

__all__ = ["SimulatedUnit"]


@final
class SimulatedUnit:
    """A child as its supervisor sees it: what is told takes a while, or never comes; a `Unit`.

    Once the supervisor has died it does nothing any more: whoever waits is told `Crashed`.

    Args:
        execution: Whose it is.
        child: The child.
        enforced: How its limits hold.
        twin: Another child that was made for the same launch, against the rules.
    """

    def __init__(
        self,
        execution: SimulatedExecution,
        child: SimulatedChild,
        enforced: Enforced,
        twin: SimulatedChild | None = None,
    ) -> None:
        self.simulated = child
        """The child itself, for a test to look at."""
        self._execution = execution
        self._enforced = enforced
        self._twin = twin
        self._exit: ExitStatus | None = None
        self._unconfirmed: Exception | None = None
        self._seen = trio.Event()
        self._loaded = trio.Event()
        self._channel = child.channel
        self._made_at = execution.machine.world.clock()
        self._deadline = child.deadline
        self._renewals = 0
        self._started = False
        nursery = execution.machine.nursery
        faults = execution.faults
        self._renew = Wire(faults, "renew", child.tell, nursery)
        self._interrupt = Wire(faults, "interrupt", _interrupt, nursery)
        self._kill = Wire(faults, "kill", _kill, nursery)
        nursery.start_soon(self._watch)
        nursery.start_soon(self._watch_loading)

    def __repr__(self) -> str:
        return f"<SimulatedUnit {self.simulated.process.pid}>"

    @property
    def child(self) -> Child:
        """What it can be found by; it changes after the start if there is a twin."""
        if self._twin is not None and self._started:
            return self._twin.identity
        return self.simulated.identity

    @property
    def enforced(self) -> Enforced:
        """How each of its limits holds."""
        return self._enforced

    @property
    def deadline(self) -> float:
        """When it has to end, as it was last told, whether or not it has heard it."""
        return self._deadline

    @property
    def exit(self) -> ExitStatus | None:
        """How it ended, as far as that was seen."""
        return self._exit

    @property
    def heard_at(self) -> float:
        """When it last gave a sign of life."""
        return self._made_at if self.simulated.heard is None else self.simulated.heard

    @property
    def channel(self) -> trio.abc.HalfCloseableStream:
        """The application's end of its channel."""
        return self._channel

    @property
    def output(self) -> SimulatedOutput:
        """What it wrote."""
        return self.simulated.output

    async def start(self) -> CodeIdentity:
        """Have it load the code.

        Raises:
            RuntimeError: It was called before, or before `renew`: a defect of the caller's.
        """
        self._execution.check()
        if self._started:
            raise RuntimeError("a child is started once")
        if not self._renewals:
            raise RuntimeError("a child is told its deadline before it is started")
        self._started = True
        try:
            await self._execution.faults.meet("start")
        except ReactorError as failure:
            raise ExecutionFailed("the start was not told", outcome=failure.outcome) from failure
        child = self.simulated
        child.begin()
        await self._loaded.wait()
        self._execution.check()
        if child.failure is not None:
            raise CodeFailed(child.failure.message, detail=child.failure.detail)
        try:
            await self._execution.faults.meet("started")
        except ReactorError as failure:
            raise ExecutionFailed("nothing was heard of it", outcome="unknown") from failure
        if child.code is None:
            raise ExecutionFailed(f"the child ended with {child.exit} before it had loaded")
        return child.code

    def renew(self, deadline: float, /) -> None:
        """Tell it when it has to end."""
        if not self._execution.dead:
            self._renewals += 1
            self._deadline = deadline
            self._renew.send((self._renewals, deadline))

    def interrupt(self) -> None:
        """Ask it to end."""
        if not self._execution.dead:
            self._interrupt.send(self.simulated)

    def kill(self) -> None:
        """End it."""
        if not self._execution.dead:
            self._kill.send(self.simulated)
            if self._twin is not None:
                self._twin.kill()

    async def wait_exited(self) -> ExitStatus:
        """Sleep until its end was seen."""
        self._execution.check()
        await self._seen.wait()
        self._execution.check()
        if self._exit is None:
            raise self.unconfirmed("its end can no longer be observed")
        return self._exit

    async def wait_lost(self) -> None:
        """Sleep until its end was seen."""
        await self.wait_exited()

    async def stack(self) -> str:
        """Where its code is."""
        self._execution.check()
        try:
            await self._execution.faults.meet("stack")
        except ReactorError as failure:
            raise ExecutionFailed("its stack cannot be told", outcome="replied") from failure
        if not self.simulated.alive:
            raise ExecutionFailed("it has ended; there is no stack")
        order = self.simulated.order
        return f"simulated: {order.work}, generation {order.generation} of {order.key}"

    def orphan(self) -> None:
        """Let the child find out that the supervisor has died, and wake whoever waits for it."""
        self.simulated.orphan()
        if self._twin is not None:
            self._twin.orphan()
        self._seen.set()
        self._loaded.set()

    def unconfirmed(self, why: str) -> TerminationUnconfirmed:
        """What says that nobody saw it end."""
        causes = () if self._unconfirmed is None else (self._unconfirmed,)
        return TerminationUnconfirmed(
            f"process {self.simulated.process.pid} may still run: {why}", causes=causes
        )

    async def reap(self) -> None:
        """End it, and see it end; the twin too.

        Raises:
            TerminationUnconfirmed: That was not to be seen.
            Crashed: The supervisor has died, and sees nothing any more.
        """
        self._execution.check()
        if self.simulated.alive or (self._twin is not None and self._twin.alive):
            self.kill()
        with trio.move_on_after(self._execution.machine.options.confirmation) as budget:
            budget.shield = True
            if self._twin is not None:
                await self._twin.ended.wait()
            await self._seen.wait()
        self._execution.check()
        if self._exit is None:
            self._seen.set()  # nobody will see it any more
            raise self.unconfirmed("its end was not observed")

    async def _watch_loading(self) -> None:
        await self.simulated.loaded.wait()
        self._loaded.set()

    async def _watch(self) -> None:
        child, machine = self.simulated, self._execution.machine
        await child.ended.wait()
        if self._execution.dead:
            return
        try:
            await trio.sleep(machine.options.exit_delay)
            await self._execution.faults.meet("exit")
        except (ReactorError, RuntimeError) as failure:
            self._unconfirmed = failure
        else:
            self._exit = child.exit
            machine.note("seen-ended", child)
        self._seen.set()


def _interrupt(child: SimulatedChild) -> None:
    child.interrupt()


def _kill(child: SimulatedChild) -> None:
    child.kill()
