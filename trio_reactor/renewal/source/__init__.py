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
- `Mortal` notices its own end;
- `Announcing` learns in advance that it will end sooner than it said;
- `Receptive` takes what the application sends upstream.

A source is opened by a `SourceOpener`, which returns an async context manager: what it enters it
also leaves, in one and the same task.

Everything a source has to tell it *pushes*, synchronously and in the order in which it happened,
into the sink it was given.  A sink never waits and never raises, and drops what comes after its own
end, so a reader task can call it between two reads of a socket and frames are never copied nor
handed through another task.

`protocol` has the core and the capabilities; `clips` and `frames` what they play and show, with the
sinks that hear of it; `opening` what a source is opened after.
"""

from trio_reactor.renewal.jsonvalue import Json

from .clips import (
    Clip,
    ClipEnded,
    ClipFailed,
    ClipPhase,
    ClipRequest,
    ClipStarted,
    ClipUpdated,
    EventSink,
    GoingAway,
    SourceEvent,
    SourceState,
)
from .frames import (
    AudioFrame,
    Media,
    MediaLosses,
    MediaSink,
    VideoFrame,
)
from .opening import (
    OpenCause,
    OpenFailed,
    Predecessor,
)
from .protocol import (
    Announcing,
    Commit,
    Exclusive,
    Mortal,
    Playable,
    Receptive,
    Reconnectable,
    Recordable,
    Resumable,
    S_co,
    Source,
    SourceOpener,
)

__all__ = [
    "Announcing",
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
    "S_co",
    "Source",
    "SourceEvent",
    "SourceOpener",
    "SourceState",
    "VideoFrame",
]
