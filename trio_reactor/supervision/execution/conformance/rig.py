"""What the author of an execution supplies: it, a witness of its children, and works to run.

Subclass `Rig`, and override the works and the orphans that can be had.  A case that needs what is
not overridden does not apply, and `cases` leaves it out: the more a rig can do, the more is tested.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Literal, TypeAlias

from trio_reactor.supervision.execution.protocol import Execution, LaunchOrder
from trio_reactor.supervision.model.child import Orphan
from trio_reactor.supervision.model.work import Work
from trio_reactor.testing import conformance
from trio_reactor.testing.conformance import optional
from trio_reactor.world import World

__all__ = ["Capability", "Rig"]

Capability: TypeAlias = Literal["adopting", "stacks"]
"""What an execution can beside making children and ending them: `adopting` is the protocol
`Adopting`; one that `stacks` can tell where the code of `forever` is."""


class Rig(conformance.Rig):
    """The execution under test, fresh for each case.

    No child of it must be there when a case begins.
    """

    capabilities: ClassVar[frozenset[Capability]] = frozenset()
    """What the execution is expected to be able to do: exactly that."""

    quiet: float = 0.2
    """Seconds during which nothing must happen, where that is what is required.  On a real clock
    they are waited for, several times."""

    prompt: float = 1.0
    """Seconds within which what is due has to have happened: a child's end after its deadline, the
    leaving of what was cancelled."""

    lease: float = 2.0
    """Seconds that a child has which is to reach its deadline.  Long enough to launch and start
    one, and to do so again."""

    most_kept: int = 65_536
    """The most bytes that the execution keeps of what a child wrote."""

    boot_id: str = ""
    """What the execution expects a launch to say of the machine's start, if it does."""

    @property
    @abstractmethod
    def world(self) -> World:
        """Whose clocks count; `boottime` is the machine's clock, on which deadlines are."""
        ...

    @property
    @abstractmethod
    def execution(self) -> Execution:
        """The execution under test, always the same one."""
        ...

    @abstractmethod
    def alive(self) -> int:
        """How many processes there are at this moment of all children, and of what they started.

        It is a witness: it does not ask the execution.  A guard or whatever else a child is made of
        counts too, so that one child may be more than one.
        """
        ...

    @abstractmethod
    def ran(self) -> int:
        """How many children have begun to run, or load, a work since the rig was made."""
        ...

    @abstractmethod
    def forever(self) -> Work:
        """It runs until it is asked to end, and then does."""
        ...

    @optional
    def exits(self, code: int, /) -> Work:
        """It loads, and then ends by itself with this status."""
        raise NotImplementedError

    @optional
    def unloadable(self) -> Work:
        """It cannot be loaded, and says why: it is missing, does not import, or fails in that."""
        raise NotImplementedError

    @optional
    def dies_loading(self) -> Work:
        """Its process ends while it loads, without a word."""
        raise NotImplementedError

    @optional
    def never_loads(self) -> Work:
        """It is never loaded, and does not fail."""
        raise NotImplementedError

    @optional
    def ignores_interrupt(self) -> Work:
        """It goes on when it is asked to end."""
        raise NotImplementedError

    @optional
    def spins(self) -> Work:
        """It loads, and then blocks whatever it runs in, so that it hears nothing."""
        raise NotImplementedError

    @optional
    def spawns(self) -> Work:
        """It starts another process that leaves its session and runs on; then it does so itself."""
        raise NotImplementedError

    @optional
    def echoes(self) -> Work:
        """It sends back what it receives on its channel, until it is asked to end."""
        raise NotImplementedError

    @optional
    def says(self, data: bytes, /) -> Work:
        """It sends this on its channel, and ends at once, with status 0."""
        raise NotImplementedError

    @optional
    def prints(self, data: bytes, /) -> Work:
        """It writes this to its standard output, and ends with status 0."""
        raise NotImplementedError

    @optional
    async def leave_behind(
        self, order: LaunchOrder, /, *, deadline: float | None, registered: bool = True
    ) -> Orphan:
        """Have another supervisor launch a child and die then, without a word to anybody.

        Args:
            order: What it launches.
            deadline: What it tells the child, and then starts it, and dies when it is loaded; if
                `None` it dies after the launch.
            registered: Whether it had written down which child it is.

        Returns:
            What is known of the child.
        """
        raise NotImplementedError
