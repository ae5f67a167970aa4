"""What is held, in which order, and what is refused."""

from __future__ import annotations

from typing import Final

from trio_reactor.supervision.model.keys import MAX_NAME, Handle, Key
from trio_reactor.testing.conformance import Part

from .lives import largest
from .trial import Trial

__all__ = ["HOLDING"]

HOLDING: Final = Part(Trial)

MANY: Final = 1_000
"""How many changes are committed together at most."""

ODD: Final = (
    Key("a", "b"),
    Key("a/b"),
    Key("b", "a"),
    Key("A", "b"),
    Key(" a", "b"),
    Key("a ", "b"),
    Key("e\u0301"),
    Key("\u00e9"),
    Key("'; DROP TABLE record; --", '"'),
    Key("\\", "%_?:1$1{}"),
    Key("\U0001f469\U0001f680", "❤"),
    Key("0"),
    Key("NULL", "null"),
    Key("\U0001f9ff" * MAX_NAME, "x" * MAX_NAME),
    Key("\U0001f9ff" * MAX_NAME, "x" * (MAX_NAME - 1)),
)
"""Names that are mistaken for one another, or for something else."""


@HOLDING.case("a new journal is empty")
async def _empty(trial: Trial) -> None:
    async with trial.opened() as opened:
        await opened.holds(high_water={})


@HOLDING.case("a later record takes the place of the one before")
async def _replaced(trial: Trial) -> None:
    async with trial.opened() as opened:
        for record in opened.life("a"):
            await opened.commit(record)
            await opened.holds(record, high_water={Key("a"): 1})


@HOLDING.case("a first record is refused unless its generation is one more than its key ever had")
async def _generations(trial: Trial) -> None:
    async with trial.opened() as opened:
        await opened.stale(opened.life("a", 2)[0])
        await opened.holds(high_water={}, when=" after it refused a first record")
        await opened.commit(opened.life("a", 1)[0])
        await opened.stale(opened.life("a", 1)[0], opened.life("a", 3)[0])
        await opened.commit(opened.life("a", 2)[0])
        await opened.stale(opened.life("a", 1)[0], opened.life("a", 2)[0])
        await opened.holds(opened.life("a", 1)[0], opened.life("a", 2)[0], high_water={Key("a"): 2})


@HOLDING.case("a later record is refused where there is none before it")
async def _unknown(trial: Trial) -> None:
    async with trial.opened() as opened:
        await opened.stale(opened.life("a")[1])
        await opened.commit(opened.life("a")[0])
        await opened.stale(opened.life("a", 2)[1], opened.life("b", 1)[5])
        await opened.holds(opened.life("a")[0], high_water={Key("a"): 1})


@HOLDING.case("what was forgotten is gone, does not come back, and its generation stays")
async def _forgotten(trial: Trial) -> None:
    async with trial.opened() as opened:
        old, other = opened.life("a"), opened.life("b")
        await opened.commit(old[0], old[4], old[5])
        await opened.commit(other[0], forgets=(old[0].handle,))
        high_water = {Key("a"): 1, Key("b"): 1}
        await opened.holds(other[0], high_water=high_water)
        await opened.stale(old[5], old[0])
        await opened.holds(other[0], high_water=high_water)
        again = opened.life("a", 2)[0]
        await opened.commit(again)
        await opened.holds(other[0], again, high_water={Key("a"): 2, Key("b"): 1})


@HOLDING.case("only what is named is forgotten, and what is not there can be")
async def _only_named(trial: Trial) -> None:
    async with trial.opened() as opened:
        one, two = opened.life("a", 1), opened.life("a", 2)
        await opened.commit(one[0], one[4], one[5], two[0], two[4], two[5])
        new = opened.life("b")[0]
        await opened.commit(new, forgets=(one[0].handle, Handle(Key("c"), 1, "x")))
        await opened.holds(two[5], new, high_water={Key("a"): 2, Key("b"): 1})


@HOLDING.case("what it gives is in the order in which it was last written")
async def _order(trial: Trial) -> None:
    async with trial.opened() as opened:
        a, b, c = (opened.life(name) for name in "cab")
        await opened.commit(a[0], b[0])
        await opened.commit(c[0])
        await opened.commit(a[1])
        await opened.commit(c[1], b[1], c[2])
        await opened.holds(a[1], b[1], c[2], high_water={Key("a"): 1, Key("b"): 1, Key("c"): 1})


@HOLDING.case("of a group each change is made after those before it")
async def _group(trial: Trial) -> None:
    async with trial.opened() as opened:
        one, two = opened.life("a", 1), opened.life("a", 2)
        await opened.commit(one[0], one[1], one[4], one[5], two[0], two[1])
        await opened.holds(one[5], two[1], high_water={Key("a"): 2})


@HOLDING.case("what a change is refused for is its own, and it forgets nothing")
async def _alone(trial: Trial) -> None:
    async with trial.opened() as opened:
        old = opened.life("old")
        await opened.commit(old[0], old[4], old[5])
        good, bad, last = opened.life("good"), opened.life("bad", 3), opened.life("last")
        outcomes = await opened.outcomes(
            good[0], bad[0], good[1], last[0], bad[1], forgets=(old[0].handle,)
        )
        said = [type(outcome).__name__ for outcome in outcomes]
        expected = ["NoneType", "StaleSession", "NoneType", "NoneType", "StaleSession"]
        trial.require(said == expected, f"said {said} of a group with two that are stale")
        high_water = {Key("old"): 1, Key("good"): 1, Key("last"): 1}
        await opened.holds(old[5], good[1], last[0], high_water=high_water)


@HOLDING.case("an empty group changes nothing")
async def _nothing(trial: Trial) -> None:
    async with trial.opened() as opened:
        record = opened.life("a")[0]
        await opened.commit()
        await opened.commit(record)
        await opened.commit()
        await opened.holds(record, high_water={Key("a"): 1})


@HOLDING.case("a thousand changes are committed together")
async def _many(trial: Trial) -> None:
    async with trial.opened() as opened:
        lives = [opened.life(f"key {number}") for number in range(MANY // 2)]
        await opened.commit(*(record for life in lives for record in life[:2]))
        await opened.holds(
            *(life[1] for life in lives), high_water={life[0].handle.key: 1 for life in lives}
        )


@HOLDING.case("a record as large as one may be is kept whole")
async def _large(trial: Trial) -> None:
    async with trial.opened() as opened:
        first = opened.life("a")[0]
        big = largest(first)
        await opened.commit(first, big)
        await opened.holds(big, high_water={Key("a"): 1})


@HOLDING.case("names are kept as they are, and none is taken for another")
async def _names(trial: Trial) -> None:
    async with trial.opened() as opened:
        for key in ODD:
            await opened.commit(opened.life(key)[0])
        await opened.commit(*(opened.life(key)[1] for key in ODD))
        await opened.holds(*(opened.life(key)[1] for key in ODD), high_water=dict.fromkeys(ODD, 1))


@HOLDING.case("what it gave does not change afterwards")
async def _snapshot(trial: Trial) -> None:
    async with trial.opened() as opened:
        await opened.commit(opened.life("a")[0])
        given = await opened.load()
        before = (given.records, dict(given.high_water))
        await opened.commit(opened.life("a")[1], opened.life("a", 2)[0])
        after = (given.records, dict(given.high_water))
        trial.require(after == before, "changed what it had given")
