"""Lanes against a model: every short history of one lane, and long random ones of several.

The driver makes its moves without letting anybody run in between, until it *settles*; so a turn is
handed over, its new owner cancelled and the generation ended in one batch, in every order.
"""

from __future__ import annotations

import copy
import dataclasses
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple

import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lane_story import Story
from trio.testing import wait_all_tasks_blocked

from trio_reactor.errors import Overflow
from trio_reactor.lanes import Lanes, LanesStatistics


class Move(NamedTuple):
    """One move of the driver; the subject is a name or a key."""

    kind: str
    subject: str = ""
    key: str = ""


@dataclasses.dataclass
class Entry:
    """Somebody who takes a turn: a task, a piece of work, or the driver itself (`own`)."""

    name: str
    work: bool = False
    own: bool = False
    begun: bool = False
    cancelled: bool = False
    leaving: bool = False


@dataclasses.dataclass
class Model:
    """What lanes do, said as plainly as possible: a lane is a list, and its first is inside."""

    max_lanes: int
    max_waiting: int
    generation: int = 0
    lanes: dict[str, list[Entry]] = dataclasses.field(default_factory=dict)
    old: list[Entry] = dataclasses.field(default_factory=list)
    told: list[str] = dataclasses.field(default_factory=list)
    settled: bool = True

    def statistics(self) -> LanesStatistics:
        in_line = [entry for lane in self.lanes.values() for entry in lane[1:]]
        handed = [lane[0] for lane in self.lanes.values() if lane[0].work and not lane[0].begun]
        return LanesStatistics(
            generation=self.generation,
            held=len(self.lanes),
            waiting=sum(not entry.work for entry in in_line),
            queued=sum(entry.work for entry in in_line) + len(handed),
            left_behind=len(self.old),
        )

    def moves(self, keys: str, name: str | None, *, advances: bool = True) -> Iterator[Move]:
        """What can be done now; `name` is of whoever comes next, if anybody may."""
        entries = [entry for lane in self.lanes.values() for entry in lane]
        for key in keys:
            if name is not None:
                yield Move("queue", name, key)
                if self.settled:
                    yield Move("enter", name, key)
                    if key not in self.lanes and len(self.lanes) < self.max_lanes:
                        yield Move("hold", name, key)
        for entry in [*entries, *self.old]:
            if entry.own:
                yield Move("release", entry.name)
            elif entry.begun and not entry.leaving and not entry.cancelled:
                yield Move("leave", entry.name)
            if not entry.own and not entry.work and not entry.leaving and not entry.cancelled:
                yield Move("cancel", entry.name)
        if advances:
            yield Move("advance")
        if not self.settled:
            yield Move("settle")

    def make(self, move: Move) -> None:
        self.settled = move.kind in {"settle", "enter", "hold"}
        match move.kind:
            case "queue":
                self._join(Entry(move.subject, work=True), move.key)
            case "enter":
                self._join(Entry(move.subject), move.key)
                self._settle()
            case "hold":
                self.lanes[move.key] = [Entry(move.subject, own=True, begun=True)]
            case "release":
                self._remove(move.subject)
            case "leave":
                self._find(move.subject).leaving = True
            case "cancel":
                entry = self._find(move.subject)
                in_line = any(entry in lane[1:] for lane in self.lanes.values())
                entry.cancelled = True
                if in_line:
                    self.told.append(f"{entry.name} cancelled")
                    self._remove(entry.name)
            case "advance":
                self._advance()
            case _:
                self._settle()

    def _join(self, entry: Entry, key: str) -> None:
        statistics = self.statistics()
        lane = self.lanes.get(key)
        full = statistics.waiting + statistics.queued >= self.max_waiting
        if (lane is None and len(self.lanes) >= self.max_lanes) or (
            full and (entry.work or lane is not None)
        ):
            self.told.append(f"{entry.name} overflow")
        else:
            self.lanes.setdefault(key, []).append(entry)

    def _advance(self) -> None:
        self.generation += 1
        lanes, self.lanes = self.lanes, {}
        for lane in lanes.values():
            for entry in lane:
                if entry.begun:
                    self.old.append(entry)
                elif entry.work:
                    self.told.append(f"{entry.name} given back")
                else:
                    self.told.append(f"{entry.name} refused")

    def _settle(self) -> None:
        """Let everybody do what they can, until nobody can do anything."""
        while True:
            inside = [lane[0] for lane in self.lanes.values()] + self.old
            for entry in inside:
                if not entry.begun:
                    entry.begun = True
                    self.told.append(f"{entry.name} in")
                elif entry.leaving or entry.cancelled:
                    self.told.append(f"{entry.name} {'out' if entry.leaving else 'cancelled'}")
                    self._remove(entry.name)
                else:
                    continue
                break
            else:
                return

    def _find(self, name: str) -> Entry:
        entries = [*self.old, *(entry for lane in self.lanes.values() for entry in lane)]
        return next(entry for entry in entries if entry.name == name)

    def _remove(self, name: str) -> None:
        self.old = [entry for entry in self.old if entry.name != name]
        lanes = {key: [e for e in lane if e.name != name] for key, lane in self.lanes.items()}
        self.lanes = {key: lane for key, lane in lanes.items() if lane}


class Driver:
    """Makes the same moves with real lanes, and compares."""

    def __init__(self, model: Model, nursery: trio.Nursery) -> None:
        self.model = model
        self.nursery = nursery
        self.lanes: Lanes[str] = Lanes(
            start_soon=nursery.start_soon,
            max_lanes=model.max_lanes,
            max_waiting=model.max_waiting,
        )
        self.story = Story(self.lanes, nursery)
        self._held: dict[str, AbstractAsyncContextManager[None]] = {}

    async def make(self, move: Move) -> None:
        story = self.story
        match move.kind:
            case "queue":
                try:
                    story.queue_now(move.subject, move.key)
                except Overflow:
                    story.told.append(f"{move.subject} overflow")
            case "enter":
                await story.enter(move.subject, move.key)
            case "hold":
                self._held[move.subject] = self.lanes(move.key)
                await self._held[move.subject].__aenter__()
            case "release":
                await self._held.pop(move.subject).__aexit__(None, None, None)
            case "leave":
                story.leave_now(move.subject)
            case "cancel":
                story.cancel(move.subject)
            case "advance":
                story.told.extend(f"{each.args[0]} given back" for each in self.lanes.advance())
            case _:
                await wait_all_tasks_blocked()
        self.model.make(move)
        if self.model.settled:
            self.compare()

    def compare(self) -> None:
        """Nobody has anything left to do: the same was told, and the same is left."""
        assert Counter(self.story.told) == Counter(self.model.told)
        assert self.lanes.statistics() == self.model.statistics()
        assert self.lanes._lanes.keys() == self.model.lanes.keys()

    async def finish(self) -> None:
        """Let everybody leave: nothing stays behind."""
        await self.make(Move("settle"))
        while self.model.lanes or self.model.old:
            move = next(m for m in self.model.moves("", None) if m.kind in {"release", "leave"})
            await self.make(move)
            await self.make(Move("settle"))
        assert self.lanes.statistics() == LanesStatistics(self.model.generation, 0, 0, 0, 0)
        assert not self.lanes._lanes
        assert not self.nursery.child_tasks


def histories(model: Model, length: int, people: str, advances: int) -> Iterator[list[Move]]:
    """Every history of one lane of that length, or shorter where there is nothing left to do."""
    if length == 0:
        yield []
        return
    moves = list(model.moves("k", people[0] if people else None, advances=advances > 0))
    if not moves:
        yield []
    for move in moves:
        after = copy.deepcopy(model)
        after.make(move)
        rest = histories(
            after,
            length - 1,
            people[1:] if move.subject and move.subject == people[:1] else people,
            advances - (move.kind == "advance"),
        )
        for history in rest:
            yield [move, *history]


def model_of(max_lanes: int = 8, max_waiting: int = 8) -> Model:
    return Model(max_lanes=max_lanes, max_waiting=max_waiting)


async def test_every_short_history_of_one_lane() -> None:
    for history in histories(model_of(), 7, "abc", 1):
        async with trio.open_nursery() as nursery:
            driver = Driver(model_of(), nursery)
            try:
                for move in history:
                    await driver.make(move)
                await driver.finish()
            except AssertionError as error:
                error.add_note(f"in the history {history}")
                raise


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_long_histories_of_several_lanes_within_their_bounds(data: st.DataObject) -> None:
    bounds = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 4)), label="bounds")

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            driver = Driver(model_of(*bounds), nursery)
            for number in range(data.draw(st.integers(1, 40), label="length")):
                moves = list(driver.model.moves("klm", f"p{number}"))
                await driver.make(data.draw(st.sampled_from(moves), label="move"))
            await driver.finish()

    trio.run(main)
