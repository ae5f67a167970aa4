"""A journal whose commits end when the test says, and how."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import trio

from trio_reactor.errors import ReactorError
from trio_reactor.supervision.model.keys import Key
from trio_reactor.supervision.model.records import SessionRecord
from trio_reactor.supervision.store.conformance.lives import life
from trio_reactor.supervision.store.protocol import Change, Contents


class Commit:
    """A commit that has begun and not ended."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.answer: Any = None
        self.ended = trio.Event()

    def finish(self, *outcomes: ReactorError | None) -> None:
        """It becomes durable, all of it unless outcomes are given."""
        self.answer = list(outcomes) or [None for _ in self.names]
        self.ended.set()

    def fail(self, failure: BaseException) -> None:
        self.answer = failure
        self.ended.set()


class ScriptedJournal:
    """Never commits by itself, until it is released."""

    def __init__(self) -> None:
        self.commits: list[Commit] = []
        self._released = False

    def release(self) -> None:
        """From now on every commit ends by itself, and so does the one that has begun."""
        self._released = True
        for commit in self.commits:
            if not commit.ended.is_set():
                commit.finish()

    async def load(self) -> Contents:
        await trio.lowlevel.checkpoint()
        return Contents((), {})

    async def commit(self, changes: Sequence[Change], /) -> Any:
        commit = Commit([change.record.handle.key.identity for change in changes])
        self.commits.append(commit)
        if self._released:
            commit.finish()
        await commit.ended.wait()
        if isinstance(commit.answer, BaseException):
            raise commit.answer
        return commit.answer


def record(name: str) -> SessionRecord:
    """The first record of a session."""
    return life(Key(name), 1, "")[0]
