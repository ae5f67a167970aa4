"""A cancellation at the nth checkpoint, for every n: of acquiring, holding, retiring, closing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio
from owner_story import Thing

from trio_reactor.owner import Owner, open_owner
from trio_reactor.testing import Simulation, for_every_checkpoint


class Things:
    """Things that take some steps to open and leave, of which nothing may be left."""

    def __init__(self) -> None:
        self.made: list[Thing] = []
        self.cut_while_leaving = 0

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Thing]:
        thing = Thing()
        self.made.append(thing)
        async with thing:
            await trio.lowlevel.checkpoint()
            yield thing
            try:
                await trio.sleep(1)
            except trio.Cancelled:
                self.cut_while_leaving += 1
                raise

    def check(self) -> None:
        """Each that was opened was left, by the task that entered it, and could await in that."""
        for thing in self.made:
            assert not thing.is_open
            assert thing.exits == (thing.notes[-1] == "thing left")
            if thing.exits:
                assert thing.entered_by is thing.left_by
        assert self.cut_while_leaving == 0


async def acquire(owner: Owner, things: Things) -> None:
    attempt = await owner.acquire(things.open)
    assert attempt.held
    await trio.lowlevel.checkpoint()


async def acquire_and_retire(owner: Owner, things: Things) -> None:
    await owner.retire(await owner.acquire(things.open))


async def hold(owner: Owner, things: Things) -> None:
    async with owner.hold(things.open) as thing:
        assert thing.is_open
        await trio.sleep(1)
        assert thing.is_open


async def close(owner: Owner, things: Things) -> None:
    await owner.acquire(things.open)
    owner.start_soon(trio.sleep_forever)
    await owner.close()


STORIES: tuple[Callable[[Owner, Things], Awaitable[None]], ...] = (
    acquire,
    acquire_and_retire,
    hold,
    close,
)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
@pytest.mark.parametrize("seed", range(4))
def test_cancelled_at_any_of_its_checkpoints_inside_of_an_owner(
    story: Callable[[Owner, Things], Awaitable[None]], seed: int
) -> None:
    async def scenario(sim: Simulation) -> None:
        things = Things()
        async with open_owner(world=sim.world) as owner:
            with sim.cancelling() as scope:
                await story(owner, things)
            if scope.cancelled_caught and story is not close:
                # Only what it was doing is over: the owner admits as before.
                assert not owner.stopping.is_set
                async with owner.hold(things.open):
                    pass
        things.check()
        assert owner.report is not None
        assert owner.report.failures == ()

    assert for_every_checkpoint(scenario, seed=seed) >= 2


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
@pytest.mark.parametrize("seed", range(4))
def test_cancelled_at_any_checkpoint_of_the_whole_block(
    story: Callable[[Owner, Things], Awaitable[None]], seed: int
) -> None:
    async def scenario(sim: Simulation) -> None:
        things = Things()
        with sim.cancelling("all") as scope:
            async with open_owner(world=sim.world) as owner:
                await story(owner, things)
        things.check()
        assert owner.report is not None
        assert owner.report.failures == ()
        assert owner.stopping.is_set
        assert scope.cancelled_caught or not scope.cancel_called or owner.closing.is_set

    assert for_every_checkpoint(scenario, seed=seed) >= 5


@pytest.mark.parametrize("seed", range(4))
def test_who_is_cancelled_in_what_it_acquired_alone_leaves_nothing_behind(seed: int) -> None:
    """An acquirer that is cancelled has retired what it did not get."""

    async def scenario(sim: Simulation) -> None:
        things = Things()
        async with open_owner(world=sim.world) as owner:
            got = False
            with sim.cancelling():
                await owner.acquire(things.open)
                got = True
            assert owner.statistics().held == got
            assert owner.statistics().opening == owner.statistics().leaving == 0
        things.check()

    assert for_every_checkpoint(scenario, seed=seed) >= 1


@pytest.mark.parametrize("seed", range(4))
def test_two_holders_of_which_one_is_cancelled_anywhere_do_not_disturb_each_other(
    seed: int,
) -> None:
    async def scenario(sim: Simulation) -> None:
        things = Things()

        async def other(owner: Owner) -> None:
            await hold(owner, things)
            sim.record("held to the end")

        async with open_owner(world=sim.world) as owner, trio.open_nursery() as tasks:
            tasks.start_soon(other, owner)
            with sim.cancelling():
                await hold(owner, things)
        things.check()
        assert sim.trace.counts["held to the end"] == 1

    assert for_every_checkpoint(scenario, seed=seed) >= 3


@pytest.mark.parametrize("seed", range(4))
def test_a_nested_owner_that_is_cancelled_anywhere_takes_nothing_with_it(seed: int) -> None:
    async def scenario(sim: Simulation) -> None:
        things = Things()
        async with open_owner("outer", world=sim.world) as outer:
            base = await outer.acquire(things.open)
            with sim.cancelling("all"):
                async with (
                    outer.hold(lambda: open_owner("inner", world=sim.world)) as inner,
                    inner.hold(things.open),
                ):
                    await trio.sleep(1)
            assert base.held
            assert not outer.stopping.is_set
            assert outer.statistics().held == 1
        things.check()

    assert for_every_checkpoint(scenario, seed=seed) >= 5
