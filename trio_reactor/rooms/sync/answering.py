"""What an authority's answer to an edit leads to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias, assert_never

import msgspec

from trio_reactor.rooms.model.answers import (
    Accepted,
    Answer,
    Clash,
    Conflicted,
    Expired,
    Halted,
    Rejected,
    Retry,
    Unknown,
)
from trio_reactor.rooms.model.edits import Put
from trio_reactor.rooms.model.entries import Document
from trio_reactor.rooms.model.held import DraftReason, QueuedEdit, Step

__all__ = ["Again", "Anew", "Back", "Consequence", "Hold", "Land", "Merge", "consequence", "merged"]

Merge: TypeAlias = Callable[[str, str, str], str | None]
"""Merges (base, mine, theirs) into one text; `None`: it cannot."""


class Land(msgspec.Struct, frozen=True):
    """It was accepted: record that, then let the replica move."""

    version: int


class Anew(msgspec.Struct, frozen=True):
    """It was certainly not applied: send it as a new one, with these steps."""

    steps: tuple[Step, ...] | None
    """`None`: as it is, once what is new has been read."""


class Back(msgspec.Struct, frozen=True):
    """It is given back as a draft."""

    reason: DraftReason
    code: str = ""
    detail: str | None = None
    theirs: tuple[Clash, ...] = ()


class Again(msgspec.Struct, frozen=True):
    """The same is sent again after this many seconds."""

    after: float


class Hold(msgspec.Struct, frozen=True):
    """Nothing is sent until writing is allowed again."""


Consequence: TypeAlias = Land | Anew | Back | Again | Hold


def consequence(
    answer: Answer, edit: QueuedEdit, merge_of: Callable[[str], Merge | None]
) -> Consequence:
    """What an answer leads to.

    Args:
        answer: What the authority said.
        edit: What was submitted.
        merge_of: How documents at a path are merged, if they are.
    """
    match answer:
        case Accepted(version=version):
            return Land(version)
        case Conflicted(clashes=clashes):
            steps = merged(edit.steps, {clash.path: clash for clash in clashes}, merge_of)
            if steps is not None:
                return Anew(steps)
            return Back("conflict", "conflict", None, clashes)
        case Rejected(code=code, detail=detail):
            return Back("rejected", code, detail)
        case Expired():
            return Anew(None)
        case Retry(after=after):
            return Again(after)
        case Halted():
            return Hold()
        case Unknown():
            return Back("unknown", "unknown")
        case _:
            assert_never(answer)


def merged(
    steps: tuple[Step, ...],
    clashes: Mapping[str, Clash],
    merge_of: Callable[[str], Merge | None],
) -> tuple[Step, ...] | None:
    """The steps, with each text that clashed merged with theirs; `None`: one of them cannot be."""
    found: list[Step] = []
    for step in steps:
        clash = clashes.get(step.operation.path)
        if clash is None:
            found.append(step)
            continue
        operation, theirs = step.operation, clash.current
        if not isinstance(operation, Put) or not isinstance(theirs, Document) or step.was is None:
            return None
        merge = merge_of(operation.path)
        text = None if merge is None else merge(step.was, operation.text, theirs.text)
        if text is None:
            return None
        found.append(Step(Put(operation.path, text, theirs.revision), was=theirs.text))
    remaining = clashes.keys() - {step.operation.path for step in steps}
    return None if remaining else tuple(found)
