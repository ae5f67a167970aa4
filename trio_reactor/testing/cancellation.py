"""Cancellation at the nth checkpoint.

A checkpoint is where a task gives way, so the checkpoints of a task are the ends of its steps.
`cancel_at(n)` is a cancel scope that is cancelled when the nth step inside of it has ended, which
means at the nth checkpoint of the block: that one raises `Cancelled`, or if it is shielded, the
next that is not.  `cancel_at(0)` is cancelled before the block begins.

    with cancel_at(3) as scope:
        await owner.acquire(...)
    assert scope.cancelled_caught

`trio_reactor.testing.for_every_checkpoint` runs a scenario once for every n.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Literal, TypeAlias, final

import trio
from trio.lowlevel import Task

__all__ = ["Countdown", "Tasks", "cancel_at"]

Tasks: TypeAlias = Literal["own", "all"]
"""Whose steps count: those of the task that entered the block, or those of its children too."""


def cancel_at(step: int, *, tasks: Tasks = "own") -> AbstractContextManager[trio.CancelScope]:
    """A cancel scope that is cancelled after a number of steps inside of it.

    Args:
        step: After how many, counted from when the block is entered.
        tasks: Whose: of the task that entered the block, or also of every task in a nursery that
            was opened inside of it.

    Raises:
        ValueError: If the number is negative.
    """
    return Countdown(step).block(tasks)


@final
class Countdown:
    """A number of steps that several blocks use up together.

    Args:
        step: After how many steps inside of its blocks it cancels the one where that step was;
            `None` never does.
    """

    def __init__(self, step: int | None) -> None:
        if step is not None and step < 0:
            raise ValueError(f"a number of steps is not negative as {step} is")
        self.entered = False
        """Whether a block was entered."""
        self.hit = False
        """Whether a block was cancelled."""
        self._left = step

    @contextmanager
    def block(self, tasks: Tasks = "own") -> Generator[trio.CancelScope]:
        """A block whose steps count, as a cancel scope."""
        self.entered = True
        with trio.CancelScope() as scope:
            if self._left is None or self.hit:
                yield scope
                return
            if self._left == 0:
                self._cancel(scope)
            counter = _Counter(self, scope, tasks)
            trio.lowlevel.add_instrument(counter)
            try:
                yield scope
            finally:
                trio.lowlevel.remove_instrument(counter)

    def _cancel(self, scope: trio.CancelScope) -> None:
        self.hit = True
        scope.cancel()

    def count(self, scope: trio.CancelScope) -> None:
        """Count a step inside of the block that has this scope."""
        if self._left is None or self.hit:
            return
        self._left -= 1
        if self._left == 0:
            self._cancel(scope)


@final
class _Counter(trio.abc.Instrument):
    """Counts the steps that are taken inside of one block."""

    def __init__(self, countdown: Countdown, scope: trio.CancelScope, tasks: Tasks) -> None:
        self._countdown = countdown
        self._scope = scope
        self._all = tasks == "all"
        self._task = trio.lowlevel.current_task()
        # Their tasks are not inside of the block, though the task that entered it opened them.
        self._outside = tuple(self._task.child_nurseries)

    def after_task_step(self, task: Task) -> None:
        if task is self._task or (self._all and self._inside(task)):
            self._countdown.count(self._scope)

    def _inside(self, task: Task) -> bool:
        nursery = task.parent_nursery
        while nursery is not None and nursery.parent_task is not self._task:
            nursery = nursery.parent_task.parent_nursery
        return nursery is not None and nursery not in self._outside
