"""Cases: what goes to and fro between the application and the code."""

from __future__ import annotations

from typing import Final

import trio

from trio_reactor.supervision.errors import ExecutionFailed
from trio_reactor.supervision.execution.protocol import Unit
from trio_reactor.testing.conformance import Part

from .trial import Trial

__all__ = ["TALKING"]

TALKING: Final = Part(Trial)

_LARGE: Final = 1 << 20
"""Bytes that no pipe holds at a time."""


async def _receive(unit: Unit, count: int) -> bytes:
    """So many bytes of the channel, or as many as there are."""
    received = bytearray()
    while len(received) < count:
        data = await unit.channel.receive_some(65_536)
        if not data:
            break
        received += data
    return bytes(received)


@TALKING.case("what is sent to the code arrives, and what it sends comes, in order", "echoes")
async def _echo(trial: Trial) -> None:
    large = bytes(number % 251 for number in range(_LARGE))
    async with trial.running(trial.rig.echoes()) as unit:
        for data in (b"x", large):
            with trial.soon("did not carry what was sent to and fro"):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(unit.channel.send_all, data)
                    received = await _receive(unit, len(data))
            trial.require(received == data, f"carried other bytes than the {len(data)} sent")


@TALKING.case("what the code sent before it ended comes after that, and then the end", "says")
async def _last_words(trial: Trial) -> None:
    words = b"the last words " * 100
    async with trial.running(trial.rig.says(words)) as unit:
        await trial.ended(unit, "that ended by itself")
        with trial.soon("did not end the channel of a child that has ended"):
            received = await _receive(unit, len(words) + 1)
        trial.require(received == words, f"gave {len(received)} of {len(words)} last bytes")


@TALKING.case("what comes from the code is a sign of life", "echoes")
async def _heard(trial: Trial) -> None:
    async with trial.running(trial.rig.echoes()) as unit:
        await trial.quiet()
        before = unit.heard_at
        trial.require(before <= trial.rig.world.clock(), f"heard it at {before}, which is to come")
        asked = trial.rig.world.clock()
        with trial.soon("did not carry what was sent to and fro"):
            await unit.channel.send_all(b"x")
            await _receive(unit, 1)
        heard = unit.heard_at
        trial.require(
            asked <= heard <= trial.rig.world.clock(), f"heard it at {heard}, not {asked}"
        )


@TALKING.case("of what the code writes the last is kept, and all is counted", "prints")
async def _output(trial: Trial) -> None:
    data = b"".join(b"%08d\n" % number for number in range(2 * trial.rig.most_kept // 9 + 2))
    for written in (b"a few words\n", data):
        async with trial.running(trial.rig.prints(written)) as unit:
            await trial.ended(unit, "that ended by itself")
            tail, numbers = unit.output.tail(), unit.output.statistics()
        trial.require(written.endswith(tail) and tail, f"kept {tail[-32:]!r}, which is not the end")
        trial.require(
            len(tail) <= trial.rig.most_kept, f"kept {len(tail)} bytes of what was written"
        )
        trial.require(numbers.written == len(written), f"counted {numbers.written} bytes written")
        dropped = len(written) - len(tail)
        trial.require(numbers.dropped == dropped, f"counted {numbers.dropped}, dropped {dropped}")
        trial.require(unit.output.tail() == tail, "lost what was written when it was left")


@TALKING.case("where the code is can be told while it runs, and not after", "stacks")
async def _stack(trial: Trial) -> None:
    async with trial.running(trial.rig.forever()) as unit:
        with trial.soon("did not tell a stack"):
            text = await unit.stack()
        trial.require(text.strip(), "told an empty stack")
        unit.kill()
        await trial.ended(unit, "that was killed")
        try:
            with trial.soon("did not say that there is no stack"):
                await unit.stack()
        except ExecutionFailed:
            return
        trial.fail("told a stack of a child that has ended")
