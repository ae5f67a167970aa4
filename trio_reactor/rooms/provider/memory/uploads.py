"""Binaries that members are sending, or have sent and not put anywhere yet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

import msgspec

from trio_reactor.rooms.errors import RoomRefused
from trio_reactor.rooms.model.entries import digest_of, is_digest

__all__ = ["Uploads"]


class _Upload(msgspec.Struct):
    size: int
    data: bytearray


@final
class Uploads:
    """What was received, by room, member and digest; a bounded number of them.

    Args:
        most: How many are kept; the one that something came for longest ago gives way, and whoever
            goes on with it is told that nothing was received.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._received: dict[tuple[str, str, str], _Upload] = {}

    def __len__(self) -> int:
        return len(self._received)

    def take(
        self, room: str, member: str, digest: str, size: int, offset: int, data: bytes, *, most: int
    ) -> int:
        """Take bytes that begin where what was received ends, and ignore others.

        Args:
            room: What it is for.
            member: Who sends it.
            digest: What it is.
            size: How many bytes it has.
            offset: Where these begin.
            data: Bytes.
            most: How many bytes a binary may have.

        Returns:
            How many bytes from the beginning were received by now.

        Raises:
            RoomRefused: It is too large or cannot be, or the whole is not what its digest says; in
                that case it is forgotten.
        """
        if not is_digest(digest) or size < 0:
            raise RoomRefused(room, "invalid", detail="its digest or its size is none")
        if size > most:
            raise RoomRefused(room, "too-large", detail=f"max_binary_bytes is {most}")
        key = (room, member, digest)
        upload = self._received.pop(key, None)
        if upload is None or upload.size != size:
            upload = _Upload(size, bytearray())
        if offset == len(upload.data):
            if offset + len(data) > size:
                raise RoomRefused(room, "invalid", detail="more bytes than its size")
            upload.data += data
            if len(upload.data) == size and digest_of(bytes(upload.data)) != digest:
                raise RoomRefused(room, "invalid", detail="its bytes are not what its digest says")
        # What came last comes last.
        self._received[key] = upload
        if len(self._received) > self._most:
            del self._received[next(iter(self._received))]
        return len(upload.data)

    def whole(self, room: str, member: str, digests: Iterable[str]) -> dict[str, bytes]:
        """Those of these that a member has sent to a room and that are whole, by digest."""
        return {
            digest: bytes(upload.data)
            for digest in digests
            if (upload := self._received.get((room, member, digest))) is not None
            and len(upload.data) == upload.size
        }

    def end(self, room: str, digest: str | None = None) -> None:
        """Forget what was received for a room, or of one binary for it."""
        for key in tuple(self._received):
            if key[0] == room and digest in {None, key[2]}:
                del self._received[key]
