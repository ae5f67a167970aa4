"""What an adapter author implements: one physical source, as small as it can be.

The core is `Source`: an identity, a lifetime and a way to close.  It is enough for a connection, a
token or a feed.  What can do more says so by having the methods, and the chain finds them with
`isinstance`:

- `Playable` plays clips: it queues, builds and plays them, tells what becomes of them, and opens
  media;
- `Reconnectable` survives the loss of its connection;
- `Exclusive` cannot exist twice at the same time;
- `Recordable` tells what another process would need to find its allocation again;
- `Resumable` leaves its successor what it needs to go on;
- `Mortal` notices its own end, or hears of it in advance;
- `Receptive` takes what the application sends upstream.

A source is opened by a `SourceOpener`, which returns an async context manager: what it enters it
also leaves, in one and the same task.

Everything a source has to tell it *pushes*, synchronously and in the order in which it happened,
into the sink it was given.  A sink never waits and never raises, and drops what comes after its own
end, so a reader task can call it between two reads of a socket and frames are never copied nor
handed through another task.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import msgspec
from typing_extensions import TypeVar

from trio_reactor.errors import Outcome, ReactorError

from .allocation.records import AllocationRecord
from .evidence import Cleanup
from .jsonvalue import Json

__all__ = [
    "AudioFrame",
    "Clip",
    "ClipEnded",
    "ClipFailed",
    "ClipPhase",
    "ClipRequest",
    "ClipStarted",
    "ClipUpdated",
    "Commit",
    "EventSink",
    "Exclusive",
    "GoingAway",
    "Json",
    "Media",
    "MediaLosses",
    "MediaSink",
    "Mortal",
    "OpenCause",
    "OpenFailed",
    "Playable",
    "Predecessor",
    "Receptive",
    "Reconnectable",
    "Recordable",
    "Resumable",
    "Source",
    "SourceEvent",
    "SourceOpener",
    "SourceState",
    "VideoFrame",
]


# ---------------------------------------------------------------------------------------- media


class VideoFrame(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One picture.  Its bytes are never copied on their way from the source to the reader."""

    data: bytes | bytearray | memoryview
    """The planes, in the layout of `format`."""
    width: int
    height: int
    format: str
    """The pixel format by FFmpeg's name, such as `yuv420p` or `rgb24`."""
    time: float
    """Seconds since the start of its clip, or of its source where there are no clips."""
    clip: str | None = None
    """The clip it belongs to."""
    index: int | None = None
    """Its number within the clip, from 0."""

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return len(self.data)


class AudioFrame(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A run of sound, interleaved."""

    data: bytes | bytearray | memoryview
    samples: int
    """Interleaved samples: samples a channel times channels."""
    channels: int
    rate: int
    """Samples a second and channel, in Hz."""
    format: str
    """The sample format by FFmpeg's name, such as `s16`."""
    time: float
    """Seconds since the start of its clip, or of its source where there are no clips."""
    clip: str | None = None

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return len(self.data)


class MediaLosses(msgspec.Struct, frozen=True):
    """What a media generation dropped before it reached the sink; totals since it was opened."""

    frames: int = 0
    samples: int = 0
    """Interleaved samples."""


class MediaSink(Protocol):
    """Where a source puts its frames.  No method waits or raises, at any time, from any task."""

    def video(self, frame: VideoFrame, /) -> None:
        """Take one picture."""
        ...

    def audio(self, frame: AudioFrame, /) -> None:
        """Take one run of sound."""
        ...

    def lost(self, cause: Exception | None, /) -> None:
        """Hear that no more will come; `None` if the stream ended without an error."""
        ...


class Media(Protocol):
    """One media generation: the flow of frames of one source between two connections."""

    @property
    def generation(self) -> int:
        """Rises with every generation of its source."""
        ...

    @property
    def frame_rate(self) -> float | None:
        """Pictures a second, if it is fixed."""
        ...

    def losses(self) -> MediaLosses:
        """What was dropped so far; raises if that cannot be told."""
        ...

    async def aclose(self) -> None:
        """End this generation: nothing is put into its sink any more.  Idempotent.

        Called for every generation, also one whose connection was lost and one that was refused,
        and never changes a later one.
        """
        ...


# ---------------------------------------------------------------------------------------- clips

ClipPhase = Literal["queued", "building", "ready", "playing"]


class ClipRequest(msgspec.Struct, frozen=True):
    """What is to be played next, in the provider's terms."""

    payload: dict[str, Json]
    """What the provider is asked for."""
    continue_from: str | None = None
    """The clip that this one continues; both must be played by the same source."""


class Clip(msgspec.Struct, frozen=True):
    """One clip as its source sees it."""

    id: str
    """Its identity, distinct from those of all other sources: a request that names a clip of which
    two live sources have one is refused."""
    phase: ClipPhase
    frames: int | None = None
    """How many pictures it has, once that is known."""


class SourceState(msgspec.Struct, frozen=True):
    """Everything a source has to say about its clips, in playing order."""

    clips: tuple[Clip, ...] = ()
    autoplay: bool = False

    @property
    def idle(self) -> bool:
        """Whether nothing is playing or about to be: no clip is left in any phase."""
        return not self.clips

    @property
    def playing(self) -> Clip | None:
        """The clip on air, if there is one."""
        return next((clip for clip in self.clips if clip.phase == "playing"), None)

    @property
    def has_ready(self) -> bool:
        """Whether a clip could be shown at once."""
        return any(clip.phase == "ready" for clip in self.clips)


class ClipUpdated(msgspec.Struct, frozen=True, tag=True):
    """A clip was queued, is being built, or is ready."""

    clip: Clip


class ClipStarted(msgspec.Struct, frozen=True, tag=True):
    """A clip went on air; its pictures follow."""

    clip: str
    frames: int | None = None


class ClipEnded(msgspec.Struct, frozen=True, tag=True):
    """A clip was played to its end, or removed; it is no longer in the state."""

    clip: str
    frames: int | None = None
    """How many pictures of it were sent."""


class ClipFailed(msgspec.Struct, frozen=True, tag=True):
    """A clip could not be built or played; it is no longer in the state."""

    clip: str
    reason: str
    """The provider's words."""


class GoingAway(msgspec.Struct, frozen=True, tag=True):
    """The source will end sooner than it said."""

    expires_in: float
    """Seconds from now."""
    reason: str = ""
    """The provider's words."""


SourceEvent = ClipUpdated | ClipStarted | ClipEnded | ClipFailed | GoingAway


class EventSink(Protocol):
    """Where a source puts its events.  No method waits or raises, at any time, from any task."""

    def event(self, event: SourceEvent, /) -> None:
        """Take one event."""
        ...

    def lost(self, cause: Exception | None, /) -> None:
        """Hear that no more will come; `None` if they ended without an error."""
        ...


# ------------------------------------------------------------------------------------- the source

OpenCause = Literal["first", "plan", "loss"]


class Predecessor(msgspec.Struct, frozen=True):
    """What a source is opened after."""

    source: str | None = None
    """The identity of the one before, or `None` for the first."""
    cause: OpenCause = "first"
    """Whether it follows nothing, a plan, or a loss."""
    resumption: str | None = None
    """What the one before left, to go on where it stopped."""
    context: Json = None
    """What is to be told again where nothing can be resumed; never together with `resumption`."""
    key: str | None = None
    """Names this open, and is recorded before it where allocations are: an adapter can give it to
    its provider, as idempotency key or tag.  Unguessable and unique, but no secret."""
    adopt: AllocationRecord | None = None
    """What a dead process left: connect to that, and do not allocate anything.  The source has the
    recorded identity, and its lifetime is what is left of it.  Where that cannot be done, raise
    `OpenFailed`: then it is terminated, and a fresh open follows."""


class OpenFailed(ReactorError):
    """A source could not be opened.

    Args:
        message: What happened, in the library's or the adapter's words.
        permanent: Whether trying again is known to be pointless: it ends the chain.
        resumption_refused: Whether it was only the resumption that was refused.
        cleanup: What became of what had been allocated by then.
        outcome: Whether the provider may have allocated something.
        retryable: Whether trying again can help and cannot do harm.
        detail: The provider's words.
    """

    def __init__(
        self,
        message: str,
        *,
        permanent: bool = False,
        resumption_refused: bool = False,
        cleanup: Cleanup | None = None,
        outcome: Outcome = "replied",
        retryable: bool = False,
        detail: str | None = None,
    ) -> None:
        super().__init__(message, outcome=outcome, retryable=retryable, detail=detail)
        self.permanent = permanent
        self.resumption_refused = resumption_refused
        self.cleanup = cleanup


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

SourceOpener: TypeAlias = Callable[[Predecessor], AbstractAsyncContextManager[S_co]]
"""Opens the next source.  Cancelling while it opens gives up what was allocated so far."""

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

    async def state(self) -> SourceState:
        """Ask the provider for the current state."""
        ...

    async def enqueue(
        self, request: ClipRequest, /, *, position: int | None = None, commit: Commit
    ) -> str:
        """Queue a clip, at a position or at the end; returns its identity.

        Raises:
            Refused: The provider said no.
            Lost: The connection ended, with the outcome `unknown` once `commit` has been called.
        """
        ...

    async def remove(self, clip: str, /) -> None:
        """Take a clip out of the queue."""
        ...

    async def move(self, clip: str, /, position: int) -> None:
        """Give a queued clip another position."""
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
    """A source that can end by itself, quietly."""

    def wait_lost(self) -> Awaitable[None]:
        """Return when it has ended; raise why if that is known.  Cancelling changes nothing."""
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
