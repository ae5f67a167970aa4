"""What is in the file of an authority: read and changed in a thread, one transaction a call.

Several processes do this at once, so nothing is remembered between two calls but what the file
says.  Every reading looks at the member's grant in the same transaction.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from math import ceil
from typing import final

import apsw
import msgspec

from trio_reactor.errors import Outcome, ReactorError
from trio_reactor.rooms.errors import RoomNotReadable, RoomRefused
from trio_reactor.rooms.model.answers import (
    Accepted,
    Advanced,
    Answer,
    BeyondHorizon,
    Current,
    Discontinued,
    Halted,
    HistoryPage,
    Message,
    MessagePage,
    Page,
    Refreshed,
    Rejected,
    Revision,
)
from trio_reactor.rooms.model.edits import Operation, PutBinary, Submission
from trio_reactor.rooms.model.entries import Binary, Document, Entry, digest_of, is_digest
from trio_reactor.rooms.model.names import check_name
from trio_reactor.rooms.model.paths import check_path, folded
from trio_reactor.rooms.model.terms import Discovery, Limits, Listing, Terms
from trio_reactor.rooms.provider.deciding import Remembered, Step, decide, recall
from trio_reactor.rooms.provider.protocol import (
    Announced,
    Announcement,
    Relisted,
    Revoked,
    Said,
    Writing,
)
from trio_reactor.sqlite import Database, Row, Unfit, connect, take, trouble_of
from trio_reactor.world import World

from .errors import AuthorityFailed, AuthorityUnusable
from .options import LocalOptions
from .tables import AUTHORITY

__all__ = ["CAPABILITIES", "Ledger", "opened"]

CAPABILITIES = ("history", "binaries", "conversations")

_encode = msgspec.json.Encoder().encode
_answer = msgspec.json.Decoder(Answer).decode
_written = msgspec.json.Decoder(tuple[Entry, ...]).decode
_paths = msgspec.json.Decoder(tuple[str, ...]).decode
_entry = msgspec.json.Decoder(Entry | None).decode
_token = msgspec.json.Decoder(tuple[int, str | None, int, int]).decode


def opened(path: str, options: LocalOptions, world: World) -> Ledger:
    """Open the file, or make it.

    Raises:
        AuthorityUnusable, AuthorityFailed: It cannot be used.
    """
    database: Database | None = None
    try:
        database = connect(path)
        database.execute(f"PRAGMA busy_timeout = {ceil(options.busy_timeout * 1000)}").get  # noqa: B018
        take(path, database, AUTHORITY, shared=True, whole=False)
        ledger = Ledger(path, database, options, world)
    except BaseException as failure:
        if database is not None:
            with suppress(apsw.Error):
                database.close()
        if isinstance(failure, Unfit):
            raise AuthorityUnusable(f"{path}: {failure}", path=path) from failure
        if isinstance(failure, apsw.Error | OSError):
            raise _failed(path, failure, "not-submitted") from failure
        raise
    return ledger


@final
class Ledger:
    """An open file of an authority."""

    def __init__(self, path: str, database: Database, options: LocalOptions, world: World) -> None:
        self.path = path
        self.options = options
        self.limits = Limits()
        self._database = database
        self._world = world
        if self._one("SELECT value FROM fact WHERE name = 'epoch'") is None:
            with self.writing():
                database.execute(
                    "INSERT OR IGNORE INTO fact (name, value) VALUES ('epoch', ?)",
                    (world.token(),),
                )

    def close(self) -> None:
        """Close it."""
        self._database.close()

    # -------------------------------------------------------------------------------- transactions

    @contextmanager
    def reading(self) -> Generator[None]:
        """One moment of the file, for a block.

        Raises:
            AuthorityFailed, AuthorityUnusable: It could not be read.
        """
        with self._transaction("BEGIN", "ROLLBACK"):
            yield

    @contextmanager
    def writing(self) -> Generator[None]:
        """A transaction that is durable when the block is left, unless that raises.

        Raises:
            AuthorityFailed, AuthorityUnusable: It could not be written.
        """
        with self._transaction("BEGIN IMMEDIATE", "COMMIT"):
            yield

    @contextmanager
    def _transaction(self, begin: str, end: str) -> Generator[None]:
        database = self._database
        outcome: Outcome = "not-submitted"
        try:
            database.execute(begin)
            try:
                yield
            except BaseException:
                end = "ROLLBACK"
                raise
            finally:
                if end == "COMMIT":
                    outcome = "unknown"
                database.execute(end)
        except (apsw.Error, OSError) as failure:
            if database.in_transaction:
                with suppress(apsw.Error):
                    database.execute("ROLLBACK")
            if isinstance(failure, apsw.BusyError):
                outcome = "not-submitted"
            raise _failed(self.path, failure, outcome) from failure

    # --------------------------------------------------------------------------------- operating

    def create(self, room: str, title: str) -> None:
        """Make a room; one of a name that was used before begins at a later version."""
        check_name("a room's name", room)
        with self.writing():
            ended = self._one("SELECT version FROM ended WHERE name = ?", room)
            version = 0 if ended is None else _int(ended) + 1
            if self._one("SELECT id FROM room WHERE name = ?", room) is not None:
                raise ValueError(f"{room}: there is such a room")
            self._database.execute(
                "INSERT INTO room (name, title, version, floor) VALUES (?, ?, ?, ?)",
                (room, title, version, version),
            )
            self._database.execute("DELETE FROM ended WHERE name = ?", (room,))

    def remove(self, room: str) -> None:
        """End a room."""
        with self.writing():
            number, version, _ = self._find(room)
            for member in self._members(number):
                self._announce("revoked", room, member=member)
            for table in (
                "grants",
                "entry",
                "step",
                "client",
                "revision",
                "blob",
                "upload",
                "message",
            ):
                self._database.execute(f"DELETE FROM {table} WHERE room = ?", (number,))  # noqa: S608
            self._database.execute("DELETE FROM room WHERE id = ?", (number,))
            self._database.execute(
                "INSERT OR REPLACE INTO ended (name, version) VALUES (?, ?)", (room, version)
            )

    def grant(self, member: str, room: str, *, readonly: tuple[str, ...], selection: str) -> None:
        """Let a member read a room."""
        check_name("a member", member)
        with self.writing():
            number, _, _ = self._find(room)
            self._database.execute(
                "INSERT OR REPLACE INTO grants (member, room, selection, readonly)"
                " VALUES (?, ?, ?, ?)",
                (member, number, selection, _encode(readonly).decode()),
            )
            self._announce("relisted", room, member=member)

    def revoke(self, member: str, room: str) -> None:
        """Let a member not read a room any more."""
        with self.writing():
            number, _, _ = self._find(room)
            self._database.execute(
                "DELETE FROM grants WHERE member = ? AND room = ?", (member, number)
            )
            self._announce("revoked", room, member=member)

    def write(self, room: str, operations: tuple[Operation, ...], author: str) -> Answer:
        """Write as the operator, on what is there."""
        with self.writing():
            number, version, _ = self._find(room)
            return self._apply(number, room, version, operations, author, ())

    def put_blob(self, room: str, data: bytes) -> str:
        """Keep the bytes of a binary that the operator is going to write."""
        digest = digest_of(data)
        with self.writing():
            number, _, _ = self._find(room)
            self._database.execute(
                "INSERT OR IGNORE INTO blob (room, digest, size, data) VALUES (?, ?, ?, ?)",
                (number, digest, len(data), data),
            )
        return digest

    def trim(self, room: str, floor: int) -> None:
        """Forget what changed up to a version."""
        with self.writing():
            number, version, _ = self._find(room)
            self._trim(number, min(floor, version))

    def entries(self, room: str) -> tuple[Entry, ...]:
        """What is in a room."""
        with self.reading():
            number, _, _ = self._find(room)
            return tuple(self._entries(number, "", -1))

    def rooms(self) -> tuple[tuple[str, int], ...]:
        """The rooms and their versions."""
        with self.reading():
            return tuple(
                (str(name), _int(version))
                for name, version in self._database.execute(
                    "SELECT name, version FROM room ORDER BY id"
                )
            )

    def halt(self, *, halted: bool) -> None:
        """Let nobody write for the time being, or everybody again."""
        with self.writing():
            self._set_fact("halted", "yes" if halted else "no")
            self._announce("halted" if halted else "resumed", "")

    def begin_epoch(self) -> None:
        """Begin a new history: nothing that was known of this one holds any more."""
        with self.writing():
            self._set_fact("epoch", self._world.token())
            self._announce("relisted", "")

    def forget(self, room: str, client: str) -> None:
        """Forget what a client's last submission was answered."""
        with self.writing():
            number, _, _ = self._find(room)
            self._database.execute(
                "DELETE FROM client WHERE room = ? AND name = ?", (number, client)
            )

    # ----------------------------------------------------------------------------------- reading

    def discovery(self, member: str) -> tuple[Discovery, int]:
        """What is told to who connects, and from where to listen to what is announced then."""
        with self.reading():
            last = self.last_announcement()
            rooms = tuple(
                Listing(
                    str(name),
                    str(title),
                    _int(version),
                    str(selection),
                    () if readonly == "[]" else _paths(str(readonly)),
                    (),
                    str(said) if said else "",
                )
                for name, title, version, selection, readonly, said in self._database.execute(
                    "SELECT room.name, title, version, selection, readonly, said"
                    " FROM grants JOIN room ON room.id = grants.room"
                    " WHERE member = ? ORDER BY room.id",
                    (member,),
                )
            )
            epoch = str(self._one("SELECT value FROM fact WHERE name = 'epoch'"))
        terms = Terms(capabilities=CAPABILITIES, limits=self.limits)
        return Discovery(epoch, member, terms, rooms), last

    def expired(
        self, member: str, versions: Iterable[tuple[str, int]]
    ) -> tuple[tuple[str, ...], tuple[Announcement, ...], int]:
        """Of what is held: what is beyond the horizon, what is new, and from where to listen."""
        expired: list[str] = []
        news: list[Announcement] = []
        with self.reading():
            last = self.last_announcement()
            readable = {
                str(name): (_int(version), _int(floor))
                for name, version, floor in self._database.execute(
                    "SELECT name, version, floor FROM grants JOIN room ON room.id = grants.room"
                    " WHERE member = ?",
                    (member,),
                )
            }
            if self._one("SELECT value FROM fact WHERE name = 'halted'") == "yes":
                news.append(Writing(allowed=False))
        for room, held in versions:
            if room not in readable:
                news.append(Revoked(room))
                continue
            version, floor = readable[room]
            if not floor <= held <= version:
                expired.append(room)
            elif held < version:
                news.append(Announced(room, version))
        return tuple(expired), tuple(news), last

    def page(
        self, member: str, room: str, selection: str, token: str | None
    ) -> Page | Discontinued:
        """A page of a whole room."""
        with self.reading():
            number, version, floor, shown, _ = self._readable(member, room)
            if shown != selection:
                if token is not None:
                    return Discontinued()
                raise RoomRefused(room, "selection", retryable=True)
            due, after, since, begun = 0, "", -1, version
            if token is not None:
                try:
                    due, paths, since, begun = _token(token)
                except msgspec.MsgspecError:
                    return Discontinued()
                if not floor <= begun <= version:
                    return Discontinued()
                after = paths or ""
            transfer = f"{number}-{begun}"
            if since >= 0:
                changes = self._changes(number, room, since, version)
                following = None
                if changes.version < version:
                    following = _encode((due + 1, None, changes.version, begun)).decode()
                return Page(
                    room,
                    transfer,
                    due,
                    begun if following else changes.version,
                    changes.entries,
                    following,
                    changes.removed,
                )
            entries, whole = self._filled(number, after)
            following = None
            if not whole:
                following = _encode((due + 1, entries[-1].path, -1, begun)).decode()
            elif begun != version:
                following = _encode((due + 1, None, begun, begun)).decode()
            return Page(room, transfer, due, begun, tuple(entries), following)

    def since(self, member: str, room: str, since: int) -> Refreshed:
        """What is newer than a version."""
        with self.reading():
            number, version, floor, _, _ = self._readable(member, room)
            if not floor <= since <= version:
                return BeyondHorizon(room)
            if since == version:
                return Current(room, version)
            return self._changes(number, room, since, version)

    def history(self, member: str, room: str, path: str, token: str | None) -> HistoryPage:
        """Revisions of a path, the newest first."""
        try:
            check_path(path)
            before = 2**63 - 1 if token is None else int(token)
        except (TypeError, ValueError) as flaw:
            raise RoomRefused(room, "invalid", detail=str(flaw)) from flaw
        size = self.options.page_size
        with self.reading():
            number, *_ = self._readable(member, room)
            rows = self._database.execute(
                "SELECT revision, author, written, entry FROM revision"
                " WHERE room = ? AND path = ? AND revision < ? ORDER BY revision DESC LIMIT ?",
                (number, path, before, size + 1),
            ).fetchall()
        found = tuple(
            Revision(_int(revision), str(author), float(str(written)), _entry(_bytes(entry)))
            for revision, author, written, entry in rows[:size]
        )
        following = str(found[-1].revision) if len(rows) > size else None
        return HistoryPage(room, path, found, following)

    def binary(self, member: str, room: str, digest: str, offset: int, most: int) -> bytes:
        """Bytes of a binary."""
        with self.reading():
            number, *_ = self._readable(member, room)
            found = self._one(
                "SELECT substr(data, ?, ?) FROM blob WHERE room = ? AND digest = ?",
                max(offset, 0) + 1,
                max(most, 0),
                number,
                digest,
            )
        if not isinstance(found, bytes) or offset < 0 or most < 1:
            raise RoomRefused(room, "no-such-binary")
        return found

    def messages(self, member: str, room: str, position: str) -> MessagePage:
        """What was said after a position."""
        try:
            after = int(position or 0)
        except ValueError as flaw:
            raise RoomRefused(room, "invalid", detail="a position that is none") from flaw
        size = self.options.page_size
        with self.reading():
            number, *_ = self._readable(member, room)
            rows = self._database.execute(
                "SELECT position, thread, id, number, author, said, text FROM message"
                " WHERE room = ? AND position > ? ORDER BY position LIMIT ?",
                (number, after, size + 1),
            ).fetchall()
        messages = tuple(_message(row) for row in rows[:size])
        reached = str(rows[len(messages) - 1][0]) if messages else position
        return MessagePage(room, messages, reached, len(rows) > size)

    # ----------------------------------------------------------------------------------- writing

    def submitted(self, member: str, submission: Submission) -> Answer:
        """Apply a submission if it is new, and remember what it was answered."""
        room = submission.room
        try:
            check_name("a client", submission.client)
        except (TypeError, ValueError) as flaw:
            return Rejected("invalid", str(flaw))
        with self.writing():
            number, version, _, _, readonly = self._readable(member, room)
            row = self._database.execute(
                "SELECT sequence, answer FROM client WHERE room = ? AND member = ? AND name = ?",
                (number, member, submission.client),
            ).fetchone()
            remembered = None
            if row is not None:
                remembered = Remembered(_int(row[0]), _answer(_bytes(row[1])))
            known = recall(remembered, submission.sequence)
            if known is not None:
                return known
            if self._one("SELECT value FROM fact WHERE name = 'halted'") == "yes":
                return Halted()
            self._take_uploads(number, member, submission.operations)
            answer = self._apply(number, room, version, submission.operations, member, readonly)
            self._database.execute(
                "INSERT OR REPLACE INTO client (room, member, name, sequence, answer)"
                " VALUES (?, ?, ?, ?, ?)",
                (number, member, submission.client, submission.sequence, _encode(answer)),
            )
            return answer

    def uploaded(
        self, member: str, room: str, digest: str, size: int, offset: int, data: bytes
    ) -> int:
        """Take bytes of a binary; returns how many from the beginning are here."""
        if not is_digest(digest) or size < 0:
            raise RoomRefused(room, "invalid", detail="its digest or its size is none")
        if size > self.limits.max_binary_bytes:
            raise RoomRefused(room, "too-large", detail="max_binary_bytes")
        with self.writing():
            number, _, _, _, readonly = self._readable(member, room)
            if "" in readonly:
                raise RoomRefused(room, "read-only")
            held = self._one("SELECT size FROM blob WHERE room = ? AND digest = ?", number, digest)
            if held == size:
                return size
            key = (number, member, digest)
            received = _int(
                self._one(
                    "SELECT coalesce(sum(length(data)), 0) FROM upload"
                    " WHERE room = ? AND member = ? AND digest = ?",
                    *key,
                )
            )
            if offset != received or not data:
                return received
            if received + len(data) > size:
                raise RoomRefused(room, "invalid", detail="more bytes than its size")
            self._database.execute(
                "INSERT INTO upload (room, member, digest, start, data) VALUES (?, ?, ?, ?, ?)",
                (*key, received, data),
            )
            received += len(data)
            wrong = received == size and digest_of(self._received(key)) != digest
            if wrong:
                self._forget_upload(key)
        if wrong:
            raise RoomRefused(room, "invalid", detail="its bytes are not what its digest says")
        return received

    def spoken(self, member: str, room: str, thread: str, message: str, text: str) -> Message:
        """Append a message, unless this member said it before."""
        try:
            check_name("a thread", thread)
            check_name("a message", message)
            size = len(text.encode())
        except (TypeError, ValueError) as flaw:
            raise RoomRefused(room, "invalid", detail=str(flaw)) from flaw
        if size > self.limits.max_message_bytes:
            raise RoomRefused(room, "too-large", detail="max_message_bytes")
        with self.writing():
            number, *_ = self._readable(member, room)
            row = self._database.execute(
                "SELECT position, thread, id, number, author, said, text FROM message"
                " WHERE room = ? AND author = ? AND id = ?",
                (number, member, message),
            ).fetchone()
            if row is not None:
                return _message(row)
            if self._one("SELECT value FROM fact WHERE name = 'halted'") == "yes":
                raise RoomRefused(room, "halted", retryable=True)
            position = _int(self._one("SELECT said + 1 FROM room WHERE id = ?", number))
            place = _int(
                self._one(
                    "SELECT coalesce(max(number), 0) + 1 FROM message"
                    " WHERE room = ? AND thread = ?",
                    number,
                    thread,
                )
            )
            said = Message(thread, message, place, member, self._world.wall(), text)
            self._database.execute(
                "INSERT INTO message (room, position, thread, number, id, author, said, text)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (number, position, thread, place, message, member, said.at, text),
            )
            self._database.execute("UPDATE room SET said = ? WHERE id = ?", (position, number))
            self._announce("said", room, version=position)
            return said

    # --------------------------------------------------------------------------------- announcing

    def last_announcement(self) -> int:
        """The number of the newest announcement there ever was."""
        return _int(
            self._one(
                "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'announcement'), 0)"
            )
        )

    def announced(self, member: str, after: int) -> tuple[tuple[Announcement, ...], int]:
        """What was announced to a member after a number; and the newest number."""
        with self.reading():
            last = self.last_announcement()
            if last == after:
                return (), after
            rows = self._database.execute(
                "SELECT number, kind, room, version, member FROM announcement"
                " WHERE number > ? ORDER BY number",
                (after,),
            ).fetchall()
            if not rows or _int(rows[0][0]) != after + 1:
                return (Relisted(),), last
            readable = {
                str(name): _int(number)
                for name, number in self._database.execute(
                    "SELECT name, room.id FROM grants JOIN room ON room.id = grants.room"
                    " WHERE member = ?",
                    (member,),
                )
            }
            found = [
                announcement
                for row in rows
                if (announcement := self._announcement(member, row, readable)) is not None
            ]
        return tuple(found), last

    def _announcement(self, member: str, row: Row, readable: dict[str, int]) -> Announcement | None:
        _, kind, room, version, whose = row
        if whose is not None and whose != member:
            return None
        name = str(room)
        match kind:
            case "revoked":
                return None if name in readable else Revoked(name)
            case "relisted":
                return Relisted()
            case "halted" | "resumed":
                return Writing(allowed=kind == "resumed")
            case "said" if name in readable:
                return Said(name)
            case "changed" if name in readable:
                return Announced(name, _int(version), self._small(readable[name], name, version))
            case _:
                return None

    def _small(self, number: int, room: str, version: object) -> Advanced | None:
        row = self._database.execute(
            "SELECT version, written, removed FROM step"
            " WHERE room = ? AND version = ? AND bytes <= ?",
            (number, _int(version), self.options.change_bytes),
        ).fetchone()
        if row is None:
            return None
        at = _int(row[0])
        return Advanced(room, at - 1, at, _written(_bytes(row[1])), _paths(_bytes(row[2])))

    def _announce(
        self, kind: str, room: str, *, version: int = 0, member: str | None = None
    ) -> None:
        self._database.execute(
            "INSERT INTO announcement (kind, room, version, member) VALUES (?, ?, ?, ?)",
            (kind, room, version, member),
        )
        number = self._database.last_insert_rowid()
        self._database.execute(
            "DELETE FROM announcement WHERE number <= ?",
            (number - self.options.max_announcements,),
        )

    # -------------------------------------------------------------------------------- beneath it

    def _one(self, statement: str, *bindings: str | float | bytes | None) -> object:
        return self._database.execute(statement, bindings).get

    def _set_fact(self, name: str, value: str) -> None:
        self._database.execute(
            "INSERT OR REPLACE INTO fact (name, value) VALUES (?, ?)", (name, value)
        )

    def _find(self, room: str) -> tuple[int, int, int]:
        row = self._database.execute(
            "SELECT id, version, floor FROM room WHERE name = ?", (room,)
        ).fetchone()
        if row is None:
            raise ValueError(f"{room}: there is no such room")
        return _int(row[0]), _int(row[1]), _int(row[2])

    def _readable(self, member: str, room: str) -> tuple[int, int, int, str, tuple[str, ...]]:
        row = self._database.execute(
            "SELECT id, version, floor, selection, readonly"
            " FROM room JOIN grants ON grants.room = room.id AND member = ? WHERE name = ?",
            (member, room),
        ).fetchone()
        if row is None:
            raise RoomNotReadable(room)
        number, version, floor, selection, readonly = row
        roots = () if readonly == "[]" else _paths(str(readonly))
        return _int(number), _int(version), _int(floor), str(selection), roots

    def _members(self, number: int) -> tuple[str, ...]:
        return tuple(
            str(member)
            for (member,) in self._database.execute(
                "SELECT member FROM grants WHERE room = ?", (number,)
            ).fetchall()
        )

    def _entries(self, number: int, after: str, most: int) -> Iterator[Entry]:
        for path, revision, text, digest, size in self._database.execute(
            "SELECT path, revision, text, digest, size FROM entry"
            " WHERE room = ? AND path > ? ORDER BY path LIMIT ?",
            (number, after, most),
        ):
            yield _as_entry(path, revision, text, digest, size)

    def _filled(self, number: int, after: str) -> tuple[list[Entry], bool]:
        """Entries for a page, and whether they are the last."""
        page: list[Entry] = []
        size = 0
        for entry in self._entries(number, after, self.options.page_size + 1):
            if page and (len(page) == self.options.page_size or size > self.options.page_bytes):
                return page, False
            page.append(entry)
            size += len(entry.text) if isinstance(entry, Document) else 0
        return page, True

    def _changes(self, number: int, room: str, since: int, version: int) -> Advanced:
        """What changed since a version; as many steps as make a page, and one at least."""
        there: dict[str, Entry | None] = {}
        reached, size, count = since, 0, 0
        for at, large, written, removed in self._database.execute(
            "SELECT version, bytes, written, removed FROM step"
            " WHERE room = ? AND version > ? ORDER BY version",
            (number, since),
        ):
            entries, gone = _written(_bytes(written)), _paths(_bytes(removed))
            size += _int(large)
            count += len(entries) + len(gone)
            if reached > since and (
                size > self.options.page_bytes or count > self.options.page_size
            ):
                break
            for path in gone:
                there[path] = None
            for entry in entries:
                there[entry.path] = entry
            reached = _int(at)
        return Advanced(
            room,
            since,
            reached,
            tuple(entry for entry in there.values() if entry is not None),
            tuple(path for path, entry in there.items() if entry is None),
            reached < version,
        )

    def _take_uploads(self, number: int, member: str, operations: tuple[Operation, ...]) -> None:
        for operation in operations:
            if not isinstance(operation, PutBinary):
                continue
            key = (number, member, operation.digest)
            data = self._received(key)
            if digest_of(data) == operation.digest:
                self._database.execute(
                    "INSERT OR IGNORE INTO blob (room, digest, size, data) VALUES (?, ?, ?, ?)",
                    (number, operation.digest, len(data), data),
                )
                self._forget_upload(key)

    def _received(self, key: tuple[int, str, str]) -> bytes:
        return b"".join(
            _bytes(data)
            for (data,) in self._database.execute(
                "SELECT data FROM upload WHERE room = ? AND member = ? AND digest = ?"
                " ORDER BY start",
                key,
            )
        )

    def _forget_upload(self, key: tuple[int, str, str]) -> None:
        self._database.execute(
            "DELETE FROM upload WHERE room = ? AND member = ? AND digest = ?", key
        )

    def _apply(
        self,
        number: int,
        room: str,
        version: int,
        operations: tuple[Operation, ...],
        author: str,
        readonly: tuple[str, ...],
    ) -> Answer:
        ground = _Ground(self._database, number, version)
        decided = decide(operations, ground, readonly=readonly, limits=self.limits)
        if not isinstance(decided, Step):
            return decided
        database, at = self._database, self._world.wall()
        for path in decided.removed:
            database.execute("DELETE FROM entry WHERE room = ? AND path = ?", (number, path))
            self._remember(number, path, decided.version, author, at, None)
        for entry in decided.written:
            text, digest, size = _columns(entry)
            database.execute(
                "INSERT OR REPLACE INTO entry"
                " (room, path, folded, revision, text, digest, size) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (number, entry.path, folded(entry.path), entry.revision, text, digest, size),
            )
            self._remember(number, entry.path, decided.version, author, at, entry)
        written, removed = _encode(decided.written), _encode(decided.removed)
        database.execute(
            "INSERT INTO step (room, version, bytes, written, removed) VALUES (?, ?, ?, ?, ?)",
            (number, decided.version, len(written) + len(removed), written, removed),
        )
        database.execute(
            "UPDATE room SET version = ?, entries ="
            " (SELECT count(*) FROM entry WHERE entry.room = room.id) WHERE id = ?",
            (decided.version, number),
        )
        self._trim(number, decided.version - self.options.max_log)
        self._announce("changed", room, version=decided.version)
        return Accepted(decided.version)

    def _remember(
        self, number: int, path: str, revision: int, author: str, at: float, entry: Entry | None
    ) -> None:
        self._database.execute(
            "INSERT INTO revision (room, path, revision, author, written, entry)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (number, path, revision, author, at, _encode(entry)),
        )
        self._database.execute(
            "DELETE FROM revision WHERE room = ? AND path = ? AND revision <="
            " (SELECT revision FROM revision WHERE room = ? AND path = ?"
            " ORDER BY revision DESC LIMIT 1 OFFSET ?)",
            (number, path, number, path, self.options.max_revisions),
        )

    def _trim(self, number: int, floor: int) -> None:
        self._database.execute("DELETE FROM step WHERE room = ? AND version <= ?", (number, floor))
        self._database.execute(
            "UPDATE room SET floor = max(floor, ?) WHERE id = ?", (floor, number)
        )


@final
class _Ground:
    """A room as a submission finds it; implements `deciding.Ground`."""

    def __init__(self, database: Database, number: int, version: int) -> None:
        self._database = database
        self._number = number
        self.version = version

    @property
    def size(self) -> int:
        """How many entries it has."""
        return _int(
            self._database.execute("SELECT entries FROM room WHERE id = ?", (self._number,)).get
        )

    def entry(self, path: str, /) -> Entry | None:
        """What is at a path."""
        row = self._database.execute(
            "SELECT path, revision, text, digest, size FROM entry WHERE room = ? AND path = ?",
            (self._number, path),
        ).fetchone()
        return None if row is None else _as_entry(*row)

    def colliding(self, fold: str, /) -> str | None:
        """The path there is that is folded to this."""
        found = self._database.execute(
            "SELECT path FROM entry WHERE room = ? AND folded = ?", (self._number, fold)
        ).get
        return found if isinstance(found, str) else None

    def bytes_of(self, digest: str, /) -> int | None:
        """How many bytes a binary has that is here."""
        found = self._database.execute(
            "SELECT size FROM blob WHERE room = ? AND digest = ?", (self._number, digest)
        ).get
        return found if isinstance(found, int) else None


def _as_entry(path: object, revision: object, text: object, digest: object, size: object) -> Entry:
    if isinstance(text, str):
        return Document(str(path), _int(revision), text)
    return Binary(str(path), _int(revision), str(digest), _int(size))


def _columns(entry: Entry) -> tuple[str | None, str | None, int | None]:
    if isinstance(entry, Document):
        return entry.text, None, None
    return None, entry.digest, entry.size


def _message(row: Row) -> Message:
    _, thread, message, number, author, said, text = row
    return Message(
        str(thread), str(message), _int(number), str(author), float(str(said)), str(text)
    )


def _int(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"a number is a {type(value).__name__}")
    return value


def _bytes(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(f"bytes are a {type(value).__name__}")
    return value


def _failed(path: str, failure: apsw.Error | OSError, outcome: Outcome) -> ReactorError:
    detail = str(failure)
    match "damaged" if isinstance(failure, apsw.SQLError) else trouble_of(failure):
        case "damaged":
            return AuthorityUnusable(
                f"{path}: this is not an authority, or it is damaged", path=path, detail=detail
            )
        case "read-only":
            return AuthorityUnusable(
                f"{path}: this authority is read-only", path=path, detail=detail
            )
        case "busy":
            return AuthorityFailed(
                f"{path}: other processes are using this authority",
                path=path,
                outcome="not-submitted",
                retryable=True,
                detail=detail,
            )
        case "full":
            what = "there is no room for this authority"
        case "gone":
            what = "this authority is gone"
        case _:
            what = f"this authority could not be used: {type(failure).__name__}"
    return AuthorityFailed(f"{path}: {what}", path=path, outcome=outcome, detail=detail)
