"""Routing by itself: every combination of what a request can be bound to."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import pytest

from trio_reactor.errors import ReactorError
from trio_reactor.renewal import (
    ClipNotQueued,
    ClipUnknown,
    OwnerConflict,
    SessionRecovering,
    SessionRetired,
)
from trio_reactor.renewal.chain.retired import RetiredClips
from trio_reactor.renewal.engine.routing import Placement, Route, resolve
from trio_reactor.renewal.slot.clips import ClipBook
from trio_reactor.renewal.source import Clip, ClipEnded, ClipUpdated, SourceState

NAMED = (None, "old", "new", "gone", "nobody's")
"""The clips that a request may name: none, one of either source, one of a third, one of nobody."""

OWNER = {"old": 1, "new": 2}


class Live(NamedTuple):
    incarnation: int
    takes_work: bool
    book: ClipBook


def book(*clips: Clip) -> ClipBook:
    told = ClipBook(0.0)
    told.refresh(SourceState(clips), 0.0)
    return told


def sources(old: bool = True, new: bool = True) -> tuple[Live, ...]:
    """A source on air with its queue, and one that is prepared; whether each takes work."""
    return (
        Live(1, old, book(Clip("plays", "playing"), Clip("o1", "ready"), Clip("old", "ready"))),
        Live(2, new, book(Clip("new", "ready"))),
    )


def expected(
    named: tuple[str | None, ...], bound: int | None, preferred: int | None, takes: dict[int, bool]
) -> type[ReactorError] | int:
    """What is to come of it, told in another way than by what is tested."""
    given = [clip for clip in named if clip is not None]
    if "nobody's" in given:
        return ClipUnknown
    if "gone" in given or bound == 3:
        return SessionRetired
    owners = {OWNER[clip] for clip in given} | ({bound} if bound else set())
    if len(owners) == 2:
        return OwnerConflict
    owner = next(iter(owners), preferred)
    return owner if owner is not None and takes[owner] else SessionRecovering


@pytest.mark.parametrize("old", [True, False])
@pytest.mark.parametrize("new", [True, False])
def test_every_combination_of_what_a_request_can_be_bound_to(old: bool, new: bool) -> None:
    views = sources(old, new)
    seen: set[object] = set()
    for continue_from, before, beside in itertools.product(NAMED, repeat=3):
        for bound, preferred in itertools.product((None, 1, 2, 3), (None, 1, 2)):
            placement = Placement.of(continue_from, before, beside)
            named = (continue_from, before, beside)
            outcome = expected(named, bound, preferred, {1: old, 2: new})
            seen.add(outcome)
            if isinstance(outcome, int):
                route = resolve(
                    placement, views, retired={"gone"}, bound=bound, preferred=preferred
                )
                position = {None: None, "old": 1, "new": 0}[before]
                assert route == Route(outcome, position), (placement, bound, preferred)
                continue
            with pytest.raises(outcome) as caught:
                resolve(placement, views, retired={"gone"}, bound=bound, preferred=preferred)
            assert caught.value.outcome == "not-submitted"
            assert caught.value.retryable == (outcome is SessionRecovering)
            if outcome is ClipUnknown:
                assert caught.value.detail == "nobody's"
    assert seen >= {ClipUnknown, SessionRetired, OwnerConflict}
    assert (1 in seen, 2 in seen) == (old, new)


@pytest.mark.parametrize("position", [None, -1, 0, 7])
def test_an_explicit_position_is_passed_on_unchanged(position: int | None) -> None:
    route = resolve(Placement.of(position=position), sources(), preferred=2)
    assert route == Route(2, position)
    route = resolve(Placement.of("old", position=position), sources(), preferred=2)
    assert route == Route(1, position)


def test_a_position_and_a_clip_to_go_before_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="not both"):
        Placement.of(before="old", position=0)


def test_a_clip_that_plays_or_is_over_has_no_place_before_it() -> None:
    views = sources()
    with pytest.raises(ClipNotQueued) as caught:
        resolve(Placement.of(before="plays"), views)
    assert caught.value.detail == "plays"
    old = views[0].book
    old.apply(ClipEnded("o1", 0), 1.0)
    with pytest.raises(ClipNotQueued):
        resolve(Placement.of(before="o1"), views)
    assert resolve(Placement.of(before="old"), views) == Route(1, 0)


def test_a_clip_that_is_over_still_binds_to_the_source_that_remembers_it() -> None:
    views = sources()
    old = views[0].book
    old.apply(ClipEnded("plays", 5), 1.0)
    assert resolve(Placement.of("plays"), views, preferred=2).incarnation == 1
    assert resolve(Placement.of(same_session_as="plays"), views, preferred=2).incarnation == 1


def test_a_source_that_has_a_clip_comes_before_one_that_remembers_it() -> None:
    views = sources()
    old, new = views[0].book, views[1].book
    old.apply(ClipEnded("o1", 5), 1.0)
    new.apply(ClipUpdated(Clip("o1", "queued")), 1.0)
    assert resolve(Placement.of("o1"), views, preferred=1).incarnation == 2


def test_a_clip_of_a_live_source_is_not_retired_whatever_was_before() -> None:
    assert resolve(Placement.of("old"), sources(), retired={"old"}) == Route(1, None)


def test_the_clips_of_sources_that_are_gone_are_remembered_within_a_bound() -> None:
    retired = RetiredClips(3)
    retired.remember(["a", "b"])
    retired.remember(["c", "a", "d"])
    assert [clip in retired for clip in "abcd"] == [True, False, True, True]
    assert len(retired) == 3


def test_where_a_clip_was_put_is_where_it_is() -> None:
    queue = book(Clip("plays", "playing"), Clip("a", "ready"), Clip("b", "queued"))
    queue.accepted("c", 1.0, 0)
    assert [clip.id for clip in queue.clips] == ["plays", "c", "a", "b"]
    queue.apply(ClipUpdated(Clip("d", "queued")), 1.0)
    queue.accepted("d", 1.0, 2)  # its event came before its answer
    assert [clip.id for clip in queue.clips] == ["plays", "c", "a", "d", "b"]
    queue.moved("b", 0)
    assert [clip.id for clip in queue.clips] == ["plays", "b", "c", "a", "d"]
    queue.moved("plays", 3)
    queue.moved("nobody's", 0)
    assert [clip.id for clip in queue.clips] == ["plays", "b", "c", "a", "d"]
