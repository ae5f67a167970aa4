"""What the type checkers know of rooms; checked by `make check`, never run."""

from __future__ import annotations

from typing import assert_type

from pydantic import BaseModel

from trio_reactor.rooms import (
    Change,
    Collection,
    Draft,
    Found,
    HistoryPage,
    Item,
    Listing,
    Message,
    QueuedEdit,
    ReplicaStore,
    Rooms,
    RoomStatus,
    Seen,
    Status,
    open_rooms,
)
from trio_reactor.rooms.provider.local import LocalProvider


class Note(BaseModel):
    title: str


async def life() -> None:
    async with open_rooms(LocalProvider("a", member="ada"), ReplicaStore("b")) as rooms:
        assert_type(rooms, Rooms)
        assert_type(rooms.listed(), tuple[Listing, ...])
        assert_type(rooms.status(), Status)
        assert_type(rooms.room_status("plans"), RoomStatus)
        assert_type(await rooms.read("plans", "a.md"), Seen | None)
        assert_type(await rooms.documents("plans"), tuple[Seen, ...])
        assert_type(await rooms.search("word"), tuple[Found, ...])
        assert_type(await rooms.write("plans", "a.md", "text"), QueuedEdit)
        assert_type(await rooms.drafts("plans"), tuple[Draft, ...])
        assert_type(await rooms.items("plans", Collection("", Note)), tuple[Item[Note], ...])
        assert_type(await rooms.messages("plans", "general"), tuple[Message, ...])
        assert_type(await rooms.history("plans", "a.md"), HistoryPage)
        assert_type(await rooms.binary("plans", "a.png"), bytes)
        assert_type(await rooms.stop(1.0), bool)
        async with rooms.watch("plans") as watch:
            async for change in watch:
                assert_type(change, Change)
