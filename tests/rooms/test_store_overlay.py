"""Edits over what is confirmed: what is seen is always the one laid over the other, in order."""

from __future__ import annotations

import random

import pytest
from replica_story import (
    PATHS,
    ROOM,
    Authority,
    admitted,
    apply,
    chosen,
    memory,
    overlaid,
    page,
    queue,
    same_words,
    tried,
)

from trio_reactor.rooms.errors import EditRefused, ProviderFault
from trio_reactor.rooms.model.answers import Accepted, Conflicted
from trio_reactor.rooms.model.edits import Delete, Move, Operation, Put, paths_of
from trio_reactor.rooms.model.entries import Document, Entry
from trio_reactor.rooms.model.paths import folded
from trio_reactor.rooms.model.terms import Limits

SEEDS = 80
STEPS = 50


class Play:
    """One room's store and its authority; what either does is chosen by chance."""

    def __init__(self, seed: int, *, others: bool) -> None:
        self.chance = random.Random(seed)
        self.others = others
        self.database, self.content = memory()
        self.number = admitted(self.content)
        self.authority = Authority()
        self.confirmed: dict[str, Entry] = {}
        self.held: int | None = None
        self.made = self.arrived = 0
        self.words = 0
        self.applied: int | None = None

    def word(self) -> str:
        self.words += 1
        return f"word{self.words}"

    def step(self) -> None:
        what = self.chance.randrange(12)
        if self.held is None and what < 9:
            what = 9
        match what:
            case 0 | 1 | 2 | 3:
                self.edit()
            case 4 | 5 | 6:
                self.submit()
            case 7 | 8:
                self.refresh()
            case 9:
                self.bootstrap()
            case _:
                if self.others:
                    self.another_writes()
        self.see()

    def edit(self) -> None:
        paths = PATHS if self.others else PATHS[::2]
        operations = [
            chosen(self.chance, paths, self.word()) for _ in range(self.chance.choice((1, 1, 2, 3)))
        ]
        self.made += tried(self.content, self.number, operations) is not None

    def another_writes(self) -> None:
        fresh = dict(self.authority.entries)
        operation = chosen(self.chance, PATHS, self.word())
        if isinstance(operation, Delete | Move) and operation.path not in fresh:
            return
        if isinstance(operation, Move) and operation.to in fresh:
            return
        apply(fresh, operation, self.authority.version + 1)
        if len({folded(path) for path in fresh}) == len(fresh):
            self.authority.become(fresh)

    def submit(self) -> None:
        outbox = self.content.outbox
        submission = outbox.mark(self.number, ROOM)
        head = outbox.head(self.number)
        if submission is None or head is None:
            return
        assert outbox.mark(self.number, ROOM) == submission  # asked again, under the same name
        if self.applied is None:
            match self.chance.randrange(8):
                case 0:
                    outbox.requeue(head)
                    return
                case 1:
                    outbox.give_back(self.number, head, "rejected", written=0.0, code="no")
                    return
                case _:
                    answer = self.authority.submit(submission)
            if isinstance(answer, Conflicted):
                assert self.others, "a client that is alone never meets a conflict"
                outbox.give_back(self.number, head, "conflict", written=0.0, theirs=answer.clashes)
                return
            assert isinstance(answer, Accepted)
            self.applied = answer.version
            if self.chance.randrange(3) == 0:
                return  # the answer is late
        version, self.applied = self.applied, None
        outbox.accept(self.number, head, version)
        if self.held == version - 1 and self.chance.randrange(2):
            results = outbox.results(self.number, head, version)
            written = [entry for entry in results if entry is not None]
            emptied = {path for step in head.steps for path in paths_of(step.operation)}
            self.change(version, written, sorted(emptied - {entry.path for entry in written}))
        elif self.held is not None and version <= self.held:
            outbox.arrive(self.number, self.held)

    def refresh(self) -> None:
        assert self.held is not None
        if self.held < self.authority.version:
            until = self.chance.randint(self.held + 1, self.authority.version)
            self.change(until, *self.authority.since(self.held, until))

    def change(self, version: int, entries: list[Entry], removed: list[str]) -> None:
        assert self.held is not None
        before = {each.entry.path: each for each in self.content.seen(self.number)}
        landing = self.content.publish_change(
            self.number, since=self.held, version=version, entries=entries, removed=removed
        )
        assert landing is not None
        assert landing.paths is not None
        after = {each.entry.path: each for each in self.content.seen(self.number)}
        differ = {p for p in before.keys() | after.keys() if before.get(p) != after.get(p)}
        assert differ <= set(landing.paths)
        self.reached(version)

    def bootstrap(self) -> None:
        version = self.chance.randint(self.held or 0, self.authority.version)
        entries = self.authority.at(version).values()
        whole = page(ROOM, version, *entries)
        assert self.content.publish_whole(self.number, whole, "") is not None
        self.reached(version)

    def reached(self, version: int) -> None:
        self.held = version
        self.confirmed = self.authority.at(version)

    def see(self) -> None:
        edits = list(self.content.outbox.edits(self.number))
        seen = {each.entry.path: each for each in self.content.seen(self.number)}
        assert seen == overlaid(self.confirmed, edits)
        assert list(seen) == sorted(seen)
        # Beneath is what edits cover, and what collides with that.
        covering = {
            path for edit in edits for step in edit.steps for path in paths_of(step.operation)
        }
        beneath = set(self.content.overlay.covered(self.number))
        assert covering <= beneath
        assert {folded(path) for path in beneath} <= {folded(path) for path in covering}
        for path in PATHS:
            content = self.content.overlay.confirmed(self.number, path)
            there = self.confirmed.get(path)
            assert content[0] == (None if there is None else there.revision)
        same_words(self.database)

    def all_is_accounted_for(self) -> None:
        waiting = len(self.content.outbox.edits(self.number))
        drafts = len(self.content.outbox.drafts(self.number))
        accepted = sum(1 for _ in self.database.execute("SELECT 1 FROM accepted"))
        unarrived = sum(edit.state == "accepted" for edit in self.content.outbox.edits(self.number))
        assert self.made == waiting - unarrived + drafts + accepted

    def found(self) -> None:
        for each in self.content.seen(self.number):
            if isinstance(each.entry, Document):
                word = each.entry.text.split()[1]
                assert each.entry.path in {
                    found.path for found in self.content.search(word, (ROOM,), 100)
                }


@pytest.mark.parametrize("others", [False, True], ids=["alone", "with others"])
@pytest.mark.parametrize("batch", range(4))
def test_whatever_happens_the_edits_are_seen_in_order_over_what_is_confirmed(
    batch: int, others: bool
) -> None:
    for seed in range(batch * SEEDS // 4, (batch + 1) * SEEDS // 4):
        play = Play(seed, others=others)
        try:
            for _ in range(STEPS):
                play.step()
            play.found()
            play.all_is_accounted_for()
        except BaseException as failure:
            failure.add_note(f"seed {seed}, others {others}")
            raise


def test_an_edit_of_what_was_accepted_and_is_not_back_yet_is_based_on_that() -> None:
    _, content = memory()
    room = admitted(content)
    content.publish_whole(room, page(ROOM, 3, Document("a", 2, "one")), "")
    first = queue(content, room, Put("a", "two"))
    content.outbox.accept(room, first, 7)
    second = queue(content, room, Put("a", "three"))
    assert second.steps[0].operation == Put("a", "three", base=7)
    assert not second.steps[0].follows


def test_what_follows_a_move_that_is_not_back_yet_is_based_on_the_version_of_the_move() -> None:
    _, content = memory()
    room = admitted(content)
    content.publish_whole(room, page(ROOM, 1), "")
    made = queue(content, room, Put("a", "new"))
    moved = queue(content, room, Move("a", "b"))
    again = queue(content, room, Put("b", "newer"))
    content.outbox.accept(room, made, 5)
    content.outbox.accept(room, content.outbox.edits(room)[1], 6)
    assert moved.id == content.outbox.edits(room)[1].id
    head = content.outbox.head(room)
    assert head is not None
    assert head.id == again.id
    assert head.steps[0].operation == Put("b", "newer", base=6)


def test_somebody_elses_path_that_collides_with_an_edit_waits_beneath_it() -> None:
    database, content = memory()
    room = admitted(content)
    content.publish_whole(room, page(ROOM, 1), "")
    edit = queue(content, room, Put("Notes.md", "mine"))
    theirs = Document("notes.md", 2, "theirs")
    landing = content.publish_change(room, since=1, version=2, entries=(theirs,), removed=())
    assert landing is not None
    assert [each.entry.path for each in content.seen(room)] == ["Notes.md"]
    drafts, paths = content.outbox.give_back(room, edit, "conflict", written=1.0)
    assert len(drafts) == 1
    assert paths == {"Notes.md", "notes.md"}
    assert [each.entry for each in content.seen(room)] == [theirs]
    assert content.overlay.covered(room) == ()
    same_words(database)


def test_an_edit_that_took_the_place_of_a_deleted_path_goes_back_with_the_deletion() -> None:
    _, content = memory()
    room = admitted(content)
    content.publish_whole(room, page(ROOM, 1, Document("a.txt", 1, "old")), "")
    gone = queue(content, room, Delete("a.txt"))
    queue(content, room, Put("A.txt", "new"))
    drafts, _ = content.outbox.give_back(room, gone, "rejected", written=1.0)
    assert [draft.reason for draft in drafts] == ["rejected", "follows"]
    assert [each.entry.path for each in content.seen(room)] == ["a.txt"]


def test_edits_of_a_room_that_has_never_arrived_lie_over_it_once_it_does() -> None:
    _, content = memory()
    room = admitted(content)
    queue(content, room, Put("a", "mine"))
    content.publish_whole(room, page(ROOM, 4, Document("a", 2, "theirs")), "")
    assert [each.entry for each in content.seen(room)] == [Document("a", 2, "mine")]
    assert content.overlay.confirmed(room, "a") == (2, "theirs", None, None)


@pytest.mark.parametrize(
    ("operations", "code"),
    [
        ([Put("new", "1"), Put("NEW", "2")], "invalid"),
        ([Move("a.txt", "x"), Put("X", "1")], "invalid"),
        ([Put("A.TXT", "1")], "collision"),
        ([Move("a.txt", "a.txt")], "invalid"),
        ([Move("a.txt", "READ/only")], "read-only"),
        ([Put("Read", "1")], "read-only"),
        ([Delete("nothing")], "gone"),
        ([Move("a.txt", "b.txt")], "exists"),
        ([Put("x", "\ud800")], "invalid"),
        ([Put("con", "1")], "path"),
    ],
)
def test_an_edit_that_cannot_be_made_says_why(operations: list[Operation], code: str) -> None:
    _, content = memory()
    room = admitted(content)
    there = (Document("a.txt", 1, "a"), Document("b.txt", 1, "b"))
    content.publish_whole(room, page(ROOM, 1, *there), "")
    with pytest.raises(EditRefused) as refused:
        content.outbox.queue(
            room, ROOM, operations, seen={}, readonly=("read",), limits=Limits(), most=10
        )
    assert refused.value.code == code
    assert refused.value.room == ROOM


def test_a_path_may_be_spelled_in_another_case_by_moving_it() -> None:
    database, content = memory()
    room = admitted(content)
    content.publish_whole(room, page(ROOM, 1, Document("a.txt", 1, "a")), "")
    edit = queue(content, room, Move("a.txt", "A.txt"))
    assert [each.entry.path for each in content.seen(room)] == ["A.txt"]
    content.outbox.accept(room, edit, 2)
    content.publish_change(
        room, since=1, version=2, entries=(Document("A.txt", 2, "a"),), removed=("a.txt",)
    )
    assert [each.entry for each in content.seen(room)] == [Document("A.txt", 2, "a")]
    assert content.overlay.covered(room) == ()
    same_words(database)


def test_two_confirmed_paths_that_collide_are_the_authoritys_fault() -> None:
    _, content = memory()
    room = admitted(content)
    content.publish_whole(room, page(ROOM, 1, Document("a", 1, "a")), "")
    with pytest.raises(ProviderFault):
        content.publish_change(
            room, since=1, version=2, entries=(Document("A", 2, "b"),), removed=()
        )


def test_what_was_accepted_after_the_version_an_authority_went_back_to_is_offered_again() -> None:
    _, content = memory()
    room = admitted(content)
    content.publish_whole(room, page(ROOM, 1), "")
    for version, path in ((2, "a"), (3, "b"), (4, "c")):
        edit = queue(content, room, Put(path, path))
        content.outbox.accept(room, edit, version)
        entries = (Document(path, version, path),)
        content.publish_change(
            room, since=version - 1, version=version, entries=entries, removed=()
        )
    drafts = content.outbox.offer_again(room, 2, written=9.0)
    assert [draft.steps[0].operation.path for draft in drafts] == ["b", "c"]
    assert {draft.reason for draft in drafts} == {"restored"}
    assert content.outbox.offer_again(room, 2, written=9.0) == ()
