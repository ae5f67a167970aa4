"""The WebSocket source keeps every rule that a source has to keep, over real sockets."""

from __future__ import annotations

import pytest
from conformance_rigs import WebSocketRig, film_server

from trio_reactor.renewal.conformance import Case, cases


@pytest.mark.parametrize("case", cases(WebSocketRig), ids=str)
async def test_the_websocket_source_conforms(case: Case) -> None:
    async with film_server() as rig:
        await case.run(rig)
