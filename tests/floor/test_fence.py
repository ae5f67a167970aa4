"""Fences and generations: what is over stays over."""

from __future__ import annotations

import pytest
import trio
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule
from trio.testing import assert_checkpoints, wait_all_tasks_blocked

from trio_reactor.errors import Closed
from trio_reactor.fence import Fence, FencedMapping, Generations, KeyToken

# A fence


def test_a_fence_that_is_down_lets_everybody_pass() -> None:
    fence = Fence("owner")
    fence.check()
    assert not fence.is_set
    assert fence.reason is None
    assert repr(fence) == "<Fence owner: down>"


def test_a_fence_never_falls_and_keeps_its_first_reason() -> None:
    fence = Fence("owner")
    assert fence.set("closing")
    assert not fence.set("something else")
    assert not fence.mark("something else again")
    assert fence.is_set
    assert fence.reason == "closing"
    for _ in range(2):
        with pytest.raises(Closed, match="owner: closing") as refused:
            fence.check()
        assert refused.value.outcome == "not-submitted"
        assert not refused.value.retryable


def test_a_fence_without_words_is_a_fence() -> None:
    fence = Fence("owner")
    assert fence.set("")
    assert fence.is_set
    assert repr(fence) == "<Fence owner: >"
    with pytest.raises(Closed):
        fence.check()


def test_every_refusal_is_an_error_of_its_own() -> None:
    fence = Fence("owner")
    fence.set("closing")
    refusals: list[Closed] = []
    for _ in range(2):
        try:
            fence.check()
        except Closed as closed:
            refusals.append(closed)
    first, second = refusals
    assert first is not second


async def test_everybody_who_waits_hears_the_reason_at_once(nursery: trio.Nursery) -> None:
    fence = Fence("owner")
    heard: list[str] = []

    async def wait() -> None:
        heard.append(await fence.wait())

    for _ in range(3):
        nursery.start_soon(wait)
    await wait_all_tasks_blocked()
    assert heard == []
    fence.set("closing")
    await wait_all_tasks_blocked()
    assert heard == ["closing"] * 3


async def test_waiting_for_a_fence_that_is_up_is_a_checkpoint_too() -> None:
    fence = Fence("owner")
    fence.set("closing")
    with assert_checkpoints():
        assert await fence.wait() == "closing"


async def test_waiting_can_be_cancelled_and_leaves_the_others_waiting(
    nursery: trio.Nursery,
) -> None:
    fence = Fence("owner")
    heard: list[str] = []

    async def wait(scope: trio.CancelScope) -> None:
        with scope:
            heard.append(await fence.wait())

    scopes = [trio.CancelScope(), trio.CancelScope()]
    for scope in scopes:
        nursery.start_soon(wait, scope)
    await wait_all_tasks_blocked()
    scopes[0].cancel()
    await wait_all_tasks_blocked()
    assert scopes[0].cancelled_caught
    fence.set("closing")
    await wait_all_tasks_blocked()
    assert heard == ["closing"]


async def test_marking_fences_at_once_and_wakes_nobody_until_it_is_announced(
    nursery: trio.Nursery,
) -> None:
    fence = Fence("owner")
    heard: list[str] = []

    async def wait() -> None:
        heard.append(await fence.wait())

    nursery.start_soon(wait)
    await wait_all_tasks_blocked()
    fence.announce()  # nothing to announce yet
    await wait_all_tasks_blocked()
    assert heard == []
    assert fence.mark("cancelled")
    with pytest.raises(Closed, match="cancelled"):
        fence.check()
    assert await fence.wait() == "cancelled"  # whoever asks now knows already
    await wait_all_tasks_blocked()
    assert heard == []
    fence.announce()
    await wait_all_tasks_blocked()
    assert heard == ["cancelled"]


# Generations


def test_a_token_dies_when_its_generation_is_over_and_stays_dead() -> None:
    generations = Generations("stream", 3)
    old, twin = generations.token(), generations.token()
    old.check()
    new = generations.advance()
    assert (old.number, new.number, generations.number) == (3, 4, 4)
    assert not old.live
    assert not twin.live
    assert new.live
    for _ in range(5):
        generations.advance()
        assert not old.live
        assert not new.live
    with pytest.raises(Closed, match="stream: generation 3 is over"):
        old.check()
    assert repr(old) == "<Token 3: dead>"
    assert repr(generations.token()) == "<Token 9: live>"


def test_a_generation_cannot_be_brought_back() -> None:
    generations = Generations()
    generations.advance()
    with pytest.raises(AttributeError):
        generations.number = 0  # type: ignore[misc]


# A fenced mapping


def test_what_is_written_under_a_live_token_is_read_under_it() -> None:
    rooms: FencedMapping[str, int] = FencedMapping()
    token = rooms.admit("a")
    assert rooms.read(token) is None
    assert rooms.write(token, 1)
    assert rooms.read(token) == 1
    assert rooms.admit("a") is token  # it is admitted already: nothing began, nothing is lost
    assert rooms.token("a") is token
    assert rooms.read(token) == 1


def test_a_question_asked_before_a_fence_is_answered_as_fenced_after_readmission() -> None:
    rooms: FencedMapping[str, int] = FencedMapping()
    before = rooms.admit("a")
    rooms.write(before, 1)
    assert rooms.fence("a") == 1
    after = rooms.admit("a")
    assert after.generation > before.generation
    assert rooms.write(after, 2)
    # The late answer changes nothing, says so, and learns nothing of what has come since.
    assert not rooms.write(before, 1)
    assert rooms.read(before) is None
    assert not before.live
    with pytest.raises(Closed, match="generation 1 of this key is over"):
        before.check()
    assert rooms.read(after) == 2
    after.check()


def test_fencing_takes_the_value_along() -> None:
    rooms: FencedMapping[str, int] = FencedMapping()
    rooms.write(rooms.admit("a"), 1)
    assert rooms.fence("a") == 1
    assert rooms.fence("a") is None
    assert rooms.token("a") is None
    assert len(rooms) == 0
    assert rooms.read(rooms.admit("a")) is None


def test_fencing_one_key_leaves_the_others_alone() -> None:
    rooms: FencedMapping[str, int] = FencedMapping()
    a, b = rooms.admit("a"), rooms.admit("b")
    rooms.write(b, 2)
    rooms.fence("a")
    assert not a.live
    assert rooms.read(b) == 2


def test_a_token_of_another_mapping_is_no_token_here() -> None:
    ours: FencedMapping[str, int] = FencedMapping()
    theirs: FencedMapping[str, int] = FencedMapping()
    token = theirs.admit("a")
    ours.admit("a")
    assert not ours.write(token, 1)
    assert ours.read(token) is None


def test_its_keys_can_be_asked_for_and_their_tokens_walked_while_it_changes() -> None:
    rooms: FencedMapping[str, int] = FencedMapping()
    tokens = [rooms.admit(key) for key in "cab"]
    assert "a" in rooms
    assert "d" not in rooms
    seen: list[KeyToken[str]] = []
    for token in rooms:
        seen.append(token)
        rooms.fence(token.key)
        rooms.admit(f"{token.key} again")
    assert seen == tokens
    assert [token.key for token in rooms] == ["c again", "a again", "b again"]


def test_a_token_says_what_it_is_for() -> None:
    rooms: FencedMapping[str, int] = FencedMapping()
    token = rooms.admit("a")
    assert repr(token) == "<KeyToken 'a' generation 1: live>"
    rooms.fence("a")
    assert repr(token) == "<KeyToken 'a' generation 1: dead>"


class FencedMappingMachine(RuleBasedStateMachine):
    """A mapping against a model in which every admission is a box that is emptied for ever."""

    tokens = Bundle("tokens")
    keys = st.sampled_from("abc")

    def __init__(self) -> None:
        super().__init__()
        self.rooms: FencedMapping[str, int] = FencedMapping()
        self.live: dict[str, KeyToken[str]] = {}
        self.values: dict[KeyToken[str], int] = {}
        self.newest: dict[str, int] = {}

    @rule(target=tokens, key=keys)
    def admit(self, key: str) -> KeyToken[str]:
        token = self.rooms.admit(key)
        if key in self.live:
            assert token is self.live[key]
        else:
            assert token.generation > self.newest.get(key, 0)
        self.live[key] = token
        self.newest[key] = token.generation
        return token

    @rule(key=keys)
    def fence(self, key: str) -> None:
        token = self.live.pop(key, None)
        expected = None if token is None else self.values.pop(token, None)
        assert self.rooms.fence(key) == expected

    @rule(token=tokens, value=st.integers())
    def write(self, token: KeyToken[str], value: int) -> None:
        live = self.live.get(token.key) is token
        assert self.rooms.write(token, value) is live
        if live:
            self.values[token] = value

    @rule(token=tokens)
    def ask(self, token: KeyToken[str]) -> None:
        live = self.live.get(token.key) is token
        assert token.live is live
        assert self.rooms.read(token) == (self.values.get(token) if live else None)
        if live:
            token.check()
        else:
            with pytest.raises(Closed):
                token.check()

    @rule(token=consumes(tokens))
    def ask_for_the_last_time(self, token: KeyToken[str]) -> None:
        self.ask(token)

    @invariant()
    def holds_what_is_live_and_nothing_else(self) -> None:
        assert len(self.rooms) == len(self.live)
        assert {token.key: token for token in self.rooms} == self.live
        for key in "abc":
            assert (key in self.rooms) is (key in self.live)
            assert self.rooms.token(key) is self.live.get(key)


FencedMappingMachine.TestCase.settings = settings(max_examples=60, deadline=None)
TestFencedMappingAgainstItsModel = FencedMappingMachine.TestCase
