"""The run queue that holds tasks back, against a model of what the loop needs of it."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from trio_reactor.testing import Schedule
from trio_reactor.testing.schedule import _RunQueue


@dataclass(eq=False)
class Task:
    """All that the queue knows of a task."""

    _counter: int


def queue(seed: int, schedule: Schedule) -> Any:
    return _RunQueue(random.Random(seed), schedule, lambda runnable, steps: None)


def batch(runq: Any) -> list[Task]:
    """What the loop does."""
    tasks = list(runq)
    runq.clear()
    return tasks


schedules = st.builds(
    Schedule, hold=st.sampled_from([0.0, 0.1, 0.5, 1.0]), longest=st.integers(1, 6)
)
arrivals = st.lists(st.lists(st.integers(0, 30), max_size=8, unique=True), max_size=30)


@settings(max_examples=300)
@given(seed=st.integers(0, 10**6), schedule=schedules, arriving=arrivals)
def test_every_runnable_task_goes_once_soon_and_no_batch_is_empty_while_one_is_runnable(
    seed: int, schedule: Schedule, arriving: list[list[int]]
) -> None:
    runq = queue(seed, schedule)
    since: dict[int, int] = {}
    went: list[Task] = []
    for now, numbers in enumerate([*arriving, *([[]] * 300)]):
        for number in numbers:
            if number not in since:  # a task is in the queue at most once
                since[number] = now
                runq.append(Task(number))
        assert len(runq) == len(since)
        assert bool(runq) is bool(since)
        going = batch(runq)
        assert bool(going) is bool(since)
        for task in going:
            waited = now - since.pop(task._counter)
            assert waited <= schedule.longest
        went += going
        assert set(runq._release) <= set(deque.__iter__(runq))
    assert not since
    assert not runq._release
    assert runq.steps == len(went)
    assert runq.batches <= runq.steps


@given(seed=st.integers(0, 10**6), schedule=schedules, order=st.permutations(range(12)))
def test_the_order_in_which_tasks_became_runnable_changes_nothing(
    seed: int, schedule: Schedule, order: list[int]
) -> None:
    def batches(numbers: list[int]) -> list[list[int]]:
        runq = queue(seed, schedule)
        runq.extend(Task(number) for number in numbers)
        return [sorted(task._counter for task in batch(runq)) for _ in range(20)]

    assert batches(order) == batches(sorted(order))


def test_looking_at_the_queue_again_before_the_loop_takes_the_batch_loses_nobody() -> None:
    runq = queue(1, Schedule(hold=0.5))
    runq.extend(Task(number) for number in range(20))
    list(runq)
    held = len(runq) - len(batch(runq))
    assert len(runq) == held > 0
