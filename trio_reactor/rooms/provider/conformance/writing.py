"""What becomes of submissions: once, in order, as one step, or not at all."""

from __future__ import annotations

from typing import Final

import trio

from trio_reactor.rooms.model.answers import (
    Accepted,
    Answer,
    Clash,
    Conflicted,
    Halted,
    Rejected,
    Unknown,
)
from trio_reactor.rooms.model.edits import Delete, Move, Operation, Put, PutBinary
from trio_reactor.rooms.model.entries import digest_of
from trio_reactor.testing.conformance import Part

from .trial import ADA, BEN, ROOM, Linked, Trial

__all__ = ["WRITING"]

WRITING: Final = Part(Trial)

IMPOSSIBLE: Final = (
    "",
    "/a.md",
    "a//b.md",
    "../a.md",
    "a/../b.md",
    "./a.md",
    "C:/a.md",
    "a\\b.md",
    "a.md:stream",
    "nul",
    "COM1.md",
    "a.",
    "a ",
    "a\0.md",
    "a\n.md",
    ".git/config",
    "\ud800.md",
    "x" * 256,
    "/".join(["x" * 200] * 6),
    "e\u0301.md",  # not in its one spelling
)


async def _rejects(
    trial: Trial, linked: Linked, code: str | None, sequence: int, *operations: Operation
) -> None:
    answer = await linked.submit(sequence, *operations)
    trial.require(isinstance(answer, Rejected), f"answered {answer!r} to {operations!r:.300}")
    if code is not None and isinstance(answer, Rejected):
        trial.require(answer.code == code, f"rejected {operations!r:.300} as {answer.code!r}")
    await linked.unchanged()


async def _conflicts(
    trial: Trial, linked: Linked, sequence: int, *operations: Operation, at: tuple[str, ...]
) -> None:
    answer = await linked.submit(sequence, *operations)
    if not isinstance(answer, Conflicted):
        trial.fail(f"answered {answer!r} to {operations}")
    found = {clash.path: clash for clash in answer.clashes}
    expected = {path: Clash(path, trial.state().get(path)) for path in at}
    trial.require(found == expected, f"named the clashes {answer.clashes}, not {expected}")
    await linked.unchanged()


# ------------------------------------------------------------------------------ what is accepted


@WRITING.case("what is accepted is there, at the next version, for every reader", decisive=True)
async def _accepted(trial: Trial) -> None:
    await trial.room(ADA, BEN)
    async with trial.linked() as ada, trial.linked(BEN, "ben's") as ben:
        await ada.accepted(1, Put("a.md", "first"))
        await ben.unchanged()
        await ben.accepted(1, Put("a.md", "second", 1))
        await ada.accepted(2, Put("a.md", "third", 2))
        await ada.accepted(3, Delete("a.md", 3))
        await ada.accepted(4, Put("a.md", "anew"))
        for linked in (ada, ben):
            await linked.unchanged()
            await linked.caught_up(0)


@WRITING.case("all operations of a submission are one step and one version")
async def _one_step(trial: Trial) -> None:
    await trial.room(ADA)
    for name in "abc":
        await trial.put(f"{name}.md", name)
    async with trial.linked() as linked:
        await linked.accepted(
            1, Put("a.md", "new", 1), Delete("b.md", 2), Move("c.md", "d/c.md", 3), Put("e.md", "")
        )
        await linked.unchanged()
        await linked.caught_up(3)


@WRITING.case("what was written by many at once has consecutive versions, each of one of them")
async def _at_once(trial: Trial) -> None:
    await trial.room(ADA, BEN)
    versions: dict[int, str] = {}

    async def write(linked: Linked, client: str, sequence: int) -> None:
        path = f"{client}-{sequence}.md"
        answer = await linked.submit(sequence, Put(path, path), client=client)
        if not isinstance(answer, Accepted):
            trial.fail(f"answered {answer!r}")
        trial.require(answer.version not in versions, f"gave version {answer.version} twice")
        versions[answer.version] = path

    async def one(linked: Linked, client: str) -> None:
        for sequence in range(1, 4):
            await write(linked, client, sequence)

    async with trial.linked() as ada, trial.linked(BEN) as ben:
        async with trio.open_nursery() as nursery:
            for number in range(4):
                nursery.start_soon(one, (ada, ben)[number % 2], f"client-{number}")
        for version in range(1, len(versions) + 1):
            path = versions.get(version)
            if path is None:
                trial.fail(f"gave the versions {sorted(versions)}")
            trial.applied(version, (Put(path, path),))
        for linked in (ada, ben):
            await linked.unchanged()
            await linked.caught_up(0)


@WRITING.case("of two that write on the same base at once one is accepted")
async def _race(trial: Trial) -> None:
    await trial.room(ADA, BEN)
    await trial.put("a.md", "before")
    async with trial.linked() as ada, trial.linked(BEN, "ben's") as ben:
        for sequence in range(1, 6):
            answers: dict[str, Answer] = {}
            base = trial.base("a.md")

            async def write(linked: Linked, text: str) -> None:
                answers[text] = await linked.submit(sequence, Put("a.md", text, base))  # noqa: B023 - run before the next turn

            async with trio.open_nursery() as nursery:
                nursery.start_soon(write, ada, f"ada {sequence}")
                nursery.start_soon(write, ben, f"ben {sequence}")
            taken = [
                (text, answer) for text, answer in answers.items() if isinstance(answer, Accepted)
            ]
            trial.require(len(taken) == 1, f"answered {answers}")
            text, answer = taken[0]
            trial.applied(answer.version, (Put("a.md", text, base),))
            trial.require(
                sum(isinstance(each, Conflicted) for each in answers.values()) == 1,
                f"answered {answers}",
            )
        await ada.unchanged()


@WRITING.case("a document that is moved keeps its text and is of a new revision")
async def _moved(trial: Trial) -> None:
    await trial.room(ADA)
    await trial.put("a.md", "the text")
    async with trial.linked() as linked:
        await linked.accepted(1, Move("a.md", "b/a.md", 1))
        await linked.accepted(2, Move("b/a.md", "b/A.md", 2))  # to another case of its own
        await linked.unchanged()
        await linked.caught_up(0)


@WRITING.case("texts are kept as they are, to the character")
async def _texts(trial: Trial) -> None:
    await trial.room(ADA)
    texts = (
        "",
        "\r\n \t",
        "e\u0301 \u00e9",
        "\0",
        "\U0001f680\u2028'\"\\%s{}",
        "null",
        "x" * 60_000,
    )
    async with trial.linked() as linked:
        for sequence, text in enumerate(texts, 1):
            await linked.accepted(sequence, Put(f"{sequence}.md", text))
        await linked.accepted(len(texts) + 1, Put("dir/ä ö.md", "a"), Put("'; DROP--.md", "b"))
        await linked.unchanged()


# ------------------------------------------------------------------------------------------- once


@WRITING.case("a submission that is sent again is answered as it was, and not applied again")
async def _again(trial: Trial) -> None:
    await trial.room(ADA)
    async with trial.linked() as linked:
        first = await linked.accepted(1, Put("a.md", "a"))
        for _ in range(2):
            found = await linked.submit(1, Put("a.md", "a"))
            trial.require(found == first, f"answered {found!r}; before, {first!r}")
        await trial.put("b.md", "another's")
        await trial.delete("a.md")
        found = await linked.submit(1, Put("a.md", "a"))
        trial.require(found == first, f"answered {found!r}; before, {first!r}")
        await linked.unchanged()
        await linked.accepted(2, Put("c.md", "c"))
    async with trial.linked() as linked:
        found = await linked.submit(2, Put("c.md", "c"))
        trial.require(found == Accepted(4), f"answered {found!r} over another link")
        await linked.accepted(3, Put("c.md", "d", 4))
        await linked.unchanged()


@WRITING.case("a submission that was refused is answered as it was, whatever is there since")
async def _refused_again(trial: Trial) -> None:
    await trial.room(ADA)
    await trial.put("a.md", "a")
    async with trial.linked() as linked:
        conflict = await linked.submit(1, Put("a.md", "mine"))
        trial.require(isinstance(conflict, Conflicted), f"answered {conflict!r}")
        await trial.delete("a.md")
        found = await linked.submit(1, Put("a.md", "mine"))
        trial.require(found == conflict, f"answered {found!r}; before, {conflict!r}")
        rejection = await linked.submit(2)
        trial.require(isinstance(rejection, Rejected), f"answered {rejection!r} to no operation")
        found = await linked.submit(2)
        trial.require(found == rejection, f"answered {found!r}; before, {rejection!r}")
        await linked.unchanged()
        await linked.accepted(3, Put("a.md", "mine"))


@WRITING.case("one submission that is sent over two links at once is applied once")
async def _twice_at_once(trial: Trial) -> None:
    await trial.room(ADA)
    async with trial.linked() as one, trial.linked() as two:
        for sequence in range(1, 6):
            path = f"{sequence}.md"
            answers: list[Answer] = []

            async def send(linked: Linked) -> None:
                answers.append(await linked.submit(sequence, Put(path, "a")))  # noqa: B023 - run before the next turn

            async with trio.open_nursery() as nursery:
                nursery.start_soon(send, one)
                nursery.start_soon(send, two)
            trial.require(answers == [Accepted(sequence)] * 2, f"answered {answers}")
            trial.applied(sequence, (Put(path, "a"),))
        await one.unchanged()


@WRITING.case("any sequence but the last and the next is unknown, and not applied")
async def _unknown(trial: Trial) -> None:
    await trial.room(ADA)
    async with trial.linked() as linked:
        for sequence in (2, 7, 0):
            found = await linked.submit(sequence, Put("a.md", "a"))
            trial.require(found == Unknown(), f"answered {found!r} to {sequence}, with none before")
        await linked.accepted(1, Put("a.md", "a"))
        await linked.accepted(2, Put("b.md", "b"))
        for sequence in (1, 4, 0, -1, 2**40):
            found = await linked.submit(sequence, Put("c.md", "c"))
            trial.require(found == Unknown(), f"answered {found!r} to {sequence} after 2")
        await linked.unchanged()
        await linked.accepted(3, Put("c.md", "c"))


@WRITING.case("each client has its own sequence in each room, over whichever link")
async def _apart(trial: Trial) -> None:
    await trial.room(ADA)
    await trial.room(ADA, room="notes")
    async with trial.linked() as linked:
        await linked.accepted(1, Put("a.md", "a"), client="one")
        await linked.accepted(2, Put("b.md", "b"), client="one")
        await linked.accepted(1, Put("c.md", "c"), client="two")
        await linked.accepted(1, Put("d.md", "d"), client="one", room="notes")
        found = await linked.submit(2, Put("x.md", "x"), client="three")
        trial.require(found == Unknown(), f"answered {found!r} to one it does not know")
        await linked.accepted(3, Put("e.md", "e"), client="one")
        await linked.unchanged()
        await linked.unchanged("notes")


@WRITING.case("what a client sent that was forgotten is unknown, and not applied", "forget")
async def _forgotten(trial: Trial) -> None:
    await trial.room(ADA)
    async with trial.linked() as linked:
        await linked.accepted(1, Put("a.md", "a"))
        await linked.accepted(2, Put("b.md", "b"))
        await trial.rig.forget(ROOM, "store")
        for sequence in (2, 3):
            found = await linked.submit(sequence, Put("c.md", "c"))
            trial.require(found == Unknown(), f"answered {found!r} to what it forgot")
        await linked.unchanged()


@WRITING.case("what was submitted is remembered where the room was revoked meanwhile")
async def _revoked_meanwhile(trial: Trial) -> None:
    await trial.room(ADA)
    async with trial.linked() as linked:
        first = await linked.accepted(1, Put("a.md", "a"))
        await trial.rig.revoke(ADA, ROOM)
        await trial.rig.grant(ADA, ROOM)
        found = await linked.submit(1, Put("a.md", "a"))
        trial.require(found == first, f"answered {found!r}; before, {first!r}")
        await linked.unchanged()


@WRITING.case("where writing is halted nothing is applied, and the same may be sent again", "halt")
async def _halted(trial: Trial) -> None:
    await trial.room(ADA)
    async with trial.linked() as linked:
        first = await linked.accepted(1, Put("a.md", "a"))
        await trial.rig.halt()
        for _ in range(2):
            found = await linked.submit(2, Put("b.md", "b"))
            trial.require(found == Halted(), f"answered {found!r} while writing is halted")
        found = await linked.submit(1, Put("a.md", "a"))
        trial.require(found == first, f"answered {found!r} to what it had accepted before")
        await linked.unchanged()
        await trial.rig.resume()
        await linked.accepted(2, Put("b.md", "b"))
        await linked.unchanged()


# ---------------------------------------------------------------------------------- what conflicts


@WRITING.case("what is based on another revision conflicts, and the conflict shows what is there")
async def _conflicting(trial: Trial) -> None:
    await trial.room(ADA)
    await trial.put("a.md", "first")
    await trial.put("b.md", "b")
    await trial.put("a.md", "second")
    await trial.delete("b.md")
    await trial.put("c.md", "c")
    async with trial.linked() as linked:
        await _conflicts(trial, linked, 1, Put("a.md", "mine", 1), at=("a.md",))
        await _conflicts(trial, linked, 2, Put("a.md", "mine"), at=("a.md",))
        await _conflicts(trial, linked, 3, Put("a.md", "mine", 9), at=("a.md",))
        await _conflicts(trial, linked, 4, Delete("a.md", 1), at=("a.md",))
        await _conflicts(trial, linked, 5, Move("a.md", "d.md", 1), at=("a.md",))
        await _conflicts(trial, linked, 6, Move("a.md", "c.md", 3), at=("c.md",))
        await _conflicts(trial, linked, 7, Move("a.md", "c.md", 1), at=("a.md", "c.md"))
        # What was deleted since is shown as nothing.
        await _conflicts(trial, linked, 8, Put("b.md", "mine", 2), at=("b.md",))
        await _conflicts(trial, linked, 9, Delete("b.md", 2), at=("b.md",))
        await _conflicts(trial, linked, 10, Move("b.md", "d.md", 2), at=("b.md",))
        await linked.accepted(11, Put("a.md", "mine", 3))


@WRITING.case("of a submission that conflicts anywhere nothing is applied, and all of it is named")
async def _all_or_none(trial: Trial) -> None:
    await trial.room(ADA)
    await trial.put("a.md", "a")
    await trial.put("b.md", "b")
    async with trial.linked() as linked:
        await _conflicts(
            trial,
            linked,
            1,
            Put("new.md", "new"),
            Put("a.md", "mine", 1),
            Put("b.md", "mine"),
            Delete("gone.md", 1),
            Put("last.md", "last"),
            at=("b.md", "gone.md"),
        )


@WRITING.case("a document written anew where one was deleted is not what a base before it meant")
async def _anew(trial: Trial) -> None:
    await trial.room(ADA)
    await trial.put("a.md", "first")
    await trial.delete("a.md")
    await trial.put("a.md", "first")
    async with trial.linked() as linked:
        await _conflicts(trial, linked, 1, Put("a.md", "mine", 1), at=("a.md",))


# -------------------------------------------------------------------------------- what is rejected


@WRITING.case("a path that cannot be is rejected, and nothing of its submission is applied")
async def _paths(trial: Trial) -> None:
    await trial.room(ADA)
    await trial.put("a.md", "a")
    async with trial.linked() as linked:
        sequence = 0
        for path in IMPOSSIBLE:
            sequence += 1
            await _rejects(trial, linked, "invalid", sequence, Put("b.md", "b"), Put(path, "x"))
        for path in IMPOSSIBLE[:4]:
            sequence += 1
            await _rejects(trial, linked, "invalid", sequence, Move("a.md", path, 1))


@WRITING.case("a submission that cannot be is rejected, and nothing of it is applied")
async def _shapes(trial: Trial) -> None:
    await trial.room(ADA)
    await trial.put("a.md", "a")
    async with trial.linked() as linked:
        impossible: tuple[tuple[Operation, ...], ...] = (
            (),
            (Put("b.md", "b"), Put("b.md", "c")),
            (Put("b.md", "b"), Delete("a.md", 1), Put("a.md", "b", 1)),
            (Move("a.md", "b.md", 1), Put("b.md", "b")),
            (Move("a.md", "a.md", 1),),
            (Put("b.md", "b"), Delete("c.md")),
            (Put("b.md", "b"), Put("c.md", "\ud800")),
            (Put("b.md", "b"), PutBinary("c.png", "no digest", 1)),
        )
        for sequence, operations in enumerate(impossible, 1):
            await _rejects(trial, linked, "invalid", sequence, *operations)


@WRITING.case("paths that a file system could take for one are not both taken, in any submission")
async def _collisions(trial: Trial) -> None:
    await trial.room(ADA)
    await trial.put("dir/a.md", "a")
    await trial.put("\u00e9.md", "e")
    async with trial.linked() as linked:
        refused: tuple[tuple[Operation, ...], ...] = (
            (Put("dir/A.md", "x"),),
            (Put("DIR/a.md", "x"),),
            (Put("\u00c9.MD", "x"),),
            (Put("x.md", "x"), Put("X.md", "x")),
            (Move("\u00e9.md", "dir/A.MD", 2),),
            (Put("ok.md", "x"), Put("\uff44ir/a.md", "x")),
        )
        for sequence, operations in enumerate(refused, 1):
            await _rejects(trial, linked, None, sequence, *operations)
        await linked.accepted(len(refused) + 1, Delete("dir/a.md", 1), Put("dir/A.md", "instead"))
        await linked.accepted(len(refused) + 2, Move("\u00e9.md", "\u00c9.md", 2))
        await _rejects(trial, linked, None, len(refused) + 3, Put("dir/a.md", "x"))
        await linked.unchanged()


@WRITING.case("a directory that may not be written is not, and others are")
async def _readonly(trial: Trial) -> None:
    await trial.room(BEN)
    await trial.put("kept/a.md", "a")
    await trial.put("free.md", "b")
    await trial.rig.grant(ADA, ROOM, readonly=("kept",))
    async with trial.linked() as linked:
        refused: tuple[tuple[Operation, ...], ...] = (
            (Put("kept/a.md", "x", 1),),
            (Put("free.md", "x", 2), Put("kept/b.md", "x")),
            (Delete("kept/a.md", 1),),
            (Move("kept/a.md", "a.md", 1),),
            (Move("free.md", "kept/free.md", 2),),
            (Put("kept", "x"),),
        )
        for sequence, operations in enumerate(refused, 1):
            await _rejects(trial, linked, "read-only", sequence, *operations)
        await linked.accepted(len(refused) + 1, Put("kept-not.md", "x"), Put("free.md", "x", 2))
        await trial.rig.grant(ADA, ROOM, readonly=("",))
        await _rejects(trial, linked, "read-only", len(refused) + 2, Put("c.md", "x"))
        await trial.rig.grant(ADA, ROOM)
        await linked.accepted(len(refused) + 3, Put("kept/a.md", "x", 1))
    async with trial.linked(BEN, "ben's") as linked:
        await linked.accepted(1, Put("kept/b.md", "x"))


@WRITING.case("what is over a limit is rejected, and what is just within it is accepted")
async def _limits(trial: Trial) -> None:
    await trial.room(ADA)
    async with trial.linked() as linked:
        limits = linked.limits
        most, text = limits.max_operations, limits.max_document_bytes
        many = tuple(Put(f"many/{number}.md", "") for number in range(most + 1))
        await _rejects(trial, linked, "too-large", 1, *many)
        # As bounds count them, a text has the bytes of its UTF-8.
        await _rejects(trial, linked, "too-large", 2, Put("a.md", "é" * (text // 2) + "é"))
        await linked.accepted(3, Put("a.md", "é" * (text // 2)))
        whole = limits.max_submission_bytes
        count = whole // text + 1
        if count <= most:
            all_of_it = tuple(Put(f"big/{number}.md", "x" * text) for number in range(count))
            await _rejects(trial, linked, "too-large", 4, *all_of_it)
        await linked.unchanged()


@WRITING.case("a binary that is too large, or of no size, is rejected", "binaries")
async def _binary_limits(trial: Trial) -> None:
    await trial.room(ADA)
    digest = digest_of(b"x")
    async with trial.linked() as linked:
        most = linked.limits.max_binary_bytes
        await _rejects(trial, linked, "too-large", 1, PutBinary("a.png", digest, most + 1))
        await _rejects(trial, linked, None, 2, PutBinary("a.png", digest, -1))
