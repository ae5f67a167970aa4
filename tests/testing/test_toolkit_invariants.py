"""Invariants as pure functions of facts, over every sequence of facts that is short enough."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable

import pytest

from trio_reactor.testing import (
    Always,
    AtMost,
    Ended,
    Fact,
    Invariant,
    NothingAfter,
    Once,
    Only,
)
from trio_reactor.testing.invariants import Checks

Told = tuple[str, int]
"""A fact in short: what happened, to which one."""


def violated(invariant: Invariant, told: Iterable[Told]) -> bool:
    """Whether it is violated anywhere, at a fact or at the end."""
    for number, (what, key) in enumerate(told, 1):
        if invariant.see(Fact(number, 0.0, "task", what, {"id": key})) is not None:
            return True
    return invariant.end() is not None


def every(*whats: str, length: int = 5) -> Iterable[tuple[Told, ...]]:
    """Every sequence of these about two things, up to a length."""
    alphabet = list(itertools.product(whats, (1, 2)))
    for size in range(length + 1):
        yield from itertools.product(alphabet, repeat=size)


def once(told: tuple[Told, ...]) -> bool:
    done = [key for what, key in told if what == "a"]
    return len(done) == len(set(done))


def at_most_one(told: tuple[Told, ...]) -> bool:
    going: set[int] = set()
    for what, key in told:
        going = going | {key} if what == "a" else going - {key}
        if len(going) > 1:
            return False
    return True


def ended(told: tuple[Told, ...]) -> bool:
    last = {key: what for what, key in told}
    return "a" not in last.values()


def ended_within(told: tuple[Told, ...]) -> bool:
    first = next((index for index, (what, _) in enumerate(told) if what == "c"), None)
    if first is None:
        return ended(told)
    begins_later = any(what == "a" for what, _ in told[first:])
    return ended(told[:first]) and not begins_later


def nothing_after(told: tuple[Told, ...]) -> bool:
    return not any(
        what == "b" and ("a", key) in told[:index] for index, (what, key) in enumerate(told)
    )


def only_after(told: tuple[Told, ...]) -> bool:
    return all(what != "b" or ("a", key) in told[:index] for index, (what, key) in enumerate(told))


@pytest.mark.parametrize(
    ("make", "holds", "whats", "length"),
    [
        (lambda: Once("a", by="id"), once, ("a", "b"), 5),
        (lambda: AtMost(1, "a", until="b", by="id"), at_most_one, ("a", "b"), 6),
        (lambda: Ended("a", until="b", by="id"), ended, ("a", "b"), 5),
        (lambda: Ended("a", until="b", by="id", within="c"), ended_within, ("a", "b", "c"), 5),
        (lambda: NothingAfter("a", "b", by="id"), nothing_after, ("a", "b"), 5),
        (lambda: Only("b", after="a", by="id"), only_after, ("a", "b"), 5),
    ],
    ids=["Once", "AtMost", "Ended", "Ended-within", "NothingAfter", "Only"],
)
def test_an_invariant_says_of_every_short_history_what_its_definition_says(
    make: Callable[[], Invariant],
    holds: Callable[[tuple[Told, ...]], bool],
    whats: tuple[str, ...],
    length: int,
) -> None:
    for told in every(*whats, length=length):
        assert violated(make(), told) is not holds(told), told


def test_without_a_particular_all_facts_are_of_one_thing() -> None:
    assert violated(Once("a"), [("a", 1), ("a", 2)])
    assert violated(NothingAfter("closed", "a", "b"), [("a", 1), ("closed", 1), ("b", 2)])
    assert not violated(NothingAfter("closed", "a", "b"), [("a", 1), ("b", 2), ("closed", 1)])
    assert violated(Only("b", after="a"), [("b", 1)])
    assert not violated(Only("b", after="a"), [("a", 1), ("b", 2)])


def test_a_fact_without_the_particular_is_named() -> None:
    with pytest.raises(LookupError, match="'a' was recorded without 'clip'"):
        Once("a", by="clip").see(Fact(1, 0.0, "task", "a", {}))


def test_what_is_violated_is_said_in_words() -> None:
    invariant = AtMost(1, "on-air", until="off-air", by="source")
    assert invariant.name == "at most 1 between 'on-air' and 'off-air'"
    assert invariant.see(Fact(1, 0.0, "task", "on-air", {"source": "one"})) is None
    wrong = invariant.see(Fact(2, 0.0, "task", "on-air", {"source": "two"}))
    assert wrong == "there are 2: one, two"
    names = [
        Ended("opened", until="left", by="id", within="closed").name,
        NothingAfter("revoked", "read", "written", by="room").name,
        Only("acknowledged", after="stored", by="edit").name,
    ]
    assert names == [
        "'opened' is followed by 'left' for each id, before 'closed'",
        "no 'read' or 'written' after 'revoked' for each room",
        "'acknowledged' only after 'stored' for each edit",
    ]


def test_only_those_that_look_at_the_state_are_asked_between_batches() -> None:
    looked: list[str] = []

    class Looking(Invariant):
        def look(self) -> str | None:
            looked.append(self.name)
            return None

    wrong: list[tuple[str, str]] = []
    checks = Checks(lambda name, what, cause: wrong.append((name, what)))
    checks.add(Once("a"), Looking("looking"), Always("always", lambda: False))
    checks.look()
    assert looked == ["looking"]
    assert wrong == [("always", "it does not hold")]
    checks.see(Fact(1, 0.0, "task", "a", {}))
    assert len(wrong) == 1
    checks.end()
    assert len(wrong) == 2
