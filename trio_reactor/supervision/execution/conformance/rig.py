"""What the author of an execution supplies: it, a witness of its children, and works to run.

Subclass `Rig`, and override the works and the orphans that can be had.  A case that needs what is
not overridden does not apply, and `cases` leaves it out: the more a rig can do, the more is tested.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal, TypeAlias, get_args

from trio_reactor.supervision.execution.protocol import Execution, LaunchOrder
from trio_reactor.supervision.model.child import Orphan
from trio_reactor.supervision.model.work import Work
from trio_reactor.world import World

__all__ = ["Capability", "Need", "Rig", "WorkName", "has"]

Capability: TypeAlias = Literal["adopting", "stacks"]
"""What an execution can beside making children and ending them: `adopting` is the protocol
`Adopting`; one that `stacks` can tell where the code of `forever` is."""

WorkName: TypeAlias = Literal[
    "forever",
    "exits",
    "unloadable",
    "dies_loading",
    "never_loads",
    "ignores_interrupt",
    "spins",
    "spawns",
    "echoes",
    "says",
    "prints",
]
"""The works; each is a method of the same name."""

Need: TypeAlias = WorkName | Literal["leave_behind"]
"""What a case may need of its rig; each is a method of the same name."""


class Rig(ABC):
    """The execution under test, fresh for each case.

    No child of it must be there when a case begins.
    """

    name: ClassVar[str]
    """What the execution is called in messages."""

    capabilities: ClassVar[frozenset[Capability]] = frozenset()
    """What the execution is expected to be able to do: exactly that."""

    patience: float = 10.0
    """Seconds after which something that has to happen is not awaited any longer.  On a virtual
    clock it costs nothing."""

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

    def exits(self, code: int, /) -> Work:
        """It loads, and then ends by itself with this status."""
        raise NotImplementedError

    def unloadable(self) -> Work:
        """It cannot be loaded, and says why: it is missing, does not import, or fails in that."""
        raise NotImplementedError

    def dies_loading(self) -> Work:
        """Its process ends while it loads, without a word."""
        raise NotImplementedError

    def never_loads(self) -> Work:
        """It is never loaded, and does not fail."""
        raise NotImplementedError

    def ignores_interrupt(self) -> Work:
        """It goes on when it is asked to end."""
        raise NotImplementedError

    def spins(self) -> Work:
        """It loads, and then blocks whatever it runs in, so that it hears nothing."""
        raise NotImplementedError

    def spawns(self) -> Work:
        """It starts another process that leaves its session and runs on; then it does so itself."""
        raise NotImplementedError

    def echoes(self) -> Work:
        """It sends back what it receives on its channel, until it is asked to end."""
        raise NotImplementedError

    def says(self, data: bytes, /) -> Work:
        """It sends this on its channel, and ends at once, with status 0."""
        raise NotImplementedError

    def prints(self, data: bytes, /) -> Work:
        """It writes this to its standard output, and ends with status 0."""
        raise NotImplementedError

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


def has(kind: type[Rig]) -> frozenset[Need]:
    """What rigs of this kind have: the methods that they override."""
    needs: tuple[Need, ...] = (*get_args(WorkName), "leave_behind")
    return frozenset(need for need in needs if getattr(kind, need) is not getattr(Rig, need))
