"""An adapter's nursery puts what is raised in it into a group: the answer in it is the answer."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from chain_stage import Stage, Token, scene, tokens
from trio.testing import wait_all_tasks_blocked

from trio_reactor.errors import Expired, Refused
from trio_reactor.renewal import SequenceMember
from trio_reactor.renewal.events import InputLost, Recovering, Replaced
from trio_reactor.renewal.sequences.book import MemberRejected, Sealed
from trio_reactor.renewal.source import Commit


def within_a_nursery(call: Any) -> Any:
    """The same, with a nursery around it."""

    async def wrapped(*given: Any, **more: Any) -> Any:
        async with trio.open_nursery():
            return await call(*given, **more)

    return wrapped


async def refuse(*_: Any, commit: Commit | None = None, **__: Any) -> str:
    if commit is not None:
        commit()
    await trio.lowlevel.checkpoint()
    raise Refused("no")


async def test_a_request_that_is_refused_in_a_nursery_is_refused(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal:
        monkeypatch.setattr(stage.provider.newest, "enqueue", within_a_nursery(refuse))
        with pytest.raises(Refused) as refused:
            await renewal.enqueue(scene(5), sequence=SequenceMember("s", final=True))
        assert refused.value.outcome == "replied"
        (sequence,) = renewal.sequences.snapshots()
        assert isinstance(sequence.phase, Sealed)
        assert sequence.count(MemberRejected) == 1
        await trio.sleep(5)
        assert stage.said(Recovering) == []


async def test_a_place_that_moved_is_asked_for_once_more_through_a_nursery(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal:
        await renewal.set_autoplay(False)
        first, second = [await renewal.enqueue(scene(5)) for _ in range(2)]
        source = stage.provider.newest
        enqueue, gate = within_a_nursery(source.enqueue), trio.Event()

        async def held(*given: Any, **more: Any) -> Any:
            await gate.wait()
            return await enqueue(*given, **more)

        async with trio.open_nursery() as nursery:
            with monkeypatch.context() as patched:
                patched.setattr(source, "enqueue", held)
                submission = renewal.prepare(scene(5), before=second.clip)
                nursery.start_soon(submission.submit)
                await wait_all_tasks_blocked()
                await renewal.remove(first.clip)
                gate.set()
                await wait_all_tasks_blocked()
                await submission.submit()
        assert stage.provider.dispatched == 3


async def test_a_setting_that_is_refused_in_a_nursery_is_not_wanted_any_more(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(lifetime=60.0)
    async with stage.open() as renewal:
        await renewal.set_canvas(640, 360)
        source = stage.provider.newest
        with monkeypatch.context() as patched:
            patched.setattr(source, "set_canvas", within_a_nursery(refuse))
            with pytest.raises(Refused):
                await renewal.set_canvas(1, 1)
        told: list[tuple[int, int]] = []
        kind = type(source)
        set_canvas = kind.set_canvas

        async def note(self: Any, width: int, height: int, /) -> None:
            told.append((width, height))
            await set_canvas(self, width, height)

        monkeypatch.setattr(kind, "set_canvas", note)
        await trio.sleep(55)
        assert set(told) == {(640, 360)}
        assert stage.said(Recovering) == []


async def test_input_that_is_refused_in_a_nursery_is_refused(autojump_clock: object) -> None:
    class Ear(Token):
        async def send_input(self, data: bytes, /) -> None:
            await within_a_nursery(refuse)(data)

    stage = Stage()
    async with stage.open(tokens(Ear("t1", None))) as renewal:
        await renewal.send_input(b"one")
        await trio.sleep(1)
        assert [each.why for each in stage.said(InputLost)] == ["refused"]
        assert stage.said(Recovering) == []


async def test_a_source_that_says_in_a_nursery_that_it_has_expired_has_expired(
    autojump_clock: object,
) -> None:
    class Telling(Token):
        async def wait_lost(self) -> None:
            async with trio.open_nursery():
                await trio.sleep(30)
                raise Expired("the provider says so")

    stage = Stage()
    async with stage.open(tokens(Telling("t1", None), Token("t2", None))) as renewal:
        with pytest.raises(Expired):
            async with renewal.borrow():
                await trio.sleep_forever()
        await trio.sleep(1)
        assert [each.why for each in stage.said(Replaced)] == ["expired"]
