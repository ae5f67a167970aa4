"""What a source is, and what one can do beside: the core and its capabilities."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias, runtime_checkable

from typing_extensions import TypeVar

from trio_reactor.renewal.evidence import Cleanup
from trio_reactor.renewal.jsonvalue import Json

from .clips import ClipRequest, EventSink, GoingAway, SourceState
from .frames import Media, MediaSink
from .opening import Predecessor

__all__ = [
    "Announcing",
    "Commit",
    "Exclusive",
    "Mortal",
    "Playable",
    "Receptive",
    "Reconnectable",
    "Recordable",
    "Resumable",
    "S_co",
    "Source",
    "SourceOpener",
]


@runtime_checkable
class Source(Protocol):
    """One physical session, open."""

    @property
    def id(self) -> str:
        """Its identity, distinct among all that are alive; at most 1,024 characters."""
        ...

    @property
    def lifetime(self) -> float | None:
        """Seconds it lives, counted from when it was opened; `None` for no end."""
        ...

    async def close(self) -> Cleanup:
        """End it on the provider's side and say what is proven of that.

        Idempotent: later calls return the same evidence.  Called in the ordinary way before its
        context manager is left; leaving without it closes it too.
        """
        ...


S_co = TypeVar("S_co", bound=Source, covariant=True, default=Source)
"""The kind of source that an application has; a bare `SourceOpener` or `Renewal` is of any."""


class SourceOpener(Protocol[S_co]):
    """Opens the next source; a function is one, too."""

    def __call__(self, predecessor: Predecessor, /) -> AbstractAsyncContextManager[S_co]:
        """Open a source, which lives in the context manager.

        Cancelling while it opens gives up what was allocated so far.
        """
        ...


Commit: TypeAlias = Callable[[], None]
"""Called once, synchronously, right before a request leaves; if it raises, nothing is sent."""


@runtime_checkable
class Playable(Source, Protocol):
    """A source that plays clips."""

    async def attach(self, sink: EventSink, /) -> SourceState:
        """Give the current state, and every event after it, without a gap, to this sink.

        What happens after that state may be pushed before this returns.
        """
        ...

    async def enqueue(
        self, request: ClipRequest, /, *, position: int | None = None, commit: Commit
    ) -> str:
        """Queue a clip, at a position or at the end; returns its identity.

        A position is passed on as it is.  A provider that has none, or not this one, refuses the
        request: what cannot be queued where it was to be is not queued elsewhere.

        Raises:
            Refused: The provider said no; nothing was queued.
            Lost: The connection ended, with the outcome `unknown` once `commit` has been called.
        """
        ...

    async def remove(self, clip: str, /) -> None:
        """Take a clip out of the queue.

        Raises:
            Refused: It is not there, or the provider takes nothing out; nothing has changed.
        """
        ...

    async def move(self, clip: str, /, position: int) -> None:
        """Give a queued clip another position.

        Raises:
            Refused: It is not there, or the provider moves nothing; nothing has changed.
        """
        ...

    async def set_autoplay(self, enabled: bool, /) -> None:
        """Whether what is ready is played without being asked for; a new source does not."""
        ...

    async def pause_and_stop(self) -> None:
        """End what is playing and hold what is queued."""
        ...

    async def set_canvas(self, width: int, height: int, /) -> None:
        """Set the size of the picture, in pixels."""
        ...

    async def open_media(self, sink: MediaSink, /) -> Media:
        """Begin a media generation: from now on every frame goes to this sink.

        It ends with its `aclose`, which is called once a later generation has begun, or after the
        source was closed; or with the connection, which its sink hears.  A generation whose opening
        was cancelled ends when the next begins.
        """
        ...


@runtime_checkable
class Reconnectable(Source, Protocol):
    """A source whose connection can be made again while the session lives on."""

    async def reconnect(self) -> None:
        """Make the connection again; a later `attach` and `open_media` begin new generations.

        The old connection, if there still is one, ends with that, and with it its events and its
        media generation: nothing of them reaches their sinks any more.  The old generation's
        `losses` can still be told until its `aclose`, which comes once the new one has begun.
        """
        ...


@runtime_checkable
class Exclusive(Source, Protocol):
    """A source whose provider refuses a second one while it lives."""

    @property
    def exclusive(self) -> bool:
        """Whether it does."""
        ...


@runtime_checkable
class Resumable(Source, Protocol):
    """A source that leaves its successor what it needs to go on where it stopped."""

    @property
    def resumption(self) -> str | None:
        """The latest handle to resume from."""
        ...


@runtime_checkable
class Recordable(Source, Protocol):
    """A source whose allocation another process could find again."""

    @property
    def allocation(self) -> Json:
        """What that process would need: identifiers and addresses, and never a secret.

        Asked once, when the source was opened; at most `MAX_ALLOCATION_BYTES` of JSON.
        """
        ...


@runtime_checkable
class Mortal(Source, Protocol):
    """A source that can end by itself, quietly.

    What is known of its end in advance is for an `Announcing` one to tell.
    """

    def wait_lost(self) -> Awaitable[None]:
        """Return when it has ended; raise why if that is known.  Cancelling changes nothing."""
        ...


@runtime_checkable
class Announcing(Source, Protocol):
    """A source that may learn that it will end sooner than it said, whatever it is used for.

    One that is `Playable` can push a `GoingAway` to its event sink as well; of several notices the
    earliest end counts, however they come.
    """

    def announce_to(self, tell: Callable[[GoingAway], None], /) -> None:
        """Push every notice of an earlier end to this, from now on; synchronously, as it comes.

        Called once, right after it was opened.  What is known already is pushed before this
        returns.  What is called never waits and never raises, and does nothing once the source has
        been let go.
        """
        ...


@runtime_checkable
class Receptive(Source, Protocol):
    """A source that takes what the application sends upstream: sound, or events of its user."""

    async def send_input(self, data: bytes, /) -> None:
        """Send a piece; returns once the next can follow it.  Never called twice at a time.

        Raises:
            Refused: The provider said no to this piece, and takes the next.
            Lost: The connection ended; whether the piece arrived is not known.
        """
        ...
