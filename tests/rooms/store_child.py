"""Uses a store step by step, and is killed before each statement and after the last in turn.

What was acknowledged is written into a file beside the store before the next step begins.  For each
moment there is a copy of the store, in a directory that is named by how many statements were run.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

import trio
from replica_story import admitted, page, queue
from store_story import LOST, lived, published, store_at

from trio_reactor.rooms.model.answers import Page
from trio_reactor.rooms.model.edits import Put
from trio_reactor.rooms.model.entries import Document
from trio_reactor.rooms.store import file
from trio_reactor.rooms.store.content import Content
from trio_reactor.rooms.store.file import OpenStore
from trio_reactor.rooms.store.writing import Work
from trio_reactor.sqlite import Database, Rows, Value
from trio_reactor.world import SystemWorld


class Mortal:
    """A database whose process is killed before a statement."""

    def __init__(self, database: Database, life: list[int]) -> None:
        self._database = database
        self._life = life

    def __getattr__(self, name: str) -> object:
        return getattr(self._database, name)

    def _live(self) -> None:
        if self._life[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self._life[0] -= 1

    def execute(self, statements: str, bindings: Sequence[Value] = (), /) -> Rows:
        self._live()
        return self._database.execute(statements, bindings)

    def executemany(self, statements: str, bindings: Iterable[Sequence[Value]], /) -> Rows:
        self._live()
        return self._database.executemany(statements, bindings)


def _publish(content: Content) -> None:
    whole = page("kept", 2, *(Document(f"d{n}", 2, f"two {n}") for n in range(3)))
    content.publish_whole(admitted(content, "kept"), whole, "")


def _stage(content: Content) -> None:
    staged = Page("kept", "t", 0, 9, (Document("staged", 9, "nine"),), "token")
    content.stage(admitted(content, "kept"), staged, "")


def _edit(content: Content) -> None:
    queue(content, admitted(content, "kept"), Put("d0", "mine"), Put("mine", "new"))
    queue(content, admitted(content, "kept"), Put("d0", "mine again"))


def _mark(content: Content) -> None:
    content.outbox.mark(admitted(content, "kept"), "kept")


def _accept(content: Content) -> None:
    number = admitted(content, "kept")
    head = content.outbox.head(number)
    assert head is not None
    content.outbox.accept(number, head, 3)


def _land(content: Content) -> None:
    entries = (Document("d0", 3, "mine"), Document("mine", 3, "new"))
    content.publish_change(
        admitted(content, "kept"), since=2, version=3, entries=entries, removed=()
    )


KEEPING: list[tuple[str, Work]] = [
    ("published", _publish),
    ("staged", _stage),
    ("edited", _edit),
    ("marked", _mark),
    ("accepted", _accept),
    ("landed", _land),
]


async def keep(store: OpenStore, said: Path) -> None:
    """Everything that a room lives through."""
    for word, work in KEEPING:
        await store.commit([work])
        _say(said, word)


async def lose(store: OpenStore, said: Path) -> None:
    """Mark a room as lost, and erase it."""
    await store.commit([lambda content: content.fence([LOST])])
    _say(said, "fenced")
    await store.erase([LOST])
    _say(said, "erased")


def _say(said: Path, word: str) -> None:
    with said.open("a") as file:
        file.write(f"{word}\n")


async def prepare(path: Path) -> None:
    """A store in which there is one room to be kept and one to be lost."""
    async with store_at(path).open(SystemWorld()) as (store, _):
        await store.commit([published("kept", 1, "", documents=3, count=40)])
        for work in lived(LOST):
            await store.commit([work])


async def play(path: Path, what: str, statements: int) -> None:
    """Open the store, and live for so many statements."""
    life = [10**9]
    connect = file.connect

    def mortal(path: str) -> Database:
        return cast("Database", Mortal(connect(path), life))

    file.connect = mortal
    async with store_at(path).open(SystemWorld()) as (store, _):
        life[0] = statements
        await (keep if what == "keep" else lose)(store, path.parent.with_suffix(".said"))
        life[0] = 10**9
        os.kill(os.getpid(), signal.SIGKILL)


def main(directory: Path, what: str) -> None:
    """Play it once for every moment at which it can be killed."""
    base = directory / "base"
    base.mkdir()
    trio.run(prepare, base / "store")
    statements = 0
    while True:
        copy = directory / f"{statements:03}"
        shutil.copytree(base, copy)
        said = copy.with_suffix(".said")
        said.touch()
        child = os.fork()
        if child == 0:
            trio.run(play, copy / "store", what, statements)
            os._exit(1)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), status
        last = KEEPING[-1][0] if what == "keep" else "erased"
        if last in said.read_text().split():
            break
        statements += 1
    print(statements)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
