"""Events: what the library and its users have to say, as values.

An event is a frozen, tagged `msgspec.Struct`, so that one and the same value is matched with
`match`, written to a journal, sent over a wire and drawn on a timeline.  Every event can be encoded
as JSON and as MessagePack and comes back equal; what could not is refused where the event is made,
by the name of its field:

- floats are finite (JSON would turn the others into null): "no end" is `None`;
- integers are those of 64 bits, from -2**63 to 2**64 - 1;
- text is Unicode that can be encoded: no lone surrogates;
- numbers and text are plain, not of subclasses such as NumPy's `float64`; enums may be.

An exception is told as a `FailureRecord`.  An `Envelope` is an event with its place in the order of
its channel, and an `EventCodec` takes envelopes to bytes and back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from enum import Enum
from math import isfinite
from typing import TYPE_CHECKING, ClassVar, Final, Generic, Union, cast, final

import msgspec
from msgspec.structs import astuple

from .errors import Outcome, ReactorError, leaves

if TYPE_CHECKING:
    # The default makes a bare `Envelope` one of any event; running code has no need of it.
    from typing_extensions import TypeVar

    E_co = TypeVar("E_co", bound="Event", covariant=True, default="Event")
else:
    from typing import TypeVar

    E_co = TypeVar("E_co", bound="Event", covariant=True)

__all__ = ["MAX_DETAIL", "MAX_MESSAGE", "Envelope", "Event", "EventCodec", "FailureRecord"]

MAX_MESSAGE: Final = 1024
"""The most characters of a failure's message that its record keeps."""

MAX_DETAIL: Final = 1024
"""The most characters of foreign text that a failure's record keeps."""

_SMALLEST_INTEGER: Final = -(2**63)
_LARGEST_INTEGER: Final = 2**64 - 1
_PLAIN: Final = (str, int, float)


class Event(msgspec.Struct, frozen=True, tag=True):
    """The base of every event.

    A subclass says `frozen=True`, so that type checkers know it too, is tagged with its name
    without saying so, and lists what happened as annotated fields of types that msgspec encodes::

        class Joined(Event, frozen=True):
            member: str
            since: float | None = None

    Prefer tuples to sets: a set is encoded in the order of its hashes, which differs between
    processes.

    Raises:
        ValueError: If a field holds, however deep, a float that is not finite, an integer beyond 64
            bits, text that cannot be encoded, or a number or text of a subclass.  Named by its
            path; the value is not shown.
    """

    version: ClassVar[int] = 1

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own = cls.__dict__.get("__post_init__")
        if own is not None:
            # A class that looks at its fields by itself does not thereby lose this look at them.
            def __post_init__(self: Event) -> None:  # noqa: N807 - it takes the other's place
                own(self)
                Event.__post_init__(self)

            cls.__post_init__ = __post_init__  # type: ignore[method-assign]

    def __post_init__(self) -> None:
        # Nearly every event passes here, so what is simple and right is let through at once.
        for value in astuple(self):
            if value is None or value is True or value is False:
                continue
            cls = value.__class__
            if cls is str:
                if value.isascii():
                    continue
            elif cls is int:
                if _SMALLEST_INTEGER <= value <= _LARGEST_INTEGER:
                    continue
            elif cls is float and isfinite(value):
                continue
            break
        else:
            return
        flaw = _flaw(self)
        if flaw is not None:
            raise ValueError(f"{type(self).__qualname__}{flaw.path}: {flaw.complaint}")


class FailureRecord(msgspec.Struct, frozen=True):
    """An exception as a value."""

    type: str
    """The name of its class."""
    message: str
    """What happened, in the library's words; at most `MAX_MESSAGE` characters."""
    outcome: Outcome | None = None
    """What became of the operation; `None` if the exception does not say."""
    retryable: bool = False
    """Whether trying again can help and cannot do harm."""
    detail: str | None = None
    """A provider's or any other foreign words, for a person to read and never to be logged; at most
    `MAX_DETAIL` characters."""

    @classmethod
    def of(cls, failure: BaseException) -> FailureRecord:
        """The record of an exception.

        The library's own speak for themselves.  The text of any other is foreign and becomes the
        detail; a group is told by how many failures it holds and of which classes.
        """
        name = type(failure).__qualname__
        if isinstance(failure, ReactorError):
            detail = failure.detail
            return cls(
                type=name,
                message=_text(failure.message, MAX_MESSAGE),
                outcome=failure.outcome,
                retryable=failure.retryable,
                detail=None if detail is None else _text(detail, MAX_DETAIL),
            )
        if isinstance(failure, BaseExceptionGroup):
            group = cast("BaseExceptionGroup[BaseException]", failure)
            names = [type(leaf).__qualname__ for leaf in leaves(group)]
            kinds = ", ".join(dict.fromkeys(names))
            return cls(name, _text(f"{len(names)} failures: {kinds}", MAX_MESSAGE))
        try:
            words = str(failure)
        except Exception:  # noqa: BLE001 - whatever foreign code does, its failure is recorded
            words = ""
        return cls(name, "not an error of this library", detail=_text(words, MAX_DETAIL) or None)


class Envelope(msgspec.Struct, Generic[E_co], frozen=True, gc=False):
    """An event with its place in the order of its channel."""

    seq: int
    """Its position in the channel: strictly rising, without holes, from 1."""
    wall: float
    """When it was published: wall time, in seconds since 1970 UTC."""
    clock: float
    """When it was published, on the world's clock, in seconds."""
    handle: str
    """The name of the handle that published it; empty for none."""
    event: E_co


@final
class EventCodec:
    """Takes envelopes of a closed set of events to bytes and back to equal values.

    An event is recognised by its tag, which is the name of its class.

    Args:
        types: The classes of the events, each of them concrete.

    Raises:
        TypeError: If no class is given.
        ValueError: If two of them carry the same tag; both are named.
    """

    def __init__(self, *types: type[Event]) -> None:
        if not types:
            raise TypeError("a codec needs at least one class of events")
        self._types: dict[type[Event], None] = dict.fromkeys(types)
        tags: dict[object, type[Event]] = {}
        for each in self._types:
            config = each.__struct_config__
            other = tags.setdefault(config.tag, each)
            if other is not each:
                raise ValueError(
                    f"{other.__module__}.{other.__qualname__} and "
                    f"{each.__module__}.{each.__qualname__} carry the same tag, {config.tag!r}"
                )
        # The union is known only now, so it is written as a value and told as a type.
        envelope = cast("type[Envelope[Event]]", Envelope[Union[tuple(self._types)]])  # type: ignore[misc]  # noqa: UP007
        self._to_json = msgspec.json.Encoder()
        self._to_msgpack = msgspec.msgpack.Encoder()
        self._from_json = msgspec.json.Decoder(envelope)
        self._from_msgpack = msgspec.msgpack.Decoder(envelope)

    @property
    def types(self) -> tuple[type[Event], ...]:
        """The classes of events it knows."""
        return tuple(self._types)

    def encode_json(self, envelope: Envelope[Event]) -> bytes:
        """The envelope as one JSON object, without a line break.

        Raises:
            TypeError: If its event is of a class that this codec was not made for.
        """
        self._check(envelope)
        return self._to_json.encode(envelope)

    def decode_json(self, encoded: bytes | str) -> Envelope[Event]:
        """The envelope that was encoded.

        Raises:
            msgspec.DecodeError: If it is not JSON, or (`msgspec.ValidationError`) not such an
                envelope.
        """
        return self._from_json.decode(encoded)

    def encode_msgpack(self, envelope: Envelope[Event]) -> bytes:
        """The envelope as one MessagePack map.

        Raises:
            TypeError: If its event is of a class that this codec was not made for.
        """
        self._check(envelope)
        return self._to_msgpack.encode(envelope)

    def decode_msgpack(self, encoded: bytes) -> Envelope[Event]:
        """The envelope that was encoded.

        Raises:
            msgspec.DecodeError: If it is not MessagePack, or (`msgspec.ValidationError`) not such
                an envelope.
        """
        return self._from_msgpack.decode(encoded)

    def _check(self, envelope: Envelope[Event]) -> None:
        if type(envelope.event) not in self._types:
            raise TypeError(f"this codec was not made for {type(envelope.event).__qualname__}")


def _text(words: str, most: int) -> str:
    """Foreign words, bounded, and such that they can be encoded."""
    return words[:most].encode("utf-8", "replace").decode("utf-8")


class _Flaw(msgspec.Struct, frozen=True):
    path: str
    complaint: str


def _flaw(value: object) -> _Flaw | None:
    """The first thing in a value that would not come back from being encoded, if there is any."""
    parts: Iterable[tuple[str, object]]
    match value:
        case Enum() | bool() | None:
            return None
        case str() | int() | float() if type(value) not in _PLAIN:
            return _Flaw("", "it is of a subclass, which is not encoded")  # as NumPy's float64 is
        case str():
            return None if _encodable(value) else _Flaw("", "it is not text that can be encoded")
        case int():
            if _SMALLEST_INTEGER <= value <= _LARGEST_INTEGER:
                return None
            return _Flaw("", "it is an integer beyond 64 bits")
        case float():
            return None if isfinite(value) else _Flaw("", "it is not a finite number")
        case msgspec.Struct():
            parts = zip(
                (f".{each}" for each in value.__struct_fields__), astuple(value), strict=True
            )
        case list() | tuple():
            items = cast("list[object] | tuple[object, ...]", value)
            parts = ((f"[{index}]", item) for index, item in enumerate(items))
        case set() | frozenset():
            members = cast("set[object] | frozenset[object]", value)
            parts = (("{}", member) for member in members)
        case dict():
            mapping = cast("dict[object, object]", value)
            parts = (("{}", part) for pair in mapping.items() for part in pair)
        case _ if dataclasses.is_dataclass(value):
            names = (field.name for field in dataclasses.fields(value))
            parts = ((f".{name}", getattr(value, name)) for name in names)
        case _:
            return None
    for name, part in parts:
        flaw = _flaw(part)
        if flaw is not None:
            return _Flaw(name + flaw.path, flaw.complaint)
    return None


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
