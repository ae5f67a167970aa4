"""What both sides say to each other: MessagePack structs, one in each binary WebSocket message.

A conversation:

1. the client says `Hello`, the server answers `Welcome`, or `Refusal` and closes;
2. the client makes `Request`s, each with a number of its own; the server answers each with one
   `Reply` or `Denied` of that number, in whatever order;
3. the server tells what happens (`Happened`) and, while a media generation is open, sends its
   `Picture`s and `Sound`, all in the order in which it happened.

A session lives longer than its socket.  A socket that *drops* leaves it running for the grace that
`Welcome` names, and a `Hello` with what `Welcome.resume` gave takes it up again.  A socket that the
client *closes*, with code 1000, ends it, and so does `Terminate`, which is also confirmed.

Every message is bounded, and so is everything in it that grows.
"""

from __future__ import annotations

import enum
from typing import Annotated, Final, Literal, TypeAlias, TypeVar

import msgspec

from trio_reactor.errors import Outcome, ReactorError
from trio_reactor.renewal.source import SourceEvent, SourceState

__all__ = [
    "MAX_CONTROL_BYTES",
    "MAX_IDENTITY",
    "MAX_MESSAGE_BYTES",
    "MAX_REASON",
    "MAX_REQUEST_BYTES",
    "SESSION_OVER",
    "VERSION",
    "CloseCode",
    "CloseMedia",
    "Command",
    "Denial",
    "Denied",
    "Done",
    "Enqueue",
    "FromClient",
    "FromServer",
    "GetState",
    "Happened",
    "Hello",
    "Losses",
    "Malformed",
    "MediaOpened",
    "Move",
    "OpenMedia",
    "PauseAndStop",
    "Picture",
    "Queued",
    "Refusal",
    "RefusalCode",
    "Remove",
    "Reply",
    "Request",
    "Result",
    "SetAutoplay",
    "SetCanvas",
    "Snapshot",
    "Sound",
    "Terminate",
    "Terminated",
    "TooLarge",
    "Unencodable",
    "Welcome",
    "WireError",
    "decode_from_client",
    "decode_from_server",
    "encode",
    "encode_payload",
]

VERSION: Final = 1
"""Both sides must speak the same one."""

MAX_MESSAGE_BYTES: Final = 8 * 1024 * 1024
"""The largest message to a client by default; a raw 1920x1080 picture in yuv420p takes 3.1 MB."""
MAX_CONTROL_BYTES: Final = 256 * 1024
"""The largest message to a client that is neither a picture nor sound."""
MAX_REQUEST_BYTES: Final = 64 * 1024
"""The largest message to a server."""
MAX_IDENTITY: Final = 1024
"""The longest identity or token, in characters."""
MAX_REASON: Final = 1024
"""The longest reason, in characters."""


class WireError(ReactorError):
    """A message that cannot be sent, or that was received and cannot be used."""


class TooLarge(WireError):
    """A message is over its bound."""


class Unencodable(WireError):
    """A message holds what MessagePack cannot: a number too large, a text that is no Unicode."""


class Malformed(WireError):
    """A message is truncated, is no MessagePack, or is none of the messages of this protocol."""


class CloseCode(enum.IntEnum):
    """Why a socket is closed."""

    DONE = 1000
    """By the client: the session is no longer wanted.  By the server: it was terminated."""
    GOING_AWAY = 1001
    """The session ended sooner than it should have."""
    VIOLATION = 1002
    """The other side said what it must not."""
    LIFETIME_OVER = 4001
    """The session's time is up."""
    TOO_SLOW = 4002
    """What is not media and may not be dropped was not taken in time; the session goes on."""
    SUPERSEDED = 4003
    """Another socket took the session up."""
    NOT_ADMITTED = 4004
    """After a `Refusal`."""


SESSION_OVER: Final = frozenset({CloseCode.DONE, CloseCode.GOING_AWAY, CloseCode.LIFETIME_OVER})
"""The codes with which a server says that the session itself is gone."""

Identity: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_IDENTITY)]
Reason: TypeAlias = Annotated[str, msgspec.Meta(max_length=MAX_REASON)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


# ----------------------------------------------------------------------------- from the client


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """The first message."""

    version: int
    token: Identity | None = None
    """What admits to the service, where that is asked for."""
    resume: Identity | None = None
    """The session to take up again, by what its `Welcome` gave."""
    key: Identity | None = None
    """Names what is asked for: a live session that was asked for under the same key is given
    again, and no second one."""
    existing: bool = False
    """Whether only such a session is wanted: without it, the answer is a refusal."""


class Enqueue(msgspec.Struct, frozen=True, tag="enqueue"):
    """Queue a clip."""

    payload: msgspec.Raw
    """What is asked for, in the provider's terms: MessagePack that only the provider reads."""
    position: int | None = None
    """Its place among the clips that wait, from 0; `None` for the end."""
    continue_from: Identity | None = None


class Remove(msgspec.Struct, frozen=True, tag="remove"):
    """Take a clip out of the queue."""

    clip: Identity


class Move(msgspec.Struct, frozen=True, tag="move"):
    """Give a waiting clip another place among those that wait, from 0."""

    clip: Identity
    position: int


class SetAutoplay(msgspec.Struct, frozen=True, tag="set-autoplay"):
    """Whether what is ready is played."""

    enabled: bool


class PauseAndStop(msgspec.Struct, frozen=True, tag="pause-and-stop"):
    """End what is playing and hold what is queued."""


class SetCanvas(msgspec.Struct, frozen=True, tag="set-canvas"):
    """The size of the picture, in pixels, from the next clip that is built."""

    width: int
    height: int


class GetState(msgspec.Struct, frozen=True, tag="get-state"):
    """Ask for a `Snapshot`; every event after it belongs to it without a gap."""


class OpenMedia(msgspec.Struct, frozen=True, tag="open-media"):
    """Begin a media generation on this socket."""


class CloseMedia(msgspec.Struct, frozen=True, tag="close-media"):
    """End a media generation, unless a later one was begun."""

    generation: int


class Terminate(msgspec.Struct, frozen=True, tag="terminate"):
    """End the session for good."""


Command: TypeAlias = (
    Enqueue
    | Remove
    | Move
    | SetAutoplay
    | PauseAndStop
    | SetCanvas
    | GetState
    | OpenMedia
    | CloseMedia
    | Terminate
)


class Request(msgspec.Struct, frozen=True, tag="request"):
    """A command that is answered."""

    id: int
    command: Command


FromClient: TypeAlias = Hello | Request


# ----------------------------------------------------------------------------- from the server

RefusalCode = Literal["version", "not-authorised", "full", "no-such-session", "unavailable"]


class Welcome(msgspec.Struct, frozen=True, tag="welcome"):
    """The session is open, or open again."""

    version: int
    session: Identity
    resume: Identity
    """What takes the session up again after its socket dropped; a secret."""
    lifetime: float | None
    """Seconds that it lives from now on; `None` for no end."""
    grace: float
    """Seconds that it outlives a socket that dropped."""


class Refusal(msgspec.Struct, frozen=True, tag="refusal"):
    """There is no session."""

    code: RefusalCode
    reason: Reason = ""


class Queued(msgspec.Struct, frozen=True, tag="queued"):
    """The clip is queued under this identity."""

    clip: Identity


class Snapshot(msgspec.Struct, frozen=True, tag="snapshot"):
    """The state at this point among the events."""

    state: SourceState


class MediaOpened(msgspec.Struct, frozen=True, tag="media-opened"):
    """A media generation begins; every picture and sound of it follows."""

    generation: int
    frame_rate: float | None
    frames: Count
    """Pictures due so far in all generations of the session, sent or not."""
    samples: Count
    """Interleaved samples due so far in all generations of the session, sent or not."""


class Done(msgspec.Struct, frozen=True, tag="done"):
    """It was done."""


class Terminated(msgspec.Struct, frozen=True, tag="terminated"):
    """The session is gone, and nothing of it is paid for any more; the server closes."""


Result: TypeAlias = Queued | Snapshot | MediaOpened | Done | Terminated


class Reply(msgspec.Struct, frozen=True, tag="reply"):
    """The answer to the request of this number."""

    id: int
    result: Result


Denial = Literal["bad-request", "unknown-clip", "on-air", "out-of-range", "full"]


class Denied(msgspec.Struct, frozen=True, tag="denied"):
    """The request of this number was not carried out."""

    id: int
    code: Denial
    reason: Reason = ""


class Happened(msgspec.Struct, frozen=True, tag="happened"):
    """What becomes of the clips and of the session."""

    event: SourceEvent


class Picture(msgspec.Struct, frozen=True, tag="picture", eq=False, gc=False):
    """One picture."""

    generation: int
    clip: Identity
    index: Count
    """Its number within the clip, from 0."""
    time: float
    """Seconds since the start of the clip."""
    width: Count
    height: Count
    format: Identity
    data: memoryview
    """Received, it is a view on the message itself: no copy."""


class Sound(msgspec.Struct, frozen=True, tag="sound", eq=False, gc=False):
    """The sound that belongs to one picture."""

    generation: int
    clip: Identity
    time: float
    rate: Count
    channels: Count
    samples: Count
    """Interleaved samples: samples a channel times channels."""
    format: Identity
    data: memoryview


class Losses(msgspec.Struct, frozen=True, tag="losses"):
    """What a generation dropped because it was not taken in time; totals since it was opened."""

    generation: int
    frames: Count
    samples: Count


FromServer: TypeAlias = Welcome | Refusal | Reply | Denied | Happened | Picture | Sound | Losses


# ------------------------------------------------------------------------------------- encoding

M = TypeVar("M")

_encoder: Final = msgspec.msgpack.Encoder()
_from_client: Final[msgspec.msgpack.Decoder[FromClient]] = msgspec.msgpack.Decoder(FromClient)
_from_server: Final[msgspec.msgpack.Decoder[FromServer]] = msgspec.msgpack.Decoder(FromServer)


def encode(message: FromClient | FromServer, *, bound: int) -> bytes:
    """The bytes of a message.

    Args:
        message: What is to be said.
        bound: The largest it may be, in bytes.

    Raises:
        TooLarge: If it is over its bound.
        Unencodable: If it holds what MessagePack cannot.
    """
    encoded = _encode(message)
    if len(encoded) > bound:
        raise TooLarge(f"a message of {len(encoded)} bytes is over its bound of {bound}")
    return encoded


def encode_payload(payload: object, *, bound: int = MAX_REQUEST_BYTES) -> msgspec.Raw:
    """What a provider is asked for, as it stands in an `Enqueue`.

    Raises:
        TooLarge: If it is over its bound.
        Unencodable: If it holds what MessagePack cannot.
    """
    encoded = _encode(payload)
    if len(encoded) > bound:
        raise TooLarge(f"a payload of {len(encoded)} bytes is over its bound of {bound}")
    return msgspec.Raw(encoded)


def decode_from_client(message: bytes) -> FromClient:
    """The message that a client sent.

    Raises:
        Malformed: If it is none.
    """
    return _decode(_from_client, message, outcome="not-submitted")


def decode_from_server(message: bytes) -> FromServer:
    """The message that a server sent; its pictures and sound are views on these bytes.

    Raises:
        TooLarge: If it is not media and over `MAX_CONTROL_BYTES`.
        Malformed: If it is none.
    """
    decoded = _decode(_from_server, message, outcome="replied")
    if len(message) > MAX_CONTROL_BYTES and not isinstance(decoded, (Picture, Sound)):
        raise TooLarge(
            f"a message of {len(message)} bytes is over its bound of {MAX_CONTROL_BYTES}",
            outcome="replied",
        )
    return decoded


def _encode(value: object) -> bytes:
    try:
        return _encoder.encode(value)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as error:
        # ValueError is also a text with lone surrogates; RecursionError a structure too deep.
        raise Unencodable(f"it cannot be encoded: {_first_line(error)}") from error


def _decode(decoder: msgspec.msgpack.Decoder[M], message: bytes, *, outcome: Outcome) -> M:
    try:
        return decoder.decode(message)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(
            f"a message of {len(message)} bytes cannot be decoded",
            outcome=outcome,
            detail=_first_line(error),
        ) from error


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:MAX_REASON]
