"""KeyboardInterrupt and SystemExit: crashes wherever they strike, and nothing is left behind."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from math import inf
from typing import Self, TypeAlias

import pytest
import trio
from owner_story import Adapter, Thing, leaves_of, opened, outcome
from trio.testing import MockClock, wait_all_tasks_blocked

from trio_reactor.owner import CloseReport, Owner, OwnerOptions, open_owner

Story: TypeAlias = Callable[[], Awaitable[object]]


def interrupt() -> None:
    """As Ctrl-C does, in the middle of what runs."""
    signal.raise_signal(signal.SIGINT)


@trio.lowlevel.enable_ki_protection
def interrupt_main() -> None:
    """As Ctrl-C does where it finds protected code: Trio gives it to the main task, as it waits."""
    signal.raise_signal(signal.SIGINT)


def interrupted(story: Story) -> BaseException | None:
    """Run a story as a program's main, with Trio's own handler for the signal, on virtual time.

    Returns:
        What comes out of it.
    """
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        trio.run(story, clock=MockClock(autojump_threshold=0))
    except BaseException as error:  # noqa: BLE001 - it is what comes out
        return error
    else:
        return None
    finally:
        signal.signal(signal.SIGINT, before)


def types_of(error: BaseException | None) -> list[type[BaseException]]:
    return [type(leaf) for leaf in leaves_of(error)]


async def interrupt_later(delay: float = 1) -> None:
    """Interrupt the main task while it waits."""
    await trio.sleep(delay)
    interrupt_main()


def test_an_interrupt_in_the_body_is_the_bodys_own_error() -> None:
    thing = Thing()

    async def story() -> None:
        async with open_owner() as owner:
            await owner.acquire(opened(thing))
            interrupt()
            await trio.sleep_forever()

    assert type(interrupted(story)) is KeyboardInterrupt
    assert thing.exits == 1


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize(
    "where", ["worker", "factory", "opening", "thing", "wait_lost", "retirement", "listener"]
)
def test_one_that_is_raised_in_a_task_of_the_owners_is_a_crash(
    where: str, kind: type[BaseException]
) -> None:
    crash = kind()
    owners: list[Owner] = []

    async def work() -> None:
        raise crash

    def raises(_: object = None) -> Thing:
        raise crash

    class Fatal(Thing):
        async def wait_lost(self) -> None:
            raise crash

    async def story() -> None:
        async with open_owner() as owner:
            owners.append(owner)
            match where:
                case "worker":
                    owner.start_soon(work)
                case "factory":
                    owner.start(raises)
                case "opening":
                    owner.start(opened(Thing(refuses=crash)))
                case "thing":
                    thing = Thing()
                    await owner.acquire(opened(thing))
                    thing.die(crash)
                case "wait_lost":
                    owner.start(Fatal)
                case "retirement":
                    attempt = await owner.acquire(opened(Thing(complains=crash)))
                    attempt.request_retire()
                case _:
                    attempt = await owner.acquire(opened(Thing()), on_lost=raises, lifetime=0)
            await trio.sleep_forever()

    error = interrupted(story)
    assert leaves_of(error) == [crash]
    assert leaves_of(owners[0].failure) == [crash]
    report = owners[0].report
    assert report is not None
    assert report.failures == ()  # told once, as the terminal failure


def test_an_interrupt_strikes_whatever_runs_and_a_worker_that_runs_crashes_of_it() -> None:
    async def work() -> None:
        interrupt()
        pytest.fail("user code is not protected")

    async def story() -> None:
        async with open_owner() as owner:
            owner.start_soon(work)
            try:
                await trio.sleep_forever()
            finally:
                assert isinstance(owner.failure, KeyboardInterrupt)

    assert type(interrupted(story)) is KeyboardInterrupt


@pytest.mark.parametrize("where", ["factory", "opening", "wait_lost", "leaving"])
def test_user_code_in_an_attempt_is_not_protected(where: str) -> None:
    entered = left = 0

    def strike(here: str) -> None:
        if where == here:
            interrupt()
            raise AssertionError("it was protected")

    class Busy:
        async def __aenter__(self) -> Self:
            nonlocal entered
            strike("opening")
            entered += 1
            return self

        async def __aexit__(self, *_: object) -> None:
            nonlocal left
            left += 1
            strike("leaving")

        async def wait_lost(self) -> None:
            strike("wait_lost")
            await trio.sleep_forever()

    def factory() -> Busy:
        strike("factory")
        return Busy()

    async def story() -> None:
        async with open_owner() as owner:
            attempt = owner.start(factory)
            await wait_all_tasks_blocked()
            attempt.request_retire()
            await trio.sleep_forever()

    assert types_of(interrupted(story)) == [KeyboardInterrupt]
    assert entered == left == (0 if where in ("factory", "opening") else 1)


def test_an_interrupt_while_close_waits_is_told_beside_everything_else() -> None:
    defect = Adapter()
    thing = Thing(leaving=5, complains=defect)
    owners: list[Owner] = []

    async def story() -> None:
        async with trio.open_nursery() as tasks:
            tasks.start_soon(interrupt_later, 2)
            tasks.start_soon(interrupt_later, 3)
            async with open_owner() as owner:
                owners.append(owner)
                await owner.acquire(opened(thing))

    error = interrupted(story)
    assert types_of(error) == [Adapter, KeyboardInterrupt, KeyboardInterrupt]
    assert thing.notes[-1] == "thing left"  # in its own time
    assert owners[0].report is not None
    assert owners[0].report.duration == 5


def test_an_interrupt_during_close_called_by_the_body_goes_on_closing() -> None:
    thing = Thing(leaving=5)

    async def story() -> None:
        async with trio.open_nursery() as tasks:
            tasks.start_soon(interrupt_later)
            async with open_owner() as owner:
                await owner.acquire(opened(thing))
                await owner.close()

    assert types_of(interrupted(story)) == [KeyboardInterrupt]
    assert thing.notes[-1] == "thing left"


def test_an_interrupt_while_it_acquires_gives_that_up_and_joins_it() -> None:
    thing = Thing(opening=inf)

    async def story() -> None:
        async with open_owner() as owner, trio.open_nursery() as tasks:
            tasks.start_soon(interrupt_later)
            told = await outcome(owner.acquire(opened(thing)))
            assert isinstance(told, KeyboardInterrupt)
            assert owner.statistics().opening == 0
            raise told

    assert types_of(interrupted(story)) == [KeyboardInterrupt]
    assert thing.notes == ["thing opening", "thing given up"]


def test_interrupts_while_a_cancelled_acquisition_is_joined_lose_nothing() -> None:
    thing = Thing(opening=5, hardy=True)

    async def story() -> None:
        async with open_owner() as owner, trio.open_nursery() as tasks:
            tasks.start_soon(interrupt_later, 2)
            with trio.move_on_after(1):
                await owner.acquire(opened(thing))

    assert types_of(interrupted(story)) == [KeyboardInterrupt]
    assert thing.exits == 1


@pytest.mark.parametrize("own", [None, ValueError("own")], ids=["", "beside an error of its own"])
def test_an_interrupt_while_a_block_retires_its_thing_waits_for_that_and_shadows_nothing(
    own: Exception | None,
) -> None:
    thing = Thing(leaving=5, complains=OSError() if own is None else None)

    async def story() -> None:
        async with open_owner() as owner, trio.open_nursery() as tasks:
            tasks.start_soon(interrupt_later, 1)
            tasks.start_soon(interrupt_later, 2)
            async with owner.hold(opened(thing)):
                if own is not None:
                    raise own

    error = interrupted(story)
    assert thing.notes[-1] == "thing left"
    assert types_of(error) == [
        OSError if own is None else ValueError,
        KeyboardInterrupt,
        KeyboardInterrupt,
    ]


def test_an_interrupt_while_the_block_is_entered_leaves_it_in_order() -> None:
    """It comes while the body waits for the block to feel its surroundings."""
    reached = False

    async def story() -> None:
        nonlocal reached
        block = open_owner()
        interrupt_main()
        async with block:
            reached = True

    for _ in range(10):
        assert types_of(interrupted(story)) == [KeyboardInterrupt]
        assert not reached


def test_an_interrupt_after_any_step_reaches_the_program_and_nothing_outlives_it() -> None:
    """It strikes after the nth step of any task, for every n there is."""

    class Struck(trio.abc.Instrument):
        def __init__(self, after: int) -> None:
            self.left = after

        def after_task_step(self, task: trio.lowlevel.Task) -> None:
            self.left -= 1
            if self.left == 0:
                interrupt_main()

    async def story() -> None:
        instrument = Struck(after)
        trio.lowlevel.add_instrument(instrument)
        try:
            async with open_owner(options=OwnerOptions(cleanup_timeout=2)) as owner:
                owner.start_soon(trio.sleep_forever)
                attempt = await owner.acquire(opened(thing))
                async with owner.hold(opened(other)):
                    await trio.lowlevel.checkpoint()
                await owner.retire(attempt)
                reports.append(await owner.close())
        finally:
            trio.lowlevel.remove_instrument(instrument)
            done.append(instrument.left)

    after = 0
    while True:
        after += 1
        thing, other = Thing(), Thing()
        reports: list[CloseReport] = []
        done: list[int] = []
        error = interrupted(story)
        assert not thing.is_open
        assert not other.is_open
        if done[0] > 0:
            break
        assert types_of(error) == [KeyboardInterrupt]
    assert error is None
    assert after > 20
