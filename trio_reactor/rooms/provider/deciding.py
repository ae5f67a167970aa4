"""What an authority answers to a submission: pure, for authorities of any kind.

A submission is looked at as a whole before anything is changed, in this order:

1. whether the very same one was answered before (`recall`);
2. whether it can be at all: its shape, its paths, and that no path is named twice;
3. whether it is allowed: read-only directories, sizes, and that a binary's bytes are here;
4. whether it is based on what is there: all bases refer to the room *before* the submission, and
   every path that is another than its author saw is named in the conflict;
5. whether the room it leaves can be: no two of its paths collide, and there are not too many.

So operations of one submission see each other's effects only in the last step: a document may be
deleted and another one written whose path would collide with it, in whichever order they are named.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias, assert_never

import msgspec

from trio_reactor.rooms.model.answers import Answer, Clash, Conflicted, Rejected, Unknown
from trio_reactor.rooms.model.edits import Delete, Move, Operation, Put, PutBinary, paths_of
from trio_reactor.rooms.model.entries import Binary, Document, Entry, is_digest
from trio_reactor.rooms.model.paths import beneath, check_path, folded
from trio_reactor.rooms.model.terms import Limits

__all__ = ["Decided", "Ground", "Remembered", "Step", "decide", "moved", "recall"]


class Ground(Protocol):
    """The room that a submission is put to, before it."""

    @property
    def version(self) -> int:
        """Which version it is at."""
        ...

    @property
    def size(self) -> int:
        """How many entries it has."""
        ...

    def entry(self, path: str, /) -> Entry | None:
        """What is at a path."""
        ...

    def colliding(self, fold: str, /) -> str | None:
        """The path there is that is folded to this, if there is one."""
        ...

    def bytes_of(self, digest: str, /) -> int | None:
        """How many bytes the binary of this digest has, if all of them are here."""
        ...


class Remembered(msgspec.Struct, frozen=True):
    """What an authority remembers of a client in a room."""

    sequence: int
    """Its last submission."""
    answer: Answer
    """What that was answered."""


class Step(msgspec.Struct, frozen=True):
    """What an accepted submission changes, as one step."""

    version: int
    """What the room's version becomes."""
    written: tuple[Entry, ...]
    removed: tuple[str, ...]


Decided: TypeAlias = Step | Conflicted | Rejected


def recall(remembered: Remembered | None, sequence: int) -> Answer | None:
    """The answer to a submission that is not new; `None`: it is new, and has to be decided.

    Args:
        remembered: What is remembered of its client in its room; `None`: nothing.
        sequence: Which of its client's it is.
    """
    last = 0 if remembered is None else remembered.sequence
    if remembered is not None and sequence == last:
        return remembered.answer
    return None if sequence == last + 1 else Unknown()


def decide(
    operations: tuple[Operation, ...],
    ground: Ground,
    *,
    readonly: tuple[str, ...] = (),
    limits: Limits,
) -> Decided:
    """What becomes of operations that are new.

    Args:
        operations: What is to be done, as one step.
        ground: The room before it.
        readonly: The directories that its author may not write.
        limits: What is taken at most.
    """
    refused = (
        _misshapen(operations, limits)
        or _forbidden(operations, readonly)
        or _oversized(operations, limits)
        or _unsent(operations, ground)
    )
    if refused is not None:
        return refused
    clashes = tuple(clash for operation in operations for clash in _clashes(operation, ground))
    if clashes:
        return Conflicted(clashes)
    if any(
        isinstance(operation, Delete | Move) and operation.base is None for operation in operations
    ):
        return Rejected("invalid", "there is nothing to delete or move at one of its paths")
    step = _step(operations, ground)
    return _impossible(step, ground, limits) or step


def moved(entry: Entry, path: str, revision: int) -> Entry:
    """What an entry is when it was moved."""
    return msgspec.structs.replace(entry, path=path, revision=revision)


def _misshapen(operations: tuple[Operation, ...], limits: Limits) -> Rejected | None:
    if not operations:
        return Rejected("invalid", "a submission without an operation")
    if len(operations) > limits.max_operations:
        return Rejected("too-large", f"max_operations is {limits.max_operations}")
    seen: set[str] = set()
    for operation in operations:
        for path in paths_of(operation):
            try:
                normal = check_path(path)
            except (TypeError, ValueError) as flaw:
                return Rejected("invalid", str(flaw))
            if normal != path:
                return Rejected("invalid", f"{normal}: this path is not in its one spelling")
            if path in seen:
                return Rejected("invalid", f"{path}: named twice in one submission")
            seen.add(path)
        if isinstance(operation, PutBinary) and not is_digest(operation.digest):
            return Rejected("invalid", f"{operation.path}: its digest is none")
    return None


def _forbidden(operations: tuple[Operation, ...], readonly: tuple[str, ...]) -> Rejected | None:
    for operation in operations:
        for path in paths_of(operation):
            # A file system that takes two spellings for one takes them for one here too.
            if any(beneath(folded(root), folded(path)) for root in readonly):
                return Rejected("read-only", f"{path}: this may not be written")
    return None


def _oversized(operations: tuple[Operation, ...], limits: Limits) -> Rejected | None:
    together = 0
    for operation in operations:
        if isinstance(operation, Put):
            try:
                size = len(operation.text.encode())
            except UnicodeEncodeError:
                return Rejected("invalid", f"{operation.path}: its text cannot be encoded")
            together += size
            if size > limits.max_document_bytes:
                return Rejected("too-large", f"max_document_bytes is {limits.max_document_bytes}")
        elif isinstance(operation, PutBinary) and not (
            0 <= operation.size <= limits.max_binary_bytes
        ):
            return Rejected("too-large", f"max_binary_bytes is {limits.max_binary_bytes}")
    if together > limits.max_submission_bytes:
        return Rejected("too-large", f"max_submission_bytes is {limits.max_submission_bytes}")
    return None


def _unsent(operations: tuple[Operation, ...], ground: Ground) -> Rejected | None:
    for operation in operations:
        if not isinstance(operation, PutBinary):
            continue
        size = ground.bytes_of(operation.digest)
        if size is None:
            return Rejected("missing-binary", f"{operation.path}: its bytes were not sent")
        if size != operation.size:
            return Rejected("invalid", f"{operation.path}: its bytes are {size}")
    return None


def _clashes(operation: Operation, ground: Ground) -> list[Clash]:
    found: list[Clash] = []
    current = ground.entry(operation.path)
    if (None if current is None else current.revision) != operation.base:
        found.append(Clash(operation.path, current))
    if isinstance(operation, Move):
        there = ground.entry(operation.to)
        if there is not None:
            found.append(Clash(operation.to, there))
    return found


def _step(operations: tuple[Operation, ...], ground: Ground) -> Step:
    version = ground.version + 1
    written: list[Entry] = []
    removed: list[str] = []
    for operation in operations:
        match operation:
            case Put(path, text):
                written.append(Document(path, version, text))
            case PutBinary(path, digest, size):
                written.append(Binary(path, version, digest, size))
            case Delete(path):
                removed.append(path)
            case Move(path, to):
                entry = ground.entry(path)
                assert entry is not None  # noqa: S101 - its base is the revision of what is there
                removed.append(path)
                written.append(moved(entry, to, version))
            case _ as never:
                assert_never(never)
    return Step(version, tuple(written), tuple(removed))


def _impossible(step: Step, ground: Ground, limits: Limits) -> Rejected | None:
    gone = frozenset(step.removed)
    folds: dict[str, str] = {}
    grown = -len(gone)
    for entry in step.written:
        fold = folded(entry.path)
        there = _still_there(ground, fold, gone) or folds.get(fold)
        if there is not None and there != entry.path:
            return Rejected("collision", f"{entry.path}: it cannot be beside {there}")
        folds[fold] = entry.path
        grown += ground.entry(entry.path) is None
    if grown > 0 and ground.size + grown > limits.max_entries:
        return Rejected("too-large", f"max_entries is {limits.max_entries}")
    return None


def _still_there(ground: Ground, fold: str, gone: frozenset[str]) -> str | None:
    path = ground.colliding(fold)
    return None if path in gone else path
