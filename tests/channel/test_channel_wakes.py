"""Publishing wakes one sleeper at most, who wakes the others; and no wake is ever lost."""

from __future__ import annotations

import itertools
import random
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

import pytest
import trio
from channel_story import Said, Shouted, Sung
from trio.testing import wait_all_tasks_blocked

from trio_reactor.channel import EventChannel, Publisher, Subscription
from trio_reactor.errors import Closed, Failed
from trio_reactor.events import Event


class Scheduled(trio.abc.Instrument):
    """Counts how often tasks are made ready to run."""

    def __init__(self) -> None:
        self.count = 0

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:
        self.count += 1

    def since(self, step: Callable[[], object]) -> int:
        """How many tasks a synchronous step made ready."""
        before = self.count
        step()
        return self.count - before


@pytest.fixture
async def scheduled() -> AsyncIterator[Scheduled]:
    instrument = Scheduled()
    trio.lowlevel.add_instrument(instrument)
    yield instrument
    trio.lowlevel.remove_instrument(instrument)


async def test_publish_wakes_one_sleeper_and_no_other_until_it_has_run(
    scheduled: Scheduled, nursery: trio.Nursery
) -> None:
    channel = EventChannel()
    for _ in range(50):
        nursery.start_soon(channel.subscribe().receive)
    await wait_all_tasks_blocked()
    assert scheduled.since(lambda: channel.publish(Said(1))) == 1
    assert scheduled.since(lambda: [channel.publish(Said(number)) for number in range(9)]) == 0
    assert scheduled.since(channel.end) == 0
    await wait_all_tasks_blocked()
    assert channel.statistics().waiting == 0


async def test_ending_wakes_one_sleeper_too(scheduled: Scheduled, nursery: trio.Nursery) -> None:
    channel = EventChannel()

    async def read() -> None:
        with pytest.raises(trio.EndOfChannel):
            await channel.subscribe().receive()

    for _ in range(50):
        nursery.start_soon(read)
    await wait_all_tasks_blocked()
    assert scheduled.since(channel.end) == 1


async def test_a_sleeping_reader_is_woken_once_for_a_burst(
    scheduled: Scheduled, nursery: trio.Nursery
) -> None:
    channel = EventChannel()
    batches: list[int] = []

    async def read() -> None:
        with channel.subscribe() as subscription:
            batches.append(len(await subscription.receive_batch()))

    for _ in range(10):
        nursery.start_soon(read)
    await wait_all_tasks_blocked()
    before = scheduled.count
    for number in range(100):
        channel.publish(Said(number))
    await wait_all_tasks_blocked()
    assert batches == [100] * 10
    # One wake for each reader and one for this task.
    assert scheduled.count - before == 11


async def test_a_burst_wakes_nobody_whom_it_does_not_concern_but_one(
    scheduled: Scheduled, nursery: trio.Nursery
) -> None:
    channel = EventChannel()
    publishers = [channel.publisher(f"handle {number}") for number in range(30)]
    for publisher in publishers:
        nursery.start_soon(publisher.subscribe().receive)
        nursery.start_soon(channel.subscribe(Sung).receive)
    await wait_all_tasks_blocked()
    before = scheduled.count
    for _ in range(5):
        publishers[7].publish(Said(1))
    await wait_all_tasks_blocked()
    assert channel.statistics().waiting == 59
    # The one that carried the news, the one whom they concern, and this task.
    assert scheduled.count - before <= 3
    nursery.cancel_scope.cancel()


async def test_the_news_is_carried_also_by_one_whom_it_does_not_concern(
    nursery: trio.Nursery,
) -> None:
    channel = EventChannel()
    heard: list[str] = []

    async def listen(name: str, *types: type[Event]) -> None:
        with channel.subscribe(*types) as subscription:
            async for _ in subscription:
                heard.append(name)  # noqa: PERF401 - seen as it grows

    for _ in range(2):
        nursery.start_soon(listen, "singing", Sung)
        nursery.start_soon(listen, "shouting", Shouted)
        await wait_all_tasks_blocked()
    for number in range(6):
        channel.publish(Sung(number))
        await wait_all_tasks_blocked()
    assert heard == ["singing"] * 12
    channel.publish(Shouted(6))
    channel.publish(Sung(7))
    await wait_all_tasks_blocked()
    assert sorted(heard[12:]) == ["shouting"] * 2 + ["singing"] * 2
    nursery.cancel_scope.cancel()


async def test_who_is_about_to_sleep_does_not_miss_the_news_that_is_on_its_way(
    nursery: trio.Nursery,
) -> None:
    channel = EventChannel()
    got: dict[str, list[int]] = {"first": [], "second": [], "late": []}

    async def read(name: str, subscription: Subscription[Event]) -> None:
        async for envelope in subscription:
            got[name].append(envelope.seq)

    for name in ("first", "second"):
        nursery.start_soon(read, name, channel.subscribe())
        await wait_all_tasks_blocked()
    # Starting to read, being woken and carrying the news are in one batch, in either order.
    channel.publish(Said(1))
    nursery.start_soon(read, "late", channel.subscribe())
    await trio.lowlevel.checkpoint()
    channel.publish(Said(2))
    await trio.lowlevel.checkpoint()
    channel.publish(Said(3))
    channel.end()
    await wait_all_tasks_blocked()
    assert got == {"first": [1, 2, 3], "second": [1, 2, 3], "late": [2, 3]}


async def test_who_falls_asleep_while_the_news_is_carried_gets_nothing_twice(
    nursery: trio.Nursery,
) -> None:
    channel = EventChannel()

    async def publish_later() -> None:
        await wait_all_tasks_blocked()
        channel.publish(Said(2))

    nursery.start_soon(channel.subscribe().receive)
    await wait_all_tasks_blocked()
    with channel.subscribe() as subscription:
        channel.publish(Said(1))  # the one that sleeps carries it, but has not run yet
        assert subscription.receive_nowait().event == Said(1)
        nursery.start_soon(publish_later)
        assert (await subscription.receive()).event == Said(2)


# ------------------------------------------------------------------------------- every order of it


class Listener:
    """A task that reads until it is stopped, and what it got."""

    def __init__(self, subscription: Subscription[Event]) -> None:
        self.subscription = subscription
        self.scope = trio.CancelScope()
        self.got: list[int] = []
        self.came_to = "nothing"

    async def run(self) -> None:
        with self.scope:
            try:
                async for envelope in self.subscription:
                    self.got.append(envelope.seq)
                self.came_to = "end"
            except Closed:
                self.came_to = "closed"
            except Failed:
                self.came_to = "failure"
        if self.scope.cancelled_caught:
            self.came_to = "cancelled"

    def left(self) -> list[int]:
        """What can still be received after the task has gone."""
        found: list[int] = []
        try:
            while True:
                found.append(self.subscription.receive_nowait().seq)
        except (trio.WouldBlock, trio.EndOfChannel, Failed, Closed):
            return found


def schedules(actions: Sequence[str], steps: int) -> Iterator[list[list[str]]]:
    """Every way to spread the actions over the steps, in every order within a step."""
    for chosen in itertools.product(range(steps), repeat=len(actions)):
        groups = [
            [action for action, step in zip(actions, chosen, strict=True) if step == number]
            for number in range(steps)
        ]
        for orders in itertools.product(*(itertools.permutations(group) for group in groups)):
            yield [list(order) for order in orders]


FILTERS: dict[str, tuple[tuple[type[Event], ...], ...]] = {
    "all take all": ((), (), ()),
    "some are choosy": ((Sung,), (), (Said,)),
    "all are choosy": ((Said,), (Shouted, Said), (Sung,)),
}


@pytest.mark.parametrize("filters", FILTERS.values(), ids=FILTERS)
@pytest.mark.parametrize("whole", [True, False], ids=["of the channel", "of a handle"])
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "backward"])
def test_no_wake_is_lost_in_any_order_of_publishing_cancelling_closing_and_ending(
    filters: tuple[tuple[type[Event], ...], ...],
    whole: bool,
    reverse: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Order(random.Random):
        """Trio runs the tasks of a batch in one order, or in the reverse of it."""

        def random(self) -> float:
            return 0.25 if reverse else 0.75

    monkeypatch.setattr(trio._core._run, "_ALLOW_DETERMINISTIC_SCHEDULING", True)
    monkeypatch.setattr(trio._core._run, "_r", Order())
    for last in ("end", "fail"):
        for schedule in schedules(("publish", "cancel the first", "close the second", last), 3):
            trio.run(play, filters, whole, last, schedule)


async def play(
    filters: tuple[tuple[type[Event], ...], ...], whole: bool, last: str, schedule: list[list[str]]
) -> None:
    channel = EventChannel()
    side = channel if whole else channel.publisher("handle")
    listeners = [Listener(side.subscribe(*types)) for types in filters]
    order = list(itertools.chain(*schedule))
    published = order.index("publish") < order.index(last)
    async with trio.open_nursery() as nursery:
        for listener in listeners:
            nursery.start_soon(listener.run)
        await wait_all_tasks_blocked()
        for step in schedule:
            for action in step:
                if action == "publish" and not published:
                    with pytest.raises((Closed, Failed)):
                        side.publish(Said(1))
                else:
                    act(action, side, listeners)
            await trio.lowlevel.checkpoint()

    came_to = [listener.came_to for listener in listeners]
    end = "end" if last == "end" else "failure"
    assert came_to[0] in {"cancelled", end}, schedule
    assert came_to[1] in {"closed", end}, schedule
    assert came_to[2] == end, schedule
    if order.index("cancel the first") < order.index(last):
        assert came_to[0] == "cancelled" or order.index("publish") < order.index(last), schedule
    if order.index("close the second") < order.index(last):
        assert came_to[1] == "closed", schedule
    for listener, types in zip(listeners, filters, strict=True):
        concerned = published and issubclass(Said, types or Event)
        received = listener.got + listener.left()
        if listener.came_to == "closed":
            assert received in ([], [1] * concerned), schedule
        else:
            assert received == [1] * concerned, schedule
    assert channel.statistics().waiting == 0
    for listener in listeners:
        listener.subscription.close()
    assert (channel.statistics().kept, channel.statistics().subscriptions) == (0, 0)


def act(action: str, side: EventChannel | Publisher, listeners: list[Listener]) -> None:
    match action:
        case "publish":
            side.publish(Said(1))
        case "cancel the first":
            listeners[0].scope.cancel()
        case "close the second":
            listeners[1].subscription.close()
        case "end":
            side.end()
        case "fail":
            side.fail(OSError())
        case _:
            raise AssertionError(action)
