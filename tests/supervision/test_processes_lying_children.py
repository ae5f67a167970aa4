"""What is told to a unit is not trusted: it may be anything."""

from __future__ import annotations

import math

import pytest
from process_stage import code, order, soon

from trio_reactor.supervision import LocalProcesses
from trio_reactor.supervision.execution.processes.unit import ProcessUnit
from trio_reactor.supervision.execution.processes.words import heard


@pytest.mark.parametrize(
    "words",
    [
        ("exit", "--5"),
        ("exit", "-"),
        ("exit", "9" * 5_000),
        ("exit", "٣"),
        ("code", "9" * 5_000),
        ("code", "0"),
        ("code", "-1"),
        ("loaded", "a" * 60_000, "b", "c", "d" * 60_000),
        ("nonsense",),
        ("exit",),
    ],
    ids=lambda words: words[0] + words[-1][:3],
)
async def test_nonsense_from_below_harms_nobody(words: tuple[str, ...]) -> None:
    async with LocalProcesses().launch(order(code("sleep"))) as unit:
        assert isinstance(unit, ProcessUnit)
        unit._on_word(heard("\0".join(words).encode()))
        unit.renew(soon())
        unit.kill()
        assert (await unit.wait_exited()).signal == 9


async def test_a_deadline_that_is_no_number_is_over() -> None:
    async with LocalProcesses().launch(order(code("sleep"))) as unit:
        unit.renew(soon())
        await unit.start()
        unit.renew(math.nan)
        assert (await unit.wait_exited()).signal == 9
