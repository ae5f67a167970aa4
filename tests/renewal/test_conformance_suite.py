"""The conformance suite as a whole: what it stops at, and whose failure it calls whose."""

from __future__ import annotations

import traceback
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from chain_stage import Token
from conformance_rigs import SimulationRig, simulation

from trio_reactor.renewal import Predecessor
from trio_reactor.renewal.conformance import (
    SUITE,
    Nonconforming,
    Rig,
    RigFailed,
    cases,
    run_all,
)
from trio_reactor.renewal.source import Source, SourceOpener
from trio_reactor.testing.conformance import Untested

CAPABILITIES = "it has exactly the capabilities that are expected of it"


class TokenRig(Rig):
    """Tokens of a vault."""

    name = "the token"

    def __init__(self) -> None:
        self.given = 0
        self.valid: set[str] = set()

    @property
    def opener(self) -> SourceOpener:
        return self.open

    @asynccontextmanager
    async def open(self, _: Predecessor) -> AsyncGenerator[Source]:
        await trio.lowlevel.checkpoint()
        self.given += 1
        token = self.token(f"token-{self.given}")
        self.valid.add(token.id)
        try:
            yield token
        finally:
            self.valid.discard(token.id)

    def token(self, identity: str) -> Token:
        rig = self

        class Given(Token):
            async def close(self) -> Any:
                rig.valid.discard(self.id)
                return await super().close()

        return Given(identity)

    def allocated(self) -> int:
        return len(self.valid)


def fresh(kind: type[TokenRig]) -> Any:
    @asynccontextmanager
    async def environment() -> AsyncGenerator[Rig]:
        yield kind()

    return environment


async def test_a_rig_is_not_asked_for_what_it_cannot_cause(autojump_clock: object) -> None:
    class Unbreakable(SimulationRig):
        break_connection = Rig.break_connection

    def environment() -> Any:
        return simulation(Unbreakable)

    hold = await run_all(Unbreakable, environment)
    assert hold == tuple(case.sentence for case in cases(Unbreakable))
    assert any(sentence.startswith("a reconnect") for sentence in hold)


def test_a_capability_that_there_is_not_is_refused_by_name() -> None:
    class Typo(TokenRig):
        capabilities = frozenset({"mortal", "playabel"})  # type: ignore[arg-type]

    with pytest.raises(ValueError, match=r"^Typo\.capabilities names 'playabel'; .*'playable'"):
        cases(Typo)


async def test_it_stops_where_the_source_is_not_what_its_rig_says(autojump_clock: object) -> None:
    class Claims(TokenRig):
        capabilities = frozenset({"mortal", "playable"})

    told: list[str] = []
    with pytest.raises(ExceptionGroup, match=r"^the token does not conform") as caught:
        await run_all(Claims, fresh(Claims), told.append)
    (broken,) = caught.value.exceptions
    assert isinstance(broken, Nonconforming)
    assert "is [] instead of ['mortal', 'playable']" in str(broken)
    assert told == [f"does not hold: {CAPABILITIES}"]


async def test_a_rig_that_fails_is_no_failure_of_its_source(autojump_clock: object) -> None:
    class Broken(TokenRig):
        def allocated(self) -> int:
            return {}["sessions"]

    told: list[str] = []
    with pytest.raises(RigFailed, match=r"^the rig of the token failed in `allocated`; ") as caught:
        await run_all(Broken, fresh(Broken), told.append)
    assert isinstance(caught.value.__cause__, KeyError)
    assert told[-1].startswith("not tested: ")
    assert [line for line in told if not line.startswith("holds: ")] == told[-1:]


async def test_a_server_beside_the_rig_that_fails_keeps_its_traceback(
    autojump_clock: object,
) -> None:
    async def serve_until_the_third() -> None:
        await trio.sleep(0.05)
        raise KeyError("a bug of the server")

    @asynccontextmanager
    async def environment() -> AsyncGenerator[Rig]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_until_the_third)
            yield TokenRig()
            nursery.cancel_scope.cancel()

    told: list[str] = []
    with pytest.raises(RigFailed, match=r"^the rig of the token failed around the case ") as caught:
        await run_all(TokenRig, environment, told.append)
    assert told[:1] == [f"holds: {CAPABILITIES}"]
    shown = "".join(traceback.format_exception(caught.value))
    assert "in serve_until_the_third" in shown
    assert "a bug of the server" in shown


async def test_what_was_broken_before_the_rig_failed_is_told_with_it(
    autojump_clock: object,
) -> None:
    class Both(TokenRig):
        def token(self, identity: str) -> Token:
            token = super().token(identity)
            token.lifetime = -1
            return token

        def allocated(self) -> int:
            raise OSError("the server is gone")

    with pytest.raises(ExceptionGroup) as caught:
        await run_all(Both, fresh(Both))
    broken, failed = caught.value.exceptions
    assert isinstance(broken, Nonconforming)
    assert isinstance(failed, RigFailed)
    assert isinstance(failed.__cause__, OSError)


async def test_a_source_that_raises_is_still_the_one_that_does_not_conform(
    autojump_clock: object,
) -> None:
    class Raises(TokenRig):
        @asynccontextmanager
        async def open(self, _: Predecessor) -> AsyncGenerator[Source]:
            await trio.lowlevel.checkpoint()
            raise KeyError("a bug of the adapter")
            yield

    with pytest.raises(ExceptionGroup) as caught:
        await run_all(Raises, fresh(Raises))
    (broken,) = caught.value.exceptions  # it stopped at the first, which is its capabilities
    assert isinstance(broken, Nonconforming)
    assert isinstance(broken.__cause__, KeyError)


async def test_a_source_that_breaks_a_rule_while_its_server_fails_is_not_blamed(
    autojump_clock: object,
) -> None:
    class Overdue(TokenRig):
        def token(self, identity: str) -> Token:
            token = super().token(identity)
            token.lifetime = -1
            return token

    async def fail_as_it_stops() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise KeyError("a bug of the server")

    @asynccontextmanager
    async def environment() -> AsyncGenerator[Rig]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail_as_it_stops)
            yield Overdue()

    lifetime = next(case for case in cases(Overdue) if case.sentence.startswith("its lifetime"))
    found = await SUITE.outcome(lifetime, Overdue, environment)
    assert isinstance(found, Untested)
    assert found.failure is not None
    shown = "".join(traceback.format_exception(found.failure))
    assert "a bug of the server" in shown
    assert "the lifetime is -1 s" in shown
