"""What is wrong with what a source says.  An adapter may say anything; nothing is taken unseen.

Pure.  Each function tells the fault in words, or `None`; who asks says which source it is.
"""

from __future__ import annotations

import inspect
import math
from typing import Final, TypeGuard, cast, get_args

import msgspec

from trio_reactor.renewal.evidence import Cleanup
from trio_reactor.renewal.source import (
    AudioFrame,
    Clip,
    ClipEnded,
    ClipFailed,
    ClipPhase,
    ClipStarted,
    ClipUpdated,
    GoingAway,
    SourceState,
    VideoFrame,
)
from trio_reactor.wording import a_kind

__all__ = [
    "MAX_IDENTITY",
    "MAX_RESUMPTION",
    "audio_fault",
    "cleanup_fault",
    "event_fault",
    "generation_fault",
    "is_identity",
    "is_unicode",
    "resumption_fault",
    "source_fault",
    "state_fault",
    "video_fault",
]

MAX_IDENTITY: Final = 1024
"""The longest identity of a source or clip, in characters."""

MAX_RESUMPTION: Final = 65_536
"""The longest handle to resume from, in characters."""

_ABSENT: Final = object()
_CLIP_EVENTS: Final = (ClipUpdated, ClipStarted, ClipEnded, ClipFailed)
_PHASES: Final = frozenset(get_args(ClipPhase))

_BYTES: Final = (bytes, bytearray, memoryview)


def is_identity(value: object) -> TypeGuard[str]:
    """Whether this can be the identity of a source or clip: Unicode text within its bound."""
    return isinstance(value, str) and 0 < len(value) <= MAX_IDENTITY and is_unicode(value)


def is_unicode(text: str) -> bool:
    """Whether a text can be encoded: a Python string may hold halves of characters."""
    return text.isascii() or not any("\ud800" <= each <= "\udfff" for each in text)


def source_fault(source: object) -> str | None:
    """What is wrong with what an opener yielded, before it is asked anything: what it has not."""
    for name in ("id", "lifetime", "close"):
        # Looked at first where no property is evaluated: what each says is asked once.
        if inspect.getattr_static(source, name, _ABSENT) is _ABSENT and not hasattr(source, name):
            what = f"what the opener yielded, {a_kind(source)}, is not a Source"
            return f"{what}: it has no `{name}`"
    return None


def event_fault(event: object) -> str | None:
    """What is wrong with an event.

    A notice of the end is looked at where it is taken, which knows what it would change.
    """
    if isinstance(event, GoingAway):
        reason = cast("object", event.reason)
        if isinstance(reason, str) and is_unicode(reason):
            return None
        return "told that it ends, and a reason that is no text"
    if not isinstance(event, _CLIP_EVENTS):
        return f"told {a_kind(event)}, which is no event"
    fault = None if _is_plain(event) else _fault(event, type(event))
    if fault is not None:
        return f"told {a_kind(event)} that makes no sense: {fault}"
    if isinstance(event, ClipUpdated):
        return _clip_fault(event.clip)
    if not is_identity(event.clip):
        return f"told of a clip that has no identity of 1 to {MAX_IDENTITY} characters"
    frames = None if isinstance(event, ClipFailed) else event.frames
    return _frames_fault(frames)


def state_fault(state: object) -> str | None:
    """What is wrong with a whole state."""
    if not isinstance(state, SourceState):
        return f"gave {a_kind(state)} for its state"
    fault = _fault(state, SourceState)
    if fault is not None:
        return f"gave a state that makes no sense: {fault}"
    if len({clip.id for clip in state.clips}) < len(state.clips):
        return "gave a state that has a clip twice"
    return next(filter(None, map(_clip_fault, state.clips)), None)


def cleanup_fault(cleanup: object, identity: str | None) -> str | None:
    """What is wrong with the evidence of the end of a source that has this identity."""
    if not isinstance(cleanup, Cleanup):
        return "closed without any evidence"
    fault = _fault(cleanup, Cleanup)
    if fault is not None:
        return f"closed with evidence that makes no sense: {fault}"
    if identity is not None and cleanup.source not in (identity, None):
        return "closed with evidence of another source"
    return None


def resumption_fault(handle: object) -> str | None:
    """What is wrong with what a source leaves to be resumed from."""
    if handle is None or (isinstance(handle, str) and 0 < len(handle) <= MAX_RESUMPTION):
        return None
    return f"left {a_kind(handle)} to resume from, not 1 to {MAX_RESUMPTION} characters"


def generation_fault(generation: object, before: int | None) -> str | None:
    """What is wrong with the number of a media generation that began after this one."""
    if isinstance(generation, bool) or not isinstance(generation, int):
        return f"gave {a_kind(generation)} for the number of a media generation"
    if abs(generation) >= 2**63:
        return "gave a media generation of a number that is not one of 64 bits"
    if before is not None and generation <= before:
        return f"gave media generation {generation}, which does not rise"
    return None


def video_fault(frame: object) -> str | None:
    """What is wrong with a picture.  It is looked at, not through: its pixels are its reader's."""
    if not isinstance(frame, VideoFrame):
        return f"gave {a_kind(frame)} for a picture"
    if not _size(frame.data):
        return "gave a picture without bytes"
    if not (_is_count(frame.width, 1) and _is_count(frame.height, 1)):
        return f"gave a picture of {_told(frame.width)} by {_told(frame.height)} pixels"
    if frame.index is not None and not _is_count(frame.index, 0):
        return f"gave picture number {_told(frame.index)} of a clip"
    return _placed_fault(frame)


def audio_fault(frame: object) -> str | None:
    """What is wrong with a run of sound."""
    if not isinstance(frame, AudioFrame):
        return f"gave {a_kind(frame)} for sound"
    size = _size(frame.data)
    if size is None:
        return "gave sound without bytes"
    if not _is_count(frame.samples, 0) or frame.samples > size:  # each has a byte at least
        return f"gave sound of {_told(frame.samples)} samples in {size} bytes"
    if not (_is_count(frame.channels, 1) and _is_count(frame.rate, 1)):
        return f"gave sound of {_told(frame.channels)} channels at {_told(frame.rate)} Hz"
    return _placed_fault(frame)


def _is_plain(event: ClipUpdated | ClipStarted | ClipEnded | ClipFailed) -> bool:
    """Whether the fields of an event are of just the types that they say, as nearly always.

    Of anything else it is for `_fault` to say what it is, which takes many times as long.
    """
    if type(event) is ClipUpdated:
        clip = event.clip
        return (
            type(clip) is Clip
            and type(clip.id) is str
            and type(clip.phase) is str
            and clip.phase in _PHASES
            and (clip.frames is None or type(clip.frames) is int)
        )
    if type(event) is ClipStarted or type(event) is ClipEnded:
        return type(event.clip) is str and (event.frames is None or type(event.frames) is int)
    if type(event) is not ClipFailed or type(event.clip) is not str:
        return False
    return type(event.reason) is str and is_unicode(event.reason)


def _fault(value: msgspec.Struct, kind: type[msgspec.Struct]) -> str | None:
    """What is wrong with the fields of a record: there is no check when it is made."""
    try:
        if msgspec.convert(msgspec.to_builtins(value), kind) == value:
            msgspec.json.encode(value)  # in which it may be told: text that is no Unicode cannot be
            return None
    except (msgspec.ValidationError, TypeError, ValueError, OverflowError) as fault:
        told = str(fault)
        # It names types and places; where it goes on to quote what was said, that is left out.
        return told if told.startswith("Expected ") else "a value that it cannot have"
    return "a value of another type"  # such as bytes, which are written as text


def _clip_fault(clip: Clip) -> str | None:
    if not is_identity(clip.id):
        return f"told of a clip that has no identity of 1 to {MAX_IDENTITY} characters"
    return _frames_fault(clip.frames)


def _frames_fault(frames: int | None) -> str | None:
    if frames is not None and not 0 <= frames < 2**63:
        return "told of a clip with a number of pictures that is none"
    return None


def _is_count(value: object, least: int) -> bool:
    return type(value) is int and value >= least


def _size(content: object) -> int | None:
    """How many bytes there are; `None` if it is nothing to read bytes from."""
    if not isinstance(content, _BYTES):
        return None
    if not isinstance(content, memoryview):
        return len(content)
    try:
        return content.nbytes
    except ValueError:  # it was released
        return None


def _placed_fault(frame: VideoFrame | AudioFrame) -> str | None:
    """What is wrong with what a frame says of its format, its time and its clip."""
    clip, time = cast("object", frame.clip), cast("object", frame.time)
    if not isinstance(cast("object", frame.format), str):
        return "gave a frame of a format that is no text"
    try:
        if not (type(time) is float or type(time) is int) or not math.isfinite(time):
            return "gave a frame for a time that is none"
    except OverflowError:  # an integer that no float can hold
        return "gave a frame for a time that is none"
    if clip is None or (isinstance(clip, str) and len(clip) <= MAX_IDENTITY):
        return None
    return "gave a frame that belongs to no clip there can be"


def _told(value: object) -> str:
    """A number as it is; of anything else what it is, for it may be as long as it likes."""
    if isinstance(value, int) and abs(value) < 2**63:
        return str(value)
    return a_kind(value)
