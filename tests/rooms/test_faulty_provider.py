"""A provider at which everything goes wrong as planned."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
import trio

from trio_reactor.errors import Lost, TimedOut
from trio_reactor.rooms.errors import ProviderFault
from trio_reactor.rooms.model.answers import Accepted, Advanced, Conflicted, Page
from trio_reactor.rooms.model.checking import (
    check_advanced,
    check_clashes,
    check_discovery,
    check_page,
    twice_listed,
)
from trio_reactor.rooms.model.edits import Put, Submission
from trio_reactor.rooms.model.terms import CONTRACT
from trio_reactor.rooms.provider.conformance import Case, cases
from trio_reactor.rooms.provider.memory import MemoryAuthority, MemoryOptions, MemoryProvider
from trio_reactor.rooms.provider.protocol import Announced, Client, Holding
from trio_reactor.rooms.simulation import LIES, MENU, FaultyProvider, Lie, draw_lies
from trio_reactor.testing.faults import Fails, Fault, Faults, Never, Plan, Slow, Swapped, Twice
from trio_reactor.world import SeededWorld

from provider_rigs import MemoryRig  # isort: skip

CLIENT = Client("store")


class Stage:
    """An authority of one room, and the provider at which something goes wrong."""

    def __init__(
        self,
        faults: Mapping[str, Mapping[int, Fault]] | None = None,
        lies: Mapping[str, Mapping[int, Lie]] | None = None,
    ) -> None:
        world = SeededWorld(1)
        self.authority = MemoryAuthority(world=world, options=MemoryOptions(page_size=1))
        self.authority.create("plans")
        self.authority.grant("ada", "plans")
        inner = MemoryProvider(self.authority, member="ada")
        plan = Faults(Plan(faults or {}))
        self.provider = FaultyProvider(inner, world=world, faults=plan, lies=lies)


def edit(sequence: int, path: str = "a.md") -> Submission:
    return Submission("plans", "store", sequence, (Put(path, "a"),))


class FaultyRig(MemoryRig):
    name = "the provider at which nothing goes wrong"

    def provider(self, member: str, /) -> FaultyProvider:
        return FaultyProvider(super().provider(member), world=SeededWorld(1))


@pytest.mark.parametrize("case", cases(FaultyRig), ids=str)
async def test_without_a_plan_it_keeps_every_rule_of_the_suite(
    autojump_clock: object, case: Case
) -> None:
    await case.run(FaultyRig())


async def test_a_call_that_fails_on_its_way_had_no_effect(autojump_clock: object) -> None:
    stage = Stage({"submit": {1: Fails("lost")}})
    async with stage.provider.connect(CLIENT) as link:
        with pytest.raises(Lost):
            await link.submit(edit(1))
        assert stage.authority.room("plans").version == 0


async def test_a_call_whose_answer_is_lost_had_its_effect_and_is_answered_again(
    autojump_clock: object,
) -> None:
    stage = Stage({"submit-answer": {1: Fails("timed-out", after=2.0)}})
    async with stage.provider.connect(CLIENT) as link:
        with pytest.raises(TimedOut):
            await link.submit(edit(1))
        assert trio.current_time() == 2.0
        assert stage.authority.room("plans").version == 1
        assert await link.submit(edit(1)) == Accepted(1)


async def test_a_call_that_arrives_twice_is_applied_once(autojump_clock: object) -> None:
    stage = Stage({"submit-copy": {1: Twice()}})
    async with stage.provider.connect(CLIENT) as link:
        assert await link.submit(edit(1)) == Accepted(1)
        assert stage.authority.room("plans").version == 1


async def test_a_call_that_hangs_is_ended_by_the_loss_of_its_link(autojump_clock: object) -> None:
    stage = Stage({"refresh": {1: Never()}, "link": {1: Fails(after=7.5)}})
    async with stage.provider.connect(CLIENT) as link:
        with pytest.raises(Lost) as lost:
            await link.refresh("plans", 0)
        assert lost.value.outcome == "unknown"
        assert trio.current_time() == 7.5
        with pytest.raises(Lost):
            await link.discover()
    async with stage.provider.connect(CLIENT) as link:
        await link.discover()


async def test_a_loss_by_hand_ends_what_is_going_on_and_the_stream(autojump_clock: object) -> None:
    stage = Stage({"submit-answer": {1: Slow(60.0)}})
    async with stage.provider.connect(CLIENT) as link:
        assert link.events is not None
        ended: list[str] = []

        async def ends(what: str) -> None:
            with pytest.raises(Lost):
                if what == "a call":
                    await link.submit(edit(1))
                else:
                    assert link.events is not None
                    await link.events.receive()
            ended.append(what)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ends, "a call")
            nursery.start_soon(ends, "the stream")
            await trio.testing.wait_all_tasks_blocked()
            stage.provider.lose()
        assert sorted(ended) == ["a call", "the stream"]
        link.published("plans", 0)


async def test_a_connection_that_fails_leaves_no_link(autojump_clock: object) -> None:
    stage = Stage({"connect": {1: Fails("lost")}})
    with pytest.raises(Lost):
        async with stage.provider.connect(CLIENT):
            raise AssertionError("it was made")
    assert (stage.provider.links, stage.authority.links) == ((), 0)


async def versions(stage: Stage, count: int, writes: int) -> list[tuple[float, int]]:
    """When which versions arrive, of so many that are written at once."""
    found: list[tuple[float, int]] = []
    async with stage.provider.connect(CLIENT) as link:
        await link.hold(Holding({"plans": 0}, {}))
        for number in range(writes):
            stage.authority.put("plans", "a.md", f"{number}")
        assert link.events is not None
        while len(found) < count:
            told = await link.events.receive()
            assert isinstance(told, Announced)
            found.append((trio.current_time(), told.version))
    return found


async def test_a_late_announcement_holds_up_those_behind_it(autojump_clock: object) -> None:
    stage = Stage({"event": {2: Slow(3.0)}})
    assert await versions(stage, 3, 3) == [(0.0, 1), (3.0, 2), (3.0, 3)]


async def test_an_announcement_arrives_twice(autojump_clock: object) -> None:
    stage = Stage({"event": {2: Twice()}})
    assert await versions(stage, 4, 3) == [(0.0, 1), (0.0, 2), (0.0, 2), (0.0, 3)]


async def test_an_announcement_that_is_lost_takes_its_link_along(autojump_clock: object) -> None:
    stage = Stage({"event": {2: Fails(after=0.5)}})
    with pytest.raises(Lost):
        await versions(stage, 2, 3)
    assert trio.current_time() == 0.5


async def test_a_silent_stream_stays_silent_until_its_link_is_left(autojump_clock: object) -> None:
    stage = Stage({"event": {1: Never()}})
    with trio.move_on_after(1_000) as patience:
        await versions(stage, 1, 3)
    assert patience.cancelled_caught
    assert await versions(stage, 1, 1) == [(1_000.0, 3)]  # what it missed comes first


async def test_a_late_announcement_is_not_lost_with_who_waited_for_it(
    autojump_clock: object,
) -> None:
    stage = Stage({"event": {1: Slow(3.0)}})
    async with stage.provider.connect(CLIENT) as link:
        await link.hold(Holding({"plans": 0}, {}))
        stage.authority.put("plans", "a.md", "a")
        assert link.events is not None
        with trio.move_on_after(1.0):
            await link.events.receive()
        told = await link.events.receive()
        assert isinstance(told, Announced)
        assert trio.current_time() == 3.0


@pytest.mark.parametrize(
    ("place", "fault"), [("event", Swapped()), ("link", Slow(1.0)), ("submit-copy", Never())]
)
async def test_a_fault_that_makes_no_sense_at_its_place_is_named(
    autojump_clock: object, place: str, fault: Fault
) -> None:
    stage = Stage({place: {1: fault}})
    with pytest.raises(ValueError, match=place):
        async with stage.provider.connect(CLIENT) as link:
            await link.hold(Holding({"plans": 0}, {}))
            await link.submit(edit(1))
            assert link.events is not None
            await link.events.receive()


def test_a_lie_that_makes_no_sense_at_its_place_is_named() -> None:
    with pytest.raises(ValueError, match=r"'submit'.*twice"):
        Stage(lies={"submit": {1: "twice"}})


@pytest.mark.parametrize("lie", LIES["bootstrap"])
async def test_a_page_that_is_a_lie_is_found_out(autojump_clock: object, lie: Lie) -> None:
    stage = Stage(lies={"bootstrap": {2: lie}})
    stage.authority.put("plans", "a.md", "a")
    stage.authority.put("plans", "b.md", "b")
    async with stage.provider.connect(CLIENT) as link:
        await link.discover()
        first = await link.bootstrap("plans", "", None)
        assert isinstance(first, Page)
        second = await link.bootstrap("plans", "", first.next)
        assert isinstance(second, Page)
        with pytest.raises(ProviderFault):
            check_page(
                second,
                room="plans",
                transfer=first.transfer,
                number=1,
                version=first.version,
                limits=stage.authority.limits,
            )
    assert stage.provider.lies_told == (lie,)


@pytest.mark.parametrize("lie", LIES["refresh"])
async def test_a_change_that_is_a_lie_is_found_out(autojump_clock: object, lie: Lie) -> None:
    stage = Stage(lies={"refresh": {1: lie}})
    stage.authority.put("plans", "a.md", "a")
    async with stage.provider.connect(CLIENT) as link:
        await link.discover()
        found = await link.refresh("plans", 0)
        assert isinstance(found, Advanced)
        with pytest.raises(ProviderFault):
            check_advanced(found, room="plans", since=0, limits=stage.authority.limits)
    assert stage.provider.lies_told == (lie,)


@pytest.mark.parametrize("lie", LIES["discover"])
async def test_a_discovery_that_is_a_lie_can_be_found_out(autojump_clock: object, lie: Lie) -> None:
    stage = Stage(lies={"discover": {2: lie}})
    stage.authority.put("plans", "a.md", "a")
    async with stage.provider.connect(CLIENT) as link:
        true, said = await link.discover(), await link.discover()
    assert stage.provider.lies_told == (lie,)
    match lie:
        case "twice":
            assert twice_listed(said.rooms) == {"plans"}
        case "backwards":
            assert said.rooms[0].version < true.rooms[0].version
        case "another-member":
            assert said.member != true.member
        case "another-contract":
            assert said.terms.contract != CONTRACT
        case _:
            with pytest.raises(ProviderFault):
                check_discovery(said)


@pytest.mark.parametrize("lie", LIES["submit"])
async def test_an_answer_that_is_a_lie_can_be_found_out(autojump_clock: object, lie: Lie) -> None:
    stage = Stage(lies={"submit": {1: lie, 2: lie}})
    async with stage.provider.connect(CLIENT) as link:
        first, second = await link.submit(edit(1)), await link.submit(edit(2))
        if lie == "backwards":
            assert first == Accepted(0)
        else:
            assert isinstance(second, Conflicted)
            with pytest.raises(ProviderFault):
                check_clashes("plans", second, ["a.md"], stage.authority.limits)
    assert stage.provider.lies_told == (lie,)


@pytest.mark.parametrize("lie", LIES["event"])
async def test_an_announcement_that_is_a_lie_is_told_in_its_place(
    autojump_clock: object, lie: Lie
) -> None:
    stage = Stage(lies={"event": {1: lie}})
    async with stage.provider.connect(CLIENT) as link:
        await link.hold(Holding({"plans": 0}, {}))
        stage.authority.put("plans", "a.md", "a")
        stage.authority.put("plans", "a.md", "b")
        assert link.events is not None
        said, true = [await link.events.receive() for _ in range(2)]
    assert isinstance(said, Announced)
    assert isinstance(true, Announced)
    assert said.change is None or said.change.room != said.room or said.change.version == 1
    assert stage.provider.lies_told == (lie,)
    assert (true.room, true.version) == ("plans", 2)


def test_what_is_drawn_from_one_seed_is_the_same_and_can_be_told() -> None:
    one, two = (
        (Plan.draw(random.Random(seed), MENU), draw_lies(random.Random(seed))) for seed in (7, 7)
    )
    assert one == two
    plan, lies = one
    assert plan.faults
    assert any(lies.values())
    Stage(plan.faults, lies)
