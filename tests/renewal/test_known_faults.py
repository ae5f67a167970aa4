"""What went wrong at the edges: stuck journals, sources that die at once, failures meanwhile."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from chain_stage import Stage, until

from trio_reactor.renewal import Cleanup, ClipRequest, RenewalOptions
from trio_reactor.renewal.allocation import AllocationRecord, Allocations, JournalFailed
from trio_reactor.renewal.engine.capture import capture, check_flag
from trio_reactor.renewal.engine.dispatch import Dispatch
from trio_reactor.renewal.simulation import SimulatedJournal
from trio_reactor.renewal.slot.leaving import leave
from trio_reactor.renewal.slot.slot import Slot
from trio_reactor.renewal.source import Commit, Source
from trio_reactor.world import SystemWorld


def left(count: int, stage: Stage) -> list[AllocationRecord]:
    wall = stage.world.wall()
    return [
        AllocationRecord(f"key {n}", "renewal", wall - 9.0, None, None, None) for n in range(count)
    ]


# ------------------------------------------------------------------------------------- the journal


async def test_a_journal_that_is_never_read_ends_the_open_within_its_budget(
    autojump_clock: object,
) -> None:
    stage = Stage(renewal={"open_timeout": 7.0})

    class Stuck(SimulatedJournal):
        async def load(self) -> tuple[AllocationRecord, ...]:
            await trio.sleep_forever()
            raise AssertionError

    allocations = Allocations(journal=Stuck(()), terminate=stage.provider.terminate)
    began = trio.current_time()
    with pytest.raises(JournalFailed, match=r"was not read within 7\.0 s"):
        async with stage.open(allocations=allocations):
            pytest.fail("opened")
    assert trio.current_time() - began == pytest.approx(7.0)
    assert stage.provider.opened == 0


async def test_several_records_that_could_not_be_deleted_are_one_error_with_all_of_them(
    autojump_clock: object,
) -> None:
    stage = Stage()

    class Rigid(SimulatedJournal):
        async def forget(self, key: str, /) -> None:
            await trio.lowlevel.checkpoint()
            raise JournalFailed(f"{key} stays", path=self.path)

    async def gone(record: AllocationRecord) -> Cleanup:
        await trio.lowlevel.checkpoint()
        return Cleanup.of(
            record.source, allocation="none", termination="not-needed", connection="never-opened"
        )

    allocations = Allocations(journal=Rigid(left(3, stage)), terminate=gone, end_margin=0.0)
    with pytest.raises(JournalFailed, match="3 records could not be deleted") as caught:
        async with stage.open(allocations=allocations):
            pytest.fail("opened")
    why = caught.value.__cause__
    assert isinstance(why, ExceptionGroup)
    assert sorted(str(each) for each in why.exceptions) == [f"key {n} stays" for n in range(3)]


# -------------------------------------------------------------------------- sources that die early


async def test_sources_that_die_at_once_are_followed_after_a_pause_even_if_they_are_good(
    autojump_clock: object,
) -> None:
    stage = Stage(
        lifetime=None,
        renewal={"stable_after": 0.0, "first_pause": 2.0, "pause_jitter": 0.0},
    )
    async with stage.open() as renewal:
        for _ in range(3):
            opened = stage.provider.opened
            died = trio.current_time()
            stage.provider.newest.die()
            await until(
                lambda before=opened: (
                    stage.provider.opened > before and renewal.state.on_air is not None
                )
            )
            assert trio.current_time() - died >= 2.0
        await trio.sleep(2.0)
        died = trio.current_time()
        stage.provider.newest.die()
        await trio.sleep(1.0)
        assert renewal.state.on_air is not None, "one that has lived is followed at once"


# --------------------------------------------------------------------------------- a dispatch's end


async def test_who_waits_for_a_command_hears_of_it_whatever_goes_wrong_where_it_is_over() -> None:
    hearing = SimpleNamespace(replied=lambda _: None)
    host = SimpleNamespace(world=SystemWorld(), options=RenewalOptions(), hearing=hearing)
    slot = SimpleNamespace(pending={}, gone=False, incarnation=1)

    async def send(commit: Commit) -> str:
        await trio.lowlevel.checkpoint()
        commit()
        return "clip"

    def over(_: Dispatch[str]) -> None:
        raise ZeroDivisionError

    dispatch = Dispatch(cast("Any", host), cast("Slot", slot), send, check=lambda: None, over=over)
    with pytest.raises(ZeroDivisionError):
        await dispatch.run()
    with trio.fail_after(1):
        assert await dispatch.outcome() == "clip"


# ---------------------------------------------------------------------------------------- leaving


async def test_the_close_of_a_source_leaves_the_accounting_its_time_before_all_must_be_over(
    autojump_clock: object,
) -> None:
    """One that begins to leave late, when the close of the whole has begun long ago."""
    options = RenewalOptions(cleanup_timeout=10.0, accounting_timeout=5.0)
    failures: list[BaseException] = []
    ended: list[float] = []
    began = trio.current_time()

    class Media:
        async def aclose(self) -> None:
            await trio.sleep(4.0)
            ended.append(trio.current_time() - began)

    host = SimpleNamespace(world=SystemWorld(), options=options, close_deadline=began + 12.0)
    slot = SimpleNamespace(
        host=host,
        recovery=None,
        checking=None,
        cleanup=None,
        unclosed=[Media()],
        incarnation=1,
        identity="a",
        add_failure=failures.append,
    )
    slot.closed = lambda cleanup: setattr(slot, "cleanup", cleanup)
    await leave(cast("Slot", slot), cast("Source", SimpleNamespace(close=trio.sleep_forever)))
    assert ended == [pytest.approx(11.0)]
    assert not failures
    assert slot.cleanup is not None


# ----------------------------------------------------------------------------------------- wording


def test_what_is_wrong_is_named_with_its_article() -> None:
    with pytest.raises(ValueError, match="not an int"):
        check_flag("enabled", 1)
    with pytest.raises(ValueError, match="payload: an int is not a dict"):
        capture(ClipRequest(cast("Any", 3)))
