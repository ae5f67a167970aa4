"""The rig of the provider whose authority is a file."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from trio_reactor.rooms.model.answers import Accepted
from trio_reactor.rooms.model.edits import Operation
from trio_reactor.rooms.provider.conformance import Rig
from trio_reactor.rooms.provider.local import LocalAuthority, LocalOptions, LocalProvider


class LocalRig(Rig):
    name = "the provider with a file"
    capabilities = frozenset({"streaming", "changes", "history", "binaries", "conversations"})

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="local-rig-")
        self.path = Path(self._directory.name) / "authority.db"
        self.options = LocalOptions(
            page_size=self.page_size, max_announcements=self.backlog, change_bytes=16_384
        )

    def provider(self, member: str, /) -> Any:
        return LocalProvider(self.path, member=member, options=self.options)

    def authority(self) -> Any:
        return LocalAuthority.open(self.path, options=self.options)

    async def create(self, room: str, /) -> None:
        async with self.authority() as authority:
            await authority.create(room)

    async def grant(self, member: str, room: str, /, *, readonly: tuple[str, ...] = ()) -> None:
        async with self.authority() as authority:
            await authority.grant(member, room, readonly=readonly)

    async def revoke(self, member: str, room: str, /) -> None:
        async with self.authority() as authority:
            await authority.revoke(member, room)

    async def write(self, room: str, /, *operations: Operation) -> int:
        async with self.authority() as authority:
            answer = await authority.write(room, *operations)
        assert isinstance(answer, Accepted), answer
        return answer.version

    async def trim(self, room: str, floor: int, /) -> None:
        async with self.authority() as authority:
            await authority.trim(room, floor)

    async def remove(self, room: str, /) -> None:
        async with self.authority() as authority:
            await authority.remove(room)

    async def halt(self) -> None:
        async with self.authority() as authority:
            await authority.halt()

    async def resume(self) -> None:
        async with self.authority() as authority:
            await authority.resume()

    async def forget(self, room: str, client: str, /) -> None:
        async with self.authority() as authority:
            await authority.forget(room, client)

    async def begin_epoch(self) -> None:
        async with self.authority() as authority:
            await authority.begin_epoch()

    def close(self) -> None:
        self._directory.cleanup()
