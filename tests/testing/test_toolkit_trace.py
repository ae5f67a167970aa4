"""What happened, as plain data, within a bound."""

from __future__ import annotations

import enum
import json

import msgspec
import pytest
import trio

from trio_reactor.errors import Refused
from trio_reactor.testing import Simulation, Trace, run
from trio_reactor.testing.trace import describe, plain


def filled(count: int, max_facts: int) -> Trace:
    trace = Trace(max_facts=max_facts)
    for number in range(count):
        trace.add(float(number), "task", f"kind-{number % 3}", {"number": number})
    return trace


def test_a_trace_keeps_the_newest_facts_and_counts_all() -> None:
    trace = filled(100, max_facts=10)
    assert len(trace) == 10
    assert trace.total == 100
    assert [fact.number for fact in trace] == list(range(91, 101))
    assert trace.counts == {"kind-0": 34, "kind-1": 33, "kind-2": 33}
    assert [fact.about["number"] for fact in trace.of("kind-0", "kind-1")] == [
        *(90, 91, 93, 94, 96, 97, 99)
    ]
    assert [fact.number for fact in trace.tail(3)] == [98, 99, 100]
    assert len(trace.tail(1000)) == 10
    assert trace.tail(0) == ()


def test_a_fingerprint_covers_what_is_no_longer_kept_and_does_not_depend_on_the_bound() -> None:
    assert filled(100, 10).fingerprint() == filled(100, 1000).fingerprint()
    shorter = Trace(max_facts=10)
    for number in range(1, 100):
        shorter.add(float(number), "task", f"kind-{number % 3}", {"number": number})
    assert shorter.encode() != filled(100, 1000).encode()
    assert shorter.fingerprint() != filled(100, 10).fingerprint()


def test_a_trace_encodes_to_lines_of_json() -> None:
    lines = filled(3, 10).encode().splitlines()
    assert json.loads(lines[2]) == {
        "number": 3,
        "clock": 2.0,
        "task": "task",
        "what": "kind-2",
        "about": {"number": 2},
    }


def test_a_trace_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 fact"):
        Trace(max_facts=0)


class Colour(enum.Enum):
    RED = "red"


class Point(msgspec.Struct, frozen=True, tag=True):
    x: int
    labels: frozenset[str] = frozenset()


def test_what_is_recorded_is_plain_data_at_once() -> None:
    growing = [1]
    trace: list[object] = []

    async def world(sim: Simulation) -> None:
        sim.record("list", it=growing)
        growing.append(2)
        sim.record(Point(3, frozenset({"b", "a", "c"})), colour=Colour.RED)
        sim.record("failed", failure=Refused("no", outcome="replied"))
        with pytest.raises(TypeError, match=r"^an object cannot be recorded: it is"):
            sim.record("address", it=object())
        trace.extend((fact.what, fact.about) for fact in sim.trace)

    run(world, seed=0)
    assert trace == [
        ("list", {"it": [1]}),
        ("Point", {"x": 3, "labels": ["a", "b", "c"], "colour": "red"}),
        ("failed", {"failure": "Refused: no"}),
    ]


def test_sets_are_sorted_whatever_their_order() -> None:
    words = [f"word-{number}" for number in range(50)]
    assert plain(set(words)) == plain(frozenset(words[::-1])) == sorted(words)


def test_a_fact_says_when_it_was_and_who_recorded_it() -> None:
    async def world(sim: Simulation) -> None:
        async def worker() -> None:
            await trio.sleep(2.5)
            sim.record("worked")

        def abort(_: object) -> trio.lowlevel.Abort:
            sim.record("aborted")
            return trio.lowlevel.Abort.SUCCEEDED

        sim.record("began")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(worker)
            nursery.start_soon(worker, name="worker of 7")
        with trio.move_on_after(1.0):
            await trio.lowlevel.wait_task_rescheduled(abort)

    facts = list(run(world, seed=0).trace)
    assert [(fact.clock, fact.task, fact.what) for fact in facts if fact.what != "worked"] == [
        (0.0, "scenario", "began"),
        (3.5, "", "aborted"),
    ]
    assert {(fact.clock, fact.task) for fact in facts if fact.what == "worked"} == {
        (2.5, "worker"),
        (2.5, "worker of 7"),
    }
    assert str(facts[0]).split() == ["1", "0.000", "scenario", "began"]


async def test_a_failure_is_described_in_a_line_without_addresses(autojump_clock: object) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        with pytest.raises(trio.Cancelled) as cancelled:
            await trio.sleep_forever()
        assert describe(cancelled.value) == "Cancelled"
    assert describe(ValueError(repr(object()))) == "ValueError"
    assert describe(ValueError("x" * 1000)) == "ValueError: " + "x" * 200
    assert describe(ValueError()) == "ValueError"
    group = BaseExceptionGroup("outer", [KeyError("a"), ExceptionGroup("inner", [OSError("b")])])
    assert describe(group) == "ExceptionGroup[KeyError: 'a', OSError: b]"
