"""Rigs for the providers of the library."""

from __future__ import annotations

from typing import Any

from trio_reactor.rooms.model.answers import Accepted
from trio_reactor.rooms.model.edits import Operation
from trio_reactor.rooms.model.terms import Action
from trio_reactor.rooms.provider.conformance import Rig
from trio_reactor.rooms.provider.memory import (
    Copy,
    MemoryAuthority,
    MemoryOptions,
    MemoryProvider,
)
from trio_reactor.world import SeededWorld


class MemoryRig(Rig):
    name = "the provider in memory"
    capabilities = frozenset(
        {"streaming", "changes", "history", "binaries", "conversations", "actions"}
    )
    paging = "snapshot"

    def __init__(self) -> None:
        options: dict[str, Any] = {
            "page_size": self.page_size,
            "max_announcements": self.backlog,
            "change_bytes": 16_384,
            "part_bytes": 2_000,
            "paging": self.paging,
        }
        self.authority = MemoryAuthority(world=SeededWorld(1), options=MemoryOptions(**options))
        self.kept: Copy | None = None

    def provider(self, member: str, /) -> Any:
        return MemoryProvider(self.authority, member=member)

    async def create(self, room: str, /) -> None:
        self.authority.create(room)

    async def grant(self, member: str, room: str, /, *, readonly: tuple[str, ...] = ()) -> None:
        self.authority.grant(member, room, readonly=readonly)

    async def revoke(self, member: str, room: str, /) -> None:
        self.authority.revoke(member, room)

    async def write(self, room: str, /, *operations: Operation) -> int:
        answer = self.authority.write(room, *operations)
        assert isinstance(answer, Accepted), answer
        return answer.version

    async def trim(self, room: str, floor: int, /) -> None:
        self.authority.trim(room, floor)

    async def remove(self, room: str, /) -> None:
        self.authority.remove(room)

    async def cut(self) -> None:
        self.authority.cut()

    async def halt(self) -> None:
        self.authority.halt()

    async def resume(self) -> None:
        self.authority.resume()

    async def forget(self, room: str, client: str, /) -> None:
        self.authority.forget(room, client)

    async def begin_epoch(self) -> None:
        self.authority.begin_epoch()

    async def keep(self) -> None:
        self.kept = self.authority.snapshot()

    async def go_back(self) -> None:
        assert self.kept is not None
        self.authority.restore(self.kept)

    async def offer(self, action: Action, /) -> None:
        self.authority.offer(action, lambda _member, _room, inputs: str(inputs["text"]))

    def large(self) -> str:
        return "large " * 1_000


class ReplayingRig(MemoryRig):
    name = "the provider in memory, read by replay"
    paging = "replay"
