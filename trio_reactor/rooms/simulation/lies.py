"""What a provider that breaks the contract answers in the place of what is true.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

import msgspec

from trio_reactor.rooms.model.answers import (
    Accepted,
    Advanced,
    Answer,
    Clash,
    Conflicted,
    Discontinued,
    Page,
    Refreshed,
)
from trio_reactor.rooms.model.entries import Document, Entry
from trio_reactor.rooms.model.terms import Discovery, Limits, Listing, Terms
from trio_reactor.rooms.provider.protocol import Announced, Announcement

__all__ = ["LIES", "Lie", "about_announcement", "about_answer", "about_change", "about_discovery"]
__all__ += ["about_page"]

Lie: TypeAlias = Literal[
    "another-room",
    "another-path",
    "another-transfer",
    "another-member",
    "another-contract",
    "backwards",
    "bad-name",
    "bad-path",
    "both",
    "collision",
    "from-elsewhere",
    "newer-than-it",
    "no-epoch",
    "nothing",
    "out-of-order",
    "repeated",
    "too-large",
    "twice",
]
"""What is wrong with what is answered:

- `another-room`, `another-path`, `another-transfer`, `another-member`, `another-contract`: it is
  about another one, or of one;
- `backwards`: its version is an older one;
- `bad-name`, `bad-path`: a room's name or a path that cannot be is in it;
- `both`: a path is both written and removed;
- `collision`: two of its paths are one to some file systems;
- `from-elsewhere`: a change that leads on from another version than was asked about;
- `newer-than-it`: an entry is of a later revision than the version it is in;
- `no-epoch`: no epoch is named;
- `nothing`: a conflict about nothing;
- `out-of-order`, `repeated`: the page is numbered as the one after it, or is the one before it;
- `too-large`: a text is over the limit that the authority names;
- `twice`: a room is listed twice.
"""

LIES: Final[Mapping[str, tuple[Lie, ...]]] = {
    "discover": (
        "twice",
        "backwards",
        "bad-name",
        "no-epoch",
        "another-member",
        "another-contract",
    ),
    "bootstrap": (
        "another-room",
        "another-transfer",
        "backwards",
        "bad-path",
        "both",
        "collision",
        "newer-than-it",
        "out-of-order",
        "repeated",
        "too-large",
    ),
    "refresh": (
        "another-room",
        "backwards",
        "bad-path",
        "both",
        "collision",
        "from-elsewhere",
        "newer-than-it",
        "too-large",
    ),
    "submit": ("another-path", "nothing", "backwards"),
    "event": ("another-room", "backwards", "from-elsewhere"),
}
"""The lies that can be told at each place."""

ELSEWHERE: Final = "a room that never was"
BAD_PATH: Final = "../outside.md"


def about_discovery(lie: Lie, true: Discovery) -> Discovery:
    """What is said instead of a discovery; the same if the lie is none about it."""
    rooms = true.rooms
    match lie:
        case "twice" if rooms:
            return msgspec.structs.replace(true, rooms=(*rooms, rooms[0]))
        case "backwards":
            older = tuple(_older(listing) for listing in rooms)
            return msgspec.structs.replace(true, rooms=older)
        case "bad-name":
            return msgspec.structs.replace(true, rooms=(*rooms, Listing("bad\nname")))
        case "no-epoch":
            return msgspec.structs.replace(true, epoch="")
        case "another-member":
            return msgspec.structs.replace(true, member=f"not-{true.member}")
        case "another-contract":
            terms: Terms = msgspec.structs.replace(true.terms, contract=true.terms.contract + 1)
            return msgspec.structs.replace(true, terms=terms)
        case _:
            return true


def about_page(
    lie: Lie, true: Page | Discontinued, before: Page | None, limits: Limits
) -> Page | Discontinued:
    """What is said instead of a page; the same if the lie is none about it.

    Args:
        lie: Which.
        true: What would be true.
        before: The page that was given before in the same transfer.
        limits: What the authority says about sizes.
    """
    if isinstance(true, Discontinued):
        return true
    match lie:
        case "another-room":
            return msgspec.structs.replace(true, room=ELSEWHERE)
        case "another-transfer" if before is not None:
            return msgspec.structs.replace(true, transfer=f"not-{true.transfer}")
        case "backwards" if before is not None and true.version > 0:
            return msgspec.structs.replace(true, version=true.version - 1)
        case "out-of-order":
            return msgspec.structs.replace(true, number=true.number + 1)
        case "repeated" if before is not None:
            return before
        case _:
            said = _entries(lie, true.entries, true.removed, true.version, limits)
            if said is None or (lie == "newer-than-it" and true.next is not None):
                return true  # what is newer is settled by the last page
            return msgspec.structs.replace(true, entries=said[0], removed=said[1])


def about_change(lie: Lie, true: Refreshed, limits: Limits) -> Refreshed:
    """What is said instead of a change; the same if the lie is none about it."""
    if not isinstance(true, Advanced):
        return true
    match lie:
        case "another-room":
            return msgspec.structs.replace(true, room=ELSEWHERE)
        case "from-elsewhere":
            return msgspec.structs.replace(true, since=true.since + 1)
        case "backwards":
            return msgspec.structs.replace(true, version=true.since)
        case _:
            said = _entries(lie, true.entries, true.removed, true.version, limits)
            if said is None:
                return true
            return msgspec.structs.replace(true, entries=said[0], removed=said[1])


def about_answer(lie: Lie, true: Answer) -> Answer:
    """What is said instead of an answer to a submission; the same if the lie is none about it."""
    match lie, true:
        case "another-path", Conflicted(clashes):
            return Conflicted((*clashes, Clash("path/of/no/operation.md", None)))
        case "nothing", Conflicted():
            return Conflicted(())
        case "backwards", Accepted():
            return Accepted(0)
        case _:
            return true


def about_announcement(lie: Lie, true: Announcement) -> Announcement:
    """What is announced instead; the same if the lie is none about it."""
    match lie, true:
        case "another-room", Announced(_, version):
            return Announced(ELSEWHERE, version)
        case "backwards", Announced(room, version) if version > 0:
            return Announced(room, version - 1)
        case "from-elsewhere", Announced(room, version, Advanced() as change):
            elsewhere: Advanced = msgspec.structs.replace(change, room=ELSEWHERE)
            return Announced(room, version, elsewhere)
        case _:
            return true


def _older(listing: Listing) -> Listing:
    return msgspec.structs.replace(listing, version=max(0, listing.version - 1))


def _entries(
    lie: Lie, entries: tuple[Entry, ...], removed: tuple[str, ...], version: int, limits: Limits
) -> tuple[tuple[Entry, ...], tuple[str, ...]] | None:
    """What is written and removed instead; `None`: the lie is none about that."""
    revision = max(1, version)
    match lie:
        case "bad-path":
            return (*entries, Document(BAD_PATH, revision, "outside")), removed
        case "both" if entries:
            return entries, (*removed, entries[0].path)
        case "collision":
            pair = Document("Twin.md", revision, ""), Document("twin.md", revision, "")
            return (*entries, *pair), removed
        case "newer-than-it":
            return (*entries, Document("newer.md", version + 1, "")), removed
        case "too-large":
            text = "x" * (limits.max_document_bytes + 1)
            return (*entries, Document("large.md", revision, text)), removed
        case _:
            return None
