"""A process that uses a store is killed at every moment; what was acknowledged is there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from store_child import KEEPING
from store_story import LOST, stale_terms, store_at, traces

from trio_reactor.rooms.model.edits import Put
from trio_reactor.rooms.model.entries import Document
from trio_reactor.rooms.model.held import HeldRoom, QueuedEdit, Seen
from trio_reactor.rooms.store.content import Content
from trio_reactor.world import SystemWorld

CHILD = Path(__file__).with_name("store_child.py")


def played(directory: Path, what: str) -> list[tuple[Path, list[str]]]:
    """The stores that killed processes left, and what each of those had acknowledged."""
    ended = subprocess.run(
        [sys.executable, "-W", "error", CHILD, directory, what],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert ended.returncode == 0, ended.stderr
    moments = int(ended.stdout)
    assert moments > 10
    return [
        (
            directory / f"{moment:03}" / "store",
            (directory / f"{moment:03}.said").read_text().split(),
        )
        for moment in range(moments + 1)
    ]


def looked(content: Content) -> tuple[tuple[QueuedEdit, ...], list[Seen]]:
    number = content.room("kept")
    assert number is not None
    return content.outbox.edits(number), content.seen(number)


def reached(room: HeldRoom, edits: tuple[QueuedEdit, ...], seen: list[Seen]) -> int:
    """How many of the steps are in a store; each is there as a whole."""
    texts = {each.entry.path: each.entry for each in seen}
    if room.version == 3:
        assert [edit.state for edit in edits] == ["queued"]
        assert edits[0].steps[0].operation == Put("d0", "mine again", base=3)
        assert texts["mine"] == Document("mine", 3, "new")
        assert texts["d0"] == Document("d0", 3, "mine again")
        return 6
    if edits:
        assert len(edits) == 2
        assert texts["d0"] == Document("d0", 2, "mine again")
        assert texts["mine"] == Document("mine", 0, "new")
        assert room.transfer is not None
        assert edits[1].state == "queued"
        assert edits[1].steps[0].follows == (edits[0].state != "accepted")
        return {"queued": 3, "submitted": 4, "accepted": 5}[edits[0].state]
    if room.version == 2:
        assert texts["d2"] == Document("d2", 2, "two 2")
        return 1 if room.transfer is None else 2
    assert room.version == 1
    assert len(texts) == 3
    return 0


@pytest.mark.long
async def test_each_step_is_there_as_a_whole_once_it_was_acknowledged(tmp_path: Path) -> None:
    stores = played(tmp_path, "keep")
    found: set[int] = set()
    for path, said in stores:
        async with store_at(path).open(SystemWorld()) as (store, opened):
            assert opened.loss is None
            assert opened.fences == ()
            room = next(room for room in opened.rooms if room.listing.room == "kept")
            edits, seen = await store.read(looked)
        steps = reached(room, edits, seen)
        # The one that was on its way may be there.
        assert len(said) <= steps <= len(said) + 1
        assert said == [word for word, _ in KEEPING[: len(said)]]
        found.add(steps)
    assert found == set(range(7))


@pytest.mark.long
async def test_an_erasure_that_was_cut_short_is_finished_and_leaves_no_byte(
    tmp_path: Path,
) -> None:
    stores = played(tmp_path, "lose")
    cut_short = 0
    for path, said in stores:
        async with store_at(path).open(SystemWorld()) as (store, opened):
            names = [room.listing.room for room in opened.rooms]
            if not said and not opened.fences:
                assert names == ["kept", LOST]
                continue
            assert "erased" not in said or opened.fences == ()
            if opened.fences:
                assert opened.fences == (LOST,)
                cut_short += 1
                await store.erase(opened.fences)
            assert traces(path) == {}
            assert stale_terms(path) == []
            assert len((await store.read(looked))[1]) == 3
        assert traces(path) == {}
    assert cut_short > 10
