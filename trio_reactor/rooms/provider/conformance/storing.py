"""Binaries, and the history of paths."""

from __future__ import annotations

from typing import Final

from trio_reactor.rooms.errors import RoomRefused
from trio_reactor.rooms.model.answers import Rejected, Revision
from trio_reactor.rooms.model.edits import Delete, Move, Put, PutBinary
from trio_reactor.rooms.model.entries import digest_of
from trio_reactor.testing.conformance import Part

from .trial import ADA, BEN, ROOM, Linked, Trial

__all__ = ["STORING"]

STORING: Final = Part(Trial)

DATA: Final = bytes(range(256)) * 40
DIGEST: Final = digest_of(DATA)
SIZE: Final = len(DATA)


async def _send(
    trial: Trial, linked: Linked, begin: int, end: int, expected: int, room: str = ROOM
) -> None:
    with trial.soon("did not take bytes"):
        received = await linked.storing.upload(room, DIGEST, SIZE, begin, DATA[begin:end])
    trial.require(
        received == expected, f"said it received {received} after {begin} to {end}, not {expected}"
    )


async def _read(trial: Trial, linked: Linked, most: int) -> None:
    """Read the binary in pieces; it must be what was sent."""
    found = b""
    while True:
        with trial.soon("did not give bytes"):
            piece = await linked.storing.binary(ROOM, DIGEST, len(found), most)
        trial.require(len(piece) <= most, f"gave {len(piece)} bytes; at most {most} were asked for")
        if not piece:
            break
        found += piece
        trial.require(len(found) <= SIZE, "gave more bytes than there are")
    trial.require(found == DATA, f"gave other bytes than were sent: {len(found)} of {SIZE}")


@STORING.case(
    "a binary that was sent in pieces and put is read by whoever reads the room", "binaries"
)
async def _pieces(trial: Trial) -> None:
    await trial.room(ADA, BEN)
    async with trial.linked() as linked:
        await _send(trial, linked, 0, 4_000, 4_000)
        await _send(trial, linked, 4_000, SIZE, SIZE)
        await linked.accepted(1, PutBinary("a.bin", DIGEST, SIZE))
        await linked.unchanged()
    async with trial.linked(BEN, "ben's") as linked:
        for most in (SIZE * 2, SIZE, 3_000):
            await _read(trial, linked, most)
        await linked.accepted(1, Move("a.bin", "b.bin", 1))
        await linked.accepted(2, Put("a.bin", "now a text"), PutBinary("c.bin", DIGEST, SIZE))
        await linked.unchanged()
        await _read(trial, linked, SIZE)


@STORING.case("bytes that do not begin where those before them end are ignored", "binaries")
async def _gaps(trial: Trial) -> None:
    await trial.room(ADA)
    async with trial.linked() as linked:
        await _send(trial, linked, 10, 20, 0)
        await _send(trial, linked, 0, 100, 100)
        await _send(trial, linked, 0, 100, 100)
        await _send(trial, linked, 50, 200, 100)
        await _send(trial, linked, 101, 200, 100)
        await _send(trial, linked, 100, SIZE, SIZE)
        await _send(trial, linked, 100, SIZE, SIZE)
        await linked.accepted(1, PutBinary("a.bin", DIGEST, SIZE))
        await _read(trial, linked, SIZE)


@STORING.case("sending goes on over another link where it stopped", "binaries")
async def _resumed(trial: Trial) -> None:
    await trial.room(ADA)
    async with trial.linked() as linked:
        await _send(trial, linked, 0, 4_000, 4_000)
    async with trial.linked() as linked:
        await _send(trial, linked, 0, 0, 4_000)
        await _send(trial, linked, 4_000, SIZE, SIZE)
    async with trial.linked() as linked:
        await _send(trial, linked, 0, 0, SIZE)
        await linked.accepted(1, PutBinary("a.bin", DIGEST, SIZE))
        await _read(trial, linked, SIZE)
        await _send(trial, linked, 0, 10, SIZE)  # what it has is not asked for again


@STORING.case("a binary none of whose bytes, or not all, were sent is not put", "binaries")
async def _not_sent(trial: Trial) -> None:
    await trial.room(ADA)
    async with trial.linked() as linked:
        answer = await linked.submit(1, Put("a.md", "a"), PutBinary("a.bin", DIGEST, SIZE))
        trial.require(isinstance(answer, Rejected), f"answered {answer!r} to what was not sent")
        await _send(trial, linked, 0, SIZE - 1, SIZE - 1)
        answer = await linked.submit(2, PutBinary("a.bin", DIGEST, SIZE))
        trial.require(isinstance(answer, Rejected), f"answered {answer!r} to what was sent in part")
        answer = await linked.submit(3, PutBinary("a.bin", DIGEST, SIZE - 1))
        trial.require(isinstance(answer, Rejected), f"answered {answer!r} to another size")
        await linked.unchanged()
        await _send(trial, linked, SIZE - 1, SIZE, SIZE)
        answer = await linked.submit(4, PutBinary("a.bin", DIGEST, SIZE - 1))
        trial.require(isinstance(answer, Rejected), f"answered {answer!r} to another size")
        await linked.accepted(5, PutBinary("a.bin", DIGEST, SIZE))


@STORING.case("bytes that are not what their digest says are not put", "binaries")
async def _forged(trial: Trial) -> None:
    await trial.room(ADA)
    async with trial.linked() as linked:
        forged = b"x" * SIZE
        await trial.refused(
            RoomRefused,
            "was sent other bytes than its digest says",
            lambda: linked.storing.upload(ROOM, DIGEST, SIZE, 0, forged),
        )
        answer = await linked.submit(1, PutBinary("a.bin", DIGEST, SIZE))
        trial.require(isinstance(answer, Rejected), f"answered {answer!r} to forged bytes")
        # They are not in the way of the right ones.
        await _send(trial, linked, 0, SIZE, SIZE)
        await linked.accepted(2, PutBinary("a.bin", DIGEST, SIZE))
        await _read(trial, linked, SIZE)


@STORING.case("bytes for what cannot be are refused", "binaries")
async def _impossible(trial: Trial) -> None:
    await trial.room(ADA)
    async with trial.linked() as linked:
        most = linked.limits.max_binary_bytes
        for digest, size, data in (
            ("no digest", 1, b"x"),
            (DIGEST, -1, b"x"),
            (DIGEST, most + 1, b"x"),
            (digest_of(b"xy"), 1, b"xy"),
        ):
            await trial.refused(
                RoomRefused,
                f"was sent {len(data)} bytes of {size}",
                lambda digest=digest, size=size, data=data: linked.storing.upload(  # type: ignore[misc]
                    ROOM, digest, size, 0, data
                ),
            )


@STORING.case("a binary of one room is none of another's", "binaries")
async def _of_its_room(trial: Trial) -> None:
    await trial.room(BEN)
    await trial.room(ADA, BEN, room="notes")
    async with trial.linked(BEN) as linked:
        await _send(trial, linked, 0, SIZE, SIZE)
        await linked.accepted(1, PutBinary("a.bin", DIGEST, SIZE))
    async with trial.linked() as linked:
        await trial.refused(
            RoomRefused,
            "was asked for another room's binary",
            lambda: linked.storing.binary("notes", DIGEST, 0, SIZE),
        )
        answer = await linked.submit(1, PutBinary("a.bin", DIGEST, SIZE), room="notes")
        trial.require(isinstance(answer, Rejected), f"answered {answer!r} to another room's bytes")


# ----------------------------------------------------------------------------------------- history


@STORING.case("a history tells each revision of a path, the newest first, and its end", "history")
async def _history(trial: Trial) -> None:
    await trial.room(ADA)
    async with trial.linked() as linked:
        await linked.accepted(1, Put("a.md", "0"))
        await trial.put("b.md", "in between")
        count = trial.rig.page_size + 2
        for number in range(1, count):
            await linked.accepted(number + 1, Put("a.md", f"{number}", trial.base("a.md")))
        await linked.accepted(count + 1, Delete("a.md", trial.base("a.md")))
        await linked.accepted(count + 2, Move("b.md", "a.md", 2))
        found: list[Revision] = []
        token: str | None = None
        while True:
            with trial.soon("did not give a history"):
                page = await linked.historic.history(ROOM, "a.md", token)
            trial.require((page.room, page.path) == (ROOM, "a.md"), f"gave {page}")
            trial.require(
                len(page.revisions) <= trial.rig.page_size,
                f"gave {len(page.revisions)} revisions; page_size is {trial.rig.page_size}",
            )
            found += page.revisions
            if page.next is None:
                break
            trial.require(page.revisions, "gave an empty page and says there is more")
            token = page.next
        states = trial.states[ROOM]
        expected = [
            (version, states[version].get("a.md"))
            for version in range(1, len(states))
            if states[version].get("a.md") != states[version - 1].get("a.md")
        ]
        gave = [(revision.revision, revision.entry) for revision in reversed(found)]
        trial.require(gave == expected, f"gave {gave}; there were {expected}")
        authors = {revision.author for revision in found}
        trial.require(authors == {ADA}, f"called the authors {authors}; {ADA} wrote it")


@STORING.case("what never was has no history", "history")
async def _no_history(trial: Trial) -> None:
    await trial.room(ADA)
    async with trial.linked() as linked:
        with trial.soon("did not give a history"):
            page = await linked.historic.history(ROOM, "never.md", None)
        trial.require((page.revisions, page.next) == ((), None), f"gave {page}")
