"""The writer of the journal: order, groups, failures, bounds and its end."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import trio
from scripted_journal import Commit, ScriptedJournal, record
from trio.testing import wait_all_tasks_blocked

from trio_reactor.errors import Closed, Overflow, ReactorError, is_expected
from trio_reactor.owner import open_owner
from trio_reactor.supervision.errors import (
    HostFenced,
    RecordRefused,
    StaleSession,
    StoreBusy,
    StoreFailed,
)
from trio_reactor.supervision.journal import Write, Writer
from trio_reactor.supervision.model.codec import MAX_RECORD_BYTES
from trio_reactor.supervision.model.records import SessionRecord
from trio_reactor.supervision.store.memory import MemoryStore


class Stage:
    """A writer to a scripted journal, and what was told of it, in order."""

    def __init__(self, **options: Any) -> None:
        self.journal = ScriptedJournal()
        self.failures: list[BaseException] = []
        self.told: list[str] = []
        self.refusals: dict[str, BaseException] = {}
        self.writer = Writer(self.journal, on_failed=self.on_failed, **options)

    def on_failed(self, failure: BaseException) -> None:
        self.told.append("failed")
        self.failures.append(failure)

    def submit(self, name: str, of: SessionRecord | None = None) -> Write:
        def refused(failure: BaseException) -> None:
            self.told.append(f"{name} refused")
            self.refusals[name] = failure

        return self.writer.submit(
            of or record(name),
            committed=lambda: self.told.append(f"{name} durable"),
            refused=refused,
        )

    async def current(self) -> Commit:
        """The commit that has begun and not ended."""
        await wait_all_tasks_blocked()
        commit = self.journal.commits[-1]
        assert not commit.ended.is_set()
        return commit

    async def wait(self, write: Write, name: str) -> None:
        try:
            await write.wait()
        except ReactorError as failure:
            self.told.append(f"{name} raised {type(failure).__name__}")
        else:
            self.told.append(f"{name} goes on")


@asynccontextmanager
async def running(stage: Stage) -> AsyncGenerator[Stage]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stage.writer.run)
        yield stage
        stage.writer.close()
        stage.journal.release()


@pytest.fixture
async def stage() -> AsyncGenerator[Stage]:
    async with running(Stage()) as stage:
        yield stage


# Groups and order


async def test_the_first_is_committed_at_once_and_those_that_come_meanwhile_together(
    autojump_clock: object, stage: Stage
) -> None:
    stage.submit("a")
    first = await stage.current()
    assert first.names == ["a"]
    for name in "bcd":
        stage.submit(name)
        await wait_all_tasks_blocked()
    assert len(stage.journal.commits) == 1
    first.finish()
    second = await stage.current()
    assert second.names == ["b", "c", "d"]
    assert stage.told == ["a durable"]
    second.finish()
    await wait_all_tasks_blocked()
    assert stage.told == ["a durable", "b durable", "c durable", "d durable"]
    assert len(stage.journal.commits) == 2


async def test_sixty_four_that_submit_at_once_make_one_commit(
    autojump_clock: object, stage: Stage, nursery: trio.Nursery
) -> None:
    async def live(name: str) -> None:
        for _ in range(3):
            await stage.submit(name).wait()

    names = [f"task {number}" for number in range(64)]
    for name in names:
        nursery.start_soon(live, name)
    for _ in range(3):
        commit = await stage.current()
        assert sorted(commit.names) == sorted(names)
        commit.finish()
    await wait_all_tasks_blocked()
    assert len(stage.journal.commits) == 3


async def test_a_group_is_bounded(autojump_clock: object) -> None:
    async with running(Stage(max_batch=2)) as stage:
        for name in "abcde":
            stage.submit(name)
        groups: list[list[str]] = []
        for _ in range(3):
            commit = await stage.current()
            groups.append(commit.names)
            commit.finish()
    assert groups == [["a", "b"], ["c", "d"], ["e"]]
    assert stage.told == [f"{name} durable" for name in "abcde"]


async def test_an_idle_writer_wakes_for_nothing(autojump_clock: object, stage: Stage) -> None:
    await wait_all_tasks_blocked()
    steps = Steps()
    trio.lowlevel.add_instrument(steps)
    await trio.sleep(50_000)
    trio.lowlevel.remove_instrument(steps)
    assert steps.of_writer == 0
    assert stage.journal.commits == []


class Steps(trio.abc.Instrument):
    def __init__(self) -> None:
        self.of_writer = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.of_writer += "Writer.run" in task.name


async def test_every_callback_is_called_before_any_waiter_runs(
    autojump_clock: object, stage: Stage, nursery: trio.Nursery
) -> None:
    for name in "abc":
        nursery.start_soon(stage.wait, stage.submit(name), name)
    (await stage.current()).finish(None, StaleSession("it is old"), None)
    await wait_all_tasks_blocked()
    assert stage.told[:3] == ["a durable", "b refused", "c durable"]
    assert sorted(stage.told[3:]) == ["a goes on", "b raised StaleSession", "c goes on"]


def late(stage: Stage) -> None:
    stage.submit("late")


async def test_what_a_callback_submits_comes_after_what_was_there(
    autojump_clock: object, stage: Stage
) -> None:
    stage.writer.submit(record("a"), committed=lambda: late(stage), refused=print)
    first = await stage.current()
    stage.submit("b")
    first.finish()
    assert (await stage.current()).names == ["b", "late"]


# Waiting


async def test_a_wait_that_is_cancelled_abandons_only_the_wait(
    autojump_clock: object, stage: Stage
) -> None:
    write = stage.submit("a")
    with trio.move_on_after(1) as scope:
        await write.wait()
    assert scope.cancelled_caught
    assert not write.settled
    (await stage.current()).finish()
    await wait_all_tasks_blocked()
    assert write.settled
    assert stage.told == ["a durable"]


async def test_waiting_is_always_a_checkpoint(autojump_clock: object, stage: Stage) -> None:
    good, bad = stage.submit("a"), stage.submit("b")
    (await stage.current()).finish(None, StaleSession("it is old"))
    await good.wait()
    with trio.testing.assert_checkpoints():
        await good.wait()
    with trio.testing.assert_checkpoints(), pytest.raises(StaleSession):
        await bad.wait()


async def test_each_who_waits_is_told_by_an_error_of_its_own(
    autojump_clock: object, stage: Stage
) -> None:
    write = stage.submit("a")
    original = StaleSession("it is old", outcome="replied", detail="they said so")
    original.add_note("a note")
    (await stage.current()).finish(original)
    caught: list[StaleSession] = []
    for _ in range(3):
        with pytest.raises(StaleSession, match="it is old") as raised:
            await write.wait()
        caught.append(raised.value)
    assert caught[0] is original
    assert len({id(each) for each in caught}) == 3
    for fresh in caught[1:]:
        assert fresh.__cause__ is original
        assert (fresh.message, fresh.outcome, fresh.detail) == (
            "it is old",
            "replied",
            "they said so",
        )
    assert write.failure is original


# What cannot be written


async def test_a_record_that_cannot_be_encoded_is_its_callers_alone(
    autojump_clock: object, stage: Stage
) -> None:
    odd = msgspec.structs.replace(record("odd"), request="x" * MAX_RECORD_BYTES)
    stage.submit("a")
    first = await stage.current()
    stage.submit("b")
    with pytest.raises(RecordRefused, match="the record of odd generation 1 has"):
        stage.submit("odd", odd)
    stage.submit("c")
    first.finish()
    second = await stage.current()
    assert second.names == ["b", "c"]
    second.finish()
    await wait_all_tasks_blocked()
    assert stage.told == ["a durable", "b durable", "c durable"]


async def test_what_one_is_refused_for_is_its_own(autojump_clock: object, stage: Stage) -> None:
    for name in "abc":
        stage.submit(name)
    refusal = StaleSession("it is old")
    (await stage.current()).finish(None, refusal, None)
    await wait_all_tasks_blocked()
    assert stage.told == ["a durable", "b refused", "c durable"]
    assert stage.refusals == {"b": refusal}
    assert stage.failures == []
    stage.submit("d")
    (await stage.current()).finish()


async def test_beyond_its_bound_it_refuses_and_says_that_there_may_be_room_later(
    autojump_clock: object,
) -> None:
    async with running(Stage(max_transitions=3)) as stage:
        stage.submit("a")
        first = await stage.current()
        stage.submit("b")
        stage.submit("c")
        with pytest.raises(Overflow, match="max_transitions=3 is reached") as caught:
            stage.submit("d")
        assert caught.value.retryable
        first.finish()
        await stage.current()
        stage.submit("d")
    assert stage.told == ["a durable", "b durable", "c durable", "d durable"]


@pytest.mark.parametrize("bound", ["max_batch", "max_transitions"])
@pytest.mark.parametrize("value", [0, -1, True])
def test_a_bound_that_is_none_is_refused_by_name(bound: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{bound}: at least 1, not {value!r}"):
        Stage(**{bound: value})


# The journal fails


WEATHER = StoreFailed("the disk is gone", store="it", outcome="unknown", detail="ENODEV")


@pytest.mark.parametrize(
    ("failure", "refusal", "outcome", "expected"),
    [
        (WEATHER, StoreFailed, "unknown", True),
        (StoreFailed("it is full", store="it"), StoreFailed, "not-submitted", True),
        (StoreFailed("try", store="it", retryable=True), StoreFailed, "not-submitted", True),
        (StoreBusy("it is taken", store="it"), StoreBusy, "not-submitted", True),
        (HostFenced("this host is fenced", outcome="replied"), HostFenced, "replied", True),
        (OSError("broken"), StoreFailed, "unknown", True),
        (Closed("it was closed"), StoreFailed, "not-submitted", True),
        (TypeError("a bug"), StoreFailed, "unknown", False),
        (KeyError("a bug"), StoreFailed, "unknown", False),
    ],
    ids=lambda value: getattr(value, "__name__", None) or str(value),
)
async def test_a_failure_refuses_its_group_and_everything_after_it(
    autojump_clock: object,
    stage: Stage,
    failure: Exception,
    refusal: type[ReactorError],
    outcome: str,
    expected: bool,
) -> None:
    writes = {name: stage.submit(name) for name in "ab"}
    commit = await stage.current()
    writes |= {name: stage.submit(name) for name in "cd"}
    commit.fail(failure)
    await wait_all_tasks_blocked()
    writes["e"] = stage.submit("e")
    await wait_all_tasks_blocked()

    assert stage.told == ["failed", *(f"{name} refused" for name in "abcde")]
    assert stage.failures == [failure]
    assert is_expected(stage.failures[0]) == expected
    assert stage.writer.failure is failure
    assert len(stage.journal.commits) == 1
    found = [write.failure for write in writes.values()]
    assert len({id(each) for each in found}) == 5
    for name, each in zip("abcde", found, strict=True):
        assert type(each) is refusal
        assert each.outcome == (outcome if name in "ab" else "not-submitted")
        assert not each.retryable
        assert each.__cause__ is failure
        assert each is stage.refusals[name]
    with pytest.raises(refusal):
        await writes["c"].wait()


async def test_a_failure_is_known_before_anybody_is_told_of_it(
    autojump_clock: object, stage: Stage
) -> None:
    seen: list[object] = []
    stage.writer.submit(
        record("a"), committed=print, refused=lambda _: seen.append(stage.writer.failure)
    )
    stage.writer.submit(
        record("b"), committed=print, refused=lambda _: stage.submit("late") and None
    )
    (await stage.current()).fail(WEATHER)
    await wait_all_tasks_blocked()
    assert seen == [WEATHER]
    assert stage.told == ["failed", "late refused"]
    assert len(stage.journal.commits) == 1


@pytest.mark.parametrize("answer", [None, [], [None, None], ["what"], {"a": None}, 1], ids=str)
async def test_a_commit_that_returns_nonsense_is_a_defect(
    autojump_clock: object, stage: Stage, answer: Any
) -> None:
    write = stage.submit("a")
    commit = await stage.current()
    commit.answer = answer
    commit.ended.set()
    await wait_all_tasks_blocked()
    assert stage.told == ["failed", "a refused"]
    assert not is_expected(stage.failures[0])
    assert write.failure is not None
    assert write.failure.outcome == "unknown"
    assert "has a defect" in str(write.failure)


async def test_told_to_go_on_it_takes_what_comes_then_and_not_what_came_before(
    autojump_clock: object, stage: Stage
) -> None:
    stage.submit("a")
    commit = await stage.current()
    stage.submit("b")
    commit.fail(WEATHER)
    await wait_all_tasks_blocked()
    stage.submit("c")
    stage.writer.resume()
    stage.submit("d")
    commit = await stage.current()
    assert commit.names == ["d"]
    commit.finish()
    await wait_all_tasks_blocked()
    assert stage.told == ["failed", "a refused", "b refused", "c refused", "d durable"]
    assert not stage.writer.statistics().failed


async def test_told_to_go_on_while_it_is_told_of_the_failure_it_leaves_no_hole(
    autojump_clock: object,
) -> None:
    stage = Stage()
    stage.writer = Writer(stage.journal, on_failed=lambda _: stage.writer.resume())
    async with running(stage):
        stage.submit("a")
        commit = await stage.current()
        stage.submit("b")
        commit.fail(WEATHER)
    assert stage.told == ["a refused", "b refused"]


# Callbacks that raise


@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("fails", [False, True])
async def test_what_a_callback_raises_is_told_and_loses_no_other(
    autojump_clock: object, stage: Stage, nursery: trio.Nursery, which: int, fails: bool
) -> None:
    bug = RuntimeError("a bug of a callback")

    def broken(*_: object) -> None:
        raise bug

    for number, name in enumerate("abc"):
        write = (
            stage.writer.submit(record(name), committed=broken, refused=broken)
            if number == which
            else stage.submit(name)
        )
        nursery.start_soon(stage.wait, write, name)
    commit = await stage.current()
    if fails:
        commit.fail(WEATHER)
    else:
        commit.finish()
    await wait_all_tasks_blocked()
    others = [name for number, name in enumerate("abc") if number != which]
    what, end = ("refused", "raised StoreFailed") if fails else ("durable", "goes on")
    told = [line for line in stage.told if line != "failed"]
    assert told[:2] == [f"{name} {what}" for name in others]
    assert sorted(told[2:]) == sorted(f"{name} {end}" for name in "abc")
    assert stage.failures == ([WEATHER, bug] if fails else [bug])
    stage.writer.resume()
    stage.submit("z")
    (await stage.current()).finish()


async def test_who_is_told_of_failures_and_raises_ends_it_and_leaves_nobody_waiting(
    autojump_clock: object,
) -> None:
    bug = RuntimeError("a bug of whoever is told")
    stage = Stage()

    def broken(_: BaseException) -> None:
        raise bug

    stage.writer = Writer(stage.journal, on_failed=broken)
    with pytest.RaisesGroup(pytest.RaisesExc(RuntimeError, match="a bug of whoever")):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage.writer.run)
            for name in "ab":
                stage.submit(name)
            commit = await stage.current()
            stage.submit("c")
            commit.fail(WEATHER)
            await trio.sleep_forever()
    assert stage.told == ["a refused", "b refused", "c refused"]
    with pytest.raises(Closed):
        stage.submit("d")


# Its end


async def test_closed_it_writes_what_it_has_and_ends(autojump_clock: object) -> None:
    stage = Stage()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stage.writer.run)
        stage.submit("a")
        commit = await stage.current()
        stage.submit("b")
        stage.writer.close()
        stage.writer.close()
        with pytest.raises(Closed, match="the writer is closed"):
            stage.submit("c")
        commit.finish()
        (await stage.current()).finish()
    assert stage.told == ["a durable", "b durable"]


@pytest.mark.parametrize("begun", [False, True])
async def test_closed_while_it_has_nothing_to_do_it_ends(
    autojump_clock: object, begun: bool
) -> None:
    stage = Stage()
    async with trio.open_nursery() as nursery:
        if begun:
            nursery.start_soon(stage.writer.run)
            await wait_all_tasks_blocked()
        stage.writer.close()
        if not begun:
            nursery.start_soon(stage.writer.run)


async def test_what_is_submitted_before_it_runs_is_written_when_it_does(
    autojump_clock: object,
) -> None:
    stage = Stage()
    stage.submit("a")
    stage.submit("b")
    stage.writer.close()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stage.writer.run)
        (await stage.current()).finish()
    assert stage.told == ["a durable", "b durable"]


async def test_it_runs_once(autojump_clock: object, stage: Stage) -> None:
    await wait_all_tasks_blocked()
    with pytest.raises(RuntimeError, match="a writer runs once"):
        await stage.writer.run()


async def test_cancelled_it_finishes_its_commit_and_refuses_the_rest(
    autojump_clock: object,
) -> None:
    stage = Stage()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stage.writer.run)
        stage.submit("a")
        commit = await stage.current()
        last = stage.submit("b")
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await trio.sleep(1_000)
            assert stage.told == []
            commit.finish()
            await wait_all_tasks_blocked()
    assert stage.told == ["a durable", "b refused"]
    with pytest.raises(Closed, match="the writer ended before this was written") as caught:
        await last.wait()
    assert caught.value.outcome == "not-submitted"
    with pytest.raises(Closed):
        stage.submit("c")


async def test_as_a_worker_that_drains_it_is_closed_by_its_owner(autojump_clock: object) -> None:
    store = MemoryStore()
    told: list[str] = []
    async with store.open() as journal:
        async with open_owner("the owner") as owner:
            writer = Writer(journal, on_failed=owner.fail)
            owner.start_soon(writer.run, name="the writer", drain=True)
            for name in "abc":
                writer.submit(
                    record(name),
                    committed=lambda name=name: told.append(name),  # type: ignore[misc]
                    refused=owner.fail,
                )
            writer.close()
        assert told == ["a", "b", "c"]
        assert len((await journal.load()).records) == 3


async def test_its_statistics_say_what_it_did(autojump_clock: object, stage: Stage) -> None:
    stage.submit("a")
    first = await stage.current()
    stage.submit("b")
    stage.submit("c")
    now = stage.writer.statistics()
    assert (now.waiting, now.in_flight, now.committed, now.commits) == (2, 1, 0, 0)
    assert "2 wait, 1 in flight" in repr(stage.writer)
    first.finish()
    (await stage.current()).finish(None, StaleSession("it is old"))
    await wait_all_tasks_blocked()
    now = stage.writer.statistics()
    assert (now.waiting, now.in_flight) == (0, 0)
    assert (now.committed, now.refused, now.commits, now.largest) == (2, 1, 2, 2)
    assert not now.failed


# Every order of what can happen to three writes


ACTS = ("commit ends", "waiter cancelled", "close", "submit", "writer cancelled")


@pytest.mark.parametrize("fails", [False, True], ids=["durable", "failing"])
@pytest.mark.parametrize("order", list(itertools.permutations(ACTS)), ids="-".join)
async def test_in_every_order_each_write_is_settled_once_and_in_order(
    autojump_clock: object, order: tuple[str, ...], fails: bool
) -> None:
    stage = Stage()
    submitted = ["a", "b"]
    waiters = trio.CancelScope()

    async def waiter(write: Write) -> None:
        with waiters:
            await stage.wait(write, "waiter")

    def end(commit: Commit) -> None:
        if fails:
            commit.fail(WEATHER)
        else:
            commit.finish()

    async def run(scope: trio.CancelScope) -> None:
        with scope:
            await stage.writer.run()

    running = trio.CancelScope()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, running)
        nursery.start_soon(waiter, stage.submit("a"))
        commit = await stage.current()
        stage.submit("b")
        for act in order:
            match act:
                case "commit ends":
                    end(commit)
                case "waiter cancelled":
                    waiters.cancel()
                case "close":
                    stage.writer.close()
                case "submit":
                    try:
                        stage.submit("c")
                    except Closed:
                        assert order.index("submit") > min(
                            order.index("close"), order.index("writer cancelled")
                        )
                    else:
                        submitted.append("c")
                case _:
                    running.cancel()
            await wait_all_tasks_blocked()
        if not stage.journal.commits[-1].ended.is_set():
            end(stage.journal.commits[-1])
            await wait_all_tasks_blocked()

    settled = [line for line in stage.told if line.split()[0] in "abc"]
    assert [line.split()[0] for line in settled] == submitted
    assert settled[0] == ("a refused" if fails else "a durable")
    # Nothing is durable after something that is not.
    ends = [line.split()[1] for line in settled]
    assert ends == sorted(ends)
    assert stage.told.count("failed") == fails
    waited = [line for line in stage.told if line.startswith("waiter")]
    if order.index("commit ends") < order.index("waiter cancelled"):
        assert waited == ["waiter raised StoreFailed" if fails else "waiter goes on"]
    else:
        assert waited == []
