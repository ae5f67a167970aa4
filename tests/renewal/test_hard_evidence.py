"""What sources say of themselves can always be recorded, told and read again."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import trio
from lying_stage import Actor, Reel, giving

from trio_reactor.events import FailureRecord
from trio_reactor.renewal import (
    AllocationRecord,
    Allocations,
    Cleanup,
    LossesUnknown,
    OpenFailed,
    RenewalOptions,
    open_journal,
    open_renewal,
)
from trio_reactor.renewal.evidence import Allocation
from trio_reactor.renewal.media.losses import MAX_LOST, LossLedger
from trio_reactor.renewal.source import MediaLosses
from trio_reactor.renewal.summary import RenewalReport, SourceCleanup, combine

SURROGATE = "\ud800"
"""Text that Python can hold, and that can neither be written down nor sent."""

FAST = RenewalOptions(lead=0.0, first_pause=0.01, max_pause=0.01)


async def test_a_source_whose_identity_cannot_be_written_down_is_one_that_did_not_open(
    autojump_clock: object, tmp_path: Path
) -> None:
    nameless = Actor(f"session {SURROGATE}")

    async def terminate(record: AllocationRecord) -> Cleanup:
        pytest.fail(f"there was nothing to be terminated, but {record}")

    async with open_journal(tmp_path / "journal", inline=True) as journal:
        allocations = Allocations(journal=journal, terminate=terminate)
        with pytest.raises(OpenFailed, match="has no identity"):
            async with open_renewal(giving(nameless), options=FAST, allocations=allocations):
                pytest.fail("it is on air")


async def test_evidence_that_cannot_be_written_down_is_none_and_the_report_still_can(
    autojump_clock: object,
) -> None:
    class Garbling(Actor):
        async def close(self) -> Cleanup:
            await trio.lowlevel.checkpoint()
            return Cleanup.of(
                self.id,
                allocation="owned",
                termination="confirmed",
                connection="closed",
                failures=(FailureRecord("Odd", f"the provider said {SURROGATE}"),),
            )

    async with open_renewal(giving(Garbling()), options=FAST) as renewal:
        pass
    report = renewal.report
    assert report is not None
    assert RenewalReport.from_json(report.to_json()) == report
    assert not report.complete


@pytest.mark.parametrize("told", [MediaLosses(MAX_LOST), MediaLosses(0, 2**64)])
def test_losses_beyond_all_measure_are_unknown_so_that_their_sums_can_be_told(
    told: MediaLosses,
) -> None:
    lost = MediaLosses(MAX_LOST - 1, MAX_LOST - 1)
    reel = Reel(1)
    reel.losses = lambda: lost  # type: ignore[method-assign]
    ledger = LossLedger()
    ledger.activate(reel, from_start=True)
    assert ledger.total() == lost
    lost = told
    with pytest.raises(LossesUnknown):
        ledger.total()
    assert ledger.end_feed() is None


@pytest.mark.parametrize("allocation", ["none", "owned", "attached"])
def test_an_end_that_is_not_confirmed_is_not_complete_whatever_was_allocated(
    allocation: Allocation,
) -> None:
    cleanup = Cleanup.of(
        "one", allocation=allocation, termination="unconfirmed", connection="closed"
    )
    assert not cleanup.complete
    encoded = msgspec.json.encode(cleanup).replace(b'"complete":false', b'"complete":true')
    with pytest.raises(msgspec.ValidationError, match="contradicts"):
        msgspec.json.decode(encoded, type=Cleanup)


def test_two_reports_of_one_source_keep_the_failures_of_both_and_the_later_name() -> None:
    first, second = (
        Cleanup.of(
            name,
            allocation="owned",
            termination="confirmed",
            connection="closed",
            failures=(FailureRecord("Odd", name),),
        )
        for name in ("first", "second")
    )
    both = combine(first, second)
    assert both.failures == first.failures + second.failures
    assert both.source == "second"


def test_a_report_of_a_source_that_was_numbered_before_the_first_is_refused() -> None:
    closed = Cleanup.of("one", allocation="owned", termination="confirmed", connection="closed")
    report = RenewalReport("complete", 1, True, (SourceCleanup(1, closed),))
    encoded = report.to_json().replace(b'"incarnation":1', b'"incarnation":0')
    with pytest.raises(msgspec.ValidationError, match="numbered"):
        RenewalReport.from_json(encoded)
