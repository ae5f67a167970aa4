"""Sequences by themselves: what can happen to one, and what a book of them keeps."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from trio_reactor.errors import ReactorError
from trio_reactor.renewal import (
    MemberKnown,
    OwnerConflict,
    QueueFull,
    SequenceOver,
    SequenceUnknown,
    SequenceUnresolved,
)
from trio_reactor.renewal.sequences.book import (
    OCCURRENCES,
    PHASES,
    Acknowledged,
    Ended,
    Indeterminate,
    MemberAccepted,
    MemberFate,
    MemberIndeterminate,
    MemberPending,
    MemberRejected,
    Open,
    Sealed,
    Sealing,
    SequenceBook,
    SequencePhase,
    advance,
    is_over,
)

TAKEN, REFUSED = MemberAccepted("clip"), MemberRejected("no")
UNKNOWN = MemberIndeterminate("nobody knows")


# ------------------------------------------------------------------------------ the life of one

TABLE: dict[tuple[type[SequencePhase], str, bool], type[SequencePhase]] = {
    (Open, "seal", True): Sealing,
    (Open, "seal", False): Sealed,
    (Open, "doubted", True): Indeterminate,
    (Open, "doubted", False): Indeterminate,
    (Open, "retired", True): Indeterminate,
    (Open, "retired", False): Ended,
    (Sealing, "seal", False): Sealed,
    (Sealing, "settled", False): Sealed,
    (Sealing, "doubted", True): Indeterminate,
    (Sealing, "doubted", False): Indeterminate,
    (Sealing, "retired", True): Indeterminate,
    (Sealing, "retired", False): Ended,
    (Indeterminate, "acknowledged", False): Acknowledged,
}


@pytest.mark.parametrize("pending", [False, True])
@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: type(phase).__name__)
def test_what_can_happen_to_a_sequence_is_this_table_and_nothing_else(
    phase: SequencePhase, pending: bool
) -> None:
    for occurrence in OCCURRENCES:
        after = advance(phase, occurrence, pending=int(pending))
        assert type(after) is TABLE.get((type(phase), occurrence, pending), type(phase))


def test_what_is_over_stays_so_and_never_changes_its_kind() -> None:
    over = [phase for phase in PHASES if is_over(phase)]
    assert [type(phase) for phase in over] == [Sealed, Ended, Acknowledged]
    for phase, occurrence, pending in itertools.product(over, OCCURRENCES, (0, 1)):
        assert advance(phase, occurrence, pending=pending) is phase


def test_every_trace_that_ends_a_doubted_sequence_passes_an_acknowledgement() -> None:
    for trace in itertools.product(itertools.product(OCCURRENCES, (0, 1)), repeat=4):
        phase: SequencePhase = Open()
        doubted = acknowledged = False
        for occurrence, pending in trace:
            before, phase = phase, advance(phase, occurrence, pending=pending)
            doubted = doubted or isinstance(phase, Indeterminate)
            acknowledged = acknowledged or (
                occurrence == "acknowledged" and isinstance(before, Indeterminate)
            )
        assert not (doubted and is_over(phase) and not acknowledged)


# ------------------------------------------------------------------------------------- the book


def test_a_sequence_is_bound_with_its_first_member_and_never_moves() -> None:
    book = SequenceBook()
    assert book.owner("titles") is None
    book.begin("titles", "a", 1)
    assert book.owner("titles") == 1
    assert book.holds(1)
    with pytest.raises(OwnerConflict):
        book.begin("titles", "b", 2)
    state = book.get("titles")
    assert state is not None
    assert (state.owner, state.members) == (1, {"a": MemberPending()})


@pytest.mark.parametrize("fate", [TAKEN, REFUSED, UNKNOWN])
@pytest.mark.parametrize("later", [TAKEN, REFUSED, UNKNOWN])
def test_a_member_is_settled_once(fate: MemberFate, later: MemberFate) -> None:
    book = SequenceBook()
    book.begin("titles", "a", 1)
    assert book.settle("titles", "a", fate)
    assert not book.settle("titles", "a", later, final=True)
    state = book.get("titles")
    assert state is not None
    assert state.members == {"a": fate}
    assert isinstance(state.phase, Indeterminate if fate is UNKNOWN else Open)


def test_sealing_waits_for_what_is_pending_and_takes_no_more() -> None:
    book = SequenceBook()
    book.begin("titles", "a", 1)
    book.begin("titles", "b", 1)
    assert book.seal("titles") == Sealing()
    with pytest.raises(SequenceOver):
        book.begin("titles", "c", 1)
    book.settle("titles", "b", TAKEN)
    assert book.phase("titles") == Sealing()
    assert book.holds(1)
    book.settle("titles", "a", REFUSED)
    assert book.phase("titles") == Sealed()
    assert not book.holds(1)


@pytest.mark.parametrize("fate", [TAKEN, REFUSED])
@pytest.mark.parametrize("others", [0, 1])
def test_a_final_member_seals_also_when_it_was_rejected(fate: MemberFate, others: int) -> None:
    book = SequenceBook()
    for number in range(others):
        book.begin("titles", f"other {number}", 1)
    book.begin("titles", "last", 1)
    book.settle("titles", "last", fate, final=True)
    assert book.phase("titles") == (Sealing() if others else Sealed())


def test_a_final_member_of_which_nothing_is_known_leaves_it_indeterminate() -> None:
    book = SequenceBook()
    book.begin("titles", "last", 1)
    book.settle("titles", "last", UNKNOWN, final=True)
    assert book.phase("titles") == Indeterminate()


def test_the_end_of_its_source_makes_what_is_pending_indeterminate() -> None:
    book = SequenceBook()
    book.begin("half", "a", 1)
    book.settle("half", "a", TAKEN)
    book.begin("half", "b", 1)
    book.begin("answered", "a", 1)
    book.settle("answered", "a", TAKEN)
    book.begin("sealed", "a", 1)
    book.settle("sealed", "a", TAKEN, final=True)
    book.begin("another's", "a", 2)
    assert book.retire(1, "it ended") == ("half", "answered")
    assert book.retire(1, "it ended") == ("half",)  # nobody has acknowledged it
    half = book.get("half")
    assert half is not None
    assert half.members == {"a": TAKEN, "b": MemberIndeterminate("it ended")}
    assert [book.phase(name) for name in book] == [Indeterminate(), Ended(), Sealed(), Open()]
    assert not book.holds(1)
    assert book.holds(2)
    assert not book.settle("half", "b", TAKEN)


def test_what_is_indeterminate_is_acknowledged_before_it_is_released() -> None:
    book = SequenceBook()
    book.begin("titles", "a", 1)
    book.begin("titles", "b", 1)
    with pytest.raises(SequenceUnresolved, match="pending"):
        book.acknowledge("titles")
    book.settle("titles", "a", UNKNOWN)
    with pytest.raises(SequenceUnresolved, match="pending"):
        book.acknowledge("titles")
    with pytest.raises(SequenceUnresolved, match="not acknowledged"):
        book.release("titles")
    book.retire(1, "it ended")
    book.acknowledge("titles")
    book.acknowledge("titles")
    book.release("titles")
    assert book.get("titles") is None
    for command in (book.release, book.acknowledge, book.seal):
        with pytest.raises(SequenceUnknown) as caught:
            command("titles")
        assert caught.value.detail == "titles"


def test_an_open_sequence_is_not_released() -> None:
    book = SequenceBook()
    book.begin("titles", "a", 1)
    book.settle("titles", "a", TAKEN)
    with pytest.raises(SequenceUnresolved, match="not over"):
        book.release("titles")
    with pytest.raises(SequenceUnresolved, match="nothing"):
        book.acknowledge("titles")


def test_a_member_is_there_once_and_members_have_a_bound() -> None:
    book = SequenceBook(max_members=2)
    book.begin("titles", "a", 1)
    with pytest.raises(MemberKnown):
        book.begin("titles", "a", 1)
    book.begin("titles", "b", 1)
    with pytest.raises(QueueFull):
        book.begin("titles", "c", 1)


def test_unresolved_sequences_are_never_evicted_and_the_oldest_that_is_over_is() -> None:
    book = SequenceBook(max_sequences=3)
    book.begin("open", "a", 1)
    book.begin("doubted", "a", 1)
    book.settle("doubted", "a", UNKNOWN)
    book.begin("sealed", "a", 1)
    with pytest.raises(QueueFull):
        book.begin("one more", "a", 1)
    book.settle("sealed", "a", TAKEN, final=True)
    book.begin("one more", "a", 1)
    assert tuple(book) == ("open", "doubted", "one more")
    with pytest.raises(QueueFull):
        book.check("yet another", "a", 1)


def test_all_that_is_over_is_evicted_in_the_order_in_which_it_came_to_that() -> None:
    book = SequenceBook(max_sequences=2)
    book.begin("first", "a", 1)
    book.begin("second", "a", 1)
    book.settle("second", "a", TAKEN, final=True)
    book.settle("first", "a", TAKEN, final=True)
    book.begin("third", "a", 2)
    assert tuple(book) == ("first", "third")


# ------------------------------------------------------------------------- against another model

NAMES = st.sampled_from(["s", "t", "u", "v"])
MEMBERS = st.sampled_from(["a", "b", "c", "d"])
OWNERS = st.integers(1, 3)
FATES = st.sampled_from([TAKEN, REFUSED, UNKNOWN])
ROOM, MOST = 3, 3


class _Told:
    """What was done to one sequence, from which everything else is concluded."""

    def __init__(self, owner: int) -> None:
        self.owner = owner
        self.members: dict[str, str] = {}
        self.seal = self.gone = self.acknowledged = False

    @property
    def said(self) -> list[str]:
        return list(self.members.values())

    @property
    def phase(self) -> str:
        if "unknown" in self.said:
            return "Acknowledged" if self.acknowledged else "Indeterminate"
        if self.seal and "pending" not in self.said:
            return "Sealed"
        if self.gone:
            return "Ended"
        return "Sealing" if self.seal else "Open"


class Books(RuleBasedStateMachine):
    """A book and a model that concludes everything anew from what was done."""

    def __init__(self) -> None:
        super().__init__()
        self.book = SequenceBook(max_sequences=ROOM, max_members=MOST)
        self.told: dict[str, _Told] = {}
        self.over: list[str] = []

    def _note(self) -> None:
        for name, told in self.told.items():
            if told.phase in ("Sealed", "Ended", "Acknowledged") and name not in self.over:
                self.over.append(name)

    @rule(name=NAMES, member=MEMBERS, owner=OWNERS)
    def begin(self, name: str, member: str, owner: int) -> None:
        told = self.told.get(name)
        expected: type[ReactorError] | None = None
        if told is None:
            if len(self.told) >= ROOM and not self.over:
                expected = QueueFull
        elif told.owner != owner:
            expected = OwnerConflict
        elif told.phase != "Open":
            expected = SequenceOver
        elif member in told.members:
            expected = MemberKnown
        elif len(told.members) == MOST:
            expected = QueueFull
        if expected is not None:
            with pytest.raises(expected):
                self.book.begin(name, member, owner)
            return
        self.book.begin(name, member, owner)
        if told is None:
            if len(self.told) >= ROOM:
                del self.told[self.over.pop(0)]
            told = self.told[name] = _Told(owner)
        told.members[member] = "pending"

    @rule(name=NAMES, member=MEMBERS, fate=FATES, final=st.booleans())
    def settle(self, name: str, member: str, fate: MemberFate, final: bool) -> None:
        told = self.told.get(name)
        pending = told is not None and told.members.get(member) == "pending"
        assert self.book.settle(name, member, fate, final=final) == pending
        if told is not None and pending:
            told.members[member] = "unknown" if fate is UNKNOWN else type(fate).__name__
            told.seal = told.seal or final
        self._note()

    @precondition(lambda self: self.told)
    @rule(data=st.data())
    def seal(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.told)))
        told = self.told[name]
        if told.phase in ("Open", "Sealing"):
            told.seal = True
        assert type(self.book.seal(name)).__name__ == told.phase
        self._note()

    @rule(owner=OWNERS)
    def retire(self, owner: int) -> None:
        ended = []
        for name, told in self.told.items():
            if told.owner != owner:
                continue
            if told.phase in ("Open", "Sealing", "Indeterminate"):
                ended.append(name)
            for member, said in told.members.items():
                if said == "pending":
                    told.members[member] = "unknown"
            told.gone = True
        assert self.book.retire(owner, "gone") == tuple(ended)
        self._note()

    @rule(name=NAMES)
    def acknowledge(self, name: str) -> None:
        told = self.told.get(name)
        if told is None:
            with pytest.raises(SequenceUnknown):
                self.book.acknowledge(name)
        elif "pending" in told.said or told.phase not in ("Indeterminate", "Acknowledged"):
            with pytest.raises(SequenceUnresolved):
                self.book.acknowledge(name)
        else:
            self.book.acknowledge(name)
            told.acknowledged = True
        self._note()

    @rule(name=NAMES)
    def release(self, name: str) -> None:
        told = self.told.get(name)
        if told is None:
            with pytest.raises(SequenceUnknown):
                self.book.release(name)
        elif name not in self.over:
            with pytest.raises(SequenceUnresolved):
                self.book.release(name)
        else:
            self.book.release(name)
            del self.told[name]
            self.over.remove(name)

    @invariant()
    def they_agree(self) -> None:
        assert tuple(self.book) == tuple(self.told)
        assert len(self.book) <= ROOM
        for name, told in self.told.items():
            state = self.book.get(name)
            assert state is not None
            assert state.owner == told.owner
            assert type(state.phase).__name__ == told.phase
            assert state.over == (name in self.over)
            assert state.pending == told.said.count("pending")
            assert [*state.members] == [*told.members]
        for owner in range(1, 4):
            held = any(
                told.owner == owner and told.phase in ("Open", "Sealing")
                for told in self.told.values()
            )
            assert self.book.holds(owner) == held


Books.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestBooks = Books.TestCase
