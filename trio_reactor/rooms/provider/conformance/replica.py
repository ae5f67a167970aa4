"""What a room is, as far as it was told: pages and changes put together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from trio_reactor.rooms.model.answers import Advanced, Page
from trio_reactor.rooms.model.edits import Delete, Move, Operation, Put, PutBinary
from trio_reactor.rooms.model.entries import Binary, Document, Entry
from trio_reactor.rooms.provider.deciding import moved

__all__ = ["State", "laid", "shown", "stepped"]

State = Mapping[str, Entry]
"""What is at each path."""


def laid(state: State, told: Page | Advanced) -> dict[str, Entry]:
    """What there is when this was told of what was there before."""
    left = {path: entry for path, entry in state.items() if path not in told.removed}
    left.update((entry.path, entry) for entry in told.entries)
    return left


def stepped(state: State, version: int, operations: tuple[Operation, ...]) -> dict[str, Entry]:
    """What there is when these operations, which fit it, were applied as this version."""
    left = dict(state)
    written: list[Entry] = []
    for operation in operations:
        match operation:
            case Put(path, text):
                written.append(Document(path, version, text))
            case PutBinary(path, digest, size):
                written.append(Binary(path, version, digest, size))
            case Delete(path):
                del left[path]
            case Move(path, to):
                written.append(moved(left.pop(path), to, version))
            case _ as never:
                assert_never(never)
    left.update((entry.path, entry) for entry in written)
    return left


def shown(state: State) -> str:
    """What a failure says of it."""
    return ", ".join(f"{path}@{state[path].revision}" for path in sorted(state)) or "nothing"
