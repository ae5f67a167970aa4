"""How an authority in memory behaves, and what it keeps at most."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trio_reactor.options import Options

__all__ = ["MemoryOptions"]

_Count = Annotated[int, Field(ge=1)]


class MemoryOptions(Options):
    """How an authority in memory behaves, and what it keeps at most.

    Raises:
        pydantic.ValidationError: A `ValueError` that names each option that is wrong or unknown.
    """

    streaming: bool = True
    """Whether its links announce what happens."""
    paging: Literal["snapshot", "replay"] = "snapshot"
    """How a room is read page by page: as it was when that began, or as it is, with what changed
    meanwhile at the end."""
    page_size: _Count = 100
    """Entries of a page, messages or revisions.  What was written in one step is never divided, so
    a page of changes may have as many more as one edit has operations."""
    exhaustive: bool = True
    """Whether a discovery lists every room that may be read."""
    model: str = ""
    """The identity of what the documents mean."""
    capabilities: tuple[str, ...] = ("history", "binaries", "conversations", "actions")
    max_rooms: _Count = 10_000
    """Rooms there are, and names of those that there were."""
    max_log: _Count = 1_000
    """Steps that a room's log keeps; older ones are beyond the horizon."""
    max_revisions: _Count = 100
    """Revisions that are kept of a path."""
    max_paths: _Count = 200_000
    """Paths of a room of which revisions are kept."""
    max_clients: _Count = 10_000
    """Clients whose last submission is remembered in a room.  Another one's are refused: to forget
    a client is to risk that what it sends again is applied again."""
    max_messages: _Count = 100_000
    """Messages of a room."""
    max_transfers: _Count = 256
    """Rooms that are being read page by page; the one that was asked for longest ago gives way."""
    max_uploads: _Count = 256
    """Binaries that were begun to be sent, or are not part of a room yet."""
    max_announcements: _Count = 1_000
    """Announcements that wait for one link's reader."""
    change_bytes: Annotated[int, Field(ge=0)] = 4_096
    """Bytes, as JSON, of a change or message that an announcement says right away; 0: none."""
    part_bytes: _Count = 65_536
    """Bytes of an announcement's JSON beyond which it is sent in parts of so many each."""
    max_parted: _Count = 64
    """Announcements in parts that are kept, for who did not receive all of one."""
