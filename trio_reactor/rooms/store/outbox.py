"""The outbox: edits that wait for the authority, in their order, and drafts that were given back.

One edit of a room is on its way at a time, the first.  It is marked submitted, under a name of its
own, before it is sent, so that whoever does not know what became of it asks again under that name.

All of this runs in the store's thread, inside a transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, final

import msgspec

from trio_reactor.rooms.errors import EditRefused, PathRefused, TooLarge
from trio_reactor.rooms.model.answers import Clash
from trio_reactor.rooms.model.edits import (
    Delete,
    Move,
    Operation,
    Put,
    PutBinary,
    Submission,
    paths_of,
)
from trio_reactor.rooms.model.entries import Binary, Document, Entry
from trio_reactor.rooms.model.held import Draft, DraftReason, QueuedEdit, Step
from trio_reactor.rooms.model.paths import beneath, check_path, folded
from trio_reactor.rooms.model.terms import Limits
from trio_reactor.sqlite import Database, Row

from .overlay import Overlay, entry_of

__all__ = ["KEPT_ACCEPTED", "Outbox"]

KEPT_ACCEPTED: Final = 64
"""How many of the edits that were accepted last are remembered of each room: an authority that was
restored from an old copy has forgotten them, and they are offered again."""

_encode = msgspec.json.Encoder().encode
_steps = msgspec.json.Decoder(tuple[Step, ...]).decode
_clashes = msgspec.json.Decoder(tuple[Clash, ...]).decode


@final
class Outbox:
    """The edits and drafts of the rooms of an open store."""

    def __init__(self, database: Database, overlay: Overlay) -> None:
        self._database = database
        self._overlay = overlay

    # ------------------------------------------------------------------------------------ reading

    def edits(self, room: int) -> tuple[QueuedEdit, ...]:
        """The edits of a room that are not here yet, in their order."""
        return tuple(
            _edit(row)
            for row in self._database.execute(
                "SELECT id, state, steps, client, sequence, version FROM edit"
                " WHERE room = ? ORDER BY id",
                (room,),
            )
        )

    def drafts(self, room: int) -> tuple[Draft, ...]:
        """The drafts of a room, in the order in which they were given back."""
        return tuple(
            _draft(row)
            for row in self._database.execute(
                "SELECT id, written, reason, code, detail, steps, theirs FROM draft"
                " WHERE room = ? ORDER BY id",
                (room,),
            )
        )

    # ------------------------------------------------------------------------------------ queuing

    def queue(
        self,
        room: int,
        name: str,
        operations: Sequence[Operation],
        *,
        seen: Mapping[str, int],
        readonly: Sequence[str],
        limits: Limits,
        most: int,
    ) -> tuple[QueuedEdit, frozenset[str]]:
        """Queue an edit, and lay it over what is seen.

        Args:
            room: Of which room.
            name: Its name, for messages.
            operations: What it does; their bases are set here.
            seen: The revisions that its author saw, where that is to be checked.
            readonly: What of the room may not be written.
            limits: What the authority takes.
            most: How many edits of a room may wait.

        Returns:
            The edit, and the paths at which something else is seen now.

        Raises:
            EditRefused, PathRefused, TooLarge: Nothing was queued.
        """
        waiting = self._database.execute("SELECT count(*) FROM edit WHERE room = ?", (room,)).get
        if isinstance(waiting, int) and waiting >= most:
            raise TooLarge(
                f"{name}: {waiting} edits wait already; max_queued is {most}",
                bound="max_queued",
                limit=most,
                retryable=True,
            )
        _check_size(name, operations, limits)
        touched: set[str] = set()
        places: set[str] = set()
        closed = [folded(root) for root in readonly]
        steps: list[Step] = []
        for given in operations:
            operation = _normal(name, given)
            paths = paths_of(operation)
            for path in paths:
                place = folded(path)
                if place in places:
                    raise EditRefused(name, path, "invalid", "an edit changes a path once")
                # Elsewhere a directory may be this one though it is spelled in another case.
                if any(beneath(root, place) for root in closed):
                    raise EditRefused(name, path, "read-only", "this path may not be written")
            touched.update(paths)
            places.update(map(folded, paths))
            steps.append(self._step(room, name, operation, seen))
        edit = self._insert(room, tuple(steps))
        for step in steps:
            self._overlay.lay(room, step.operation)
        return edit, frozenset(touched)

    def _step(self, room: int, name: str, operation: Operation, seen: Mapping[str, int]) -> Step:
        path = operation.path
        there = self._overlay.seen(room, path)
        if path in seen and (there is None or there.entry.revision != seen[path]):
            code, what = (
                ("gone", "it was deleted") if there is None else ("stale", "it was changed")
            )
            raise EditRefused(name, path, code, f"{what} since revision {seen[path]} was read")
        if there is None:
            if not isinstance(operation, Put | PutBinary):
                raise EditRefused(name, path, "gone", "there is nothing at this path")
            self._check_free(room, name, path)
        if isinstance(operation, Move):
            if operation.to == path:
                raise EditRefused(name, path, "invalid", "it is moved to where it is")
            self._check_free(room, name, operation.to, but=path)
        follows, base = False, None
        if self._overlay.is_covered(room, path):
            follows, base = self._following(room, path)
        elif there is not None:
            base = there.entry.revision
        was = there.entry.text if there is not None and isinstance(there.entry, Document) else None
        return Step(
            msgspec.structs.replace(operation, base=base),
            follows=follows,
            was=was if isinstance(operation, Put) else None,
        )

    def _following(self, room: int, path: str) -> tuple[bool, int | None]:
        """Whether the last edit of a path is still to be accepted; else what it is there now."""
        for edit in reversed(self.edits(room)):
            if path in _paths(edit):
                if edit.state != "accepted":
                    return True, None
                return False, edit.version if path in _written(edit) else None
        return False, None

    def _check_free(self, room: int, name: str, path: str, *, but: str | None = None) -> None:
        taken = self._overlay.taken_by(room, path)
        if taken is None or taken == but:
            return
        if taken == path:
            raise EditRefused(name, path, "exists", "there is something at this path")
        raise EditRefused(name, path, "collision", f"it cannot be told from {taken!r} everywhere")

    def _insert(self, room: int, steps: tuple[Step, ...]) -> QueuedEdit:
        self._database.execute(
            "INSERT INTO edit (room, state, steps) VALUES (?, 'queued', ?)", (room, _encode(steps))
        )
        return QueuedEdit(self._database.last_insert_rowid(), "queued", steps)

    # ---------------------------------------------------------------------------------- submitting

    def head(self, room: int) -> QueuedEdit | None:
        """The first edit that has still to be taken by the authority."""
        row = self._database.execute(
            "SELECT id, state, steps, client, sequence, version FROM edit"
            " WHERE room = ? AND state != 'accepted' ORDER BY id LIMIT 1",
            (room,),
        ).fetchone()
        return None if row is None else _edit(row)

    def mark(self, room: int, name: str) -> Submission | None:
        """Mark the first edit as submitted; one that is already stays what it is.

        Returns:
            What is to be sent; `None`: nothing waits.
        """
        head = self.head(room)
        if head is None:
            return None
        operations = tuple(step.operation for step in head.steps)
        if head.state == "submitted":
            assert head.client is not None and head.sequence is not None  # noqa: S101, PT018
            return Submission(name, head.client, head.sequence, operations)
        self._database.execute("UPDATE room SET sequence = sequence + 1 WHERE id = ?", (room,))
        row = self._database.execute(
            "SELECT client, sequence FROM room WHERE id = ?", (room,)
        ).fetchone()
        assert row is not None  # noqa: S101 - the room is there
        client, sequence = row
        self._database.execute(
            "UPDATE edit SET state = 'submitted', client = ?, sequence = ? WHERE id = ?",
            (client, sequence, head.id),
        )
        assert isinstance(client, str) and isinstance(sequence, int)  # noqa: S101, PT018
        return Submission(name, client, sequence, operations)

    def accept(self, room: int, edit: QueuedEdit, version: int) -> None:
        """Record that an edit was accepted, and what that makes of those that follow it."""
        self._database.execute(
            "UPDATE edit SET state = 'accepted', version = ? WHERE id = ?", (version, edit.id)
        )
        self._database.execute(
            "INSERT OR REPLACE INTO accepted (room, version, steps) VALUES (?, ?, ?)",
            (room, version, _encode(edit.steps)),
        )
        self._database.execute(
            "DELETE FROM accepted WHERE room = ? AND version NOT IN"
            " (SELECT version FROM accepted WHERE room = ? ORDER BY version DESC LIMIT ?)",
            (room, room, KEPT_ACCEPTED),
        )
        written = frozenset(_written(edit))
        paths = _paths(edit)
        for later in self.edits(room):
            if later.id <= edit.id or paths.isdisjoint(_paths(later)):
                continue
            steps = tuple(_resolved(step, paths, written, version) for step in later.steps)
            if steps != later.steps:
                self._database.execute(
                    "UPDATE edit SET steps = ? WHERE id = ?", (_encode(steps), later.id)
                )
            paths = paths - _paths(later)  # whatever comes after follows that one

    def results(self, room: int, edit: QueuedEdit, version: int) -> tuple[Entry | None, ...]:
        """What an edit makes of its paths once it is accepted; `None` for one that it empties.

        What it moves is what is confirmed: every edit that was accepted before has to be here.
        """
        found: list[Entry | None] = []
        for step in edit.steps:
            match step.operation:
                case Put(path=path, text=text):
                    found.append(Document(path, version, text))
                case PutBinary(path=path, digest=digest, size=size):
                    found.append(Binary(path, version, digest, size))
                case Delete():
                    found.append(None)
                case Move(path=path, to=to):
                    content = self._overlay.confirmed(room, path)
                    moved = entry_of(to, (version, *content[1:]))
                    found.extend((None, moved))
        return tuple(found)

    def arrive(self, room: int, version: int) -> frozenset[str]:
        """Let go of the accepted edits that are in this version; what is confirmed is seen then.

        Returns:
            The paths that nothing lies over any more.
        """
        edits = self.edits(room)
        arrived = [
            edit
            for edit in edits
            if edit.state == "accepted" and edit.version is not None and edit.version <= version
        ]
        if not arrived:
            return frozenset()
        gone = {edit.id for edit in arrived}
        self._database.executemany("DELETE FROM edit WHERE id = ?", [(number,) for number in gone])
        still = frozenset(
            folded(path) for edit in edits if edit.id not in gone for path in _paths(edit)
        )
        # What collides with a path that was covered lies beneath as well.
        freed = [path for path in self._overlay.covered(room) if folded(path) not in still]
        # A path that is empty now may collide with one that is not.
        freed.sort(key=lambda path: self._overlay.confirmed(room, path)[0] or 0)
        for path in freed:
            self._overlay.uncover(room, path)
        return frozenset(freed)

    def settle(self, room: int, paths: Collection[str]) -> frozenset[str]:
        """Let what is seen follow from what was confirmed anew at paths, where edits cover those.

        Returns:
            Other paths at which something else may be seen now.
        """
        anew = frozenset(paths)
        places = frozenset(map(folded, anew))
        based: dict[str, bool] = {}
        for edit in self.edits(room):
            for step in edit.steps:
                for path in paths_of(step.operation):
                    if folded(path) not in places:
                        continue
                    if path not in anew or isinstance(step.operation, Move):
                        # What is seen elsewhere comes from here, or another spelling was written.
                        return self.relay(room)
                    based[path] = isinstance(step.operation, Put | PutBinary)
        for path, there in based.items():
            if there:
                self._overlay.renew(room, path)
        return frozenset()

    # --------------------------------------------------------------------------------- giving back

    def requeue(self, edit: QueuedEdit, steps: tuple[Step, ...] | None = None) -> None:
        """Let an edit be sent as a new one; it was certainly not applied."""
        self._database.execute(
            "UPDATE edit SET state = 'queued', client = NULL, sequence = NULL, steps = ?"
            " WHERE id = ?",
            (_encode(edit.steps if steps is None else steps), edit.id),
        )

    def relay(self, room: int) -> frozenset[str]:
        """Lay the edits of a room over what is confirmed once more.  Returns the paths touched."""
        lifted = self._overlay.lift(room)
        paths = set(lifted)
        for edit in self.edits(room):
            for step in edit.steps:
                self._overlay.lay(room, step.operation)
                paths.update(paths_of(step.operation))
        return frozenset(paths)

    def give_back(
        self,
        room: int,
        edit: QueuedEdit,
        reason: DraftReason,
        *,
        written: float,
        code: str = "",
        detail: str | None = None,
        theirs: tuple[Clash, ...] = (),
    ) -> tuple[tuple[Draft, ...], frozenset[str]]:
        """Make an edit a draft, and with it those that build on it.

        Returns:
            The drafts, and the paths at which something else may be seen now.
        """
        lost, places = set(_paths(edit)), set(map(folded, _paths(edit)))
        given: list[tuple[QueuedEdit, DraftReason, str, str | None, tuple[Clash, ...]]]
        given = [(edit, reason, code, detail, theirs)]
        for later in self.edits(room):
            # One that took the place of what an edit deleted or moved builds on it, too.
            if later.id > edit.id and not places.isdisjoint(map(folded, _paths(later))):
                lost |= _paths(later)
                places.update(map(folded, _paths(later)))
                given.append((later, "follows", "", None, ()))
        drafts = tuple(
            self.draft(
                room,
                back.steps,
                why,
                written=written,
                code=word,
                detail=said,
                theirs=clashes,
            )
            for back, why, word, said, clashes in given
        )
        self._database.executemany(
            "DELETE FROM edit WHERE id = ?", [(back.id,) for back, *_ in given]
        )
        return drafts, self.relay(room) | frozenset(lost)

    def draft(
        self,
        room: int,
        steps: tuple[Step, ...],
        reason: DraftReason,
        *,
        written: float,
        code: str = "",
        detail: str | None = None,
        theirs: tuple[Clash, ...] = (),
    ) -> Draft:
        """Keep a draft."""
        self._database.execute(
            "INSERT INTO draft (room, written, reason, code, detail, steps, theirs)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (room, written, reason, code, detail, _encode(steps), _encode(theirs)),
        )
        number = self._database.last_insert_rowid()
        return Draft(number, written, reason, code, detail, steps, theirs)

    def discard(self, room: int, draft: int) -> bool:
        """Delete a draft; returns whether it was there."""
        self._database.execute("DELETE FROM draft WHERE room = ? AND id = ?", (room, draft))
        return self._database.changes() > 0

    def offer_again(self, room: int, version: int, *, written: float) -> tuple[Draft, ...]:
        """Make drafts of what was accepted after a version that the authority went back to."""
        rows = self._database.execute(
            "SELECT steps FROM accepted WHERE room = ? AND version > ? ORDER BY version",
            (room, version),
        ).fetchall()
        self._database.execute(
            "DELETE FROM accepted WHERE room = ? AND version > ?", (room, version)
        )
        return tuple(
            self.draft(room, _steps(bytes(steps)), "restored", written=written)
            for (steps,) in rows
            if isinstance(steps, bytes)
        )


def _paths(edit: QueuedEdit) -> frozenset[str]:
    return frozenset(path for step in edit.steps for path in paths_of(step.operation))


def _written(edit: QueuedEdit) -> Iterator[str]:
    """The paths at which there is something after an edit."""
    for step in edit.steps:
        match step.operation:
            case Put(path=path) | PutBinary(path=path) | Move(to=path):
                yield path
            case Delete():
                pass


def _resolved(step: Step, paths: frozenset[str], written: frozenset[str], version: int) -> Step:
    """A step of a later edit, based on what an accepted one made of its path."""
    if not step.follows or step.operation.path not in paths:
        return step
    base = version if step.operation.path in written else None
    return Step(msgspec.structs.replace(step.operation, base=base), follows=False, was=step.was)


def _normal(name: str, operation: Operation) -> Operation:
    """The operation with its paths in their one spelling."""
    path = operation.path
    try:
        path = check_path(operation.path)
        if isinstance(operation, Move):
            return Move(path, check_path(operation.to))
    except (TypeError, ValueError) as flaw:
        raise PathRefused(name, str(path)[:64], str(flaw)) from flaw
    return msgspec.structs.replace(operation, path=path)


def _check_size(name: str, operations: Iterable[Operation], limits: Limits) -> None:
    count = whole = 0
    for operation in operations:
        count += 1
        match operation:
            case Put(text=text):
                bound, most = "max_document_bytes", limits.max_document_bytes
                try:
                    size = len(text.encode())
                except UnicodeEncodeError as flaw:
                    raise EditRefused(
                        name, operation.path, "invalid", "its text cannot be encoded"
                    ) from flaw
                whole += size
            case PutBinary(size=size):
                bound, most = "max_binary_bytes", limits.max_binary_bytes
            case _:
                continue
        if size > most:
            raise TooLarge(
                f"{name}: {operation.path}: it has {size} bytes; {bound} is {most}",
                bound=bound,
                limit=most,
            )
    if not count:
        raise ValueError("an edit does something")
    for bound, value, most in (
        ("max_operations", count, limits.max_operations),
        ("max_submission_bytes", whole, limits.max_submission_bytes),
    ):
        if value > most:
            raise TooLarge(
                f"{name}: an edit of {value}; {bound} is {most}", bound=bound, limit=most
            )


def _edit(row: Row) -> QueuedEdit:
    number, state, steps, client, sequence, version = row
    return msgspec.convert(
        {
            "id": number,
            "state": state,
            "steps": _steps(bytes(steps) if isinstance(steps, bytes) else b""),
            "client": client,
            "sequence": sequence,
            "version": version,
        },
        QueuedEdit,
    )


def _draft(row: Row) -> Draft:
    number, written, reason, code, detail, steps, theirs = row
    return msgspec.convert(
        {
            "id": number,
            "written": written,
            "reason": reason,
            "code": code,
            "detail": detail,
            "steps": _steps(bytes(steps) if isinstance(steps, bytes) else b""),
            "theirs": _clashes(bytes(theirs) if isinstance(theirs, bytes) else b""),
        },
        Draft,
    )
