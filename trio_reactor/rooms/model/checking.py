"""What an authority gives is looked at before it is believed.

Everything here is pure.  What is wrong with something of one room's is a `ProviderFault` that names
the room, so that it alone is set aside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from trio_reactor.rooms.errors import ProviderFault

from .answers import Advanced, Conflicted, Page
from .entries import Document, Entry, is_digest, size_of
from .names import MAX_NAME, check_name
from .paths import check_path, check_root, folded
from .terms import Discovery, Limits, Listing

__all__ = [
    "MAX_TOKEN",
    "check_advanced",
    "check_clashes",
    "check_discovery",
    "check_entry",
    "check_listing",
    "check_page",
    "twice_listed",
]

_NEWEST: Final = 2**63 - 1
MAX_TOKEN: Final = 4_096
"""The most characters of a page's token, a selection, a position or an epoch."""


def check_discovery(discovery: Discovery) -> None:
    """See that what is told of the authority as a whole can be.

    Raises:
        ProviderFault: It cannot; it is named.
    """
    _text("epoch", discovery.epoch, None)
    if not discovery.epoch:
        raise ProviderFault("a discovery names no epoch")
    try:
        check_name("member", discovery.member)
        for listing in discovery.rooms:
            check_name("a room's name", listing.room)
    except (TypeError, ValueError) as flaw:
        raise ProviderFault(f"a discovery cannot be: {flaw}") from flaw


def twice_listed(rooms: Sequence[Listing]) -> frozenset[str]:
    """The names that a discovery lists more than once."""
    counts = Counter(listing.room for listing in rooms)
    return frozenset(room for room, count in counts.items() if count > 1)


def check_listing(listing: Listing) -> None:
    """See that one room's listing can be.

    Raises:
        ProviderFault: It cannot; the room is named.
    """
    room = listing.room
    _version("version", listing.version, room)
    _text("selection", listing.selection, room)
    if len(listing.title) > MAX_NAME * 4:
        raise ProviderFault(f"{room}: its title has {len(listing.title)} characters", room=room)
    for root in listing.readonly:
        try:
            normal = check_root(root)
        except (TypeError, ValueError) as flaw:
            raise ProviderFault(f"{room}: a read-only root cannot be: {flaw}", room=room) from flaw
        if normal != root:
            raise ProviderFault(
                f"{room}: {normal}: the read-only root is not in its one spelling", room=room
            )


def check_entry(room: str, entry: Entry, version: int, limits: Limits) -> None:
    """See that an entry can be in a room at a version.

    Raises:
        ProviderFault: It cannot; the room, and the path as far as that can be shown, are named.
    """
    try:
        normal = check_path(entry.path)
    except (TypeError, ValueError) as flaw:
        raise ProviderFault(f"{room}: a path cannot be: {flaw}", room=room) from flaw
    name = f"{room}: {normal}"
    if normal != entry.path:
        raise ProviderFault(f"{name}: the path is not in its one spelling", room=room)
    if not 0 < entry.revision <= version:
        raise ProviderFault(
            f"{name}: revision {entry.revision} in a room of version {version}", room=room
        )
    if isinstance(entry, Document):
        bound, most = "max_document_bytes", limits.max_document_bytes
        try:
            size = size_of(entry)
        except UnicodeEncodeError as flaw:
            raise ProviderFault(f"{name}: its text cannot be encoded", room=room) from flaw
    else:
        bound, most = "max_binary_bytes", limits.max_binary_bytes
        size = entry.size
        if not is_digest(entry.digest):
            raise ProviderFault(f"{name}: its digest is none", room=room)
    if not 0 <= size <= most:
        raise ProviderFault(f"{name}: it has {size} bytes; {bound} is {most}", room=room)


def check_page(
    page: Page, *, room: str, transfer: str | None, number: int, version: int | None, limits: Limits
) -> None:
    """See that a page is the one that was asked for.

    Args:
        page: What was given.
        room: Which room was asked for.
        transfer: Which transfer is being continued; `None`: this begins one.
        number: Which page is due.
        version: Which version the transfer began at; `None`: this page says it.
        limits: What the authority says about sizes.

    Raises:
        ProviderFault: It is not; what is wrong is named.
    """
    if page.room != room:
        raise ProviderFault(f"{room}: a page of another room was given", room=room)
    _text("transfer", page.transfer, room)
    if page.next is not None:
        _text("token", page.next, room)
    if transfer is not None and page.transfer != transfer:
        raise ProviderFault(f"{room}: a page of another transfer was given", room=room)
    if page.number != number:
        raise ProviderFault(f"{room}: page {page.number} was given, not {number}", room=room)
    _version("version", page.version, room)
    if version is not None and (
        page.version < version or (page.next is not None and page.version != version)
    ):
        raise ProviderFault(
            f"{room}: a page of version {page.version} in a transfer of {version}", room=room
        )
    # What is newer than the transfer's beginning is settled by its last page.
    _check_entries(room, page.entries, page.version if page.next is None else _NEWEST, limits)
    _check_removed(room, page.entries, page.removed, limits)


def check_advanced(advanced: Advanced, *, room: str, since: int, limits: Limits) -> None:
    """See that what changed begins where it was asked from, and leads further.

    Raises:
        ProviderFault: It does not; what is wrong is named.
    """
    if advanced.room != room:
        raise ProviderFault(f"{room}: a change of another room was given", room=room)
    if advanced.since != since:
        raise ProviderFault(
            f"{room}: a change since {advanced.since} was given, not since {since}", room=room
        )
    _version("version", advanced.version, room)
    if advanced.version <= since:
        raise ProviderFault(
            f"{room}: a change leads from {since} back to {advanced.version}", room=room
        )
    _check_entries(room, advanced.entries, advanced.version, limits)
    _check_removed(room, advanced.entries, advanced.removed, limits)


def check_clashes(room: str, conflicted: Conflicted, paths: Iterable[str], limits: Limits) -> None:
    """See that a conflict is about what was submitted.

    Raises:
        ProviderFault: It is not; what is wrong is named.
    """
    if not conflicted.clashes:
        raise ProviderFault(f"{room}: a conflict about nothing", room=room)
    asked = frozenset(paths)
    for clash in conflicted.clashes:
        if clash.path not in asked:
            raise ProviderFault(f"{room}: a conflict about a path of no operation", room=room)
        if clash.current is not None:
            if clash.current.path != clash.path:
                raise ProviderFault(f"{room}: a conflict shows another path", room=room)
            check_entry(room, clash.current, clash.current.revision, limits)


def _check_entries(room: str, entries: Sequence[Entry], version: int, limits: Limits) -> None:
    if len(entries) > limits.max_entries:
        raise ProviderFault(
            f"{room}: {len(entries)} entries; max_entries is {limits.max_entries}", room=room
        )
    for entry in entries:
        check_entry(room, entry, version, limits)
    if len({folded(entry.path) for entry in entries}) != len(entries):
        raise ProviderFault(f"{room}: two paths collide", room=room)


def _check_removed(
    room: str, entries: Sequence[Entry], removed: Sequence[str], limits: Limits
) -> None:
    if len(removed) > limits.max_entries:
        raise ProviderFault(
            f"{room}: {len(removed)} removed; max_entries is {limits.max_entries}", room=room
        )
    written = {entry.path for entry in entries}
    for path in removed:
        try:
            normal = check_path(path)
        except (TypeError, ValueError) as flaw:
            raise ProviderFault(f"{room}: a removed path cannot be: {flaw}", room=room) from flaw
        if normal != path:
            raise ProviderFault(
                f"{room}: {normal}: the removed path is not in its one spelling", room=room
            )
        if path in written:
            raise ProviderFault(f"{room}: {normal}: both written and removed", room=room)


def _version(what: str, given: int, room: str) -> None:
    if given < 0 or given > _NEWEST:
        raise ProviderFault(f"{room}: its {what} is {given}", room=room)


def _text(what: str, given: str, room: str | None) -> None:
    if len(given) > MAX_TOKEN:
        named = "" if room is None else f"{room}: "
        raise ProviderFault(
            f"{named}a {what} of {len(given)} characters; {MAX_TOKEN} are allowed", room=room
        )
