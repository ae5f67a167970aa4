"""The events of a renewal as values."""

from __future__ import annotations

import math

import msgspec
import pytest

from trio_reactor.events import Event, FailureRecord
from trio_reactor.renewal.events import (
    RENEWAL_EVENTS,
    AdoptionDiscarded,
    AllocationSettled,
    AnyRenewalEvent,
    ClipChanged,
    ClipLost,
    HandedOver,
    InputLost,
    LifetimeShortened,
    OnAir,
    OpenFailure,
    Prepared,
    PrepareScheduled,
    Recovered,
    Recovering,
    RenewalClosed,
    RenewalEvent,
    RenewalFailed,
    RenewalFinished,
    RenewalStopped,
    RenewalWanted,
    Replaced,
    ResumptionDiscarded,
    SequenceRetired,
    SequenceSealed,
    SourceClosed,
    SourceOpened,
    SourceOpening,
    SourceRef,
    Tail,
)
from trio_reactor.renewal.evidence import Cleanup
from trio_reactor.renewal.policy.handoff import HandoffEvidence
from trio_reactor.renewal.source import Clip, ClipEnded, ClipFailed, ClipStarted, ClipUpdated
from trio_reactor.renewal.summary import RenewalReport

OLD, NEW = SourceRef(1, "old"), SourceRef(2)
FAILURE = FailureRecord("Lost", "the socket is gone", "unknown")
TAIL = Tail("clip", 240, 239, 480_000, 1, None, 2, 960, 1_000_000)
EVIDENCE = HandoffEvidence("grace-elapsed", 12.5, "clip", 240, 239, "ended", 12.25)
CLEANUP = Cleanup.of("old", allocation="owned", termination="confirmed", connection="closed")

EVENTS: list[RenewalEvent] = [
    SourceOpening(source=NEW, after=OLD, cause="plan", resuming=True),
    SourceOpening(source=OLD, after=None, cause="first"),
    ResumptionDiscarded(source=NEW, failure=FAILURE),
    SourceOpening(source=OLD, after=None, cause="first", adopting=True),
    AdoptionDiscarded(source=OLD, failure=FAILURE),
    AllocationSettled(key="k", source="old", age=5.0, how="terminated", cleanup=CLEANUP),
    AllocationSettled(key="k", source=None, age=5.0, how="unconfirmed", failure=FAILURE),
    SourceOpened(source=OLD, after=None, cause="first", took=0.5, lifetime=None),
    SourceOpened(source=NEW, after=OLD, cause="loss", took=0.5, lifetime=60.0, exclusive=True),
    OpenFailure(
        source=NEW,
        after=OLD,
        cause="plan",
        took=3.0,
        consecutive=2,
        pause=None,
        permanent=True,
        failure=FAILURE,
    ),
    Prepared(source=NEW, age=0.0, after=OLD),
    OnAir(source=NEW, age=1.0, generation=1, after=OLD, cause="plan", gap=0.25),
    OnAir(source=OLD, age=0.0, generation=None, after=None, cause="first"),
    PrepareScheduled(source=OLD, age=0.0, prepare_in=None, expires_in=None),
    LifetimeShortened(source=OLD, age=10.0, expires_in=5.0, detail="maintenance"),
    RenewalWanted(source=OLD, age=10.0, reason="a new credential"),
    HandedOver(old=OLD, age=59.0, new=NEW, evidence=EVIDENCE, tail=TAIL),
    HandedOver(old=OLD, age=59.0, new=None, evidence=EVIDENCE, tail=TAIL, gap=3.0),
    *(
        ClipChanged(source=OLD, age=1.0, change=change)
        for change in (
            ClipUpdated(Clip("clip", "ready", 240)),
            ClipStarted("clip", 240),
            ClipEnded("clip"),
            ClipFailed("clip", "too long"),
        )
    ),
    ClipLost(
        source=OLD, age=3.0, clip="clip", frames_expected=None, frames_received=7, why="source-lost"
    ),
    SequenceSealed(source=OLD, age=3.0, sequence="ad break", accepted=3, rejected=1),
    SequenceRetired(
        source=OLD, age=60.0, sequence="ad break", accepted=3, rejected=0, indeterminate=1
    ),
    Recovering(source=OLD, age=3.0, mode="reconnect", why="media-lost"),
    Recovering(
        source=OLD, age=3.0, mode="replace", why="outcome-unknown", failure=FAILURE, on_air=False
    ),
    Recovered(source=OLD, age=4.0, generation=2, took=1.0),
    Replaced(old=OLD, age=60.0, new=None, why="expired", failure=None, tail=TAIL),
    Replaced(old=OLD, age=60.0, new=NEW, why="died", failure=FAILURE, tail=Tail()),
    SourceClosed(source=OLD, age=61.0, why="handed-over", took=0.5, cleanup=CLEANUP),
    InputLost(source=OLD, age=3.0, pieces=2, bytes=2048, why="source-lost"),
    RenewalStopped(source=None, age=0.0),
    RenewalFinished(source=OLD, age=60.0),
    RenewalFinished(source=None, age=0.0),
    RenewalClosed(
        source=OLD, age=61.0, report=RenewalReport(retention="bounded", total=0, complete=True)
    ),
    RenewalFailed(source=OLD, age=61.0, failure=FAILURE, tail=TAIL),
]


def test_there_is_an_example_of_every_event_and_each_has_a_tag_of_its_own() -> None:
    assert {type(event) for event in EVENTS} == set(RENEWAL_EVENTS)
    tags = [kind.__struct_config__.tag for kind in RENEWAL_EVENTS]
    assert tags == [kind.__name__ for kind in RENEWAL_EVENTS]
    assert all(issubclass(kind, Event) for kind in RENEWAL_EVENTS)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_goes_through_json_and_messagepack_and_comes_back_equal(
    event: RenewalEvent,
) -> None:
    for codec in (msgspec.json, msgspec.msgpack):
        assert codec.decode(codec.encode(event), type=AnyRenewalEvent) == event
    assert hash(event) is not None


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_says_of_which_source_it_speaks_and_cannot_be_changed(event: RenewalEvent) -> None:
    names = event.__struct_fields__
    assert "source" in names or "old" in names
    discarded = isinstance(event, (ResumptionDiscarded, AdoptionDiscarded))
    opening = isinstance(event, (SourceOpening, SourceOpened, OpenFailure))
    assert opening or discarded or "age" in names
    with pytest.raises(AttributeError):
        setattr(event, names[0], None)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
@pytest.mark.parametrize("wrong", [math.inf, -math.inf, math.nan])
def test_a_number_that_json_cannot_say_is_refused_by_name(
    event: RenewalEvent, wrong: float
) -> None:
    for name in event.__struct_fields__:
        if isinstance(getattr(event, name), float):
            with pytest.raises(ValueError, match=f"{type(event).__name__}.{name} is"):
                msgspec.structs.replace(event, **{name: wrong})
