"""What the stories about the channel share: a few events, and instruments that count."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from trio_reactor.events import Event

READER = "a reader"


class Ping(Event):
    n: int = 0


class Loud(Ping):
    volume: float = 1.0


class Pong(Event):
    n: int = 0


class Steps(trio.abc.Instrument):
    """Counts how often tasks of one name were made runnable, and how often they ran."""

    def __init__(self, name: str = READER) -> None:
        self._name = name
        self.woken: list[trio.lowlevel.Task] = []
        self.steps = 0

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:
        if task.name == self._name:
            self.woken.append(task)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.steps += task.name == self._name

    def forget(self) -> None:
        self.woken.clear()
        self.steps = 0


@contextmanager
def counting(name: str = READER) -> Iterator[Steps]:
    """Counts as long as the block lasts."""
    steps = Steps(name)
    trio.lowlevel.add_instrument(steps)
    try:
        yield steps
    finally:
        trio.lowlevel.remove_instrument(steps)
