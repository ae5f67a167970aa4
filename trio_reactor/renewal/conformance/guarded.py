"""The other side as a case uses it: what fails in there says nothing about the source."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import final

from trio_reactor.renewal.allocation.records import AllocationRecord
from trio_reactor.renewal.evidence import Cleanup
from trio_reactor.renewal.source import ClipRequest, Source, SourceOpener

from .rig import Capability, Cause, Length, Rig, causes_of

__all__ = ["Guarded", "RigFailed"]


class RigFailed(Exception):
    """The rig, or what runs beside it, failed by itself: nothing is said about the source.

    What it raised, with its traceback, is the cause.

    Args:
        rig: The name of the rig.
        doing: What it was to do.
    """

    def __init__(self, rig: str, doing: str) -> None:
        super().__init__(f"the rig of {rig} failed {doing}; nothing is said about the source")
        self.rig = rig
        self.doing = doing


@final
class Guarded:
    """A rig whose failures are told apart from those of the source; each method is the rig's."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self.name = rig.name
        self.capabilities: frozenset[Capability] = rig.capabilities
        self.causes: frozenset[Cause] = causes_of(type(rig))
        self.patience = rig.patience
        self.quiet = rig.quiet
        self.prompt = rig.prompt
        self.secrets = rig.secrets

    @property
    def opener(self) -> SourceOpener:
        """Opens a source; what that raises is the source's."""
        with self._doing("opener"):
            return self._rig.opener

    def allocated(self) -> int:
        """How many sessions the other side has."""
        with self._doing("allocated"):
            return self._rig.allocated()

    def request(self, length: Length, /) -> ClipRequest:
        """A request for a clip that can be played."""
        with self._doing("request"):
            return self._rig.request(length)

    def refused(self) -> ClipRequest:
        """A request that is refused."""
        with self._doing("refused"):
            return self._rig.refused()

    def heard(self, source: Source, /) -> bytes:
        """The input that the other side has heard."""
        with self._doing("heard"):
            return self._rig.heard(source)

    async def leave_behind(self) -> AllocationRecord:
        """Allocate as a process does that is killed then."""
        with self._doing("leave_behind"):
            return await self._rig.leave_behind()

    async def terminate(self, record: AllocationRecord, /) -> Cleanup:
        """End what was left behind; what that raises is the adapter's."""
        return await self._rig.terminate(record)

    async def announce_end(self, source: Source, seconds: float, /) -> None:
        """Have the end of a session announced."""
        with self._doing("announce_end"):
            await self._rig.announce_end(source, seconds)

    async def break_connection(self, source: Source, /) -> None:
        """Break the connection of a source."""
        with self._doing("break_connection"):
            await self._rig.break_connection(source)

    async def end(self, source: Source, /) -> None:
        """End the session of a source."""
        with self._doing("end"):
            await self._rig.end(source)

    async def fall_silent(self) -> None:
        """Answer nothing from now on."""
        with self._doing("fall_silent"):
            await self._rig.fall_silent()

    async def refuse_input(self, source: Source, /) -> None:
        """Refuse the next piece of input."""
        with self._doing("refuse_input"):
            await self._rig.refuse_input(source)

    async def refuse_opens(self) -> None:
        """Refuse every open from now on."""
        with self._doing("refuse_opens"):
            await self._rig.refuse_opens()

    @contextlib.contextmanager
    def _doing(self, method: str) -> Generator[None]:
        try:
            yield
        except Exception as failure:
            raise RigFailed(self.name, f"in `{method}`") from failure
