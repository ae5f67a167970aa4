"""What a poisoned supervisor still does, and what it does no more."""

from __future__ import annotations

import pytest
import trio
from supervisor_story import stage

from trio_reactor.supervision import (
    SessionStopped,
    Stopping,
    SupervisorPoisoned,
    TerminationUnconfirmed,
)
from trio_reactor.testing.faults import Fails


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("nth", range(1, 6))
async def test_a_write_that_fails_anywhere_poisons_and_every_execution_ends(
    autojump_clock, nth, done
):
    async with stage() as s:
        with pytest.raises(BaseExceptionGroup):
            async with s.supervisor(
                store_faults={"commit": {nth: Fails("lost", done=done)}}
            ) as supervisor:
                poison = trio.Event()

                async def watch() -> None:
                    with pytest.raises(SupervisorPoisoned):
                        await supervisor.wait_failed()
                    poison.set()

                async with trio.open_nursery() as nursery:
                    nursery.start_soon(watch)
                    handle = (await supervisor.open("plugin")).handle
                    await supervisor.load(handle, "worker:main")
                    await supervisor.dispose(handle)
                    await poison.wait()
        assert not s.machine.children


async def test_an_unconfirmed_stop_poisons_and_is_told_to_each_who_asks(autojump_clock):
    async with stage() as s:
        with pytest.raises(BaseExceptionGroup) as raised:
            async with s.supervisor(faults={"exit": {1: Fails()}}) as supervisor:
                handle = (await supervisor.open("plugin")).handle
                await supervisor.load(handle, "worker:main")
                with pytest.raises(TerminationUnconfirmed):
                    await supervisor.dispose(handle)
                with pytest.raises(TerminationUnconfirmed):
                    await supervisor.dispose(handle)
                with pytest.raises((SessionStopped, SupervisorPoisoned)):
                    supervisor.renew(handle)
                with pytest.raises(SupervisorPoisoned):
                    await supervisor.open("other")
                assert await supervisor.high_water("plugin") == 1
                assert isinstance(supervisor.status(handle).phase, Stopping)
        assert raised.value.subgroup(TerminationUnconfirmed) is not None
