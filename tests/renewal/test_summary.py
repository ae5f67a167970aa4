"""What became of all the sources: kept within a bound, and adding up."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_reactor.errors import Overflow
from trio_reactor.events import FailureRecord
from trio_reactor.renewal.chain.ledger import CleanupLedger
from trio_reactor.renewal.evidence import Allocation, Cleanup
from trio_reactor.renewal.options import RenewalOptions
from trio_reactor.renewal.summary import (
    OmittedCleanups,
    RenewalReport,
    SourceCleanup,
    combine,
)


def proven(allocation: Allocation = "owned", source: str | None = None) -> Cleanup:
    return Cleanup.of(
        source,
        allocation=allocation,
        termination="confirmed" if allocation == "owned" else "not-needed",
        connection="never-opened" if allocation == "none" else "closed",
    )


def unproven(source: str | None = None) -> Cleanup:
    return Cleanup.of(source, allocation="owned", termination="unconfirmed", connection="closed")


def test_bounded_retention_keeps_the_newest_and_counts_the_others_by_kind() -> None:
    ledger = CleanupLedger(RenewalOptions(retained_successful_cleanups=2))
    kinds: list[Allocation] = ["none", "owned", "attached", "owned", "owned", "none"]
    for allocation in kinds:
        ledger.record(ledger.reserve(), proven(allocation))
    report = ledger.report()
    assert report.total == 6
    assert [kept.incarnation for kept in report.retained] == [5, 6]
    assert report.omitted == OmittedCleanups(1, 2, 1)
    assert report.complete
    assert report.unresolved == ()


def test_none_of_the_successful_need_be_kept() -> None:
    ledger = CleanupLedger(RenewalOptions(retained_successful_cleanups=0))
    ledger.record(ledger.reserve(), proven())
    assert ledger.report().retained == ()
    assert ledger.report().total == 1


def test_what_is_not_proven_is_never_forgotten_and_bounds_what_is_opened() -> None:
    ledger = CleanupLedger(
        RenewalOptions(retained_successful_cleanups=1, max_unresolved_cleanups=3)
    )
    ledger.record(ledger.reserve(), unproven("first"))
    for _ in range(100):
        ledger.record(ledger.reserve(), proven())
    on_air, following = ledger.reserve(), ledger.reserve()
    with pytest.raises(Overflow, match="max_unresolved_cleanups"):
        ledger.reserve()
    ledger.record(on_air, proven())
    ledger.record(ledger.reserve(), unproven())
    ledger.record(following, unproven())
    with pytest.raises(Overflow, match="3 clean-ups are not proven complete"):
        ledger.reserve()
    report = ledger.report()
    assert report.retained[0] == SourceCleanup(1, unproven("first"))
    assert [kept.incarnation for kept in report.unresolved] == [1, 103, 104]
    assert (ledger.unresolved, ledger.outstanding, ledger.incarnations) == (3, 0, 104)
    assert not report.complete


def test_complete_retention_keeps_all_and_caps_the_sessions() -> None:
    ledger = CleanupLedger(
        RenewalOptions(retention="complete", max_sessions=3, retained_successful_cleanups=0)
    )
    for _ in range(5):  # what allocated nothing was no session
        ledger.record(ledger.reserve(), proven("none"))
    for _ in range(2):
        ledger.record(ledger.reserve(), unproven())
    ledger.reserve()
    with pytest.raises(Overflow, match="max_sessions"):
        ledger.reserve()
    assert ledger.report().total == 8
    assert len(ledger.report().retained) == 8


def test_bounded_retention_has_no_cap_unless_it_is_given_one() -> None:
    ledger = CleanupLedger(RenewalOptions())
    for _ in range(5000):
        ledger.record(ledger.reserve(), proven())
    assert ledger.report().total == 5000
    capped = CleanupLedger(RenewalOptions(max_sessions=1))
    capped.record(capped.reserve(), proven())
    with pytest.raises(Overflow, match="max_sessions"):
        capped.reserve()


def test_a_source_is_recorded_once() -> None:
    ledger = CleanupLedger(RenewalOptions())
    number = ledger.reserve()
    ledger.identify(number, "session")
    ledger.record(number, proven())
    for again in (number, number + 1):
        with pytest.raises(ValueError, match="no reservation"):
            ledger.record(again, proven())
        with pytest.raises(ValueError, match="no reservation"):
            ledger.identify(again, "session")


def test_a_source_of_which_nothing_is_known_yet_counts_as_unresolved() -> None:
    ledger = CleanupLedger(RenewalOptions())
    ledger.identify(ledger.reserve(), "session")
    (kept,) = ledger.report().unresolved
    assert kept.cleanup.source == "session"
    assert not ledger.report().complete


@given(
    st.lists(st.sampled_from(["none", "owned", "attached", "unproven"]), max_size=60),
    st.integers(0, 5),
)
def test_a_report_always_adds_up_and_comes_back_from_json(kinds: list[str], kept: int) -> None:
    ledger = CleanupLedger(
        RenewalOptions(retained_successful_cleanups=kept, max_unresolved_cleanups=100)
    )
    for kind in kinds:
        cleanup = unproven() if kind == "unproven" else proven(kind)  # type: ignore[arg-type]
        ledger.record(ledger.reserve(), cleanup)
    report = ledger.report()
    assert report.total == len(kinds)
    assert report.total == len(report.retained) + report.omitted.total
    assert len(report.unresolved) == kinds.count("unproven")
    assert report.complete == ("unproven" not in kinds)
    assert RenewalReport.from_json(report.to_json()) == report


def test_decoding_refuses_a_report_that_contradicts_itself() -> None:
    ledger = CleanupLedger(RenewalOptions(retained_successful_cleanups=2))
    for _ in range(3):
        ledger.record(ledger.reserve(), proven())
    ledger.record(ledger.reserve(), unproven())
    sound = json.loads(ledger.report().to_json())
    assert RenewalReport.from_json(json.dumps(sound)).total == 4

    def refused(**changes: object) -> None:
        with pytest.raises(msgspec.ValidationError):
            RenewalReport.from_json(json.dumps(sound | changes))

    refused(total=3)
    refused(total=5)
    refused(complete=True)
    refused(retention="complete")
    refused(retained=sound["retained"][::-1])
    refused(retained=[sound["retained"][0]] * 3, complete=True)
    refused(retained=[*sound["retained"][:2], sound["retained"][2] | {"incarnation": 9}])
    refused(omitted={"owned_terminated": -1, "no_allocation": 2})
    unresolved = sound["retained"][2]
    claimed = unresolved | {"cleanup": unresolved["cleanup"] | {"complete": True}}
    refused(retained=[*sound["retained"][:2], claimed], complete=True)


def test_two_reports_of_one_source_prove_together_what_neither_leaves_open() -> None:
    failure = FailureRecord("OSError", "gone")
    nothing, ours, open_end = proven("none"), proven("owned", "session"), unproven("session")
    assert combine(ours, ours) == ours
    assert combine(nothing, ours) == ours
    assert combine(ours, nothing).complete
    assert not combine(ours, open_end).complete
    assert not combine(open_end, ours).complete
    broken = Cleanup.of(
        "session",
        allocation="attached",
        termination="not-needed",
        connection="failed",
        failures=(failure,),
    )
    both = combine(broken, ours)
    assert (both.allocation, both.connection, both.complete) == ("owned", "failed", False)
    assert both.failures == (failure,)
