"""The entries of a room, and the edits that lie over them.

What is confirmed and what is seen differ only at paths that a queued edit covers.  There `entry`
has what is seen and `beneath` what is confirmed.  So reading and searching look at `entry` alone,
and a room without edits costs nothing more.

Somebody else may write a path that collides with one that was made here.  That is nobody's fault,
and not this store's to settle: until the authority has answered to the edit, the edit is seen, and
what is confirmed lies hidden in `beneath` too.

All of this runs in the store's thread, inside a transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias, final

import msgspec

from trio_reactor.rooms.errors import ProviderFault
from trio_reactor.rooms.model.edits import Delete, Move, Operation, Put, PutBinary, paths_of
from trio_reactor.rooms.model.entries import Binary, Document, Entry
from trio_reactor.rooms.model.held import Seen, Step
from trio_reactor.rooms.model.paths import folded
from trio_reactor.sqlite import Database, Row

__all__ = ["NOTHING", "Content", "Overlay", "as_row", "entry_of"]

Content: TypeAlias = tuple[int | None, str | None, str | None, int | None]
"""A revision, a text, a digest and a size; `None` all over: nothing."""

NOTHING: Final[Content] = (None, None, None, None)
_encode = msgspec.json.Encoder().encode
_steps = msgspec.json.Decoder(tuple[Step, ...]).decode


def as_row(entry: Entry) -> Content:
    """An entry as columns."""
    if isinstance(entry, Document):
        return (entry.revision, entry.text, None, None)
    return (entry.revision, None, entry.digest, entry.size)


def entry_of(path: str, content: Row) -> Entry | None:
    """Columns as an entry; `None` if there is nothing."""
    revision, text, digest, size = content
    number = revision if isinstance(revision, int) else 0
    if isinstance(text, str):
        return Document(path, number, text)
    if isinstance(digest, str) and isinstance(size, int):
        return Binary(path, number, digest, size)
    return None


@final
class Overlay:
    """What is confirmed and seen in the rooms of an open store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # ------------------------------------------------------------------------------------ seeing

    def seen(self, room: int, path: str) -> Seen | None:
        """What is to be seen at a path."""
        row = self._database.execute(
            "SELECT revision, text, digest, size, edited FROM entry"
            " WHERE room = ? AND folded = ? AND path = ?",
            (room, folded(path), path),
        ).fetchone()
        if row is None:
            return None
        entry = entry_of(path, row[:4])
        return None if entry is None else Seen(entry, bool(row[4]))

    def taken_by(self, room: int, path: str) -> str | None:
        """The path that is there and collides with this one, or is it."""
        found = self._database.execute(
            "SELECT path FROM entry WHERE room = ? AND folded = ?", (room, folded(path))
        ).get
        return found if isinstance(found, str) else None

    def confirmed(self, room: int, path: str) -> Content:
        """What is confirmed at a path."""
        row = self._database.execute(
            "SELECT revision, text, digest, size FROM beneath WHERE room = ? AND path = ?",
            (room, path),
        ).fetchone()
        if row is None:
            row = self._database.execute(
                "SELECT revision, text, digest, size FROM entry"
                " WHERE room = ? AND folded = ? AND path = ?",
                (room, folded(path), path),
            ).fetchone()
        return NOTHING if row is None else _content(row)

    def is_covered(self, room: int, path: str) -> bool:
        """Whether a queued edit lies over a path."""
        return (
            self._database.execute(
                "SELECT 1 FROM beneath WHERE room = ? AND path = ?", (room, path)
            ).get
            is not None
        )

    def covered(self, room: int) -> tuple[str, ...]:
        """The paths at which something confirmed, or nothing, lies beneath what is seen."""
        return tuple(
            str(path)
            for (path,) in self._database.execute(
                "SELECT path FROM beneath WHERE room = ? ORDER BY path", (room,)
            ).fetchall()
        )

    # -------------------------------------------------------------------------------- confirming

    def confirm(self, room: int, entries: Iterable[Entry], removed: Iterable[str]) -> None:
        """Take in what the authority has; what covers it stays."""
        covered = frozenset(self.covered(room))
        for path in removed:
            if path in covered:
                self._beneath(room, path, NOTHING)
            else:
                self._remove(room, path)
        places = frozenset(map(folded, covered))
        for entry in entries:
            if entry.path in covered or (places and folded(entry.path) in places):
                self._beneath(room, entry.path, as_row(entry))
            else:
                self._write(room, entry.path, as_row(entry), edited=False)

    def replace(self, room: int, entries: Sequence[Entry], *, reuse: bool) -> None:
        """Take in a whole room; what is of an unchanged revision is left alone if that is allowed.

        Nothing may lie over the room.
        """
        fresh = entries
        if not reuse:
            self._database.execute("DELETE FROM entry WHERE room = ?", (room,))
        else:
            kept = {
                str(path): revision
                for path, revision in self._database.execute(
                    "SELECT path, revision FROM entry WHERE room = ?", (room,)
                ).fetchall()
            }
            if kept:
                fresh = [e for e in entries if kept.get(e.path) != e.revision]
                whole = {entry.path for entry in entries}
                stale = [path for path in kept if path not in whole]
                changed = [entry.path for entry in fresh if entry.path in kept]
                for path in (*stale, *changed):
                    self._remove(room, path)
        self._database.executemany(
            "INSERT INTO entry (room, path, folded, revision, text, digest, size)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            ((room, entry.path, folded(entry.path), *as_row(entry)) for entry in fresh),
        )

    # --------------------------------------------------------------------------------- covering

    def lay(self, room: int, operation: Operation) -> None:
        """Lay an operation over what is seen; it was checked."""
        for path in paths_of(operation):
            if not self.is_covered(room, path):
                self._beneath(room, path, self.confirmed(room, path))
        match operation:
            case Put():
                revision = self.confirmed(room, operation.path)[0]
                self._write(
                    room, operation.path, (revision, operation.text, None, None), edited=True
                )
            case PutBinary():
                revision = self.confirmed(room, operation.path)[0]
                self._write(
                    room,
                    operation.path,
                    (revision, None, operation.digest, operation.size),
                    edited=True,
                )
            case Delete():
                self._remove(room, operation.path)
            case Move():
                row = self._database.execute(
                    "SELECT revision, text, digest, size FROM entry"
                    " WHERE room = ? AND folded = ? AND path = ?",
                    (room, folded(operation.path), operation.path),
                ).fetchone()
                self._remove(room, operation.path)
                if row is not None:
                    _, text, digest, size = _content(row)
                    self._write(room, operation.to, (None, text, digest, size), edited=True)

    def lift(self, room: int) -> tuple[str, ...]:
        """Take everything off a room: what is confirmed is seen.  Returns the paths."""
        paths = self.covered(room)
        # What is not there is made room for first: a path may collide with what takes its place.
        for path in paths:
            if self.confirmed(room, path) == NOTHING:
                self.uncover(room, path)
        for path in paths:
            self.uncover(room, path)
        return paths

    def renew(self, room: int, path: str) -> None:
        """Show what an edit put at a path as based on what is confirmed beneath it now."""
        self._database.execute(
            "UPDATE entry SET revision = ? WHERE room = ? AND folded = ? AND path = ? AND edited",
            (self.confirmed(room, path)[0], room, folded(path), path),
        )

    def uncover(self, room: int, path: str) -> None:
        """See at a path what is confirmed there."""
        row = self._database.execute(
            "SELECT revision, text, digest, size FROM beneath WHERE room = ? AND path = ?",
            (room, path),
        ).fetchone()
        if row is None:
            return
        self._database.execute("DELETE FROM beneath WHERE room = ? AND path = ?", (room, path))
        content = _content(row)
        if content == NOTHING:
            self._remove(room, path)
        else:
            self._write(room, path, content, edited=False)

    # ----------------------------------------------------------------------------------- writing

    def _write(self, room: int, path: str, content: Content, *, edited: bool) -> None:
        revision, text, digest, size = content
        key = (room, folded(path))
        row = self._database.execute(
            "SELECT id, path, text, digest, size, edited, revision FROM entry"
            " WHERE room = ? AND folded = ?",
            key,
        ).fetchone()
        if row is not None and row[1] != path:
            if not edited:
                raise ProviderFault("two paths of a room collide")
            # Of two that collide the edited one is seen.
            other, was_edited = str(row[1]), bool(row[5])
            if not was_edited:
                self._beneath(room, other, _content((row[6], *row[2:5])))
            self._remove(room, other)
            row = None
        if row is None:
            self._database.execute(
                "INSERT INTO entry (room, path, folded, revision, text, digest, size, edited)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (room, path, key[1], revision, text, digest, size, int(edited)),
            )
        elif row[2:5] == (text, digest, size):
            self._database.execute(
                "UPDATE entry SET revision = ?, edited = ? WHERE id = ?",
                (revision, int(edited), row[0]),
            )
        else:
            self._database.execute(
                "UPDATE entry SET revision = ?, text = ?, digest = ?, size = ?, edited = ?"
                " WHERE id = ?",
                (revision, text, digest, size, int(edited), row[0]),
            )

    def _remove(self, room: int, path: str) -> None:
        self._database.execute(
            "DELETE FROM entry WHERE room = ? AND folded = ? AND path = ?",
            (room, folded(path), path),
        )

    def _beneath(self, room: int, path: str, content: Content) -> None:
        self._database.execute(
            "INSERT OR REPLACE INTO beneath (room, path, revision, text, digest, size)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (room, path, *content),
        )


def _content(row: Row) -> Content:
    revision, text, digest, size = row
    return (
        revision if isinstance(revision, int) else None,
        text if isinstance(text, str) else None,
        digest if isinstance(digest, str) else None,
        size if isinstance(size, int) else None,
    )
