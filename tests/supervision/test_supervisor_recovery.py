"""What the journal says decides whether what was left behind is recovered."""

from __future__ import annotations

import pytest
import trio
from supervisor_story import stage

from trio_reactor.supervision import Stopped
from trio_reactor.testing.faults import Fails


async def test_a_start_fails_if_the_journal_refuses_the_end_of_what_was_left_behind(
    autojump_clock,
):
    async with stage() as s:
        async with s.doomed() as doomed:
            left = await doomed.open("left", request="r")
            await doomed.load(left.handle, "worker:main")
        served = False
        # The stop is the first record that is written, the end the second.
        with pytest.raises(BaseExceptionGroup, match="could not be recovered"):
            async with s.supervisor(store_faults={"record": {2: Fails()}}):
                served = True
        assert not served
        async with s.supervisor() as supervisor:
            found = await supervisor.open("left", request="r")
            assert isinstance(found.phase, Stopped)


async def test_more_to_stop_and_recover_than_may_wait_for_the_journal_poisons_nothing(
    autojump_clock,
):
    async with stage() as s:
        async with s.doomed() as doomed:
            for n in range(5):
                left = await doomed.open(f"left-{n}", request="r")
                await doomed.load(left.handle, "worker:main")
        async with s.supervisor(max_transitions=1) as supervisor:
            for n in range(5):
                found = await supervisor.open(f"left-{n}", request="r")
                assert isinstance(found.phase, Stopped)
            handles = [(await supervisor.open(f"more-{n}")).handle for n in range(5)]
            async with trio.open_nursery() as nursery:
                for handle in handles:
                    nursery.start_soon(supervisor.dispose, handle)
            assert all(supervisor.status(handle).journaled for handle in handles)
            await supervisor.open("another")  # nothing is poisoned
