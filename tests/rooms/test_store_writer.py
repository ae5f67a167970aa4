"""The writer: one commit after the other, in the order in which they were asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, cast

import pytest
import trio
from replica_story import memory
from trio.testing import assert_checkpoints

from trio_reactor.errors import Closed, Overflow, ReactorError
from trio_reactor.rooms.errors import EditRefused, ReplicaError, ReplicaFailed
from trio_reactor.rooms.store import writing
from trio_reactor.rooms.store.content import Content
from trio_reactor.rooms.store.writing import MAX_GROUP, Outcome, Work, Writer

T = TypeVar("T")


class Slow:
    """Storage in memory whose commits take a second, and fail as they are told."""

    def __init__(self) -> None:
        self.content = memory()[1]
        self.groups: list[int] = []
        self.erased: list[tuple[str, ...]] = []
        self.failures: list[BaseException] = []

    async def commit(self, works: Sequence[Work], /) -> Sequence[Outcome]:
        await trio.sleep(1)
        if self.failures:
            raise self.failures.pop(0)
        self.groups.append(len(works))
        outcomes: list[Outcome] = []
        for work in works:
            try:
                outcomes.append((work(self.content), None))
            except ReactorError as refusal:
                outcomes.append((None, refusal))
        return outcomes

    async def read(self, work: Callable[[Content], T], /) -> T:
        await trio.lowlevel.checkpoint()
        return work(self.content)

    async def erase(self, rooms: Sequence[str], /) -> None:
        await trio.sleep(1)
        self.erased.append(tuple(rooms))


class Told:
    """Who was told of a failure."""

    def __init__(self) -> None:
        self.failures: list[BaseException] = []

    def __call__(self, failure: BaseException) -> None:
        self.failures.append(failure)


def noting(log: list[str], word: str) -> Callable[[object], str]:
    def committed(_: object) -> str:
        log.append(word)
        return word

    return committed


def setting(name: str, value: str) -> Work:
    return lambda content: content.set_fact(name, value)


def refusing(_: Content) -> None:
    raise EditRefused("room", "path", "gone", "there is nothing")


async def test_what_waits_is_committed_together_and_told_in_order(
    autojump_clock: trio.abc.Clock,
) -> None:
    storage, log = Slow(), list[str]()
    writer = Writer(storage, on_failed=Told())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        for number in range(300):
            writer.submit(setting("last", str(number)), noting(log, str(number)))
        assert writer.waiting == 300
        await writer.wait_quiet()
        assert storage.groups == [MAX_GROUP, MAX_GROUP, 300 - 2 * MAX_GROUP]
        assert log == [str(number) for number in range(300)]
        assert trio.current_time() == pytest.approx(3)
        assert storage.content.fact("last") == "299"
        with assert_checkpoints():
            await writer.wait_quiet()
        writer.close()


async def test_every_callback_runs_before_anybody_who_waits(
    autojump_clock: trio.abc.Clock,
) -> None:
    log: list[str] = []
    writer = Writer(Slow(), on_failed=Told())

    async def write(name: str) -> None:
        await writer.write(setting(name, name), noting(log, f"committed {name}"))
        log.append(f"{name} woke")

    async with trio.open_nursery() as nursery:
        for name in ("a", "b", "c"):
            nursery.start_soon(write, name)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(writer.run)
        await writer.wait_quiet()
        writer.close()
    committed = [each for each in log if each.startswith("committed")]
    assert log[:3] == committed
    assert sorted(log[3:]) == ["a woke", "b woke", "c woke"]


async def test_a_refusal_is_its_own(autojump_clock: trio.abc.Clock) -> None:
    log: list[str] = []
    writer = Writer(Slow(), on_failed=Told())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        first = writer.submit(setting("a", "1"), noting(log, "first"))
        second = writer.submit(refusing, noting(log, "second"))
        third = writer.submit(setting("b", "2"), noting(log, "third"))
        with pytest.raises(EditRefused):
            await second.wait()
        assert await first.wait() == "first"
        assert await third.wait() == "third"
        assert log == ["first", "third"]
        writer.close()


async def test_an_erasure_waits_for_what_was_queued_before_and_is_alone(
    autojump_clock: trio.abc.Clock,
) -> None:
    storage, log = Slow(), list[str]()
    writer = Writer(storage, on_failed=Told())

    async def erase() -> None:
        await writer.erase(("lost",), lambda: log.append("erased"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        writer.submit(setting("a", "1"), noting(log, "before"))
        nursery.start_soon(erase)
        await trio.testing.wait_all_tasks_blocked()
        writer.submit(setting("b", "1"), noting(log, "after"))
        await writer.wait_quiet()
        assert log == ["before", "erased", "after"]
        assert storage.erased == [("lost",)]
        writer.close()


@pytest.mark.parametrize("moment", [0.0, 0.5, 1.0, 1.5])
async def test_whoever_leaves_does_not_stop_the_work(
    moment: float, autojump_clock: trio.abc.Clock
) -> None:
    storage, log = Slow(), list[str]()
    writer = Writer(storage, on_failed=Told())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        with trio.move_on_after(moment):
            await writer.write(setting("a", "1"), noting(log, "a"))
        await writer.wait_quiet()
        assert log == ["a"]
        assert storage.content.fact("a") == "1"
        writer.close()


@pytest.mark.parametrize("moment", [0.5, 1.5, 2.5])
async def test_a_writer_that_is_cancelled_finishes_its_commit_and_refuses_the_rest(
    moment: float, autojump_clock: trio.abc.Clock
) -> None:
    storage, log = Slow(), list[str]()
    writer = Writer(storage, on_failed=Told())
    made: list[writing._Write[object, str]] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        made.extend(writer.submit(setting("a", str(n)), noting(log, str(n))) for n in range(500))
        await trio.sleep(moment)
        nursery.cancel_scope.cancel()
    groups = int(moment) + 1
    assert len(log) == min(500, groups * MAX_GROUP)
    for write in made[: len(log)]:
        await write.wait()
    for write in made[len(log) :]:
        with pytest.raises(Closed):
            await write.wait()
    with pytest.raises(Closed):
        writer.submit(refusing, noting(log, "late"))
    await writer.wait_quiet()


async def test_closing_writes_what_is_queued(autojump_clock: trio.abc.Clock) -> None:
    log: list[str] = []
    writer = Writer(Slow(), on_failed=Told())
    for number in range(200):
        writer.submit(setting("a", "1"), noting(log, str(number)))
    writer.close()
    with pytest.raises(Closed):
        writer.submit(setting("a", "1"), noting(log, "late"))
    await writer.run()
    assert len(log) == 200


async def test_more_than_may_wait_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "MAX_WAITING", 3)
    writer = Writer(Slow(), on_failed=Told())
    for _ in range(3):
        writer.submit(refusing, noting([], ""))
    with pytest.raises(Overflow):
        writer.submit(refusing, noting([], ""))


async def test_a_full_disk_fails_one_group_and_not_the_next(
    autojump_clock: trio.abc.Clock,
) -> None:
    storage, told, log = Slow(), Told(), list[str]()
    storage.failures.append(ReplicaError("full", store="/store", retryable=True))
    writer = Writer(storage, on_failed=told)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        with pytest.raises(ReplicaError) as failed:
            await writer.write(setting("a", "1"), noting(log, "a"))
        assert failed.value.retryable
        assert await writer.write(setting("a", "2"), noting(log, "b")) == "b"
        assert log == ["b"]
        assert told.failures == []
        writer.close()


async def test_a_store_that_has_failed_fails_everything_with_an_error_of_its_own(
    autojump_clock: trio.abc.Clock,
) -> None:
    storage, told, log = Slow(), Told(), list[str]()
    original = ReplicaFailed("gone", store="/store", outcome="unknown")
    storage.failures.append(original)
    writer = Writer(storage, on_failed=told)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        made = [writer.submit(setting("a", "1"), noting(log, "a")) for _ in range(MAX_GROUP + 5)]
        seen: list[ReplicaFailed] = []
        for write in made:
            with pytest.raises(ReplicaFailed) as failed:
                await write.wait()
            seen.append(failed.value)
        assert len({id(each) for each in seen}) == len(seen)
        assert {each.outcome for each in seen} == {"unknown"}
        with pytest.raises(ReplicaFailed):
            await writer.erase(("room",), lambda: log.append("erased"))
        assert told.failures == [original]
        assert log == []
        assert storage.groups == []
        writer.close()


async def test_a_defect_ends_the_writer_and_nobody_sleeps_on(
    autojump_clock: trio.abc.Clock,
) -> None:
    storage, log = Slow(), list[str]()
    writer = Writer(storage, on_failed=Told())

    def broken(_: Content) -> None:
        raise ZeroDivisionError

    made = [
        writer.submit(setting("a", "1"), noting(log, "a")),
        writer.submit(broken, noting(log, "b")),
        writer.submit(setting("a", "1"), noting(log, "c")),
    ]
    with pytest.raises(ZeroDivisionError):
        await writer.run()
    for write in made:
        with pytest.raises(Closed):
            await write.wait()
    assert log == []
    await writer.wait_quiet()


async def test_a_callback_that_fails_leaves_nobody_asleep_and_says_that_it_was_written(
    autojump_clock: trio.abc.Clock,
) -> None:
    storage, log = Slow(), list[str]()
    writer = Writer(storage, on_failed=Told())

    def broken(_: object) -> str:
        raise ZeroDivisionError

    made = [
        writer.submit(setting("a", "1"), noting(log, "a")),
        writer.submit(setting("b", "1"), broken),
        writer.submit(setting("c", "1"), noting(log, "c")),
    ]
    with pytest.raises(ZeroDivisionError):
        await writer.run()
    assert await made[0].wait() == "a"
    for write in made[1:]:
        with pytest.raises(Closed) as closed:
            await write.wait()
        assert closed.value.outcome == "replied"
    assert storage.content.fact("c") == "1"


async def test_two_may_wait_for_the_same_work(autojump_clock: trio.abc.Clock) -> None:
    writer = Writer(Slow(), on_failed=Told())
    found: list[str] = []
    write = writer.submit(setting("a", "1"), noting([], "done"))

    async def waiting() -> None:
        found.append(cast("str", await write.wait()))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(waiting)
        nursery.start_soon(waiting)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(writer.run)
        await writer.wait_quiet()
        writer.close()
    assert found == ["done", "done"]
