"""What a room holds: documents and binaries, each at a path, each of a revision.

A room's *version* counts what its authority accepted, one by one, from 0.  An entry's *revision*
is the version at which it was last written, so one whose revision is known need not be sent again.
"""

from __future__ import annotations

import hashlib
from typing import Final, TypeAlias

import msgspec

__all__ = [
    "DIGEST_LENGTH",
    "Binary",
    "Document",
    "Entry",
    "digest_of",
    "is_digest",
    "size_of",
]

DIGEST_LENGTH: Final = 64
_HEXADECIMAL: Final = frozenset("0123456789abcdef")


class Document(msgspec.Struct, frozen=True, tag="document"):
    """A text at a path."""

    path: str
    revision: int
    """The room's version at which it was last written."""
    text: str


class Binary(msgspec.Struct, frozen=True, tag="binary"):
    """What else lies at a path; its bytes are read by themselves, when they are asked for."""

    path: str
    revision: int
    """The room's version at which it was last written."""
    digest: str
    """SHA-256 of its bytes, in 64 hexadecimal digits."""
    size: int
    """How many bytes it has."""


Entry: TypeAlias = Document | Binary
"""What is at a path of a room."""


def digest_of(data: bytes) -> str:
    """The digest that names these bytes."""
    return hashlib.sha256(data).hexdigest()


def is_digest(given: object) -> bool:
    """Whether this is how a digest is spelled."""
    return isinstance(given, str) and len(given) == DIGEST_LENGTH and _HEXADECIMAL.issuperset(given)


def size_of(entry: Entry) -> int:
    """Its content's bytes, as bounds count them: a document's text in UTF-8."""
    return entry.size if isinstance(entry, Binary) else len(entry.text.encode())
