"""What the journal says decides whether what was left behind is recovered."""

from __future__ import annotations

import pytest
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
