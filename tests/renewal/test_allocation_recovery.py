"""What becomes of what a dead process left, as a pure decision: every case there is."""

from __future__ import annotations

import itertools
from typing import cast, get_args

import msgspec
import pytest

from trio_reactor.renewal.allocation.records import AllocationRecord
from trio_reactor.renewal.allocation.recovery import has_ended, plan_recovery, settlement
from trio_reactor.renewal.evidence import Allocation, Cleanup, Connection, Termination

NOW = 1_700_000_000.0

FOUND = [
    AllocationRecord(f"key {number}", "renewal", NOW - age, source, None, ends_by)
    for number, (age, source, ends_by) in enumerate(
        itertools.product((10.0, 20.0), (None, "a"), (None, NOW - 1, NOW, NOW + 1))
    )
]

EVIDENCE = [
    Cleanup.of(source, allocation=allocation, termination=termination, connection=connection)
    for source, allocation, termination, connection in itertools.product(
        (None, "a", "b"),
        cast("tuple[Allocation, ...]", get_args(Allocation)),
        cast("tuple[Termination, ...]", get_args(Termination)),
        cast("tuple[Connection, ...]", get_args(Connection)),
    )
    if (allocation, termination) != ("none", "confirmed")  # which cannot be said
]


@pytest.mark.parametrize("adopt", [True, False])
def test_of_any_three_at_most_one_is_adopted_and_each_other_is_terminated(adopt: bool) -> None:
    for records, name in itertools.product(itertools.permutations(FOUND, 3), ("renewal", None)):
        plan = plan_recovery(records, renewal=name, adopt=adopt, wall=NOW)
        assert not plan.foreign
        kept = [] if plan.adopt is None else [plan.adopt]
        assert sorted(each.key for each in (*kept, *plan.terminate)) == sorted(
            each.key for each in records
        )
        able = [
            each
            for each in records
            if each.source is not None and (each.ends_by is None or each.ends_by > NOW)
        ]
        assert (plan.adopt is not None) == (adopt and bool(able))
        if plan.adopt is not None:
            assert plan.adopt in able
            assert plan.adopt.intended_at == max(each.intended_at for each in able)


def test_nothing_that_was_found_is_nothing_to_do() -> None:
    plan = plan_recovery((), renewal="renewal", adopt=True, wall=NOW)
    assert (plan.adopt, plan.terminate, plan.foreign) == (None, (), ())


@pytest.mark.parametrize("adopt", [True, False])
def test_where_another_renewal_has_recorded_something_nothing_is_touched_and_it_is_named(
    adopt: bool,
) -> None:
    for mine, its, more in itertools.permutations(FOUND, 3):
        theirs = [
            msgspec.structs.replace(record, renewal=name)
            for record, name in ((its, "other"), (more, "another"))
        ]
        for records in itertools.permutations((mine, *theirs)):
            plan = plan_recovery(records, renewal="renewal", adopt=adopt, wall=NOW)
            assert (plan.adopt, plan.terminate) == (None, ())
            assert plan.foreign == ("another", "other")
            plan = plan_recovery(records, renewal=None, adopt=adopt, wall=NOW)
            assert len(plan.terminate) + (plan.adopt is not None) == 3
            assert not plan.foreign


def test_only_evidence_that_is_complete_and_speaks_of_it_proves_an_end() -> None:
    for record, cleanup in itertools.product(FOUND, EVIDENCE):
        proven = has_ended(record, cleanup)
        assert not proven or cleanup.complete
        assert not proven or cleanup.allocation != "attached"
        if record.source is not None and cleanup.source is not None:
            assert not proven or cleanup.source == record.source
        if cleanup.complete and cleanup.allocation == "owned" and cleanup.source == record.source:
            assert proven
        assert not has_ended(record, None)


def test_what_is_not_proven_to_have_ended_is_forgotten_only_after_its_latest_end_and_a_margin() -> (
    None
):
    for record, cleanup, margin in itertools.product(FOUND, (None, *EVIDENCE), (0.0, 0.5, 60.0)):
        how = settlement(record, cleanup, wall=NOW, margin=margin)
        if has_ended(record, cleanup):
            assert how == "terminated"
        elif record.ends_by is not None and record.ends_by + margin <= NOW:
            assert how == "expired"
        else:
            assert how == "unconfirmed"
