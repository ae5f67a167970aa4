"""A store's content without a file, an authority that is a dictionary, and what must be seen."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import cast

import apsw

from trio_reactor.rooms.errors import EditRefused
from trio_reactor.rooms.model.answers import Accepted, Answer, Clash, Conflicted, Page
from trio_reactor.rooms.model.edits import Delete, Move, Operation, Put, PutBinary, Submission
from trio_reactor.rooms.model.entries import Binary, Document, Entry, digest_of
from trio_reactor.rooms.model.held import QueuedEdit, Seen
from trio_reactor.rooms.model.paths import folded
from trio_reactor.rooms.model.terms import Limits, Listing
from trio_reactor.rooms.store.content import Content
from trio_reactor.rooms.store.tables import REPLICA
from trio_reactor.sqlite import Database

ROOM = "room"


def memory() -> tuple[Database, Content]:
    """A store's tables, and what is in them."""
    database = cast("Database", apsw.Connection(":memory:"))
    database.execute(REPLICA.schema)
    return database, Content(database)


def page(room: str, version: int, *entries: Entry, number: int = 0, transfer: str = "t") -> Page:
    """The last page of a transfer, by default the only one."""
    return Page(room, transfer, number, version, entries, None)


def admitted(content: Content, name: str = ROOM) -> int:
    """A room's number, once it is listed."""
    content.list_room(Listing(name))
    number = content.room(name)
    assert number is not None
    return number


def queue(content: Content, number: int, *operations: Operation) -> QueuedEdit:
    """Queue an edit as anybody may."""
    edit, _ = content.outbox.queue(
        number, ROOM, operations, seen={}, readonly=(), limits=Limits(), most=1_000
    )
    return edit


def same_words(database: Database) -> None:
    """See that what can be found is what is to be seen."""
    database.execute("INSERT INTO words (words, rank) VALUES ('integrity-check', 1)")


@dataclass
class Authority:
    """What an authority does, of one room."""

    entries: dict[str, Entry] = field(default_factory=dict[str, Entry])
    version: int = 0
    log: list[tuple[int, dict[str, Entry | None]]] = field(
        default_factory=list[tuple[int, dict[str, Entry | None]]]
    )

    def submit(self, submission: Submission) -> Answer:
        """Apply all of it, or say where something else is."""
        clashes: list[Clash] = []
        for operation in submission.operations:
            current = self.entries.get(operation.path)
            if (None if current is None else current.revision) != operation.base:
                clashes.append(Clash(operation.path, current))
        fresh = dict(self.entries)
        version = self.version + 1
        if not clashes:
            for operation in submission.operations:
                apply(fresh, operation, version)
            if len({folded(path) for path in fresh}) != len(fresh):
                clashes.append(Clash(submission.operations[0].path, None))
        if clashes:
            return Conflicted(tuple(clashes))
        self.become(fresh)
        return Accepted(version)

    def become(self, fresh: dict[str, Entry]) -> None:
        """Advance by one version."""
        self.version += 1
        changed: dict[str, Entry | None] = {
            path: fresh.get(path)
            for path in self.entries.keys() | fresh.keys()
            if self.entries.get(path) != fresh.get(path)
        }
        self.log.append((self.version, changed))
        self.entries = fresh

    def since(self, version: int, until: int) -> tuple[list[Entry], list[str]]:
        """What changed from a version to a later one."""
        changed: dict[str, Entry | None] = {}
        for number, changes in self.log:
            if version < number <= until:
                changed.update(changes)
        return (
            [entry for entry in changed.values() if entry is not None],
            [path for path, entry in changed.items() if entry is None],
        )

    def at(self, version: int) -> dict[str, Entry]:
        """What there was at a version."""
        entries, _ = self.since(0, version)
        return {entry.path: entry for entry in entries}


def apply(entries: dict[str, Entry], operation: Operation, version: int) -> None:
    """Do an operation to an authority's entries."""
    match operation:
        case Put(path=path, text=text):
            entries[path] = Document(path, version, text)
        case PutBinary(path=path, digest=digest, size=size):
            entries[path] = Binary(path, version, digest, size)
        case Delete(path=path):
            entries.pop(path, None)
        case Move(path=path, to=to):
            moved = entries.pop(path)
            entries[to] = (
                Document(to, version, moved.text)
                if isinstance(moved, Document)
                else Binary(to, version, moved.digest, moved.size)
            )


def overlaid(confirmed: dict[str, Entry], edits: list[QueuedEdit]) -> dict[str, Seen]:
    """What is to be seen: the edits in their order over what is confirmed.

    At every place, where a file system may hold one thing only, the last that was put is seen.
    """
    seen = {folded(path): Seen(entry, edited=False) for path, entry in confirmed.items()}

    def revision(path: str) -> int:
        there = confirmed.get(path)
        return 0 if there is None else there.revision

    for edit in edits:
        for step in edit.steps:
            match step.operation:
                case Put(path=path, text=text):
                    seen[folded(path)] = Seen(Document(path, revision(path), text), edited=True)
                case PutBinary(path=path, digest=digest, size=size):
                    binary = Binary(path, revision(path), digest, size)
                    seen[folded(path)] = Seen(binary, edited=True)
                case Delete(path=path):
                    there = seen.get(folded(path))
                    if there is not None and there.entry.path == path:
                        del seen[folded(path)]
                case Move(path=path, to=to):
                    there = seen.get(folded(path))
                    if there is None or there.entry.path != path:
                        continue
                    del seen[folded(path)]
                    moved: dict[str, Entry] = {path: there.entry}
                    apply(moved, step.operation, 0)
                    seen[folded(to)] = Seen(moved[to], edited=True)
    return {each.entry.path: each for each in seen.values()}


PATHS = ("a.txt", "A.txt", "b", "B", "straße", "STRASSE", "dir/é", "dir/É", "c", "dir/d")


def chosen(chance: random.Random, paths: tuple[str, ...], word: str) -> Operation:
    """An operation by chance."""
    path = chance.choice(paths)
    match chance.randrange(6):
        case 0:
            return Delete(path)
        case 1:
            return Move(path, chance.choice(paths))
        case 2:
            return PutBinary(path, digest_of(word.encode()), len(word))
        case _:
            return Put(path, f"text {word}")


def tried(content: Content, number: int, operations: list[Operation]) -> QueuedEdit | None:
    """Queue an edit if it can be made; one that is refused must leave nothing behind."""
    content._database.execute("SAVEPOINT tried")
    try:
        return queue(content, number, *operations)
    except EditRefused:
        content._database.execute("ROLLBACK TO tried")
        return None
    finally:
        content._database.execute("RELEASE tried")
