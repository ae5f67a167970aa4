"""What the author of a provider supplies."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Literal, TypeAlias

from trio_reactor.rooms.model.edits import Operation
from trio_reactor.rooms.model.terms import Action
from trio_reactor.rooms.provider.protocol import Provider
from trio_reactor.testing import conformance
from trio_reactor.testing.conformance import optional

__all__ = ["Capability", "Rig"]

Capability: TypeAlias = Literal[
    "streaming", "changes", "history", "binaries", "conversations", "actions"
]
"""What a provider can beside reading and writing.  `streaming`: it announces what happens.
`changes`: it announces small changes together with what changed.  The others are the capabilities
that its authority's terms name."""


class Rig(conformance.Rig):
    """The authority under test, in which there is nothing when a case begins.

    What its methods do has been done when they return: whoever asks through a link from then on is
    answered accordingly.
    """

    capabilities: ClassVar[frozenset[Capability]] = frozenset()
    """What the provider is expected to be able to do."""

    page_size: int = 5
    """How many entries, messages or revisions a page has at most: few, as cases need several pages.
    What was written in one step may make a page larger."""

    backlog: int = 20
    """How many announcements wait for a reader at most, if it streams."""

    patience: float = 10.0

    @abstractmethod
    def provider(self, member: str, /) -> Provider:
        """A provider that connects as this member, as another process would make it."""
        ...

    @abstractmethod
    async def create(self, room: str, /) -> None:
        """Make a room of version 0, which nobody may read yet."""
        ...

    @abstractmethod
    async def grant(self, member: str, room: str, /, *, readonly: tuple[str, ...] = ()) -> None:
        """Let a member read a room, and write it but for some directories."""
        ...

    @abstractmethod
    async def revoke(self, member: str, room: str, /) -> None:
        """Let a member not read a room any more."""
        ...

    @abstractmethod
    async def write(self, room: str, /, *operations: Operation) -> int:
        """Write as somebody whom no case has heard of, in one step.

        Returns:
            The room's version then.
        """
        ...

    @optional
    async def trim(self, room: str, floor: int, /) -> None:
        """Forget what changed up to a version, which becomes the horizon."""
        raise NotImplementedError

    @optional
    async def remove(self, room: str, /) -> None:
        """End a room."""
        raise NotImplementedError

    @optional
    async def cut(self) -> None:
        """Lose every link there is; new ones can be made."""
        raise NotImplementedError

    @optional
    async def halt(self) -> None:
        """Let nobody write for the time being."""
        raise NotImplementedError

    @optional
    async def resume(self) -> None:
        """Let everybody write again; needed by what needs `halt`."""
        raise NotImplementedError

    @optional
    async def forget(self, room: str, client: str, /) -> None:
        """Forget what a client's last submission to a room was answered."""
        raise NotImplementedError

    @optional
    async def begin_epoch(self) -> None:
        """Begin a new epoch; links that there are may be lost by it."""
        raise NotImplementedError

    @optional
    async def keep(self) -> None:
        """Keep a copy of everything as it is now, for `go_back`."""
        raise NotImplementedError

    @optional
    async def go_back(self) -> None:
        """Go back to the copy that `keep` has made, as from an old backup, in the same epoch."""
        raise NotImplementedError

    @optional
    async def offer(self, action: Action, /) -> None:
        """Offer an action, which answers its input `text` as it is."""
        raise NotImplementedError

    @optional
    def large(self) -> str:
        """A text whose announcement, as a change or as a message, is sent in several parts."""
        raise NotImplementedError
