"""What a block raises: the whole table, as a pure function and as a block that was left."""

from __future__ import annotations

from itertools import product
from typing import Literal

import pytest
import trio
from owner_story import Adapter, Thing, caught, leaves_of, opened
from trio.testing import wait_all_tasks_blocked

from trio_reactor.errors import Failed
from trio_reactor.owner import open_owner
from trio_reactor.owner.verdict import remaining, split_cancelled, verdict, without

Body = Literal["returned", "cancelled", "own error"]

TABLE: dict[tuple[Body, bool, bool], tuple[str, ...]] = {
    ("returned", True, False): ("terminal",),
    ("cancelled", True, False): ("terminal",),
    ("returned", True, True): ("terminal", "close"),
    ("cancelled", True, True): ("terminal", "close"),
    ("own error", True, False): ("terminal", "body"),
    ("own error", True, True): ("terminal", "body", "close"),
    ("own error", False, True): ("body", "close"),
    ("cancelled", False, True): ("body", "close"),
    ("returned", False, True): ("close",),
    ("own error", False, False): ("body",),
    ("cancelled", False, False): ("body",),
    ("returned", False, False): (),
}
ORIGINAL = {("returned", True, False), ("cancelled", True, False), ("own error", False, False)}


async def cancelled() -> trio.Cancelled:
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as error:
            found = error
            raise
    return found


@pytest.mark.parametrize(("facts", "raised"), TABLE.items(), ids=str)
async def test_the_verdict_is_what_the_table_says(
    facts: tuple[Body, bool, bool], raised: tuple[str, ...]
) -> None:
    bodies = {"returned": None, "cancelled": await cancelled(), "own error": ValueError()}
    parts = {"body": bodies[facts[0]], "terminal": Adapter(), "close": OSError()}
    error = verdict(
        "owner",
        parts["body"],
        parts["terminal"] if facts[1] else None,
        [parts["close"]] if facts[2] and parts["close"] else [],
    )
    expected = [parts[name] for name in raised]
    assert leaves_of(error) == expected
    if len(expected) == 1 and "close" not in raised:
        assert error is expected[0]  # the original, in no group


def test_the_table_is_whole() -> None:
    bodies: tuple[Body, ...] = ("returned", "cancelled", "own error")
    assert set(TABLE) == set(product(bodies, (True, False), (True, False)))


@pytest.mark.parametrize(("facts", "raised"), TABLE.items(), ids=str)
@pytest.mark.parametrize("outer", [False, True], ids=["", "cancelled outside too"])
async def test_the_block_raises_what_the_table_says(
    facts: tuple[Body, bool, bool], raised: tuple[str, ...], *, outer: bool
) -> None:
    body, crashes, complains = facts
    parts = {"body": ValueError("body"), "terminal": Adapter(), "close": Adapter("close")}
    closes = parts["close"] if complains else None
    with caught() as leaving:
        with trio.CancelScope() as scope:
            async with open_owner() as owner:
                await owner.acquire(opened(Thing(complains=closes)))
                if crashes:
                    owner.fail(parts["terminal"])
                if outer or (body == "cancelled" and not crashes):
                    scope.cancel()
                try:
                    if body == "cancelled":
                        await trio.sleep_forever()
                finally:
                    if body == "own error":
                        raise parts["body"]
        # Only reached if nothing was raised: a cancellation ends at its scope.
        assert body == "returned" or scope.cancelled_caught
    expected = [parts[name] for name in raised if (name, body) != ("body", "cancelled")]
    assert leaving.leaves == expected
    if facts in ORIGINAL:
        assert leaving.error is expected[0]
    assert owner.failure is (parts["terminal"] if crashes else None)


def test_a_group_that_holds_what_was_told_is_told_without_it() -> None:
    told, new, other = ValueError("told"), ValueError("new"), ValueError("other")
    group = ExceptionGroup("outer", [ExceptionGroup("inner", [told, new]), other])
    assert [leaf for each in remaining([group], [told]) for leaf in leaves_of(each)] == [new, other]
    assert remaining([told, ExceptionGroup("", [told])], []) == [told]
    assert remaining([group], [group, None]) == []
    (kept,) = remaining([group], [])
    assert kept is group


async def test_cancellations_are_split_off_however_deep() -> None:
    error, other = ValueError(), await cancelled()
    assert split_cancelled(other) is None
    assert split_cancelled(BaseExceptionGroup("", [other, BaseExceptionGroup("", [other])])) is None
    assert leaves_of(split_cancelled(BaseExceptionGroup("", [other, error]))) == [error]
    assert split_cancelled(error) is error
    assert without(error, lambda leaf: leaf is error) is None


async def test_a_body_that_raises_the_terminal_failure_itself_tells_it_once() -> None:
    crash = Adapter()
    with caught() as leaving:
        async with open_owner() as owner:
            owner.fail(crash)
            raise crash
    assert leaving.error is crash


async def test_a_body_that_raises_failed_from_it_is_a_body_with_an_error_of_its_own() -> None:
    crash = Adapter()
    with caught() as leaving:
        async with open_owner() as owner:
            owner.fail(crash)
            owner.check()
    first, second = leaving.leaves
    assert first is crash
    assert isinstance(second, Failed)
    assert second.__cause__ is crash


async def test_a_defect_that_was_raised_to_the_body_is_not_told_again_beside_the_body() -> None:
    defect = Adapter()
    with caught() as leaving:
        async with open_owner() as owner, trio.open_nursery() as tasks:

            async def acquire() -> None:
                await owner.acquire(opened(Thing(refuses=defect)))

            tasks.start_soon(acquire)
    assert leaving.leaves == [defect]


async def test_what_leaves_a_nursery_of_the_bodys_among_cancellations_is_its_own_error() -> None:
    crash, own = Adapter(), ValueError()

    async def stumble() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise own

    for outer in (True, False):
        with caught() as leaving, trio.CancelScope() as scope:
            async with open_owner() as owner, trio.open_nursery() as tasks:
                tasks.start_soon(stumble)
                tasks.start_soon(trio.sleep_forever)
                await wait_all_tasks_blocked()
                owner.fail(crash)
                if outer:
                    scope.cancel()
        assert leaving.leaves == [crash, own]


async def test_the_original_keeps_its_cause_and_context_and_gets_no_other() -> None:
    crash = Adapter()
    crash.__cause__ = cause = ValueError()

    async def work() -> None:
        try:
            raise KeyError
        except KeyError:
            raise crash from cause

    with caught() as leaving:
        async with open_owner() as owner:
            owner.start_soon(work)
            await trio.sleep_forever()
    assert leaving.error is crash
    assert crash.__cause__ is cause
    assert isinstance(crash.__context__, KeyError)
