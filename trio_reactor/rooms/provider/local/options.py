"""What an authority in a file keeps at most."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trio_reactor.options import Options

__all__ = ["LocalOptions"]

_Count = Annotated[int, Field(ge=1)]


class LocalOptions(Options):
    """What an authority in a file keeps at most; the same for all that use the file.

    Raises:
        pydantic.ValidationError: A `ValueError` that names each option that is wrong or unknown.
    """

    page_size: _Count = 500
    """Entries of a page, messages or revisions.  What was written in one step is never divided."""
    page_bytes: _Count = 8_388_608
    """Bytes of texts after which a page is full."""
    max_log: _Count = 10_000
    """Steps that a room's log keeps; older ones are beyond the horizon."""
    max_revisions: _Count = 100
    """Revisions that are kept of a path."""
    max_announcements: _Count = 10_000
    """Announcements that are kept for links to read."""
    change_bytes: Annotated[int, Field(ge=0)] = 65_536
    """Bytes of a change that an announcement says right away; 0: none."""
    busy_timeout: Annotated[float, Field(gt=0, le=3600)] = 10.0
    """Seconds that a write waits for those of other processes."""
