"""Events of a supervisor and of its services, on the wire and on a timeline."""

from __future__ import annotations

import trio
from supervisor_story import stage

from trio_reactor import EventChannel
from trio_reactor.events import EventCodec
from trio_reactor.supervision import (
    SUPERVISION_EVENTS,
    ExitStatus,
    RestartPolicy,
    open_service,
    supervision_timeline,
)
from trio_reactor.supervision.simulation import Program
from trio_reactor.timeline import render_svg

PROGRAMS = {"crashing:main": Program(runs_for=1.0, exit=ExitStatus(code=3))}


async def test_a_life_is_told_in_order_encoded_and_drawn(autojump_clock):
    envelopes, tokens = [], []
    async with stage(programs=PROGRAMS) as s:
        channel = EventChannel(world=s.world)
        with channel.observe(lambda: None) as (_, subscription):
            async with s.supervisor(events=channel) as supervisor:
                policy = RestartPolicy(pause=1.0, jitter=0.0)
                async with open_service(supervisor, "plugin", "crashing:main", policy=policy) as it:
                    record = await it.wait_running()
                    tokens.append(record.handle.token)
                    await trio.sleep(2.5)
            while True:
                try:
                    envelopes.append(subscription.receive_nowait())
                except (trio.WouldBlock, trio.EndOfChannel):
                    break
    names = [type(each.event).__name__ for each in envelopes if getattr(each.event, "key", None)]
    one = [
        "SessionOpened",
        "SessionLoading",
        "ChildRegistered",
        "SessionLoaded",
        "SessionStopping",
        "SessionStopped",
    ]
    first = [name for name in names if not name.startswith("Service")][:6]
    assert first == one
    assert names[0] == "ServiceStarted"
    assert names[-1] == "ServiceEnded"
    codec = EventCodec(*SUPERVISION_EVENTS)
    builder = supervision_timeline("One night")
    for envelope in envelopes:
        text = codec.encode_json(envelope)
        assert codec.decode_json(text) == envelope
        assert codec.decode_msgpack(codec.encode_msgpack(envelope)) == envelope
        assert tokens[0].encode() not in text
        assert tokens[0] not in repr(envelope)
        builder.feed(envelope)
    timeline = builder.build()
    assert [span.kind for span in timeline.spans][:4] == ["ready", "opening", "active", "leaving"]
    assert any("again in 1.00 s" in mark.label for mark in timeline.marks)
    assert "generation 1" in render_svg(timeline)
