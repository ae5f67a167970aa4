"""Routing: which source takes a request.

A request is bound to a source by the clips it names and by its sequence; all of them must be at one
and the same.  What is bound to nothing goes where the chain prefers it: to the prepared source once
there is one.

`resolve` looks in this order, and the first that fails is raised:

1. a clip that nobody knows: `ClipUnknown`;
2. a clip or a sequence whose source is gone: `SessionRetired`;
3. two that are at different sources: `OwnerConflict`;
4. a source that takes no work at the moment, or none that is preferred: `SessionRecovering`;
5. a clip that a request is to go before and that waits no more: `ClipNotQueued`.

Pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Protocol, TypeVar

import msgspec

from trio_reactor.renewal.errors import (
    ClipNotQueued,
    ClipUnknown,
    OwnerConflict,
    SessionRecovering,
    SessionRetired,
)
from trio_reactor.renewal.source import Clip

__all__ = [
    "Clips",
    "LiveSource",
    "Placement",
    "Route",
    "locate",
    "resolve",
]


class Clips(Protocol):
    """The clips of one source, as far as routing asks for them."""

    @property
    def clips(self) -> Sequence[Clip]:
        """Those that are not over, in playing order."""
        ...

    def knows(self, clip: str) -> bool:
        """Whether it has the clip, or remembers its end."""
        ...

    def __contains__(self, clip: object) -> bool:
        """Whether it has the clip, and it is not over."""
        ...


class LiveSource(Protocol):
    """A source that is live, as far as routing asks for it."""

    @property
    def incarnation(self) -> int:
        """Its number in the chain."""
        ...

    @property
    def takes_work(self) -> bool:
        """Whether requests may be sent to it now."""
        ...

    @property
    def book(self) -> Clips:
        """Its clips."""
        ...


L = TypeVar("L", bound=LiveSource)


class Placement(msgspec.Struct, frozen=True):
    """Where a request is to go; made by `of`."""

    named: dict[str, str] = {}
    """The clips that it names, by what: what it continues, what it is to be played right before,
    and one of the source that is to take it."""
    position: int | None = None
    """Where in the source's queue; at its end if nothing says otherwise."""

    @classmethod
    def of(
        cls,
        continue_from: str | None = None,
        before: str | None = None,
        same_session_as: str | None = None,
        position: int | None = None,
    ) -> Placement:
        """The placement that is told by these.

        Raises:
            ValueError: It is given both a position and a clip to go before.
        """
        if position is not None and before is not None:
            raise ValueError("a request has a position or goes before a clip, not both")
        clips = {
            "continue_from": continue_from,
            "before": before,
            "same_session_as": same_session_as,
        }
        return cls({what: clip for what, clip in clips.items() if clip is not None}, position)


class Route(msgspec.Struct, frozen=True):
    """The source that takes a request, and where in its queue."""

    incarnation: int
    position: int | None


def resolve(
    placement: Placement,
    sources: Sequence[LiveSource],
    *,
    retired: Container[str] = (),
    bound: int | None = None,
    preferred: int | None = None,
) -> Route:
    """The source that takes a request.

    Args:
        placement: Where the request is to go.
        sources: The live sources, the oldest first.
        retired: The clips that are known of sources that are gone.
        bound: The source to which the request's sequence is bound; `None` if to none.
        preferred: The source that takes what is bound to none; `None` if none does now.

    Raises:
        ClipUnknown: It names a clip that nobody knows.
        SessionRetired: It is bound to a source that is gone.
        OwnerConflict: It is bound to more than one source.
        SessionRecovering: The source takes no work now.
        ClipNotQueued: The clip that it is to go before waits no more.
    """
    incarnation, gone, apart = bound, False, False
    for what, clip in placement.named.items():
        owner = locate(what, clip, sources, retired)
        if owner is None:
            gone = True
        elif incarnation is None:
            incarnation = owner.incarnation
        elif incarnation != owner.incarnation:
            apart = True
    if bound is not None and all(source.incarnation != bound for source in sources):
        gone = True
    if gone:
        raise SessionRetired("the source that the request is bound to is gone")
    if apart:
        raise OwnerConflict("what the request is bound to is at different sources")
    if incarnation is None:
        incarnation = preferred
    for source in sources:
        if source.incarnation == incarnation and source.takes_work:
            return Route(source.incarnation, _position(placement, source))
    raise SessionRecovering("no source takes this now", retryable=True)


def locate(what: str, clip: str, sources: Iterable[L], retired: Container[str]) -> L | None:
    """The source whose clip it is: the one that still has it, else one that remembers its end.

    `None` if its source is gone.

    Args:
        what: As what it was named, for the message.
        clip: The clip.
        sources: The live sources, the oldest first.
        retired: The clips that are known of sources that are gone.

    Raises:
        ClipUnknown: Nobody knows it.
    """
    remembers: L | None = None
    for source in sources:
        if clip in source.book:
            return source
        if remembers is None and source.book.knows(clip):
            remembers = source
    if remembers is None and clip not in retired:
        raise ClipUnknown(f"no source has the clip of `{what}`", detail=clip)
    return remembers


def _position(placement: Placement, source: LiveSource) -> int | None:
    """The place among the clips that wait, from 0; `None` for the end."""
    before = placement.named.get("before")
    if before is None:
        return placement.position
    waiting = [clip.id for clip in source.book.clips if clip.phase != "playing"]
    try:
        return waiting.index(before)
    except ValueError:
        raise ClipNotQueued("the clip to go before waits no more", detail=before) from None
