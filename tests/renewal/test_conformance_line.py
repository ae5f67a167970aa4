"""The source that the guide builds keeps every rule that a source has to keep."""

from __future__ import annotations

import pytest
from conformance_rigs import LineRig, line_server

from trio_reactor.renewal.conformance import Case, cases


@pytest.mark.parametrize("case", cases(LineRig), ids=str)
async def test_the_line_source_conforms(case: Case) -> None:
    async with line_server() as rig:
        await case.run(rig)
