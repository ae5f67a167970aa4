"""The provider whose authority is a file keeps every rule of the suite."""

from __future__ import annotations

import pytest
from local_rig import LocalRig

from trio_reactor.rooms.provider.conformance import Case, cases


@pytest.mark.parametrize("case", cases(LocalRig), ids=str)
async def test_the_provider_with_a_file_conforms(case: Case) -> None:
    rig = LocalRig()
    try:
        await case.run(rig)
    finally:
        rig.close()
