"""What can be set about a connection to rooms, with units and bounds."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trio_reactor.options import Options

__all__ = ["RoomsOptions"]

_Seconds = Annotated[float, Field(gt=0, le=31_536_000.0)]
_Count = Annotated[int, Field(ge=1)]


class RoomsOptions(Options):
    """The options of `open_rooms`; all of them are checked before anything is opened.

    Raises:
        pydantic.ValidationError: A `ValueError` that names each option that is wrong or unknown.
    """

    connect_timeout: _Seconds = 30.0
    """Seconds that connecting may take."""

    request_timeout: _Seconds = 60.0
    """Seconds that the authority has to answer one request; then the connection is taken for
    lost."""

    heartbeat_timeout: _Seconds | None = None
    """Seconds without an announcement after which the connection is taken for lost, for a provider
    whose stream says regularly that it lives; `None`: it may be silent."""

    pause: _Seconds = 0.5
    """Seconds before an authority that was lost is tried again; it doubles from time to time."""

    max_pause: _Seconds = 60.0
    """The longest of these pauses."""

    jitter: Annotated[float, Field(ge=0, le=1)] = 0.5
    """How much of a pause is left to chance, so that clients do not come all at once."""

    close_timeout: _Seconds = 10.0
    """Seconds that closing may take."""

    max_reads: _Count = 256
    """Rooms that are read from the authority at one time."""

    max_rooms: _Count = 100_000
    """Rooms that may be listed."""

    max_queued: _Count = 10_000
    """Edits of one room that may wait for the authority."""

    max_unsaid: _Count = 10_000
    """Messages of one room that may wait for the authority."""

    max_part_bytes: _Count = 67_108_864
    """Bytes of announcements that have not arrived whole."""

    max_faults: _Count = 3
    """How often in a row a room is read anew because of what a provider gave, before it is set
    aside until the connection is opened again."""
