"""Sources that announce their end, whatever they are used for."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
import trio
from line_stage import Line, options
from trio.testing import wait_all_tasks_blocked

from trio_reactor.channel import EventChannel
from trio_reactor.errors import Expired, leaves
from trio_reactor.renewal import OpenFailed, Predecessor, SourcesExhausted, open_renewal
from trio_reactor.renewal.events import Recovering, SourceOpening
from trio_reactor.renewal.source import GoingAway

Tell = Callable[[GoingAway], None]


class Herald(Line):
    """A line that can announce its end."""

    def __init__(self, number: int, lifetime: float | None, known: tuple[Any, ...] = ()) -> None:
        super().__init__(number, lifetime, 0.0)
        self._known = known
        self.tell: Tell | None = None

    def announce_to(self, tell: Tell, /) -> None:
        assert self.tell is None, "it was asked twice"
        self.tell = tell
        for notice in self._known:
            tell(notice)

    def announce(self, notice: Any) -> None:
        assert self.tell is not None
        self.tell(notice)


class Court:
    """Opens heralds, and knows of all of them."""

    def __init__(
        self,
        *,
        lifetime: float | None = 600.0,
        open_delay: float = 1.0,
        known: tuple[Any, ...] = (),
    ) -> None:
        self.lifetime = lifetime
        self.open_delay = open_delay
        self.known = known
        self.heralds: list[Herald] = []

    @asynccontextmanager
    async def __call__(self, _: Predecessor) -> AsyncGenerator[Herald]:
        await trio.sleep(self.open_delay if self.heralds else 0)
        known = () if self.heralds else self.known
        self.heralds.append(Herald(len(self.heralds) + 1, self.lifetime, known))
        yield self.heralds[-1]


def why(failure: BaseException) -> str:
    assert failure.__cause__ is not None
    return " ".join(map(str, leaves(failure.__cause__)))


@pytest.mark.parametrize("lifetime", [600.0, None])
async def test_a_goodbye_in_advance_has_the_next_prepared_in_time(
    autojump_clock: object, lifetime: float | None
) -> None:
    court = Court(lifetime=lifetime)
    async with open_renewal(court, options=options()) as renewal:
        await trio.sleep(100)
        court.heralds[0].announce(GoingAway(25.0, "a restart"))
        await trio.sleep(14.5)
        assert len(court.heralds) == 1, "the lead is 10 s"
        await trio.sleep(2)
        assert len(court.heralds) == 2
        assert renewal.state.on_air is not None
        assert renewal.state.on_air.source.id == "line-2"
        assert court.heralds[0].closed_at == pytest.approx(116.0), "handed over, not lost"


async def test_a_notice_shorter_than_the_lead_has_the_next_opened_at_once(
    autojump_clock: object,
) -> None:
    court = Court()
    async with open_renewal(court, options=options()) as renewal:
        await trio.sleep(100)
        court.heralds[0].announce(GoingAway(3.0))
        await trio.sleep(1.5)
        assert renewal.state.on_air is not None
        assert renewal.state.on_air.source.id == "line-2"


async def test_the_earliest_of_several_notices_counts(autojump_clock: object) -> None:
    court = Court(open_delay=0.1)
    async with open_renewal(court, options=options(lead=0.0)) as renewal:
        await trio.sleep(10)
        for seconds in (30.0, 5.0, 60.0, 5.0):
            court.heralds[0].announce(GoingAway(seconds))
        with pytest.raises(Expired):
            async with renewal.borrow():
                await trio.sleep_forever()
        assert trio.current_time() == pytest.approx(15.0)


async def test_what_is_known_as_it_opens_counts_from_then(autojump_clock: object) -> None:
    court = Court(known=(GoingAway(20.0),))
    async with open_renewal(court, options=options()) as renewal:
        assert renewal.state.on_air is not None
        assert renewal.state.on_air.expires_in == pytest.approx(20.0)
        await trio.sleep(11.5)
        assert len(court.heralds) == 2


async def test_a_block_on_a_source_that_was_handed_over_is_told_of_its_end_all_the_same(
    autojump_clock: object,
) -> None:
    court = Court()
    async with open_renewal(court, options=options()) as renewal:
        with pytest.raises(Expired):
            async with renewal.borrow():
                await renewal.renew("settings")
                court.heralds[0].announce(GoingAway(7.0))
                await trio.sleep_forever()
        assert trio.current_time() == pytest.approx(1.0 + 7.0)


async def test_who_has_left_announces_nothing_any_more(autojump_clock: object) -> None:
    court = Court()
    async with open_renewal(court, options=options()) as renewal:
        await renewal.renew("settings")
        await wait_all_tasks_blocked()
        opened = len(court.heralds)
        court.heralds[0].announce(GoingAway(0.0))
        court.heralds[0].announce("nonsense")
        await trio.sleep(30)
        assert len(court.heralds) == opened
        assert renewal.state.status == "ready"
    court.heralds[-1].announce(GoingAway(0.0))


@pytest.mark.parametrize(
    "nonsense", ["soon", None, GoingAway(cast("Any", "soon")), GoingAway(float("nan"))], ids=repr
)
async def test_a_notice_that_makes_no_sense_costs_its_source_its_place(
    autojump_clock: object, nonsense: Any
) -> None:
    court, channel = Court(), EventChannel()
    with channel.subscribe(Recovering) as events:
        async with open_renewal(court, options=options(), events=channel) as renewal:
            await trio.sleep(100)
            court.heralds[0].announce(nonsense)
            await trio.sleep(2)
            assert renewal.state.on_air is not None
            assert renewal.state.on_air.source.id == "line-2"
            assert (await events.receive()).event.why == "contract-broken"


async def test_one_that_announces_nonsense_as_it_opens_has_not_opened(
    autojump_clock: object,
) -> None:
    court, channel = Court(known=("soon",)), EventChannel()
    with channel.subscribe(SourceOpening) as opened:
        with pytest.raises(OpenFailed) as caught:
            async with open_renewal(court, options=options(), events=channel):
                pytest.fail("opened")
        assert "announced a str, which is no GoingAway" in why(caught.value)
        channel.end()
        assert len([each async for each in opened]) == 1
    assert court.heralds[0].closed_at is not None


async def test_one_that_returns_something_is_named(autojump_clock: object) -> None:
    class Returning(Herald):
        def announce_to(self, tell: Tell, /) -> Any:
            return tell

    @asynccontextmanager
    async def opener(_: Predecessor) -> AsyncGenerator[Herald]:
        await trio.lowlevel.checkpoint()
        yield Returning(1, 60.0)

    with pytest.raises(OpenFailed) as caught:
        async with open_renewal(opener, options=options()):
            pytest.fail("opened")
    assert "gave a SlotNotices when asked to announce its end" in why(caught.value)


async def test_sources_that_announce_their_end_as_they_open_are_not_opened_without_end(
    autojump_clock: object,
) -> None:
    class Mayfly(Court):
        @asynccontextmanager
        async def __call__(self, _: Predecessor) -> AsyncGenerator[Herald]:
            await trio.lowlevel.checkpoint()
            self.heralds.append(Herald(len(self.heralds) + 1, 600.0, (GoingAway(0.5),)))
            yield self.heralds[-1]

    court = Mayfly()
    with pytest.raises(SourcesExhausted):
        async with open_renewal(court, options=options(max_failures=4)):
            await trio.sleep_forever()
    assert len(court.heralds) <= 6
