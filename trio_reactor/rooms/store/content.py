"""What a local store holds, read and changed in its thread: rooms, transfers, talk and bytes.

`Content` is what transactions are given.  It decides nothing about the network; it sees to it that
what is laid down fits what is there, since a transaction may run long after it was asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, final

import apsw
import msgspec

from trio_reactor.rooms.errors import SearchRefused
from trio_reactor.rooms.model.answers import Message, Page
from trio_reactor.rooms.model.edits import Delete, Move, Put, PutBinary
from trio_reactor.rooms.model.entries import Entry
from trio_reactor.rooms.model.held import Draft, HeldRoom, QueuedEdit, Seen, Transfer
from trio_reactor.rooms.model.paths import folded
from trio_reactor.rooms.model.terms import Listing
from trio_reactor.rooms.sync.steps import Waiting
from trio_reactor.sqlite import Database, Row

from .outbox import Outbox
from .overlay import NOTHING, Overlay, as_row, entry_of

__all__ = ["BLOB_BYTES", "Content", "Found", "Glance", "Landing", "Stored"]

BLOB_BYTES: Final = 262_144
"""How many bytes of a binary are kept in one row."""

_NEWEST: Final = 2**63 - 1
_ROOM_TABLES: Final = (
    "entry",
    "beneath",
    "edit",
    "draft",
    "accepted",
    "transfer",
    "staged",
    "blob",
    "message",
    "unsaid",
)

_encode = msgspec.json.Encoder().encode
_listing = msgspec.json.Decoder(Listing).decode


class Stored(msgspec.Struct, frozen=True):
    """What a store knows beside its rooms."""

    incarnation: str
    """Of this store: new whenever it is."""
    generation: int
    """How often it was opened."""
    member: str | None
    """Whose it is; `None`: nobody has signed in yet."""
    epoch: str | None
    """The authority's history that it holds a part of."""
    synchronized: float | None
    """When all was last synchronized, in seconds since 1970 UTC."""
    change: int
    """How many changes were made to what is seen."""


class Found(msgspec.Struct, frozen=True):
    """A document that a search found."""

    room: str
    path: str
    rank: float
    """The lower the better."""
    snippet: str


class Landing(msgspec.Struct, frozen=True):
    """What a publication did."""

    version: int
    """The version that is held now."""
    paths: tuple[str, ...] | None
    """At which something else is seen now; `None`: the whole room is to be looked at again."""
    change: int
    """Which change of this store's that was."""


class Glance(msgspec.Struct, frozen=True):
    """What of a room waits."""

    waiting: Waiting
    """How far the first edit is that has not come back."""
    queued: int
    """Edits that have not come back."""
    drafts: int
    unsaid: int


@final
class Content:
    """What is in an open store."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.overlay = Overlay(database)
        self.outbox = Outbox(database, self.overlay)
        self.change = self.load_number("change")

    # -------------------------------------------------------------------------------------- facts

    def fact(self, name: str) -> str | None:
        """A fact about the store; `None`: it is not known."""
        value = self._database.execute("SELECT value FROM fact WHERE name = ?", (name,)).get
        return value if isinstance(value, str) else None

    def load_number(self, name: str) -> int:
        """A fact that is a number; 0 if it is not known."""
        return int(self.fact(name) or 0)

    def set_fact(self, name: str, value: str) -> None:
        """Record a fact."""
        self._database.execute(
            "INSERT OR REPLACE INTO fact (name, value) VALUES (?, ?)", (name, value)
        )

    def next_change(self) -> int:
        """Count a change of what is seen; it is recorded with the transaction."""
        self.change += 1
        return self.change

    # -------------------------------------------------------------------------------------- rooms

    def rooms(self) -> tuple[HeldRoom, ...]:
        """What is held of every room, in the order in which they came."""
        counts: dict[str, dict[object, int]] = {}
        for table in ("edit", "draft", "unsaid"):
            counts[table] = {
                room: int(str(count))
                for room, count in self._database.execute(
                    f"SELECT room, count(*) FROM {table} GROUP BY room"  # noqa: S608 - ours
                )
            }
        transfers = {
            room: Transfer(str(name), str(selection), int(str(version)), int(str(due)), str(token))
            for room, name, selection, version, due, token in self._database.execute(
                "SELECT room, name, selection, version, next, token FROM transfer"
            )
        }
        return tuple(
            HeldRoom(
                listing=_listing(bytes(listing) if isinstance(listing, bytes) else b""),
                listed=bool(listed),
                version=version if isinstance(version, int) else None,
                selection=selection if isinstance(selection, str) else None,
                queued=counts["edit"].get(room, 0),
                drafts=counts["draft"].get(room, 0),
                unsaid=counts["unsaid"].get(room, 0),
                transfer=transfers.get(room),
                position=str(position),
            )
            for room, listing, listed, version, selection, position in self._database.execute(
                "SELECT id, listing, listed, version, selection, position FROM room ORDER BY id"
            )
        )

    def room(self, name: str) -> int | None:
        """A room's number here; `None`: there is none of that name."""
        found = self._database.execute("SELECT id FROM room WHERE name = ?", (name,)).get
        return found if isinstance(found, int) else None

    def version(self, room: int) -> int | None:
        """The version that is held of a room."""
        found = self._database.execute("SELECT version FROM room WHERE id = ?", (room,)).get
        return found if isinstance(found, int) else None

    def list_room(self, listing: Listing) -> None:
        """Take a room into the listing, or what is new about one that is there."""
        encoded = _encode(listing)
        found = self._database.execute("SELECT id FROM room WHERE name = ?", (listing.room,)).get
        if found is not None:
            self._database.execute(
                "UPDATE room SET listing = ?, listed = 1 WHERE id = ? AND"
                " (listing != ? OR listed != 1)",
                (encoded, found, encoded),
            )
            return
        # A room that is given back is a new one: what it submits must never be taken for what the
        # one before it did.
        self._database.execute(
            "INSERT INTO room (name, client, listing) VALUES (?, ?, ?)",
            (listing.room, self._next_client(), encoded),
        )

    def _next_client(self) -> str:
        """A name for who submits that was never used."""
        admissions = self.load_number("admissions") + 1
        self.set_fact("admissions", str(admissions))
        return f"{self.fact('incarnation')}.{admissions}"

    def unlist(self, name: str) -> None:
        """Keep a room that is not listed any more."""
        self._database.execute("UPDATE room SET listed = 0 WHERE name = ?", (name,))

    def renew_clients(self, incarnation: str) -> None:
        """Give every room a client's name that was never used: the store is an old copy."""
        self.set_fact("incarnation", incarnation)
        for (room,) in self._database.execute("SELECT id FROM room ORDER BY id").fetchall():
            self._database.execute(
                "UPDATE room SET client = ?, sequence = 0 WHERE id = ?",
                (self._next_client(), room),
            )

    def glance(self, room: int) -> Glance:
        """What of a room waits."""
        state = self._database.execute(
            "SELECT state FROM edit WHERE room = ? ORDER BY id LIMIT 1", (room,)
        ).get
        counts = [
            self._database.execute(
                f"SELECT count(*) FROM {table} WHERE room = ?",  # noqa: S608 - ours
                (room,),
            ).get
            for table in ("edit", "draft", "unsaid")
        ]
        queued, drafts, unsaid = (int(str(count)) for count in counts)
        return Glance(msgspec.convert(state or "nothing", Waiting), queued, drafts, unsaid)

    # --------------------------------------------------------------------------------- publishing

    def stage(self, room: int, page: Page, selection: str) -> None:
        """Keep a page of a transfer that is not whole, and where it goes on.

        A page that is there already changes nothing; one of another transfer takes the place of it.
        """
        row = self._database.execute(
            "SELECT name, next FROM transfer WHERE room = ?", (room,)
        ).fetchone()
        if row is not None and (row[0] != page.transfer or page.number == 0):
            self.abandon(room)
            row = None
        due = 0 if row is None else row[1]
        if page.number != due or page.next is None:
            return
        self._database.executemany(
            "DELETE FROM staged WHERE room = ? AND folded = ?",
            ((room, folded(path)) for path in page.removed),
        )
        self._database.executemany(
            "INSERT OR REPLACE INTO staged (room, path, folded, revision, text, digest, size)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            ((room, each.path, folded(each.path), *as_row(each)) for each in page.entries),
        )
        self._database.execute(
            "INSERT OR REPLACE INTO transfer (room, name, selection, version, next, token)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (room, page.transfer, selection, page.version, page.number + 1, page.next),
        )

    def abandon(self, room: int) -> None:
        """Forget a transfer that cannot be continued."""
        self._database.execute("DELETE FROM staged WHERE room = ?", (room,))
        self._database.execute("DELETE FROM transfer WHERE room = ?", (room,))

    def publish_whole(self, room: int, page: Page, selection: str) -> Landing | None:
        """Publish a room with the last page of its transfer.

        Returns:
            What that did; `None`: a later version is held already, and nothing was changed.
        """
        row = self._database.execute(
            "SELECT version, selection FROM room WHERE id = ?", (room,)
        ).fetchone()
        assert row is not None  # noqa: S101 - it is there
        held, shown = row
        same = shown == selection
        if same and isinstance(held, int) and held > page.version:
            self.abandon(room)
            return None
        entries: Sequence[Entry] = page.entries
        if page.number > 0:
            whole = {entry.path: entry for entry in self._staged(room)}
            for path in page.removed:
                whole.pop(path, None)
            for entry in page.entries:
                whole[entry.path] = entry
            entries = tuple(whole.values())
            self.abandon(room)
        self.overlay.lift(room)
        self.overlay.replace(room, entries, reuse=same and held is not None)
        self._database.execute(
            "UPDATE room SET version = ?, selection = ? WHERE id = ?",
            (page.version, selection, room),
        )
        self.outbox.arrive(room, page.version)
        self.outbox.relay(room)
        return Landing(page.version, None, self.next_change())

    def _staged(self, room: int) -> Iterable[Entry]:
        for path, *content in self._database.execute(
            "SELECT path, revision, text, digest, size FROM staged WHERE room = ? ORDER BY path",
            (room,),
        ).fetchall():
            entry = entry_of(str(path), tuple(content))
            if entry is not None:
                yield entry

    def publish_change(
        self,
        room: int,
        *,
        since: int,
        version: int,
        entries: Sequence[Entry],
        removed: Sequence[str],
    ) -> Landing | None:
        """Publish what changed since the version that is held.

        Returns:
            What that did; `None`: another version is held, and nothing was changed.
        """
        if self.version(room) != since:
            return None
        self.overlay.confirm(room, entries, removed)
        self._database.execute("UPDATE room SET version = ? WHERE id = ?", (version, room))
        freed = self.outbox.arrive(room, version)
        paths = {*(entry.path for entry in entries), *removed, *freed}
        paths |= self.outbox.settle(room, paths - freed)
        return Landing(version, tuple(sorted(paths)), self.next_change())

    def arrived(self, room: int, version: int) -> Landing | None:
        """Let go of the accepted edits that are in the version that is held already."""
        freed = self.outbox.arrive(room, version)
        return Landing(version, tuple(sorted(freed)), self.next_change()) if freed else None

    def is_there(self, room: int, edit: QueuedEdit) -> bool:
        """Whether what an edit makes of its paths is confirmed there, whoever made it so."""
        for step in edit.steps:
            match step.operation:
                case Put(path=path, text=text):
                    same = self.overlay.confirmed(room, path)[1] == text
                case PutBinary(path=path, digest=digest):
                    same = self.overlay.confirmed(room, path)[2] == digest
                case Delete(path=path):
                    same = self.overlay.confirmed(room, path) == NOTHING
                case Move(path=path, to=to):
                    same = (
                        self.overlay.confirmed(room, path) == NOTHING
                        and self.overlay.confirmed(room, to) != NOTHING
                    )
            if not same:
                return False
        return True

    def let_go(self, room: int, edit: QueuedEdit) -> frozenset[str]:
        """Let go of an edit that is there already; returns the paths it lay over."""
        version = self.version(room) or 0
        self.outbox.accept(room, edit, version)
        return self.outbox.arrive(room, version)

    def restored(self, room: int, version: int, *, written: float) -> tuple[Draft, ...]:
        """Take in that the authority went back to a version: what is held is to be read anew.

        What it had accepted since is offered again as drafts.
        """
        drafts = self.outbox.offer_again(room, version, written=written)
        self.outbox.arrive(room, _NEWEST)
        # It may have forgotten sequences that were used: under another name all are new.
        self._database.execute(
            "UPDATE room SET selection = NULL, client = ?, sequence = 0 WHERE id = ?",
            (self._next_client(), room),
        )
        return drafts

    # ------------------------------------------------------------------------------------ reading

    def seen(self, room: int, *, root: str = "", after: str = "", most: int = -1) -> list[Seen]:
        """What is to be seen in a room, in the order of its paths, from after one of them on."""
        found: list[Seen] = []
        for path, revision, text, digest, size, edited in self._database.execute(
            "SELECT path, revision, text, digest, size, edited FROM entry"
            " WHERE room = ? AND path > ? AND (? = '' OR path = ? OR substr(path, 1, ?) = ?)"
            " ORDER BY path LIMIT ?",
            (room, after, root, root, len(root) + 1, f"{root}/", most),
        ):
            entry = entry_of(str(path), (revision, text, digest, size))
            if entry is not None:
                found.append(Seen(entry, bool(edited)))
        return found

    def search(self, query: str, rooms: Sequence[str] | None, most: int) -> list[Found]:
        """Documents that match a full-text query, the best first.

        Raises:
            SearchRefused: The query is none.
        """
        among = "" if rooms is None else f" AND room.name IN ({','.join('?' * len(rooms))})"
        statement = (
            "SELECT room.name, entry.path, words.rank,"  # noqa: S608 - only placeholders
            " snippet(words, 1, '', '', '…', 16)"
            " FROM words JOIN entry ON entry.id = words.rowid"
            " JOIN room ON room.id = entry.room"
            f" WHERE words MATCH ?{among} ORDER BY words.rank LIMIT ?"
        )
        try:
            rows = self._database.execute(statement, (query, *(rooms or ()), most)).fetchall()
        except (apsw.SQLError, UnicodeEncodeError) as failure:
            raise SearchRefused(query, str(failure)) from failure
        return [
            Found(str(room), str(path), float(str(rank)), str(snippet))
            for room, path, rank, snippet in rows
        ]

    # --------------------------------------------------------------------------------------- bytes

    def keep_blob(self, room: int, digest: str, data: bytes) -> None:
        """Keep the bytes of a binary."""
        self._database.executemany(
            "INSERT OR REPLACE INTO blob (room, digest, number, data) VALUES (?, ?, ?, ?)",
            (
                (room, digest, number, data[start : start + BLOB_BYTES])
                for number, start in enumerate(range(0, max(len(data), 1), BLOB_BYTES))
            ),
        )

    def blob(self, room: int, digest: str) -> bytes | None:
        """The bytes of a binary, if they are here."""
        rows = self._database.execute(
            "SELECT data FROM blob WHERE room = ? AND digest = ? ORDER BY number", (room, digest)
        ).fetchall()
        return b"".join(_bytes(row) for row in rows) if rows else None

    # ---------------------------------------------------------------------------------------- talk

    def hear(self, room: int, messages: Iterable[Message], position: str) -> None:
        """Keep what was said, and how far that was; own messages among it are said by that."""
        for each in messages:
            self._database.execute(
                "INSERT OR REPLACE INTO message (room, thread, id, number, author, said, text)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (room, each.thread, each.id, each.number, each.author, each.at, each.text),
            )
            self._database.execute(
                "DELETE FROM unsaid WHERE room = ? AND thread = ? AND id = ?",
                (room, each.thread, each.id),
            )
        if position:
            self._database.execute("UPDATE room SET position = ? WHERE id = ?", (position, room))

    def want_said(self, room: int, thread: str, message: str, text: str) -> None:
        """Keep a message that is to be said."""
        self._database.execute(
            "INSERT INTO unsaid (room, thread, id, text) VALUES (?, ?, ?, ?)",
            (room, thread, message, text),
        )

    def unsay(self, room: int, thread: str, message: str) -> None:
        """Forget a message that is not to be said any more."""
        self._database.execute(
            "DELETE FROM unsaid WHERE room = ? AND thread = ? AND id = ?", (room, thread, message)
        )

    def unsaid(self, room: int) -> list[tuple[str, str, str]]:
        """Thread, id and text of what is to be said, in order."""
        return [
            (str(thread), str(message), str(text))
            for thread, message, text in self._database.execute(
                "SELECT thread, id, text FROM unsaid WHERE room = ? ORDER BY number", (room,)
            )
        ]

    def messages(self, room: int, thread: str, after: int, most: int) -> list[Message]:
        """Messages of a thread, in their order, after a number."""
        return [
            msgspec.convert(
                {
                    "thread": thread,
                    "id": message,
                    "number": number,
                    "author": author,
                    "at": said,
                    "text": text,
                },
                Message,
            )
            for message, number, author, said, text in self._database.execute(
                "SELECT id, number, author, said, text FROM message"
                " WHERE room = ? AND thread = ? AND number > ? ORDER BY number LIMIT ?",
                (room, thread, after, most),
            )
        ]

    # --------------------------------------------------------------------------------------- parts

    def parts(self) -> dict[str, tuple[int, ...]]:
        """Of announcements that are not whole, the numbers of the parts that are here."""
        found: dict[str, list[int]] = {}
        for key, number in self._database.execute(
            "SELECT key, number FROM part ORDER BY key, number"
        ):
            found.setdefault(str(key), []).append(int(str(number)))
        return {key: tuple(numbers) for key, numbers in found.items()}

    def keep_part(
        self, key: str, number: int, of: int, room: str, data: bytes, *, most: int
    ) -> bytes | None:
        """Keep a part of an announcement.

        Args:
            key: Which announcement.
            number: Which part.
            of: How many there are.
            room: The room it is about.
            data: The part.
            most: How many bytes of parts are kept in all; the oldest announcements beyond go.

        Returns:
            The whole announcement, once it is: its parts are deleted then.
        """
        self._database.execute(
            "INSERT OR REPLACE INTO part (key, number, parts, room, data) VALUES (?, ?, ?, ?, ?)",
            (key, number, of, room, data),
        )
        rows = self._database.execute(
            "SELECT data FROM part WHERE key = ? AND parts = ? ORDER BY number", (key, of)
        ).fetchall()
        if len(rows) >= of:
            self.drop_parts((key,))
            return b"".join(_bytes(row) for row in rows)
        kept = self._database.execute("SELECT total(length(data)) FROM part").get
        if isinstance(kept, float) and kept > most:
            self.drop_parts((key,))
        return None

    def drop_parts(self, keys: Iterable[str]) -> None:
        """Forget announcements that are not whole."""
        self._database.executemany("DELETE FROM part WHERE key = ?", ((key,) for key in keys))

    # ------------------------------------------------------------------------------------- erasing

    def fences(self) -> tuple[str, ...]:
        """The rooms that are lost and not erased yet."""
        return tuple(
            str(name) for (name,) in self._database.execute("SELECT room FROM fence ORDER BY room")
        )

    def fence(self, rooms: Iterable[str]) -> None:
        """Mark rooms as lost."""
        self._database.executemany(
            "INSERT OR IGNORE INTO fence (room) VALUES (?)", ((room,) for room in rooms)
        )

    def erase(self, rooms: Iterable[str]) -> None:
        """Delete everything of rooms but the marks that they are lost."""
        for name in rooms:
            self._database.execute("DELETE FROM part WHERE room = ? OR room = ''", (name,))
            room = self.room(name)
            if room is None:
                continue
            for table in _ROOM_TABLES:
                self._database.execute(f"DELETE FROM {table} WHERE room = ?", (room,))  # noqa: S608
            self._database.execute("DELETE FROM room WHERE id = ?", (room,))
        self._renew_index()

    def unfence(self, rooms: Iterable[str]) -> None:
        """Take the marks away: nothing of these rooms is left."""
        self._database.executemany("DELETE FROM fence WHERE room = ?", ((room,) for room in rooms))

    # ---------------------------------------------------------------------------------- the whole

    def stored(self) -> Stored:
        """What is known beside the rooms."""
        synchronized = self.fact("synchronized")
        return Stored(
            incarnation=self.fact("incarnation") or "",
            generation=self.load_number("generation"),
            member=self.fact("member"),
            epoch=self.fact("epoch"),
            synchronized=None if synchronized is None else float(synchronized),
            change=self.change,
        )

    def forget_all(self) -> None:
        """Delete everything but the facts: it is another member's now."""
        for table in (*_ROOM_TABLES, "room", "part", "fence"):
            self._database.execute(f"DELETE FROM {table}")  # noqa: S608 - ours
        self._renew_index()

    def _renew_index(self) -> None:
        """Write the whole index anew: nothing is left in it of what was deleted.

        A merge of all its pieces does that, but it passes over an index of one piece, which may
        hold words that were written and deleted in one transaction.  So there is one more piece.
        """
        for statement in (
            "INSERT INTO words (rowid, path, text) VALUES (-1, '', '0')",
            "INSERT INTO words (words) VALUES ('optimize')",
            "INSERT INTO words (words, rowid, path, text) VALUES ('delete', -1, '', '0')",
        ):
            self._database.execute(statement)


def _bytes(row: Row) -> bytes:
    (data,) = row
    assert isinstance(data, bytes)  # noqa: S101 - the table is strict
    return data
