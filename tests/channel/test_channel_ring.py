"""The ring keeps exactly what its holds need, however they come and go."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from trio_reactor.channel.ring import Hold, Ring


def test_what_nobody_holds_is_not_stored() -> None:
    ring: Ring[str] = Ring(1)
    ring.append("a")
    assert (ring.base, ring.head, len(ring)) == (2, 2, 0)


def test_a_hold_keeps_what_comes_until_it_is_released() -> None:
    ring: Ring[str] = Ring(1)
    hold = ring.hold(1, 10)
    for item in "abc":
        ring.append(item)
    assert ring.between(1, 4) == ["a", "b", "c"]
    assert ring[2] == "b"
    ring.release(hold)
    assert len(ring) == 0


def test_a_hold_that_the_head_has_left_behind_keeps_nothing() -> None:
    ring: Ring[str] = Ring()
    hold = ring.hold(0, 2)
    ring.append("a")
    ring.append("b")
    assert len(ring) == 2
    ring.append("c")
    assert len(ring) == 0
    ring.release(hold)


def test_a_failed_hold_does_not_lean_on_a_deeper_one_that_has_moved_on() -> None:
    ring: Ring[int] = Ring()
    shallow, deep = ring.hold(0, 4), ring.hold(0, 1_000)
    for number in range(100):
        ring.append(number)
        ring.release(deep)
        deep = ring.hold(ring.head, 1_000)
        assert len(ring) <= 4
    assert len(ring) == 0
    ring.release(shallow)


def test_what_is_let_go_is_forgotten_and_not_only_passed_by() -> None:
    ring: Ring[object] = Ring()
    hold = ring.hold(0, 100)
    for _ in range(50):
        ring.append(object())
    onward = ring.hold(30, 100)
    ring.release(hold)
    assert sum(place is not None for place in ring.places) == 20
    ring.release(onward)
    assert not any(ring.places)


def test_a_ring_grows_with_its_need_and_shrinks_again() -> None:
    ring: Ring[int] = Ring(7)
    hold = ring.hold(7, 100_000)
    spare = len(ring.places)
    for number in range(50_000):
        ring.append(number)
    assert ring.between(7, ring.head) == list(range(50_000))
    assert len(ring.places) < 100_000 * 2
    while len(ring):
        onward = ring.hold(min(ring.head, ring.base + 1_000), 100_000)
        ring.release(hold)
        hold = onward
        kept = ring.between(ring.base, ring.head)
        assert kept == list(range(50_000 - len(kept), 50_000))
    for number in range(20):  # each step down is taken at the next occasion
        ring.append(number)
        onward = ring.hold(ring.head, 100_000)
        ring.release(hold)
        hold = onward
    assert len(ring.places) == spare


class RingModel(RuleBasedStateMachine):
    """The ring beside a list of everything that was ever put into it."""

    def __init__(self) -> None:
        super().__init__()
        self.ring: Ring[int] = Ring(5)
        self.items: list[int] = []
        self.holds: list[Hold] = []

    @rule(count=st.integers(1, 40) | st.integers(200, 700))
    def append(self, count: int) -> None:
        for _ in range(count):
            self.items.append(len(self.items))
            self.ring.append(self.items[-1])

    @rule(depth=st.integers(1, 12) | st.integers(300, 2_000), count=st.integers(1, 3))
    def hold_the_head(self, depth: int, count: int) -> None:
        self.holds += [self.ring.hold(self.ring.head, depth, count)] * count

    @rule(data=st.data(), depth=st.integers(1, 12))
    def hold_something_kept_or_gone(self, data: st.DataObject, depth: int) -> None:
        start = max(5, self.ring.base - 3)
        position = data.draw(st.integers(start, self.ring.head))
        self.holds.append(self.ring.hold(position, depth))

    @precondition(lambda self: self.holds)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        self.ring.release(self.holds.pop(data.draw(st.integers(0, len(self.holds) - 1))))

    @precondition(lambda self: self.holds)
    @rule(data=st.data())
    def move(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.holds) - 1))
        behind = self.holds[index]
        if self.ring.head - behind.position > behind.depth:
            return  # it has failed, and failed holds are only released
        onward = data.draw(st.integers(behind.position, self.ring.head))
        self.holds[index] = self.ring.hold(onward, behind.depth)
        self.ring.release(behind)

    @invariant()
    def what_is_needed_is_kept_and_nothing_else(self) -> None:
        head = self.ring.head
        assert head == 5 + len(self.items)
        needed = [h.position for h in self.holds if head - h.position <= h.depth]
        # A hold below the base came too late, so what it asks for was gone before.
        base = min((each for each in needed if each >= self.ring.base), default=head)
        assert self.ring.base == base
        assert self.ring.between(base, head) == self.items[base - 5 :]
        assert sum(place is not None for place in self.ring.places) == head - base


TestRingModel = RingModel.TestCase
TestRingModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
