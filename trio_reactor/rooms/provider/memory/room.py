"""One room as its authority has it.  No I/O, no clock, no grants."""

from __future__ import annotations

from collections import deque
from typing import Final, final

from trio_reactor.rooms.model.answers import (
    Accepted,
    Advanced,
    Answer,
    BeyondHorizon,
    Current,
    HistoryPage,
    Message,
    MessagePage,
    Refreshed,
    Rejected,
    Revision,
)
from trio_reactor.rooms.model.edits import Operation
from trio_reactor.rooms.model.entries import Binary, Entry
from trio_reactor.rooms.model.paths import folded
from trio_reactor.rooms.model.terms import Limits
from trio_reactor.rooms.provider.deciding import Remembered, Step, decide

from .options import MemoryOptions

__all__ = ["Room"]

_FULL: Final = Rejected("too-large", "max_paths is reached")


@final
class Room:
    """Its entries, its log from the floor on, and what is remembered of its clients.

    Args:
        name: Which.
        title: What it is called.
        version: Where it begins; nothing before is known.
        options: What is kept at most.
    """

    def __init__(self, name: str, title: str, version: int, options: MemoryOptions) -> None:
        self.name = name
        self.title = title
        self.version = version
        self.floor = version
        """The oldest version from which what changed is still known."""
        self.entries: dict[str, Entry] = {}
        self.log: deque[Step] = deque()
        """The steps after the floor, one a version."""
        self.clients: dict[tuple[str, str], Remembered] = {}
        """By member and client."""
        self.binaries: dict[str, bytes] = {}
        """What was put here once, by digest."""
        self.messages: list[Message] = []
        self._options = options
        self._folds: dict[str, str] = {}
        self._revisions: dict[str, deque[Revision]] = {}
        self._said: dict[tuple[str, str], Message] = {}
        self._threads: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"<Room {self.name} at {self.version}: {len(self.entries)} entries>"

    def copied(self) -> Room:
        """The room as it is now, apart from what becomes of this one."""
        copy = Room(self.name, self.title, self.version, self._options)
        copy.floor = self.floor
        copy.entries = dict(self.entries)
        copy.log = deque(self.log)
        copy.clients = dict(self.clients)
        copy.binaries = dict(self.binaries)
        copy.messages = list(self.messages)
        copy._folds = dict(self._folds)
        copy._revisions = {path: deque(found) for path, found in self._revisions.items()}
        copy._said = dict(self._said)
        copy._threads = dict(self._threads)
        return copy

    # ------------------------------------------------------------------------------ being written

    @property
    def size(self) -> int:
        """How many entries it has."""
        return len(self.entries)

    def entry(self, path: str, /) -> Entry | None:
        """What is at a path."""
        return self.entries.get(path)

    def colliding(self, fold: str, /) -> str | None:
        """The path there is that is folded to this, if there is one."""
        return self._folds.get(fold)

    def bytes_of(self, digest: str, /) -> int | None:
        """How many bytes a binary has that was put here once."""
        data = self.binaries.get(digest)
        return None if data is None else len(data)

    def apply(
        self,
        operations: tuple[Operation, ...],
        *,
        author: str,
        at: float,
        limits: Limits,
        readonly: tuple[str, ...] = (),
        uploaded: dict[str, bytes] | None = None,
    ) -> Answer:
        """Decide about operations, and change the room if they are accepted.

        Args:
            operations: What is to be done.
            author: Who does it.
            at: When, by the wall.
            limits: What is taken at most.
            readonly: Directories that the author may not write.
            uploaded: Binaries that the author has sent, by digest.
        """
        ground = _Ground(self, uploaded or {})
        decided = decide(operations, ground, readonly=readonly, limits=limits)
        if not isinstance(decided, Step):
            return decided
        paths = {*(entry.path for entry in decided.written), *decided.removed}
        new = sum(path not in self._revisions for path in paths)
        if len(self._revisions) + new > self._options.max_paths:
            return _FULL
        for entry in decided.written:
            if isinstance(entry, Binary) and entry.digest not in self.binaries:
                self.binaries[entry.digest] = ground.uploaded[entry.digest]
        self._take(decided, author, at)
        return Accepted(decided.version)

    def trim(self, floor: int) -> None:
        """Forget what changed up to a version."""
        while self.log and self.log[0].version <= floor:
            self.log.popleft()
        self.floor = max(self.floor, min(floor, self.version))

    def _take(self, step: Step, author: str, at: float) -> None:
        for path in step.removed:
            del self.entries[path]
            del self._folds[folded(path)]
            self._remember(path, Revision(step.version, author, at, None))
        for entry in step.written:
            self.entries[entry.path] = entry
            self._folds[folded(entry.path)] = entry.path
            self._remember(entry.path, Revision(step.version, author, at, entry))
        self.version = step.version
        self.log.append(step)
        if len(self.log) > self._options.max_log:
            self.trim(self.log[0].version)

    def _remember(self, path: str, revision: Revision) -> None:
        kept = self._revisions.get(path)
        if kept is None:
            kept = self._revisions[path] = deque(maxlen=self._options.max_revisions)
        kept.append(revision)

    # --------------------------------------------------------------------------------- being read

    def since(self, version: int) -> Refreshed:
        """What is newer than a version: as much of it as makes a page, and a step at least."""
        if version == self.version:
            return Current(self.name, version)
        if not self.floor <= version < self.version:
            return BeyondHorizon(self.name)
        return self.changes(version)

    def changes(self, version: int) -> Advanced:
        """What changed since a version that is before this one and not below the floor."""
        paths: dict[str, Entry | None] = {}
        reached = version
        for index in range(version - self.floor, len(self.log)):
            step = self.log[index]
            new = sum(path not in paths for path in _paths(step))
            if reached > version and len(paths) + new > self._options.page_size:
                break
            paths.update(dict.fromkeys(step.removed))
            paths.update((entry.path, entry) for entry in step.written)
            reached = step.version
        return Advanced(
            self.name,
            version,
            reached,
            tuple(entry for entry in paths.values() if entry is not None),
            tuple(path for path, entry in paths.items() if entry is None),
            more=reached < self.version,
        )

    def history(self, path: str, before: int | None) -> HistoryPage:
        """Revisions of a path, the newest first, older than a revision if one is named."""
        found = [
            revision
            for revision in reversed(self._revisions.get(path, ()))
            if before is None or revision.revision < before
        ]
        page = tuple(found[: self._options.page_size])
        more = len(found) > len(page)
        return HistoryPage(self.name, path, page, str(page[-1].revision) if more else None)

    # -------------------------------------------------------------------------------- being spoken

    def said(self, author: str, message: str) -> Message | None:
        """A message that this author said under this id before."""
        return self._said.get((author, message))

    def say(self, author: str, thread: str, message: str, text: str, at: float) -> Message:
        """Append a message that was not said before."""
        number = self._threads.get(thread, 0) + 1
        said = Message(thread, message, number, author, at, text)
        self._threads[thread] = number
        self._said[author, message] = said
        self.messages.append(said)
        return said

    def heard(self, position: str) -> MessagePage:
        """What was said after a position; from the first on if it is none of this room's."""
        begin = int(position) if position.isascii() and position.isdigit() else 0
        if begin > len(self.messages):
            begin = 0  # an older copy was restored since
        end = min(begin + self._options.page_size, len(self.messages))
        return MessagePage(
            self.name,
            tuple(self.messages[begin:end]),
            str(end) if end else "",
            more=end < len(self.messages),
        )

    @property
    def position(self) -> str:
        """The position after everything that was said."""
        return str(len(self.messages)) if self.messages else ""


def _paths(step: Step) -> set[str]:
    return {*(entry.path for entry in step.written), *step.removed}


@final
class _Ground:
    """A room, with the binaries that an author has sent."""

    def __init__(self, room: Room, uploaded: dict[str, bytes]) -> None:
        self.uploaded = uploaded
        self.version = room.version
        self.size = room.size
        self.entry = room.entry
        self.colliding = room.colliding
        self._room = room

    def bytes_of(self, digest: str, /) -> int | None:
        size = self._room.bytes_of(digest)
        if size is None and digest in self.uploaded:
            size = len(self.uploaded[digest])
        return size
