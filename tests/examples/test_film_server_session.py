"""A paid session in virtual time: what it plays, when, and what becomes of it."""

from __future__ import annotations

import random
from fractions import Fraction

import msgspec
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from examples.film_server.film import RATE, Film
from examples.film_server.options import FilmServerOptions
from examples.film_server.outbox import Farewell, Outbox
from examples.film_server.session import Session
from trio_reactor.renewal.source import (
    Clip,
    ClipEnded,
    ClipStarted,
    ClipUpdated,
    GoingAway,
    SourceState,
)
from trio_reactor.renewal.websocket.wire import (
    CloseCode,
    CloseMedia,
    Command,
    Denied,
    Done,
    Enqueue,
    FromServer,
    GetState,
    Happened,
    Losses,
    MediaOpened,
    OpenMedia,
    PauseAndStop,
    Picture,
    Queued,
    Reply,
    Request,
    SetAutoplay,
    Snapshot,
    Sound,
    Terminate,
    Terminated,
    encode_payload,
)


def film(pictures: int = 50, rate: Fraction = Fraction(25)) -> Film:
    size = 16 * 16 * 3 // 2
    shown = tuple(bytes([number]) * size for number in range(pictures))
    return Film(16, 16, rate, shown, bytes(int(RATE * pictures / rate) * 4))


class Story:
    """A session, what it says, and when it says it."""

    def __init__(self, nursery: trio.Nursery, shown: Film | None = None, **terms: object) -> None:
        self.options = FilmServerOptions.model_validate(
            {"lifetime": None, "build_time": 0.0, **terms}
        )
        self.session = Session("film-1", "secret", shown or film(), self.options, random.Random(1))
        self.said: list[tuple[float, FromServer | Farewell]] = []
        self._nursery = nursery
        self._number = 0
        nursery.start_soon(self.session.run)

    def connect(self) -> Outbox:
        outbox = Outbox(self.options)
        self.session.attach(outbox)
        self._nursery.start_soon(self._listen, outbox)
        return outbox

    def ask(self, command: Command) -> None:
        self._number += 1
        self.session.handle(Request(self._number, command))

    def enqueue(self, start: int, frames: int, position: int | None = None) -> None:
        payload = {"scene": {"start": start, "frames": frames}}
        self.ask(Enqueue(encode_payload(payload), position))

    async def _listen(self, outbox: Outbox) -> None:
        while not isinstance(said := await outbox.next(), Farewell):
            self.said.append((trio.current_time(), said))
        self.said.append((trio.current_time(), said))

    def times(self, kind: type[msgspec.Struct]) -> list[float]:
        return [
            at
            for at, said in self.said
            if isinstance(said.event if isinstance(said, Happened) else said, kind)
        ]

    @property
    def answers(self) -> list[object]:
        return [
            said.result if isinstance(said, Reply) else said
            for _, said in self.said
            if isinstance(said, (Reply, Denied))
        ]


async def test_a_picture_is_due_by_the_schedule_of_its_run(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    story = Story(nursery)
    story.connect()
    story.ask(OpenMedia())
    for start in (0, 10, 20):
        story.enqueue(start, 10)
    await trio.sleep(5)
    began = trio.current_time()
    story.ask(SetAutoplay(True))
    await trio.sleep(3)
    pictures = story.times(Picture)
    assert pictures == pytest.approx([began + number / 25 for number in range(30)], abs=1e-9)
    assert pictures[0] == began  # at once
    assert story.times(Sound) == pictures
    assert story.times(ClipStarted) == pytest.approx([began, began + 0.4, began + 0.8])
    assert story.times(ClipEnded) == pytest.approx([began + 0.4, began + 0.8, began + 1.2])


async def test_a_schedule_does_not_drift_at_an_odd_rate(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    story = Story(nursery, film(50, Fraction(30_000, 1001)))
    story.connect()
    story.ask(OpenMedia())
    for _ in range(10):
        story.enqueue(0, 100)
    story.ask(SetAutoplay(True))
    await trio.sleep(60)
    pictures = story.times(Picture)
    assert len(pictures) == 1000
    assert pictures[-1] - pictures[0] == pytest.approx(999 * 1001 / 30_000, abs=1e-6)
    samples = sum(said.samples for _, said in story.said if isinstance(said, Sound))
    # The film of 50 pictures repeats: what it has of sound is heard again with each round.
    assert samples == 20 * round(50 * RATE * 1001 / 30_000) * 2


async def test_a_run_begins_anew_after_a_pause(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    story = Story(nursery)
    story.connect()
    story.ask(OpenMedia())
    story.ask(SetAutoplay(True))
    story.enqueue(0, 5)
    await trio.sleep(1.013)
    story.enqueue(5, 5)
    await trio.sleep(1)
    first, second = story.times(ClipStarted)
    assert second == pytest.approx(first + 1.013)
    assert story.times(Picture)[5:] == pytest.approx([second + number / 25 for number in range(5)])


async def test_building_takes_its_time_and_one_is_built_after_another(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    story = Story(nursery, build_time=2.0)
    story.connect()
    story.enqueue(0, 5)
    story.enqueue(5, 5)
    began = trio.current_time()
    await trio.sleep(10)
    updates = [
        (at - began, said.event.clip.id, said.event.clip.phase)
        for at, said in story.said
        if isinstance(said, Happened) and isinstance(said.event, ClipUpdated)
    ]
    assert updates == [
        (0, "film-1-clip-1", "queued"),
        (0, "film-1-clip-2", "queued"),
        (0, "film-1-clip-1", "building"),
        (2, "film-1-clip-1", "ready"),
        (2, "film-1-clip-2", "building"),
        (4, "film-1-clip-2", "ready"),
    ]


async def test_no_more_is_built_ahead_than_may_be_ready(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    story = Story(nursery, max_ready_clips=2)
    story.connect()
    for _ in range(4):
        story.enqueue(0, 25)
    await trio.sleep(1)
    story.ask(GetState())
    await wait_all_tasks_blocked()
    phases = [clip.phase for clip in _state(story).clips]
    assert phases == ["ready", "ready", "queued", "queued"]
    story.ask(SetAutoplay(True))
    await trio.sleep(0.5)
    story.ask(GetState())
    await wait_all_tasks_blocked()
    assert [clip.phase for clip in _state(story).clips] == ["playing", "ready", "ready", "queued"]


def _state(story: Story) -> SourceState:
    snapshot = story.answers[-1]
    assert isinstance(snapshot, Snapshot)
    return snapshot.state


async def test_an_answer_comes_before_what_follows_from_it(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    story = Story(nursery)
    story.connect()
    story.enqueue(0, 5)
    story.ask(GetState())
    await wait_all_tasks_blocked()
    assert [said for _, said in story.said][:3] == [
        Reply(1, Queued("film-1-clip-1")),
        Happened(ClipUpdated(Clip("film-1-clip-1", "queued", 5))),
        Reply(2, Snapshot(SourceState((Clip("film-1-clip-1", "queued", 5),)))),
    ]


async def test_pausing_ends_the_clip_in_that_step(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    story = Story(nursery)
    story.connect()
    story.ask(OpenMedia())
    story.ask(SetAutoplay(True))
    story.enqueue(0, 25)
    await trio.sleep(0.41)
    story.ask(PauseAndStop())
    await trio.sleep(2)
    assert len(story.times(Picture)) == 11
    ended = [said for _, said in story.said if isinstance(said, Happened)][-1]
    assert ended == Happened(ClipEnded("film-1-clip-1", 11))


async def test_pausing_in_the_very_step_of_a_picture_shows_none_after_the_end(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    for _ in range(20):
        story = Story(nursery)
        story.connect()
        story.ask(OpenMedia())
        story.ask(SetAutoplay(True))
        story.enqueue(0, 25)
        await wait_all_tasks_blocked(0.001)
        began = story.times(ClipStarted)[0]
        await trio.sleep_until(began + 0.2)  # the sixth picture is due now
        story.ask(PauseAndStop())
        await trio.sleep(1)
        kinds = [type(said.event if isinstance(said, Happened) else said) for _, said in story.said]
        end = kinds.index(ClipEnded)
        assert Picture not in kinds[end:]
        ended = story.said[end][1]
        assert isinstance(ended, Happened)
        assert ended.event == ClipEnded("film-1-clip-1", kinds.count(Picture))


async def test_a_session_is_over_when_its_lifetime_is(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    story = Story(nursery, lifetime=4.0)
    story.connect()
    began = trio.current_time()
    assert story.session.remaining == pytest.approx(4.0)
    await trio.sleep(3)
    assert story.session.remaining == pytest.approx(1.0)
    await trio.sleep(3)
    at, farewell = story.said[-1]
    assert farewell == Farewell(CloseCode.LIFETIME_OVER, "the lifetime of the session is over")
    assert at - began == pytest.approx(4.0)


async def test_a_session_that_is_called_away_says_so_first(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    story = Story(nursery, faults={"going_away_after": 2.0, "going_away_notice": 1.5})
    story.connect()
    began = trio.current_time()
    await trio.sleep(10)
    assert [(round(at - began, 6), said) for at, said in story.said] == [
        (2.0, Happened(GoingAway(1.5, "the service is being restarted"))),
        (3.5, Farewell(CloseCode.GOING_AWAY, "the service is being restarted")),
    ]


async def test_a_session_is_terminated_after_it_said_so(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    story = Story(nursery)
    story.connect()
    story.ask(OpenMedia())
    story.ask(SetAutoplay(True))
    story.enqueue(0, 25)
    await trio.sleep(0.5)
    story.ask(Terminate())
    await trio.sleep(1)
    assert [said for _, said in story.said][-2:] == [
        Reply(4, Terminated()),
        Farewell(CloseCode.DONE, "terminated on request"),
    ]


async def test_a_session_outlives_its_socket_for_its_grace_only(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    story = Story(nursery, grace=5.0)
    outbox = story.connect()
    for _ in range(3):
        story.session.detach(outbox)
        await trio.sleep(4)
        assert story.session.over is None
        outbox = story.connect()
        await trio.sleep(4)
    story.session.detach(outbox)
    await trio.sleep(6)
    assert story.session.over is not None
    assert story.session.over.code == CloseCode.GOING_AWAY


async def test_another_socket_takes_over(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    story = Story(nursery)
    first = story.connect()
    second = story.connect()
    assert first.farewell is not None
    assert first.farewell.code == CloseCode.SUPERSEDED
    story.session.detach(first)  # it is no longer its socket
    story.ask(GetState())
    await wait_all_tasks_blocked()
    assert second.farewell is None
    assert _state(story) == SourceState()


async def test_what_is_due_without_a_socket_is_counted(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    story = Story(nursery)
    outbox = story.connect()
    story.ask(OpenMedia())
    story.ask(SetAutoplay(True))
    story.enqueue(0, 100)
    await trio.sleep(0.99)
    story.session.detach(outbox)
    await trio.sleep(1.0)
    story.connect()
    await trio.sleep(0.5)  # a new socket has no media before it asks for it
    seen = len(story.times(Picture))
    assert seen == 25
    story.ask(OpenMedia())
    await wait_all_tasks_blocked()
    opened = story.answers[-1]
    assert isinstance(opened, MediaOpened)
    statistics = story.session.statistics()
    assert (opened.generation, statistics.generation) == (2, 2)
    assert opened.frames == statistics.due_frames == seen + statistics.void_frames
    assert statistics.void_frames == 38  # one and a half seconds of 25 pictures
    assert opened.samples == opened.frames * 3840
    await trio.sleep(5)
    assert len(story.times(Picture)) == 100 - 38


async def test_nothing_is_due_while_no_media_is_wanted(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    story = Story(nursery)
    story.connect()
    story.ask(SetAutoplay(True))
    story.enqueue(0, 25)
    await trio.sleep(0.5)
    story.ask(OpenMedia())
    await trio.sleep(0.2)
    story.ask(CloseMedia(1))
    await trio.sleep(2)
    assert story.answers[-2:] == [MediaOpened(1, 25.0, 0, 0), Done()]
    assert story.session.statistics().due_frames == len(story.times(Picture)) == 5


async def test_a_slow_reader_loses_media_and_is_told_how_much(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    story = Story(nursery, max_outgoing_frames=4)
    outbox = Outbox(story.options)
    story.session.attach(outbox)  # and nobody reads
    story.ask(OpenMedia())
    story.ask(SetAutoplay(True))
    story.enqueue(0, 25)
    await trio.sleep(2)
    statistics = outbox.statistics()
    assert (statistics.frames, statistics.dropped_frames) == (4, 21)
    assert statistics.dropped_samples == 21 * 3840
    read: list[FromServer | Farewell] = []
    while outbox.statistics().messages:
        read.append(await outbox.next())
    assert read[0] == Losses(1, 21, 21 * 3840)
    assert [each.index for each in read if isinstance(each, Picture)] == [0, 1, 2, 3]
    assert read[-1] == Happened(ClipEnded("film-1-clip-1", 25))  # what is no media is all there


async def test_media_in_waiting_is_bounded_in_bytes_too(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    size = 16 * 16 * 3 // 2
    story = Story(nursery, max_outgoing_bytes=2 * (size + 7680))
    outbox = Outbox(story.options)
    story.session.attach(outbox)
    story.ask(OpenMedia())
    story.ask(SetAutoplay(True))
    story.enqueue(0, 25)
    await trio.sleep(2)
    assert outbox.statistics().bytes == 2 * (size + 7680)


async def test_a_reader_that_takes_nothing_at_all_is_cut_off(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    story = Story(nursery, max_outgoing_messages=8)
    outbox = Outbox(story.options)
    story.session.attach(outbox)
    for _ in range(9):
        story.ask(GetState())
    assert outbox.farewell is not None
    assert outbox.farewell.code == CloseCode.TOO_SLOW
    assert story.session.over is None  # the session goes on, for whoever takes it up


async def test_a_scene_too_large_for_memory_fails_alone(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    story = Story(nursery, max_scene_bytes=384 * 10)
    story.connect()
    story.enqueue(0, 11)
    story.enqueue(0, 10)
    await trio.sleep(1)
    story.ask(GetState())
    await wait_all_tasks_blocked()
    assert [clip.id for clip in _state(story).clips] == ["film-1-clip-2"]
    assert any("scene: 4224 bytes" in repr(said) for _, said in story.said)


async def test_clips_that_are_over_are_remembered_within_a_bound(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    story = Story(nursery, max_known_clips=2, max_clips=4)
    story.connect()
    story.enqueue(0, 1)
    for _ in range(3):
        story.enqueue(0, 1, 0)
    story.ask(SetAutoplay(True))
    await trio.sleep(1)
    for _ in range(2):
        story.enqueue(0, 1)
    for before, known in (("film-1-clip-6", True), ("film-1-clip-1", False)):
        payload = encode_payload({"scene": {"frames": 1}})
        story.ask(Enqueue(payload, None, before))
        await wait_all_tasks_blocked()
        assert isinstance(story.answers[-1], Queued) is known
