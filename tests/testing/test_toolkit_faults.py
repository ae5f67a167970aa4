"""Faults by plan: each of them at each place where it can strike."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import msgspec
import pytest
import trio

from trio_reactor.errors import Lost, Refused, TimedOut, is_expected
from trio_reactor.testing import (
    Crashed,
    Crashes,
    Fails,
    Fault,
    Faults,
    Jump,
    Never,
    Plan,
    Slow,
    Swapped,
    Twice,
    Wire,
)


def plan(**places: Fault) -> Plan:
    """A plan in which the second try at each of these places goes wrong."""
    return Plan({place: {2: fault} for place, fault in places.items()})


# ---------------------------------------------------------------------------------- where one waits


async def test_what_is_not_planned_goes_well(autojump_clock: object) -> None:
    faults = Faults()
    for _ in range(3):
        with trio.testing.assert_checkpoints():
            await faults.meet("open")
        with faults.around("write"):
            pass
    assert trio.current_time() == 0.0
    assert faults.tries == {"open": 3, "write": 3}


@pytest.mark.parametrize(
    ("failure", "kind", "outcome", "expected"),
    [
        ("refused", Refused, "replied", True),
        ("lost", Lost, "unknown", True),
        ("timed-out", TimedOut, "unknown", True),
        ("defect", RuntimeError, None, False),
    ],
)
async def test_an_open_that_fails(
    failure: str,
    kind: type[Exception],
    outcome: str | None,
    expected: bool,
    autojump_clock: object,
) -> None:
    fault = msgspec.convert({"type": "Fails", "failure": failure, "after": 3.0}, Fails)
    faults = Faults(plan(open=fault))
    await faults.meet("open")
    with pytest.raises(kind, match=r"open: .* as planned") as caught:
        await faults.meet("open")
    assert trio.current_time() == 3.0
    assert getattr(caught.value, "outcome", None) == outcome
    assert is_expected(caught.value) is expected
    await faults.meet("open")


async def test_an_open_that_is_slow_and_one_that_never_comes_back(autojump_clock: object) -> None:
    faults = Faults(Plan({"open": {1: Slow(5.0), 2: Never()}}))
    await faults.meet("open")
    assert trio.current_time() == 5.0
    with trio.move_on_after(1000.0) as scope:
        await faults.meet("open")
    assert scope.cancelled_caught


async def test_a_loss_at_any_moment_is_a_failure_beside_the_held_thing(
    autojump_clock: object,
) -> None:
    faults = Faults(Plan({"life": {1: Fails("lost", after=7.5)}}))
    with pytest.raises(ExceptionGroup) as caught:
        async with trio.open_nursery() as life:
            life.start_soon(faults.meet, "life")
            await trio.sleep(100.0)
    assert caught.group_contains(Lost)
    assert trio.current_time() == 7.5


# ------------------------------------------------------------------------------ changes of one step


def changes(fault: Fault, tries: int = 4) -> tuple[list[int], list[type[BaseException] | None]]:
    """What is written, and what each try raised, if the second try has this fault."""
    faults = Faults(plan(write=fault))
    written: list[int] = []
    raised: list[type[BaseException] | None] = []
    for number in range(1, tries + 1):
        try:
            with faults.around("write"):
                written.append(number)
        except (Refused, Lost, Crashed) as failure:
            raised.append(type(failure))
        else:
            raised.append(None)
    return written, raised


def test_a_store_that_refuses_a_write_has_not_written_it() -> None:
    assert changes(Fails()) == ([1, 3, 4], [None, Refused, None, None])


def test_a_store_whose_answer_is_lost_has_written_it() -> None:
    assert changes(Fails("lost", done=True)) == ([1, 2, 3, 4], [None, Lost, None, None])


@pytest.mark.parametrize(("done", "written"), [(False, [1]), (True, [1, 2])])
def test_a_store_that_crashes_writes_nothing_any_more(done: bool, written: list[int]) -> None:
    assert changes(Crashes(done)) == (written, [None, Crashed, Crashed, Crashed])


async def test_a_process_that_crashed_can_be_waited_for_and_started_anew(
    autojump_clock: object,
) -> None:
    faults = Faults(Plan({"write": {1: Crashes()}, "open": {1: Crashes()}}))
    with pytest.raises(Crashed):
        await faults.meet("open")
    assert await faults.crashed.wait() == "crashed at 'open'"
    with pytest.raises(Crashed), faults.around("write"):
        pass
    faults.restart()
    assert not faults.crashed.is_set
    await faults.meet("open")
    with faults.around("write"):
        pass


def test_what_goes_wrong_inside_of_a_change_is_not_hidden() -> None:
    with pytest.raises(KeyError), Faults(plan(write=Crashes(done=True))).around("write"):
        raise KeyError


# ----------------------------------------------------------------------------------------- messages


async def arrivals(faults: Plan, messages: int = 4, pause: float = 1.0) -> list[tuple[int, float]]:
    """What arrives, and when, of messages that are sent one a second from time 0."""
    arrived: list[tuple[int, float]] = []
    async with trio.open_nursery() as nursery:
        wire = Wire[int](
            Faults(faults),
            "reply",
            lambda message: arrived.append((message, trio.current_time())),
            nursery,
        )
        for number in range(1, messages + 1):
            wire.send(number)
            await trio.sleep(pause)
    return arrived


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Slow(1.5), [(1, 0), (3, 2), (2, 2.5), (4, 3)]),
        (Twice(), [(1, 0), (2, 1), (2, 1), (3, 2), (4, 3)]),
        (Swapped(10.0), [(1, 0), (3, 2), (2, 2), (4, 3)]),
        (Swapped(0.5), [(1, 0), (2, 1.5), (3, 2), (4, 3)]),
        (Never(), [(1, 0), (3, 2), (4, 3)]),
    ],
    ids=str,
)
async def test_a_reply_is_delayed_duplicated_reordered_or_never_comes(
    fault: Fault, expected: list[tuple[int, float]], autojump_clock: object
) -> None:
    assert await arrivals(plan(reply=fault)) == expected


async def test_messages_that_wait_for_the_next_one_arrive_in_order_after_it(
    autojump_clock: object,
) -> None:
    swapped = Plan({"reply": {1: Swapped(), 2: Swapped()}})
    assert [message for message, _ in await arrivals(swapped, pause=0.1)] == [3, 1, 2, 4]


async def test_the_last_message_does_not_wait_for_ever(autojump_clock: object) -> None:
    last = Plan({"reply": {1: Swapped(2.0)}})
    assert await arrivals(last, messages=1) == [(1, 2.0)]


# ------------------------------------------------------------------ faults where they cannot strike


@pytest.mark.parametrize("fault", [Twice(), Swapped()], ids=str)
async def test_a_fault_of_messages_where_there_are_none_is_refused(fault: Fault) -> None:
    faults = Faults(plan(place=fault))
    faults.at("place")
    with pytest.raises(ValueError, match="which no message passes"):
        await faults.meet("place")


@pytest.mark.parametrize("fault", [Slow(1.0), Never(), Twice(), Fails(after=1.0)], ids=str)
def test_a_fault_that_takes_time_where_nothing_can_wait_is_refused(fault: Fault) -> None:
    around = Faults(Plan({"place": {1: fault}})).around("place")
    with pytest.raises(ValueError, match="where nothing can wait"), around:
        raise AssertionError("not reached")


@pytest.mark.parametrize("fault", [Fails(), Crashes()], ids=str)
async def test_a_message_neither_fails_nor_crashes(fault: Fault, nursery: trio.Nursery) -> None:
    wire = Wire[int](Faults(Plan({"reply": {1: fault}})), "reply", lambda _: None, nursery)
    with pytest.raises(ValueError, match="only messages pass"):
        wire.send(1)


# ------------------------------------------------------------------------------------ drawing plans

MENU: dict[str, tuple[Fault, ...]] = {
    "open": (Fails(after=4.0), Slow(6.0), Never()),
    "reply": (Twice(), Swapped(2.0)),
    "write": (Crashes(), Crashes(done=True)),
}


def drawn(seed: int, draw: Callable[[random.Random], Plan]) -> Plan:
    return draw(random.Random(seed))


def test_a_plan_is_drawn_from_its_seed_within_its_menu() -> None:
    def draw(chance: random.Random) -> Plan:
        return Plan.draw(chance, MENU, rate=0.5, tries=10, jump=Jump(60.0, 3600.0))

    plans = [drawn(seed, draw) for seed in range(200)]
    assert plans == [drawn(seed, draw) for seed in range(200)]
    assert len({str(each) for each in plans}) == 200
    every = [fault for each in plans for place in each.faults.values() for fault in place.values()]
    assert {type(fault) for fault in every} == {Fails, Slow, Never, Twice, Swapped, Crashes}
    assert all(0 <= fault.after <= 4.0 for fault in every if isinstance(fault, Fails))
    assert all(0 <= fault.seconds <= 6.0 for fault in every if isinstance(fault, Slow))
    assert all(0 <= fault.seconds <= 2.0 for fault in every if isinstance(fault, Swapped))
    assert {fault.done for fault in every if isinstance(fault, Crashes)} == {False, True}
    tries = [number for each in plans for place in each.faults.values() for number in place]
    assert set(tries) == set(range(1, 11))
    assert 0.45 < len(tries) / (200 * 3 * 10) < 0.55
    jumps = list(itertools.chain.from_iterable(each.jumps for each in plans))
    assert 70 < len(jumps) < 130
    assert min(jump.by for jump in jumps) < 0 < max(jump.by for jump in jumps)


def test_a_plan_is_pure_data() -> None:
    faults = drawn(1, lambda chance: Plan.draw(chance, MENU, jump=Jump(60.0, 3600.0)))
    assert msgspec.json.decode(msgspec.json.encode(faults), type=Plan) == faults
    assert eval(repr(faults)) == faults
