"""What the author of a source supplies: the other side, and ways to make things happen to it.

Subclass `Rig`, and override what can be caused.  A case that needs what is not overridden does not
apply, and `cases` leaves it out: the more a rig can cause, the more is tested.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Literal, TypeAlias

from trio_reactor.renewal.allocation.records import AllocationRecord
from trio_reactor.renewal.evidence import Cleanup
from trio_reactor.renewal.source import ClipRequest, Source, SourceOpener
from trio_reactor.testing import conformance
from trio_reactor.testing.conformance import optional

__all__ = ["Capability", "Length", "Rig"]

Capability: TypeAlias = Literal[
    "announcing",
    "exclusive",
    "mortal",
    "playable",
    "receptive",
    "reconnectable",
    "recordable",
    "resumable",
]
"""What a source can beside living and being closed; each is a protocol of the same name."""

Length: TypeAlias = Literal["short", "long"]


class Rig(conformance.Rig):
    """The other side of the source under test, fresh for each case.

    Nothing must be allocated at the other side when a case begins.
    """

    capabilities: ClassVar[frozenset[Capability]] = frozenset()
    """What the source is expected to be able to do: exactly that."""

    patience: float = 5.0
    """Seconds after which something that has to happen is not awaited any longer.  Each budget that
    the source has of its own must be shorter.  On a virtual clock it costs nothing."""

    quiet: float = 0.1
    """Seconds during which nothing must happen, where that is what is required.  On a real clock
    they are waited for, several times."""

    prompt: float = 1.0
    """Seconds within which what was cancelled has to have left."""

    not_the_rigs: ClassVar[frozenset[str]] = frozenset({"terminate"})

    secrets: tuple[str, ...] = ()
    """What must not be in what is recorded of an allocation, such as the token that admits to the
    service; for one that is `recordable`."""

    @property
    @abstractmethod
    def opener(self) -> SourceOpener:
        """Opens a source at this other side."""
        ...

    @abstractmethod
    def allocated(self) -> int:
        """How many sessions, or whatever a source allocates, the other side has at this moment."""
        ...

    def request(self, length: Length, /) -> ClipRequest:
        """A request for a clip that can be played; asked for if the source is `playable`.

        A short one is over well within `patience`.  A long one is still playing after several times
        `quiet`; it is never waited for.
        """
        raise NotImplementedError

    @optional
    def refused(self) -> ClipRequest:
        """A request that the other side refuses."""
        raise NotImplementedError

    @optional
    def heard(self, source: Source, /) -> bytes:
        """All the input that the other side has heard of this source, in order."""
        raise NotImplementedError

    @optional
    async def leave_behind(self) -> AllocationRecord:
        """Allocate as a process does that is killed then; returns what it had recorded.

        Nobody holds it any more, and it lives for longer than `patience`.
        """
        raise NotImplementedError

    @optional
    async def terminate(self, record: AllocationRecord, /) -> Cleanup:
        """End what was left behind: the function that goes with the source into `Allocations`.

        What it raises or returns is the adapter's, and not the rig's.
        """
        raise NotImplementedError

    @optional
    async def announce_end(self, source: Source, seconds: float, /) -> None:
        """Have the other side announce that the session of a source ends in so many seconds.

        That is sooner than it said before.
        """
        raise NotImplementedError

    @optional
    async def break_connection(self, source: Source, /) -> None:
        """Break the connection of a source, and leave its session alone."""
        raise NotImplementedError

    @optional
    async def end(self, source: Source, /) -> None:
        """End the session of a source from the other side."""
        raise NotImplementedError

    @optional
    async def fall_silent(self) -> None:
        """From now on take everything, opens too, and answer nothing."""
        raise NotImplementedError

    @optional
    async def refuse_input(self, source: Source, /) -> None:
        """Refuse the next piece of input of this source, and only that."""
        raise NotImplementedError

    @optional
    async def refuse_opens(self) -> None:
        """From now on refuse every open."""
        raise NotImplementedError
