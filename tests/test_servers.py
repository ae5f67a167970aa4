"""The servers that tests use answer in their own protocols."""

from __future__ import annotations

import pytest
import trio


@pytest.mark.server("redis")
async def test_redis_answers_a_ping() -> None:
    with trio.fail_after(10):
        async with await trio.open_tcp_stream("127.0.0.1", 6379) as stream:
            await stream.send_all(b"PING\r\n")
            assert await stream.receive_some(64) == b"+PONG\r\n"


@pytest.mark.server("postgres")
async def test_postgresql_says_whether_it_speaks_tls() -> None:
    with trio.fail_after(10):
        async with await trio.open_tcp_stream("127.0.0.1", 5432) as stream:
            await stream.send_all((8).to_bytes(4, "big") + (80877103).to_bytes(4, "big"))
            assert await stream.receive_some(1) in (b"N", b"S")
