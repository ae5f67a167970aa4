"""The table of a source's phases, over every trace of it to length five."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import trio_reactor.renewal
from trio_reactor.renewal.policy import phases
from trio_reactor.renewal.policy.phases import (
    LEAVE_REASONS,
    OCCURRENCES,
    PHASES,
    TRANSITIONS,
    Closed,
    Leaving,
    Occurrence,
    OnAir,
    Opening,
    Phase,
    Prepared,
    Recovering,
    advance,
    is_live,
    is_on_air,
    takes_work,
)

LENGTH = 5


Step = tuple[Phase, Occurrence, Phase]


def traces(length: int) -> Iterator[tuple[Step, ...]]:
    """Every trace from `Opening` of one to so many occurrences, each after its own beginning."""
    stack: list[tuple[Step, ...]] = [()]
    while stack:
        trace = stack.pop()
        if trace:
            yield trace
        if len(trace) < length:
            before = trace[-1][2] if trace else Opening()
            stack.extend((*trace, (before, each, advance(before, each))) for each in OCCURRENCES)


def test_over_every_trace_nothing_comes_back_and_a_source_goes_on_air_once() -> None:
    count = 0
    for trace in traces(LENGTH):
        count += 1
        before, occurrence, after = trace[-1]  # the steps before it were seen before
        if isinstance(before, Closed):
            assert after is before, trace
        if isinstance(before, Leaving):
            assert after in (before, Closed(before.why)), trace
        if isinstance(before, Recovering) and before.mode == "replace":
            assert after is before or not is_live(after), trace
        if isinstance(after, Opening):
            assert after is before, trace
        if is_on_air(after) and not is_on_air(before):
            assert (before, occurrence) == (Prepared(), "activated"), trace
            assert not any(is_on_air(step[0]) for step in trace), trace
    assert count == sum(len(OCCURRENCES) ** length for length in range(1, LENGTH + 1))


def test_every_phase_is_reached_and_every_row_of_the_table_is_used() -> None:
    seen: set[Phase] = {Opening()}
    used: set[tuple[Phase, Occurrence]] = set()
    grown = True
    while grown:
        found = {advance(phase, occurrence) for phase in seen for occurrence in OCCURRENCES}
        used |= {
            (phase, occurrence)
            for phase in seen
            for occurrence in OCCURRENCES
            if advance(phase, occurrence) is not phase
        }
        grown = not found <= seen
        seen |= found
    unreachable = {Leaving("open-failed")}  # a failed open leaves by itself
    assert set(PHASES) - seen == unreachable
    assert {row for row in TRANSITIONS if row[0] not in unreachable} == used


def test_what_is_not_in_the_table_changes_nothing_and_says_so() -> None:
    for phase in PHASES:
        for occurrence in OCCURRENCES:
            if (phase, occurrence) not in TRANSITIONS:
                assert advance(phase, occurrence) is phase
            else:
                assert advance(phase, occurrence) != phase


def test_the_first_reason_to_leave_is_the_one_that_stays() -> None:
    for why in LEAVE_REASONS:
        for occurrence in OCCURRENCES:
            after = advance(Leaving(why), occurrence)
            assert isinstance(after, (Leaving, Closed))
            assert after.why == why


@pytest.mark.parametrize("occurrence", ["media-lost", "events-lost"])
def test_a_source_that_recovers_is_again_what_it_was(occurrence: Occurrence) -> None:
    for steady, on_air in ((Prepared(), False), (OnAir(), True)):
        lost = advance(steady, occurrence)
        assert lost == Recovering(on_air, "reconnect")
        assert advance(lost, "recovered") == steady


def test_a_reconnect_that_succeeds_after_the_source_was_condemned_changes_nothing() -> None:
    lost = advance(OnAir(), "media-lost")
    condemned = advance(lost, "condemned")
    assert advance(condemned, "recovered") is condemned
    assert advance(condemned, "replaced") == Leaving("replaced")


def test_every_live_source_leaves_at_once_when_it_expires_dies_or_is_retired() -> None:
    for phase in PHASES:
        if is_live(phase) and not isinstance(phase, Opening):
            assert advance(phase, "expired") == Leaving("expired")
            assert advance(phase, "died") == Leaving("died")
            assert advance(phase, "retired") == Leaving("retired")
            assert advance(phase, "closed") == Closed("died")


def test_the_questions_about_a_phase_agree_with_each_other() -> None:
    for phase in PHASES:
        assert not (takes_work(phase) and not is_live(phase))
        assert not (is_on_air(phase) and not is_live(phase))
        assert is_live(phase) == (not isinstance(phase, (Leaving, Closed)))
        assert takes_work(phase) == isinstance(phase, (Prepared, OnAir))
        recovering_on_air = isinstance(phase, Recovering) and phase.on_air
        assert is_on_air(phase) == (isinstance(phase, OnAir) or recovering_on_air)


def test_a_phase_goes_through_json_and_comes_back() -> None:
    for phase in PHASES:
        assert msgspec.json.decode(msgspec.json.encode(phase), type=Phase) == phase


@pytest.mark.parametrize(
    "module",
    [
        "policy/phases",
        "policy/handoff",
        "policy/lifespan",
        "policy/failures",
        "policy/decision",
        "slot/clips",
        "summary",
    ],
)
def test_a_pure_module_imports_no_trio_and_reads_no_clock(module: str) -> None:
    source = Path(trio_reactor.renewal.__file__).parent / f"{module}.py"
    imported: set[str] = set()
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            imported.add(node.module.partition(".")[0])
    assert imported & {"trio", "time", "datetime", "secrets", "uuid", "os"} == set()
    assert phases.advance is advance
