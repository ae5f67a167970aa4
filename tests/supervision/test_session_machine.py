"""The life of a session: what happens and what it becomes, exhaustively."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from trio_reactor.supervision.model.child import Child, Launch
from trio_reactor.supervision.model.ends import Exited, ExitStatus, Killed, NotStarted, Stop
from trio_reactor.supervision.model.machine import (
    OCCURRENCES,
    STATES,
    TRANSITIONS,
    CodeLoaded,
    Ended,
    LoadBegun,
    Registered,
    SessionEvent,
    StopBegun,
    advance,
    state_of,
)
from trio_reactor.supervision.model.records import (
    Loaded,
    Loading,
    Open,
    Phase,
    Stopped,
    Stopping,
    child_of,
)
from trio_reactor.supervision.model.work import CodeIdentity, Command, Enforced, PythonCode

FIRST, SECOND = PythonCode("worker:main"), Command(("worker",))
LAUNCH = Launch("nonce", 10.0)
CHILD = Child(secret="secret")
ENFORCED = Enforced(memory="cgroup")
CODE = CodeIdentity("worker:main", "sha256:0")

EVENTS: tuple[SessionEvent, ...] = (
    LoadBegun(FIRST, LAUNCH),
    LoadBegun(SECOND, Launch("another", 20.0)),
    Registered(CHILD, ENFORCED),
    CodeLoaded(CODE),
    StopBegun(Stop("disposed")),
    StopBegun(Stop("expired")),
    Ended(Killed(ExitStatus(signal=9))),
    Ended(NotStarted(), recovered=True),
)

LIVE = (
    Open(),
    Loading(FIRST, LAUNCH),
    Loading(FIRST, LAUNCH, CHILD, ENFORCED),
    Loaded(FIRST, LAUNCH, CHILD, ENFORCED, CODE),
)
PHASES: tuple[Phase, ...] = (
    *LIVE,
    *(Stopping(Stop("disposed"), before) for before in LIVE),
    Stopped(Stop("disposed"), Exited(ExitStatus(code=0))),
)


def occurrence_of(event: SessionEvent) -> object:
    return event.__struct_config__.tag


def traces(length: int) -> Iterator[tuple[SessionEvent, ...]]:
    return product(EVENTS, repeat=length)


def lived(trace: tuple[SessionEvent, ...]) -> list[tuple[SessionEvent | None, Phase]]:
    """The phases that a new session goes through, each with what led there."""
    path: list[tuple[SessionEvent | None, Phase]] = [(None, Open())]
    for event in trace:
        after = advance(path[-1][1], event)
        if after is not None:
            path.append((event, after))
    return path


def test_the_samples_are_of_every_state_and_every_occurrence() -> None:
    assert {state_of(phase) for phase in PHASES} == set(STATES)
    assert {occurrence_of(event) for event in EVENTS} == set(OCCURRENCES)


@pytest.mark.parametrize("event", EVENTS, ids=str)
@pytest.mark.parametrize("phase", PHASES, ids=str)
def test_what_happens_does_what_the_table_says(phase: Phase, event: SessionEvent) -> None:
    after = advance(phase, event)
    found = None if after is None else state_of(after)
    assert found == TRANSITIONS.get((state_of(phase), occurrence_of(event)))  # type: ignore[call-overload]


def test_the_table_speaks_of_what_there_is() -> None:
    for (state, occurrence), after in TRANSITIONS.items():
        assert state in STATES
        assert after in STATES
        assert occurrence in OCCURRENCES


def test_every_state_is_reached_within_five_events() -> None:
    reached = {state_of(phase) for trace in traces(5) for _, phase in lived(trace)}
    assert reached == set(STATES)


def test_stopped_is_the_end_and_stopping_leads_nowhere_else() -> None:
    for (state, _), after in TRANSITIONS.items():
        assert state != "stopped"
        assert state != "stopping" or after == "stopped"
        assert STATES.index(after) > STATES.index(state)


def test_from_everywhere_it_can_be_stopped() -> None:
    for state in STATES[:4]:
        assert TRANSITIONS[state, "stop-begun"] == "stopping"


def test_no_trace_to_length_five_breaks_a_rule() -> None:
    for trace in traces(5):
        path = lived(trace)
        taken = [event for event, _ in path if event is not None]
        states = [state_of(phase) for _, phase in path]
        stops = [event.stop for event in trace if isinstance(event, StopBegun)]
        end = path[-1][1]

        # Each state is visited once, and none but by the one before.
        assert len(set(states)) == len(states)
        assert ("loaded" in states) <= ("registered" in states) <= ("launching" in states)
        assert ("stopped" in states) <= ("stopping" in states)

        # The reason of the first stop is the one that stays, and there is one if there was a stop.
        if stops:
            assert isinstance(end, Stopping | Stopped)
            assert end.stop == stops[0]
        else:
            assert not isinstance(end, Stopping | Stopped)

        # What was said when it came to be is what is recorded to the end.
        begun = [event for event in taken if isinstance(event, LoadBegun)]
        assert len(begun) <= 1
        loaded = [event for event in taken if isinstance(event, CodeLoaded)]
        ended = [event for event in taken if isinstance(event, Ended)]
        match end:
            case Loading(work=work, launch=launch) | Loaded(work=work, launch=launch):
                assert (work, launch) == (begun[0].work, begun[0].launch)
            case Stopped(termination=termination, work=work, code=code, recovered=recovered):
                assert work == (begun[0].work if begun else None)
                assert code == (CODE if loaded else None)
                assert (termination, recovered) == (ended[0].termination, ended[0].recovered)
            case _:
                pass

        # A child is known from its registration to the end, and never before.
        registered = any(isinstance(event, Registered) for event in taken)
        known = child_of(end)
        assert known == (CHILD if registered and not isinstance(end, Stopped) else None)


def test_what_is_late_changes_nothing() -> None:
    stopped = Stopped(Stop("expired"), NotStarted())
    stopping = Stopping(Stop("expired"), Loading(FIRST, LAUNCH))
    for event in EVENTS:
        assert advance(stopped, event) is None
        assert (advance(stopping, event) is None) != isinstance(event, Ended)


def test_how_a_limit_is_enforced_is_kept_from_the_registration_on() -> None:
    registered = advance(Loading(FIRST, LAUNCH), Registered(CHILD, ENFORCED))
    assert registered == Loading(FIRST, LAUNCH, CHILD, ENFORCED)
    assert registered is not None
    loaded = advance(registered, CodeLoaded(CODE))
    assert loaded == Loaded(FIRST, LAUNCH, CHILD, ENFORCED, CODE)


def test_a_child_is_found_through_a_stop() -> None:
    before = Loading(FIRST, LAUNCH, CHILD, ENFORCED)
    assert child_of(Stopping(Stop("expired"), before)) == CHILD
    assert child_of(Stopping(Stop("expired"), Open())) is None
