"""What is known of the clips of one source, over every short story of two of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import get_args

from trio_reactor.renewal.slot.clips import ClipBook, Unfinished
from trio_reactor.renewal.source import (
    Clip,
    ClipEnded,
    ClipFailed,
    ClipPhase,
    ClipStarted,
    ClipUpdated,
    SourceState,
)

Step = Callable[[ClipBook, float], object]


def tell(event: ClipUpdated | ClipStarted | ClipEnded | ClipFailed) -> Step:
    return lambda book, now: book.apply(event, now)


STEPS: dict[str, Step] = {
    f"{name} {clip}": step
    for clip in "ab"
    for name, step in {
        "queued": tell(ClipUpdated(Clip(clip, "queued", 2))),
        "ready": tell(ClipUpdated(Clip(clip, "ready", 2))),
        "started": tell(ClipStarted(clip, 2)),
        "ended": tell(ClipEnded(clip, 2)),
        "failed": tell(ClipFailed(clip, "no")),
        "accepted": lambda book, now, clip=clip: book.accepted(clip, now),
        "picture": lambda book, now, clip=clip: book.picture(clip),
    }.items()
} | {"forgotten": lambda book, now: book.refresh(SourceState(), now)}


def test_every_story_of_two_clips_keeps_the_book_true() -> None:
    for length in range(1, 5):
        for story in itertools.product(STEPS, repeat=length):
            book = ClipBook(0.0)
            over: set[str] = set()
            pictures = {"a": 0, "b": 0}
            for now, name in enumerate(story, start=1):
                known = {clip.id for clip in book.clips}
                STEPS[name](book, float(now))
                kind, _, clip = name.partition(" ")
                if kind in ("ended", "failed"):
                    over.add(clip)
                elif kind == "forgotten":
                    over |= known
                elif kind == "picture" and clip not in over:
                    pictures[clip] += 1
                now_known = {clip.id for clip in book.clips}
                # What is over stays over, whatever is still said of it.
                assert not over & now_known, story
                # It is idle exactly while there is no clip, and the instant does not move.
                assert (book.idle_since is None) == bool(now_known), story
                assert book.idle_since is None or book.idle_since <= now, story
                # There is one that plays at most, unless nobody said that the other has ended.
                for lost in book.unfinished():
                    assert lost.frames_received <= pictures[lost.clip], story
                last = book.last
                if last is not None:
                    assert last.frames_received <= pictures[last.clip] + 2, story
                    assert (last.ended_at is None) or last.clip in over, story
                    assert last.ended_at is None or last.ended_at <= now, story
                if book.complete:
                    assert last is not None
                    assert last.frames_expected is not None
                    assert last.frames_received >= last.frames_expected, story


def test_whether_a_clip_is_ready_is_known_in_every_story_with_whole_states() -> None:
    whole: dict[str, Step] = {
        f"whole state: {phase}": lambda book, now, phase=phase: book.refresh(
            SourceState((Clip("a", phase, 2), Clip("c", "ready", 2))), now
        )
        for phase in get_args(ClipPhase)
    } | {"moved": lambda book, _: book.moved("a", 0)}
    steps = STEPS | whole
    ready = 0
    for story in itertools.product(steps, repeat=3):
        book = ClipBook(0.0)
        for now, name in enumerate(story, start=1):
            steps[name](book, float(now))
            assert book.has_ready == any(clip.phase == "ready" for clip in book.clips), story
            ready += book.has_ready
    assert ready > 1000


def test_every_story_of_one_clip_to_length_five_counts_its_pictures_exactly() -> None:
    own = {name: step for name, step in STEPS.items() if name.endswith(" a")}
    for story in itertools.product(own, repeat=5):
        book = ClipBook(0.0)
        started = False
        over = False
        pictures = 0
        for now, name in enumerate(story, start=1):
            own[name](book, float(now))
            if name == "picture a":
                pictures += started or not over
            elif name == "started a":
                started |= not over
            elif name in ("ended a", "failed a") and not over:
                over = True
                started |= pictures > 0
        last = book.last
        assert (last is not None) == started, story
        if last is not None:
            assert last.frames_received == pictures, story


def test_what_ended_before_it_was_accepted_is_not_revived_by_the_answer() -> None:
    book = ClipBook(0.0)
    book.apply(ClipStarted("a", 1), 1.0)
    book.apply(ClipEnded("a", 1), 2.0)
    book.accepted("a", 3.0)
    assert book.clips == ()
    assert book.idle_since == 2.0


def test_an_answer_before_any_event_makes_the_source_busy() -> None:
    book = ClipBook(0.0)
    book.accepted("a", 1.0)
    assert book.idle_since is None
    assert book.unfinished() == (Unfinished("a", None, 0),)


def test_pictures_that_overtake_the_start_of_their_clip_count() -> None:
    book = ClipBook(0.0)
    book.apply(ClipUpdated(Clip("a", "ready", 3)), 0.0)
    book.picture("a")
    book.picture("a")
    book.apply(ClipStarted("a", 3), 1.0)
    book.picture("a")
    book.apply(ClipEnded("a", 3), 2.0)
    assert book.complete


def test_a_start_or_an_end_that_is_told_twice_changes_nothing() -> None:
    book = ClipBook(0.0)
    for now in (1.0, 2.0):
        book.apply(ClipStarted("a", 2), now)
        book.picture("a")
    for now in (3.0, 4.0):
        book.apply(ClipEnded("a", 2), now)
    assert book.last is not None
    assert book.last.frames_received == 2
    assert book.last.ended_at == 3.0


def test_a_late_word_of_readiness_does_not_take_a_playing_clip_off_the_air() -> None:
    book = ClipBook(0.0)
    book.apply(ClipStarted("a", 2), 1.0)
    book.apply(ClipUpdated(Clip("a", "ready", 2)), 2.0)
    assert book.clips == (Clip("a", "playing", 2),)


def test_a_refreshed_state_names_what_is_gone_and_invents_nothing() -> None:
    book = ClipBook(0.0)
    book.apply(ClipStarted("a", 5), 1.0)
    book.picture("a")
    book.apply(ClipUpdated(Clip("b", "ready", 7)), 1.0)
    gone = book.refresh(SourceState((Clip("b", "ready", 7),)), 2.0)
    assert gone == (Unfinished("a", 5, 1),)
    assert book.last is not None
    assert book.last.ended_at is None


def test_a_clip_that_failed_while_it_played_is_not_called_complete() -> None:
    book = ClipBook(0.0)
    book.apply(ClipStarted("a", 5), 1.0)
    book.picture("a")
    book.apply(ClipFailed("a", "no"), 2.0)
    assert book.last is not None
    assert (book.last.frames_expected, book.last.frames_received) == (5, 1)
    assert not book.complete


def test_only_so_many_clips_are_remembered_after_their_end() -> None:
    book = ClipBook(0.0)
    for number in range(10_000):
        book.apply(ClipEnded(f"clip {number}", 1), float(number))
    book.apply(ClipUpdated(Clip("clip 9999", "ready")), 10_000.0)
    assert book.clips == ()
    assert len(book._over) == 256


def test_a_place_beyond_the_last_is_the_last() -> None:
    book = ClipBook(0.0)
    for clip in "abc":
        book.accepted(clip, 0.0)
    book.moved("a", 2**80)
    assert [clip.id for clip in book.clips] == ["b", "c", "a"]
    book.moved("c", -5)
    assert [clip.id for clip in book.clips] == ["c", "b", "a"]
