from __future__ import annotations

import pytest

from trio_reactor.supervision import Handle, Key, Limits, Open, SessionRecord, StaleSession
from trio_reactor.supervision.supervisor.registry import Registry
from trio_reactor.supervision.supervisor.session import Session


def session(key: str) -> Session:
    handle = Handle(Key(key), 1, key)
    return Session(SessionRecord(handle, "r", 1.0, Limits(), 0.0, Open()), 1.0)


async def test_what_is_forgotten_leaves_memory_also_if_its_stop_was_never_journaled() -> None:
    registry = Registry(max_stopped=1)
    first, second = session("first"), session("second")
    registry.add(first)
    registry.add(second)
    assert registry.evict(first) == ()
    gone = registry.evict(second)  # while both are on their way into the journal
    assert gone == (first.record.handle,)
    registry.keep(first, ())
    registry.has_stopped(second)
    registry.forget(gone)
    with pytest.raises(StaleSession):
        registry.find(first.record.handle)
    assert registry.by_request(Key("first"), "r") is None
    await registry.wait_idle()
