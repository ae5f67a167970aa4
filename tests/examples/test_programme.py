"""A programme is cut without loss, and its numbers add up whatever is lost of it."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from examples.broadcast.programme import RunningOrder, Scene, pace, programme
from examples.broadcast.report import Gap, Numbers, OutOfOrder, Tally, table


@given(
    frames=st.integers(0, 2000),
    shortest=st.integers(1, 50),
    more=st.integers(0, 50),
    seed=st.integers(),
)
def test_scenes_follow_one_another_and_have_all_the_pictures(
    frames: int, shortest: int, more: int, seed: int
) -> None:
    longest = shortest + more
    scenes = list(programme(frames, shortest=shortest, longest=longest, chance=random.Random(seed)))
    shown = [number for scene in scenes for number in range(scene.first, scene.end)]
    assert shown == list(range(frames))
    assert [scene.number for scene in scenes] == list(range(1, len(scenes) + 1))
    assert all(shortest <= scene.frames <= longest for scene in scenes[:-1])


@given(lifetime=st.floats(0.5, 3600), share=st.floats(0.1, 0.99))
def test_what_a_session_is_given_fits_into_its_life_twice_and_into_the_lead_once(
    lifetime: float, share: float
) -> None:
    lead = share * lifetime
    found = pace(lifetime=lifetime, lead=lead, frame_rate=25)
    given = (found.longest + found.ahead) / 25
    rounding = 2 / 25
    assert 1 <= found.shortest <= found.longest <= 50
    assert 2 * given <= 0.76 * lifetime + 2 * rounding
    assert given <= 0.76 * lead + rounding


def test_long_sessions_have_scenes_of_one_to_two_seconds_and_short_ones_of_a_quarter_life() -> None:
    long = pace(lifetime=60, lead=30, frame_rate=25)
    assert (long.shortest, long.longest, long.ahead) == (25, 50, 50)
    short = pace(lifetime=4, lead=2.4, frame_rate=25)
    assert (short.shortest, short.longest, short.ahead) == (25, 25, 12)
    assert pace(lifetime=4, lead=0, frame_rate=25).longest == 25


def test_clips_of_the_same_name_are_told_apart_by_their_session() -> None:
    order = RunningOrder()
    one, two, three = (Scene(number, 25 * number - 25, 25) for number in (1, 2, 3))
    assert order.scene(1, "clip-1") is None
    order.ask(one)
    assert order.scene(1, "clip-1") is one
    order.accepted(1, "clip-1")
    order.ask(two)
    order.accepted(2, "clip-1")
    assert order.scene(1, "clip-1") is one
    assert order.scene(2, "clip-1") is two
    assert order.scene(3, "clip-1") is None
    order.ask(three)
    assert order.scene(2, "clip-2") is three
    assert order.scene(1, "clip-1") is one


def test_sound_is_told_apart_by_the_order_in_which_scenes_are_played() -> None:
    order = RunningOrder()
    scenes = [Scene(number, 25 * number - 25, 25) for number in range(1, 5)]
    names = [(1, "clip-1"), (1, "clip-2"), (2, "clip-1"), (2, "clip-2")]
    for scene, name in zip(scenes, names, strict=True):
        order.ask(scene)
        order.accepted(*name)
    times = (0.0, 0.5, 0.96)
    heard = [order.heard(clip, time) for _, clip in names for time in times]
    assert heard == [scene for scene in scenes for _ in times]


def test_sound_after_a_loss_belongs_to_the_scene_that_begins_again() -> None:
    order = RunningOrder()
    scenes = [Scene(number, 25 * number - 25, 25) for number in range(1, 4)]
    for scene, name in zip(scenes, [(1, "clip-1"), (1, "clip-2"), (2, "clip-1")], strict=True):
        order.ask(scene)
        order.accepted(*name)
    assert order.heard("clip-1", 0.8) is scenes[0]
    assert order.heard("clip-1", 0.0) is scenes[2]


def test_sound_that_comes_before_the_answer_is_of_the_scene_that_is_asked_for() -> None:
    order = RunningOrder()
    assert order.heard("clip-1", 0.0) is None
    scene = Scene(1, 0, 25)
    order.ask(scene)
    assert order.heard("clip-1", 0.0) is scene
    order.accepted(1, "clip-1")
    assert order.heard("clip-1", 0.04) is scene


def test_the_pictures_that_did_not_come_are_found_by_content_and_named() -> None:
    tally = Tally()
    for scene in (Scene(1, 0, 10), Scene(2, 10, 10), Scene(3, 20, 10), Scene(4, 30, 10)):
        tally.expect(scene)
    for number in range(8):
        tally.arrived(number, number / 25)
    tally.disturbed("the connection was lost")
    for number in (*range(23, 25), *range(26, 30)):
        tally.arrived(number, number / 25)
    tally.disturbed("the session died")
    tally.disturbed("so its scenes were lost")
    tally.finish()
    assert list(tally.gaps) == [
        Gap(1, 8, 9, "the connection was lost"),
        Gap(2, 10, 19, "the connection was lost"),
        Gap(3, 20, 22, "the connection was lost"),
        Gap(3, 25, 25, "the connection was lost"),
        Gap(4, 30, 39, "the session died"),
    ]
    assert (tally.expected, tally.received, tally.lost) == (40, 14, 26)
    assert str(tally.gaps[0]) == "2 frames of scene 1 (8-9): the connection was lost"


def test_what_is_missing_without_a_disturbance_was_dropped_on_the_way() -> None:
    tally = Tally()
    tally.expect(Scene(1, 0, 3))
    tally.arrived(0, 0.0)
    tally.arrived(2, 0.1)
    assert list(tally.gaps) == [Gap(1, 1, 1, "dropped on the way")]
    assert str(tally.gaps[0]) == "1 frame of scene 1 (1): dropped on the way"


def test_pictures_are_outstanding_until_they_came_or_their_scene_was_said_to_be_over() -> None:
    tally = Tally()
    one, two, three = scenes = Scene(1, 0, 2), Scene(2, 2, 2), Scene(3, 4, 2)
    for scene in scenes:
        tally.expect(scene)
    assert tally.outstanding == 6
    tally.arrived(0, 0.0)
    assert tally.outstanding == 5
    tally.over(two)
    assert tally.outstanding == 3
    tally.arrived(2, 0.0)
    assert tally.outstanding == 2
    tally.arrived(4, 0.0)
    tally.over(one)
    assert tally.outstanding == 1
    tally.over(three)
    assert tally.outstanding == 0
    tally.finish()
    assert (tally.expected, tally.received, tally.lost) == (6, 3, 3)


def test_a_programme_that_comes_whole_misses_nothing_and_its_longest_gap_is_known() -> None:
    tally = Tally()
    assert tally.longest_gap is None
    tally.expect(Scene(1, 0, 4))
    for number, time in enumerate((5.0, 5.04, 5.5, 5.54)):
        tally.arrived(number, time)
    assert tally.outstanding == 0
    tally.finish()
    assert tally.lost == 0
    assert tally.longest_gap == pytest.approx(0.46)


@pytest.mark.parametrize("numbers", [(0, 0), (1, 0), (3,), (0, 1, 2, 3)])
def test_a_picture_out_of_order_or_not_asked_for_is_noticed(numbers: tuple[int, ...]) -> None:
    tally = Tally()
    tally.expect(Scene(1, 0, 3))
    with pytest.raises(OutOfOrder):
        for number in numbers:
            tally.arrived(number, 0.0)


@given(st.data())
def test_whatever_is_lost_the_numbers_add_up(data: st.DataObject) -> None:
    scenes = list(
        programme(200, shortest=1, longest=50, chance=random.Random(data.draw(st.integers())))
    )
    came = sorted(data.draw(st.sets(st.integers(0, 199))))
    tally = Tally()
    waiting = list(scenes)
    for number in came:
        while waiting and waiting[0].first <= number:
            tally.expect(waiting.pop(0))
        tally.arrived(number, 0.0)
    for scene in waiting:
        tally.expect(scene)
    tally.finish()
    assert tally.expected == 200
    assert tally.received == len(came)
    assert tally.lost == sum(gap.frames for gap in tally.gaps)
    Numbers(1, 0, tally.expected, tally.received, tally.lost, None, "r", "t")


def test_numbers_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(ValueError, match="10 frames were expected"):
        Numbers(1, 0, 10, 8, 1, None, "r", "t")


def test_the_table_shows_every_number() -> None:
    console = Console(width=80)
    with console.capture() as captured:
        console.print(table(Numbers(6, 5, 500, 490, 10, 81.4, "film.mp4", "film.svg")))
    shown = captured.get()
    for words in ("sessions", "6", "5", "500", "490", "10", "81 ms"):
        assert words in shown
