"""What plays no clips says so to whoever wants clips of it, and is not asked again."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio
from chain_stage import Stage, Token, scene, tokens, until

from trio_reactor.errors import Refused
from trio_reactor.renewal import Predecessor, Renewal
from trio_reactor.renewal.source import Source, SourceOpener

COMMANDS: dict[str, Callable[[Renewal], Awaitable[object]]] = {
    "enqueue": lambda renewal: renewal.enqueue(scene()),
    "submit": lambda renewal: renewal.prepare(scene()).submit(),
    "set_autoplay": lambda renewal: renewal.set_autoplay(False),
    "set_canvas": lambda renewal: renewal.set_canvas(64, 64),
    "pause_and_stop": lambda renewal: renewal.pause_and_stop(),
}
OUTPUTS: dict[str, Callable[[Renewal], object]] = {
    "video": lambda renewal: renewal.video,
    "audio": lambda renewal: renewal.audio,
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS.keys())
async def test_a_command_for_clips_is_refused_where_no_source_plays_any(
    autojump_clock: object, command: Callable[[Renewal], Awaitable[object]]
) -> None:
    stage = Stage()
    async with stage.open(tokens(Token("a"), Token("b"))) as renewal:
        with pytest.raises(Refused, match=r"^renewal: its sources play no clips$") as caught:
            await command(renewal)
        assert not caught.value.retryable
        assert caught.value.outcome == "not-submitted"
        assert renewal.state.status == "ready"
        await trio.sleep(70)
        assert renewal.state.opened == 2
        with pytest.raises(Refused):
            await command(renewal)


@pytest.mark.parametrize("output", OUTPUTS.values(), ids=OUTPUTS.keys())
async def test_media_are_refused_where_none_would_ever_come(
    autojump_clock: object, output: Callable[[Renewal], object]
) -> None:
    stage = Stage()
    async with stage.open(tokens(Token("a"))) as renewal:
        with pytest.raises(Refused, match="its sources play no clips"):
            output(renewal)
    output(renewal)  # afterwards there is the end to be read


def token_and_then(provider: SourceOpener) -> SourceOpener:
    """Opens a token first, and then what the provider has."""
    given = False

    @asynccontextmanager
    async def opener(before: Predecessor) -> AsyncGenerator[Source]:
        nonlocal given
        if given:
            async with provider(before) as source:
                yield source
        else:
            given = True
            await trio.lowlevel.checkpoint()
            yield Token("a token")

    return opener


async def test_a_successor_that_plays_takes_clips_as_soon_as_it_is_prepared(
    autojump_clock: object,
) -> None:
    stage = Stage()
    async with stage.open(token_and_then(stage.provider)) as renewal:
        await until(lambda: renewal.state.next is not None)
        await until(lambda: stage.story[-1] == "Prepared")
        accepted = await renewal.enqueue(scene())
        assert accepted.source.incarnation == 2
        assert renewal.video is renewal.video


async def test_a_setting_that_was_refused_is_not_kept(autojump_clock: object) -> None:
    stage = Stage()
    async with stage.open(token_and_then(stage.provider)) as renewal:
        with pytest.raises(Refused):
            await renewal.set_autoplay(False)
        await until(lambda: renewal.state.opened == 2 and renewal.state.next is None)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage.watch, renewal)
            await renewal.enqueue(scene(5))
            await until(lambda: len(stage.stamps) == 5)
            nursery.cancel_scope.cancel()
