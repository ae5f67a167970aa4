"""What is no opener, and what yields no source, is told what it is instead."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from chain_stage import Stage, Token

from trio_reactor.renewal import OpenFailed, Predecessor, open_renewal
from trio_reactor.renewal.source import Source

RULE = "^an opener is called with a Predecessor and returns an async context manager; "


async def plain(_: Predecessor) -> Token:
    await trio.lowlevel.checkpoint()
    return Token("a")


async def bare(_: Predecessor) -> AsyncGenerator[Token]:
    await trio.lowlevel.checkpoint()
    yield Token("a")


@asynccontextmanager
async def nullary() -> AsyncGenerator[Token]:
    await trio.lowlevel.checkpoint()
    yield Token("a")


class PlainCall:
    async def __call__(self, _: Predecessor) -> Token:
        return await plain(_)


@pytest.mark.parametrize(
    ("opener", "fault"),
    [
        (plain, "plain is an async function: have it yield the source, and decorate it with "),
        (PlainCall(), "a PlainCall is an async function"),
        (bare, "bare is an async generator: decorate it with contextlib.asynccontextmanager"),
        (nullary, "nullary cannot be called so: too many positional arguments"),
        (functools.partial(nullary), "a partial cannot be called so: too many positional"),
        ("a string", "a str cannot be called"),
        (None, "a NoneType cannot be called"),
        # What only shows when it is called.
        (
            functools.partial(lambda call, before: call(before), plain),
            "a partial returned a coroutine",
        ),
        (lambda _: Token("a"), r".*<lambda> returned a Token"),
    ],
)
async def test_what_is_no_opener_is_named(autojump_clock: object, opener: Any, fault: str) -> None:
    with pytest.raises(TypeError, match=RULE + fault):
        async with open_renewal(opener):
            pytest.fail("it was opened")


def yields(*given: Any) -> Any:
    left = iter(given)

    @asynccontextmanager
    async def opener(_: Predecessor) -> AsyncGenerator[Any]:
        await trio.lowlevel.checkpoint()
        yield next(left)

    return opener


class NoLifetime:
    id = "a"

    async def close(self) -> None: ...


class NoClose:
    id = "a"
    lifetime = None


@pytest.mark.parametrize(
    ("yielded", "fault"),
    [
        ("a string", "a str, is not a Source: it has no `id`"),
        (None, "a NoneType, is not a Source: it has no `id`"),
        (NoLifetime(), "a NoLifetime, is not a Source: it has no `lifetime`"),
        (NoClose(), "a NoClose, is not a Source: it has no `close`"),
    ],
)
async def test_what_is_yielded_and_is_no_source_is_named_with_what_it_has_not(
    autojump_clock: object, yielded: Any, fault: str
) -> None:
    stage = Stage()
    with pytest.raises(TypeError, match=f"^source 1: what the opener yielded, {fault}$"):
        async with stage.open(yields(yielded)):
            pytest.fail("it was put on air")
    assert stage.story[:1] == ["SourceOpening"]


async def test_a_later_one_that_is_no_source_ends_the_renewal(autojump_clock: object) -> None:
    stage = Stage()
    with pytest.raises(TypeError, match=r"^source 2: .* it has no `id`$"):
        async with stage.open(yields(Token("a"), None)):
            await trio.sleep_forever()


async def test_a_source_that_passes_everything_on_is_one(autojump_clock: object) -> None:
    class Proxy:
        def __init__(self, inner: Source) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

    stage = Stage()
    async with stage.open(yields(Proxy(Token("behind")))) as renewal:
        on_air = renewal.state.on_air
        assert on_air is not None
        assert on_air.source.id == "behind"


async def test_a_life_that_is_not_longer_than_the_lead_is_refused_with_the_option_to_set(
    autojump_clock: object,
) -> None:
    told = (
        "source 1: the lifetime of 30.0 s is not longer than the lead of 30.0 s; "
        "set RenewalOptions(lead=…) to less than it"
    )
    with pytest.raises(OpenFailed) as caught:
        async with open_renewal(yields(Token("a", 30.0))):
            pytest.fail("it was put on air")
    assert caught.value.message == told
