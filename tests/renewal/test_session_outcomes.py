"""What is concluded from what a command came to, whichever command it was."""

from __future__ import annotations

import pytest
import trio
from chain_stage import Stage, scene, until

from trio_reactor.errors import Lost, ReactorError, TimedOut
from trio_reactor.renewal import Renewal
from trio_reactor.renewal.events import OnAir, Recovering, Replaced
from trio_reactor.testing import Never

COMMANDS = ("pause_and_stop", "remove", "move", "set_canvas", "set_autoplay")


async def give(renewal: Renewal, command: str, clip: str) -> None:
    match command:
        case "remove":
            await renewal.remove(clip)
        case "move":
            await renewal.move(clip, 0)
        case "set_canvas":
            await renewal.set_canvas(320, 240)
        case "set_autoplay":
            await renewal.set_autoplay(False)
        case _:
            await renewal.pause_and_stop()


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("weather", [OSError("reset"), trio.BrokenResourceError("broken")])
async def test_weather_makes_the_outcome_of_a_command_unknown_and_costs_the_source_its_place(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, command: str, weather: Exception
) -> None:
    stage = Stage(lifetime=None, renewal={"max_frames": 10_000})
    async with stage.open() as renewal:
        accepted = await renewal.enqueue(scene(1000))
        await trio.sleep(40)

        async def raining(self: object, *args: object) -> None:
            await trio.lowlevel.checkpoint()
            raise weather

        with monkeypatch.context() as patched:
            patched.setattr(type(stage.provider.newest), command, raining)
            with pytest.raises(Lost) as caught:
                await give(renewal, command, accepted.clip)
        assert caught.value.outcome == "unknown"
        assert caught.value.__cause__ is weather
        await until(lambda: len(stage.said(OnAir)) == 2)
        assert [said.why for said in stage.said(Replaced)] == ["outcome-unknown"]


@pytest.mark.parametrize("command", [*COMMANDS, "enqueue"])
async def test_a_defect_of_a_command_is_terminal_and_raised_alone(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    stage = Stage(lifetime=None, renewal={"max_frames": 10_000})
    with pytest.raises(ZeroDivisionError):
        async with stage.open() as renewal:
            accepted = await renewal.enqueue(scene(1000))

            async def broken(self: object, *args: object, **named: object) -> None:
                await trio.lowlevel.checkpoint()
                raise ZeroDivisionError

            monkeypatch.setattr(type(stage.provider.newest), command, broken)
            if command == "enqueue":
                await renewal.enqueue(scene())
            await give(renewal, command, accepted.clip)
    assert stage.provider.opened == 1


async def test_a_request_that_is_not_answered_in_time_costs_its_source_its_place(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None, faults={"reply": {4: Never()}}, renewal={"reply_timeout": 7.0})
    async with stage.open() as renewal:
        await trio.sleep(40)
        with pytest.raises(TimedOut) as caught:
            await renewal.enqueue(scene())
        assert caught.value.outcome == "unknown"
        assert trio.current_time() == pytest.approx(47.2, abs=0.1)
        await until(lambda: len(stage.said(OnAir)) == 2)
        assert [said.why for said in stage.said(Replaced)] == ["outcome-unknown"]
        assert stage.provider.dispatched == 1


async def test_a_request_that_could_not_be_sent_in_time_did_not_arrive_and_harms_nobody(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(lifetime=None, renewal={"reply_timeout": 7.0})
    async with stage.open() as renewal:

        async def queue_up(self: object, *args: object, **named: object) -> str:
            await trio.sleep_forever()
            raise AssertionError

        monkeypatch.setattr(type(stage.provider.newest), "enqueue", queue_up)
        with pytest.raises(TimedOut) as caught:
            await renewal.enqueue(scene())
        assert (caught.value.outcome, caught.value.retryable) == ("not-submitted", True)
        assert not stage.said(Recovering)


async def test_a_command_that_is_not_answered_holds_up_neither_its_caller_nor_close(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(lifetime=None, renewal={"reply_timeout": 500.0})
    left: list[float] = []
    async with stage.open() as renewal, trio.open_nursery() as nursery:

        async def silent(self: object) -> None:
            await trio.sleep_forever()

        monkeypatch.setattr(type(stage.provider.newest), "pause_and_stop", silent)

        async def ask() -> None:
            with pytest.raises(ReactorError):
                await renewal.pause_and_stop()
            left.append(trio.current_time())

        nursery.start_soon(ask)
        await trio.sleep(1)
        await renewal.close()
    assert left == [pytest.approx(1.0, abs=1.0)]


async def test_a_command_whose_caller_is_cancelled_after_it_was_sent_goes_on(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None, build_delay=0.0)
    async with stage.open() as renewal:
        await renewal.set_autoplay(False)
        accepted = await renewal.enqueue(scene(5))
        with trio.move_on_after(0.005) as scope:
            await renewal.remove(accepted.clip)
        assert scope.cancelled_caught
        await trio.sleep(1)
        assert stage.provider.newest.clips == ()
        assert renewal.state.status == "ready"
