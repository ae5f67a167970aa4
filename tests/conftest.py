"""What all tests share: the servers that some of them need, and what makes all of them quick."""

from __future__ import annotations

import gc
import os
import socket

import pytest

SERVERS = {
    "postgres": (5432, "install PostgreSQL and start it, or run .ci/run, which does"),
    "redis": (6379, "install Redis and start it, or run .ci/run, which does"),
}


def missing(server: str) -> str | None:
    """Why a server cannot be used, and what to do; `None` if it can."""
    port, remedy = SERVERS[server]
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError as failure:
        return f"no {server} on 127.0.0.1:{port} ({failure}): {remedy}"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin the longest ones first, so that the end is not one process that others wait for."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_collection_finish() -> None:
    """Have the collector of cycles pass over what is there for good: thousands of tests."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs a server that is not there, or fail where that is required."""
    for marker in item.iter_markers("server"):
        reason = missing(marker.args[0])
        if reason is None:
            continue
        if os.environ.get("TRIO_REACTOR_REQUIRE_SERVERS"):
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
