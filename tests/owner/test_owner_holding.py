"""Holding is a block, and loss is its cancellation."""

from __future__ import annotations

import pytest
import trio
from owner_story import Adapter, Thing, caught, opened
from trio.testing import MockClock, wait_all_tasks_blocked

from trio_reactor.errors import Closed, Expired, Lost, Retired
from trio_reactor.owner import Attempt, OwnerOptions, open_owner


class Watched(Thing):
    """A thing that can end quietly, and tells it by `wait_lost`."""

    def __init__(self, failure: BaseException | None = None) -> None:
        super().__init__()
        self.over = trio.Event()
        self.failure = failure

    async def wait_lost(self) -> None:
        await self.over.wait()
        if self.failure is not None:
            raise self.failure


async def test_a_block_gives_the_thing_and_retires_it_when_it_is_left() -> None:
    thing = Thing()
    async with open_owner() as owner:
        async with owner.hold(opened(thing)) as held:
            assert held is thing
            assert thing.is_open
        assert thing.notes[-1] == "thing left"
        assert owner.statistics().held == 0


async def test_a_thing_that_dies_cancels_the_block_and_its_failure_is_the_cause_of_lost() -> None:
    reset = ConnectionResetError()
    thing = Thing()
    async with open_owner() as owner:
        cleaned_up = False
        with pytest.raises(Lost) as lost:
            async with owner.hold(opened(thing), name="the line"):
                thing.die(reset)
                try:
                    await trio.sleep_forever()
                finally:
                    cleaned_up = True
        assert cleaned_up
        assert str(lost.value) == "the line was lost"
        assert isinstance(lost.value.__cause__, ExceptionGroup)
        assert lost.value.__cause__.exceptions == (reset,)
    assert owner.report is not None
    assert owner.report.failures == ()  # it was received
    assert owner.report.lost == 1


async def test_a_thing_that_leaves_unasked_is_lost_even_if_it_raises_nothing() -> None:
    thing = Thing()
    async with open_owner() as owner:
        with pytest.raises(Lost) as lost:
            async with owner.hold(opened(thing)):
                thing.vanish()
                await trio.sleep_forever()
        assert lost.value.__cause__ is None
        assert thing.exits == 1


async def test_a_thing_that_can_end_quietly_is_lost_when_wait_lost_returns_or_raises() -> None:
    reset = ConnectionResetError()
    for failure in (None, reset):
        thing = Watched(failure)
        async with open_owner() as owner:
            with pytest.raises(Lost) as lost:
                async with owner.hold(opened(thing)):
                    await wait_all_tasks_blocked()
                    thing.over.set()
                    await trio.sleep_forever()
            assert lost.value.__cause__ is failure
            # It was only told, so its context manager left in the ordinary way.
            assert thing.notes[-2:] == ["thing leaving", "thing left"]


async def test_a_wait_lost_that_never_returns_keeps_nothing_from_leaving(
    autojump_clock: MockClock,
) -> None:
    async with open_owner() as owner:
        async with owner.hold(opened(Watched())):
            await trio.sleep(1)
        with pytest.raises(Expired):
            async with owner.hold(opened(Watched()), lifetime=5):
                await trio.sleep_forever()
    assert trio.current_time() < 10


async def test_a_wait_lost_that_returns_when_it_is_cancelled_makes_no_loss_of_an_expiry(
    autojump_clock: MockClock,
) -> None:
    class Swallowing(Thing):
        async def wait_lost(self) -> None:
            with trio.CancelScope(shield=True):
                await trio.sleep(7)

    async with open_owner() as owner:
        attempt = await owner.acquire(Swallowing, lifetime=5)
        assert (await attempt.wait_ended()).reason == "expired"


async def test_a_death_is_noticed_at_once_however_long_the_thing_takes_to_leave(
    autojump_clock: MockClock,
) -> None:
    async with open_owner() as owner:
        thing = Thing(holds_out=5)
        attempt = await owner.acquire(opened(thing))
        began = trio.current_time()
        with pytest.raises(Lost), attempt.using():
            thing.die(ConnectionResetError())
            await trio.sleep_forever()
        assert trio.current_time() == began
        assert attempt.phase == "leaving"
        await attempt.wait_ended()
        assert trio.current_time() == began + 5


async def test_what_wait_lost_raises_on_being_asked_to_leave_is_not_lost(
    autojump_clock: MockClock,
) -> None:
    class Clumsy(Thing):
        async def wait_lost(self) -> None:
            async with trio.open_nursery() as tasks:
                tasks.start_soon(self._stumble)
                await trio.sleep_forever()

        async def _stumble(self) -> None:
            try:
                await trio.sleep_forever()
            finally:
                raise stumbled

    stumbled = OSError("stumbled")
    async with open_owner() as owner:
        attempt = await owner.acquire(opened(Clumsy()))
        await wait_all_tasks_blocked()
        with caught() as retiring:
            await owner.retire(attempt)
        assert retiring.leaves == [stumbled]
        assert attempt.reason == "retired"


async def test_a_thing_expires_at_the_end_of_its_lifetime(autojump_clock: MockClock) -> None:
    thing = Thing(opening=3, leaving=1)
    async with open_owner() as owner:
        began = trio.current_time()
        with pytest.raises(Expired):
            async with owner.hold(opened(thing), lifetime=10):
                assert trio.current_time() == began + 3
                await trio.sleep_forever()
        assert trio.current_time() == began + 14
        assert thing.notes[-2:] == ["thing leaving", "thing left"]
    assert owner.report is not None
    assert owner.report.expired == 1


@pytest.mark.parametrize("kind", [Thing, Watched])
async def test_its_lifetime_can_be_moved_forward_and_back_and_taken_away(
    kind: type[Thing], autojump_clock: MockClock
) -> None:
    async with open_owner() as owner:
        began = trio.current_time()
        attempt = await owner.acquire(kind)
        for wait, lifetime in ((1, 100), (1, 5), (4, None), (1000, 50), (49, 1)):
            await trio.sleep(wait)
            assert attempt.held
            attempt.set_lifetime(lifetime)
        end = await attempt.wait_ended()
        assert end.reason == "expired"
        assert trio.current_time() == began + 1 + 1 + 4 + 1000 + 49 + 1


async def test_a_lifetime_set_while_it_opens_counts_from_its_opening(
    autojump_clock: MockClock,
) -> None:
    async with open_owner() as owner:
        attempt = owner.start(opened(Thing(opening=5)), lifetime=1)
        await trio.sleep(2)
        attempt.set_lifetime(10)
        await attempt.wait_opened()
        began = trio.current_time()
        assert (await attempt.wait_ended()).reason == "expired"
        assert trio.current_time() == began + 10


async def test_a_lifetime_set_in_the_step_in_which_it_is_retired_changes_nothing(
    autojump_clock: MockClock,
) -> None:
    async with open_owner() as owner:
        first = await owner.acquire(Thing)
        first.set_lifetime(100)
        first.request_retire()
        first.set_lifetime(0)
        second = await owner.acquire(Thing)
        second.request_retire()
        second.set_lifetime(0)
        assert (await first.wait_ended()).reason == "retired"
        assert (await second.wait_ended()).reason == "retired"


async def test_retiring_what_a_block_holds_cancels_the_block_and_retired_comes_out() -> None:
    async with open_owner() as owner:
        with pytest.raises(Retired):
            async with owner.hold(Thing):
                (attempt,) = owner._ledger.attempts
                attempt.request_retire()
                await trio.sleep_forever()


async def test_what_its_owner_retires_at_close_is_retired_for_who_holds_it(
    nursery: trio.Nursery,
) -> None:
    told: list[BaseException | None] = []

    async with open_owner() as owner:

        async def hold() -> None:
            with caught() as holding:
                async with owner.hold(Thing):
                    await trio.sleep_forever()
            told.append(holding.error)

        nursery.start_soon(hold)
        await wait_all_tasks_blocked()
        await owner.close()
        await wait_all_tasks_blocked()
        assert [type(error) for error in told] == [Retired]
        with pytest.raises(Closed):
            async with owner.hold(Thing):
                pass


async def test_a_block_that_does_not_notice_the_loss_raises_nothing_but_the_failure() -> None:
    """As `fail_after` raises nothing out of a block that was done before it noticed."""
    async with open_owner() as owner:
        thing = Thing()
        async with owner.hold(opened(thing)):
            thing.vanish()
        reset = ConnectionResetError()
        dying = Thing()
        with caught() as holding:
            async with owner.hold(opened(dying)):
                dying.die(reset)
        assert holding.leaves == [reset]


async def test_a_bodys_own_error_comes_out_and_what_went_wrong_with_the_thing_is_for_close() -> (
    None
):
    own, complaint = ValueError("own"), OSError("complaint")
    with caught() as leaving:
        async with open_owner() as owner:
            with caught() as holding:
                async with owner.hold(opened(Thing(complains=complaint))):
                    raise own
            assert holding.error is own
    assert leaving.leaves == [complaint]


async def test_leaving_a_block_raises_what_went_wrong_while_the_thing_left() -> None:
    complaint = OSError("complaint")
    async with open_owner() as owner:
        with caught() as holding:
            async with owner.hold(opened(Thing(complains=complaint))):
                pass
        assert holding.error is complaint


async def test_leaving_a_block_waits_for_the_thing_although_it_is_cancelled(
    autojump_clock: MockClock,
) -> None:
    thing = Thing(leaving=5)
    async with open_owner() as owner:
        began = trio.current_time()
        with trio.move_on_after(1) as scope:
            async with owner.hold(opened(thing)):
                await trio.sleep_forever()
        assert scope.cancelled_caught
        assert trio.current_time() == began + 6
        assert thing.notes[-1] == "thing left"


async def test_loss_and_outer_cancellation_in_one_step_are_a_cancellation() -> None:
    async with open_owner() as owner:
        for loses_first in (True, False):
            thing = Watched()
            with trio.CancelScope() as scope:
                async with owner.hold(opened(thing)):
                    await wait_all_tasks_blocked()
                    (attempt,) = owner._ledger.attempts
                    for act in (lambda: attempt._depart("lost"), scope.cancel)[  # noqa: B023
                        :: 1 if loses_first else -1
                    ]:
                        act()
                    await trio.sleep_forever()
            assert scope.cancelled_caught


async def test_many_may_use_one_thing_and_all_of_them_hear_of_its_loss() -> None:
    told: list[BaseException | None] = []

    async def use(attempt: Attempt[Thing]) -> None:
        with caught() as using, attempt.using():
            await trio.sleep_forever()
        told.append(using.error)

    async with open_owner() as owner:
        thing = Thing()
        attempt = await owner.acquire(opened(thing))
        async with trio.open_nursery() as tasks:
            for _ in range(3):
                tasks.start_soon(use, attempt)
            await wait_all_tasks_blocked()
            with owner.using(attempt) as used:
                assert used is thing  # left before the loss
            thing.vanish()
        assert [type(error) for error in told] == [Lost] * 3
        assert len({id(error) for error in told}) == 3
        with pytest.raises(Lost), attempt.using():
            pytest.fail("entered although it is lost")


async def test_an_expected_failure_is_theirs_who_heard_of_the_loss_in_a_block() -> None:
    """Otherwise the close of every program that lived through a loss would raise it again."""
    async with open_owner() as owner:
        thing = Thing(leaving=0)
        attempt = await owner.acquire(opened(thing))
        with pytest.raises(Lost), attempt.using():
            thing.die(ConnectionResetError())
            await trio.sleep_forever()
        await wait_all_tasks_blocked()
    assert owner.report is not None
    assert owner.report.failures == ()


async def test_a_defect_of_a_lost_thing_is_told_by_close_whoever_heard_of_the_loss() -> None:
    defect = Adapter()
    with caught() as leaving:
        async with open_owner() as owner:
            thing = Thing()
            with pytest.raises(Lost):
                async with owner.hold(opened(thing)):
                    thing.die(defect)
                    await trio.sleep_forever()
    assert leaving.leaves == [defect]


async def test_who_listens_for_the_loss_is_called_once_and_has_received_the_failure() -> None:
    heard: list[tuple[str, str | None]] = []

    def listen(attempt: Attempt[Thing]) -> None:
        heard.append((attempt.phase, attempt.reason))

    async with open_owner() as owner:
        thing = Thing()
        await owner.acquire(opened(thing), on_lost=listen)
        thing.die(ConnectionResetError())
        await wait_all_tasks_blocked()
        assert heard == [("leaving", "lost")]

        retired = await owner.acquire(Thing, on_lost=listen)
        await owner.retire(retired)
        with pytest.raises(Lost):
            async with owner.hold(opened(vanishing := Thing()), on_lost=listen):
                vanishing.vanish()
                await trio.sleep_forever()
        expiring = owner.start(Thing, on_lost=listen, lifetime=0)
        await expiring.wait_ended()
    assert heard == [("leaving", "lost"), ("leaving", "lost"), ("leaving", "expired")]
    assert owner.report is not None
    assert owner.report.failures == ()


async def test_who_listens_for_the_end_is_called_once_however_it_ends_before_any_waiter() -> None:
    complaint = OSError()
    heard: list[tuple[str, str | None, BaseException | None]] = []

    def listen(attempt: Attempt[Thing]) -> None:
        heard.append((attempt.phase, attempt.reason, attempt.failure))
        owner.start(Thing)  # its place is free

    things = (
        Thing(complains=complaint),
        Thing(refuses=complaint),
        Thing(opening=trio.Event()),
        Thing(),
    )
    async with open_owner(options=OwnerOptions(max_attempts=5)) as owner:
        attempts = [owner.start(opened(thing), on_ended=listen) for thing in things]
        owner.start(Thing)
        await wait_all_tasks_blocked()
        for attempt in (attempts[0], attempts[2]):
            attempt.request_retire()
        things[3].vanish()
        for attempt in attempts:
            end = await attempt.wait_ended()
            assert ("ended", end.reason, end.failure) in heard
    assert sorted(reason or "" for _, reason, _ in heard) == [
        "failed",
        "lost",
        "retired",
        "retired",
    ]
    assert owner.report is not None
    assert owner.report.failures == ()  # they were received


async def test_a_listener_that_fails_the_owner_with_a_defect_tells_it_once() -> None:
    defect = Adapter()

    def listen(attempt: Attempt[Thing]) -> None:
        if attempt.is_defect and attempt.failure is not None:
            owner.fail(attempt.failure)

    with caught() as leaving:
        async with open_owner() as owner:
            owner.start(opened(Thing(refuses=OSError())), on_ended=listen)
            await wait_all_tasks_blocked()
            assert owner.failure is None
            owner.start(opened(Thing(refuses=defect)), on_ended=listen)
            await trio.sleep_forever()
    assert leaving.error is defect
    assert owner.report is not None
    assert owner.report.failures == ()
    assert await owner.close() is owner.report


async def test_a_listener_that_raises_is_a_defect_and_hinders_nothing() -> None:
    defect = Adapter()

    def listen(attempt: Attempt[Thing]) -> None:
        raise defect

    with caught() as leaving:
        async with open_owner() as owner:
            thing = Thing()
            attempt = await owner.acquire(opened(thing), on_lost=listen)
            thing.vanish()
            assert (await attempt.wait_ended()).reason == "lost"
    assert leaving.leaves == [defect]


async def test_a_listener_may_acquire_the_successor_at_once() -> None:
    async with open_owner() as owner:
        successors: list[Attempt[Thing]] = []

        def listen(attempt: Attempt[Thing]) -> None:
            successors.append(owner.start(Thing, name="successor"))

        thing = Thing()
        attempt = await owner.acquire(opened(thing), on_lost=listen)
        thing.vanish()
        await attempt.wait_ended()
        await successors[0].wait_opened()


async def test_a_block_is_entered_once() -> None:
    async with open_owner() as owner:
        block = owner.hold(Thing)
        async with block:
            pass
        with pytest.raises(RuntimeError):
            await block.__aenter__()
        attempt = await owner.acquire(Thing)
        using = attempt.using()
        with using:
            pass
        with pytest.raises(RuntimeError):
            using.__enter__()
