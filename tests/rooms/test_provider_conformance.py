"""The provider in memory keeps every rule of the suite, and each rule finds who breaks it."""

from __future__ import annotations

import pytest
from provider_rigs import MemoryRig, ReplayingRig

from trio_reactor.rooms.provider.conformance import Case, cases


@pytest.mark.parametrize("case", cases(MemoryRig), ids=str)
async def test_the_provider_in_memory_conforms(autojump_clock: object, case: Case) -> None:
    await case.run(MemoryRig())


@pytest.mark.parametrize("case", cases(ReplayingRig), ids=str)
async def test_the_provider_in_memory_conforms_when_it_is_read_by_replay(
    autojump_clock: object, case: Case
) -> None:
    await case.run(ReplayingRig())
