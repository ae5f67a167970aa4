"""A store in a file: what is put into it, and what must not be found in its bytes."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import cast

import apsw
from replica_story import admitted, page, queue

from trio_reactor.rooms.model.answers import Message, Page
from trio_reactor.rooms.model.edits import Delete, Move, Put
from trio_reactor.rooms.model.entries import Binary, Document, digest_of
from trio_reactor.rooms.store.content import Content
from trio_reactor.rooms.store.file import ReplicaStore
from trio_reactor.rooms.store.writing import Work

SECRET = "zyxq"
"""Part of every word, name and byte of a room that is lost."""
LOST = f"{SECRET}-room"


def store_at(path: Path) -> ReplicaStore:
    """A store that is used in the calling task."""
    return ReplicaStore(path, inline=True)


def words(chance: random.Random, count: int, mark: str = "") -> str:
    """Words that nobody else has, each with a mark in it."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    return " ".join(
        "".join(chance.choices(letters, k=2)) + mark + "".join(chance.choices(letters, k=5))
        for _ in range(count)
    )


def published(name: str, version: int, mark: str, *, documents: int, count: int) -> Work:
    """Publish a room of documents full of words."""

    def work(content: Content) -> None:
        chance = random.Random(f"{name} {version}")
        number = admitted(content, name)
        entries = [
            Document(f"{mark}{index}.md", version, words(chance, count, mark))
            for index in range(documents)
        ]
        content.publish_whole(number, page(name, version, *entries), "")

    return work


def lived(name: str) -> list[Work]:
    """What a room leaves everywhere in a store: it is written, edited, talked in and read."""

    def numbered(work: Callable[[Content, int], object]) -> Work:
        return lambda content: work(content, admitted(content, name))

    long = f"{SECRET} " * 4_000
    works: list[Work] = [published(name, 1, SECRET, documents=8, count=120)]
    works.extend(published(name, version, SECRET, documents=6, count=80) for version in (2, 3, 4))

    def edited(content: Content, number: int) -> None:
        queue(content, number, Put(f"{SECRET}0.md", long))
        queue(content, number, Put(f"{SECRET}0.md", f"{long} again"))
        queue(content, number, Move(f"{SECRET}1.md", f"{SECRET}-moved.md"))
        queue(content, number, Delete(f"{SECRET}2.md"))
        queue(content, number, Put(f"{SECRET}-new.md", f"{SECRET} new"))

    def answered(content: Content, number: int) -> None:
        first, second, *_, last = content.outbox.edits(number)
        content.outbox.mark(number, name)
        content.outbox.accept(number, first, 5)
        entry = Document(f"{SECRET}0.md", 5, long)
        content.publish_change(number, since=4, version=5, entries=(entry,), removed=())
        content.outbox.give_back(number, last, "rejected", written=1.0, code=SECRET, detail=SECRET)
        content.outbox.mark(number, name)
        assert second.id

    def more(content: Content, number: int) -> None:
        data = SECRET.encode() * 100_000
        content.keep_blob(number, digest_of(data), data)
        staged = (Document(f"{SECRET}s.md", 6, long), Binary(f"{SECRET}b", 6, digest_of(data), 9))
        content.stage(number, Page(name, f"{SECRET}t", 0, 6, staged, f"{SECRET}next"), SECRET)
        said = Message(f"{SECRET}thread", f"{SECRET}id", 1, SECRET, 1.0, long)
        content.hear(number, (said,), f"{SECRET}position")
        content.want_said(number, f"{SECRET}thread", f"{SECRET}mine", f"{SECRET} said")
        content.keep_part(f"{SECRET}key", 0, 2, name, SECRET.encode(), most=1_000_000)

    works.extend(map(numbered, (edited, answered, more)))
    return works


def bytes_of(path: Path) -> dict[str, bytes]:
    """Every file of a store, by its name."""
    return {each.name: each.read_bytes() for each in path.parent.iterdir()}


def traces(path: Path) -> dict[str, int]:
    """How often a lost room is in the bytes of which file."""
    found = {
        name: len(re.findall(SECRET.encode(), data, re.IGNORECASE))
        for name, data in bytes_of(path).items()
    }
    return {name: count for name, count in found.items() if count}


def stale_terms(path: Path) -> list[str]:
    """Beginnings of words in the index's own tree that no document has any more."""
    database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        database.execute("CREATE VIRTUAL TABLE temp.vocabulary USING fts5vocab(main, words, row)")
        terms = sorted(str(term) for (term,) in database.execute("SELECT term FROM vocabulary"))
        kept = {term[:end] for term in terms for end in range(len(term) + 1)}
        found = [
            cast("bytes", term)[1:].decode(errors="replace")
            for (term,) in database.execute("SELECT CAST(term AS BLOB) FROM words_idx")
            if term
        ]
    finally:
        database.close()
    return [term for term in found if term not in kept]
