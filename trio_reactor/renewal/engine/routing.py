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
from typing import Final, Protocol, final

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
    "MAX_RETIRED_CLIPS",
    "Clips",
    "Placement",
    "RetiredClips",
    "Route",
    "SourceView",
    "locate",
    "resolve",
]

MAX_RETIRED_CLIPS: Final = 4096
"""How many clips of sources that are gone are remembered."""


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


class SourceView(msgspec.Struct, frozen=True):
    """A source that is live, as routing sees it."""

    incarnation: int
    """Its number in the chain."""
    takes_work: bool
    """Whether commands may be sent to it now."""
    clips: Clips


class Placement(msgspec.Struct, frozen=True):
    """Where a request is to go.

    Raises:
        ValueError: It is given both a position and a clip to go before.
    """

    continue_from: str | None = None
    """The clip that it continues."""
    before: str | None = None
    """The waiting clip that it is to be played right before."""
    same_session_as: str | None = None
    """A clip of the source that is to take it."""
    position: int | None = None
    """Where in the source's queue; at its end if nothing says otherwise."""

    def __post_init__(self) -> None:
        if self.position is not None and self.before is not None:
            raise ValueError("a request has a position or goes before a clip, not both")


class Route(msgspec.Struct, frozen=True):
    """The source that takes a request, and where in its queue."""

    incarnation: int
    position: int | None


def resolve(
    placement: Placement,
    sources: Sequence[SourceView],
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
    named = (
        ("continue_from", placement.continue_from),
        ("before", placement.before),
        ("same_session_as", placement.same_session_as),
    )
    owners: set[int] = set()
    gone = False
    if bound is not None:
        owners.add(bound)
        gone = all(source.incarnation != bound for source in sources)
    for name, clip in named:
        if clip is None:
            continue
        source = locate(name, clip, sources, retired)
        if source is None:
            gone = True
        else:
            owners.add(source.incarnation)
    if gone:
        raise SessionRetired("the source that the request is bound to is gone")
    if len(owners) > 1:
        raise OwnerConflict("what the request is bound to is at different sources")
    incarnation = owners.pop() if owners else preferred
    for source in sources:
        if source.incarnation == incarnation and source.takes_work:
            return Route(source.incarnation, _position(placement, source))
    raise SessionRecovering("no source takes this now", retryable=True)


def locate(
    name: str, clip: str, sources: Iterable[SourceView], retired: Container[str]
) -> SourceView | None:
    """The source whose clip it is: the one that still has it, else one that remembers its end.

    `None` if its source is gone.

    Args:
        name: As what it was named, for the message.
        clip: The clip.
        sources: The live sources, the oldest first.
        retired: The clips that are known of sources that are gone.

    Raises:
        ClipUnknown: Nobody knows it.
    """
    remembers: SourceView | None = None
    for source in sources:
        if clip in source.clips:
            return source
        if remembers is None and source.clips.knows(clip):
            remembers = source
    if remembers is None and clip not in retired:
        raise ClipUnknown(f"no source has the clip of `{name}`", detail=clip)
    return remembers


def _position(placement: Placement, source: SourceView) -> int | None:
    """The place among the clips that wait, from 0; `None` for the end."""
    if placement.before is None:
        return placement.position
    waiting = [clip.id for clip in source.clips.clips if clip.phase != "playing"]
    try:
        return waiting.index(placement.before)
    except ValueError:
        raise ClipNotQueued(
            "the clip to go before waits no more", detail=placement.before
        ) from None


@final
class RetiredClips:
    """The clips of sources that are gone, the newest `bound` of them.

    A clip that is not remembered any more cannot be told from one that never was.
    """

    def __init__(self, bound: int = MAX_RETIRED_CLIPS) -> None:
        self._bound = bound
        self._clips: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._clips)

    def __contains__(self, clip: object) -> bool:
        return clip in self._clips

    def remember(self, clips: Iterable[str]) -> None:
        """Remember these, the newest last."""
        for clip in clips:
            self._clips.pop(clip, None)
            self._clips[clip] = None
        while len(self._clips) > self._bound:
            del self._clips[next(iter(self._clips))]
