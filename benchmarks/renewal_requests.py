"""The account of the requests of one simulated session: each sent once, to where it belongs.

It hears the application, which submits and is told what came of it, and the provider, which is
sent requests and answers them.  What a submission or a sequence says of itself is compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from trio_reactor.errors import ReactorError
from trio_reactor.renewal import (
    Accepted,
    OwnerConflict,
    SequenceMember,
    Sequences,
    SequenceState,
    Submission,
)
from trio_reactor.renewal.engine.failure import Failure
from trio_reactor.renewal.engine.submission import Completed, Submitting
from trio_reactor.renewal.sequences.book import (
    MemberAccepted,
    MemberFate,
    MemberIndeterminate,
    MemberPending,
    MemberRejected,
    SequenceBook,
    _Sequence,
    is_over,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Asked", "Requests", "source_of"]


def source_of(clip: str) -> str:
    """The identity of the source that made a simulated clip."""
    return clip.partition("/")[0]


class Asked:
    """One request, and what was told of it.

    Args:
        number: Its number.
        submission: What was made of it.
        named: The clips that it names: their source has to take it.
        position: The place in the queue that it names.
        sequence: As what it belongs to a sequence.
    """

    def __init__(
        self,
        number: int,
        submission: Submission,
        named: tuple[str, ...],
        position: int | None,
        sequence: SequenceMember | None,
    ) -> None:
        self.number = number
        self.submission = submission
        self.named = named
        self.position = position
        self.sequence = sequence
        self.sent_to: str | None = None
        self.fate: MemberFate | None = None
        """What its sequence said, once it did."""
        self.outcome: Accepted | Failure | None = None
        """What was told first, of what was sent."""
        self.waiting = 0
        """Tasks that have submitted it and were told nothing yet."""
        self.rounds = 1
        """One more each time that somebody submits it after somebody has left."""
        self.has_left = False


class Requests:
    """The requests, by number; and the sequences."""

    def __init__(self) -> None:
        self._asked: dict[int, Asked] = {}
        self.accepted: dict[str, int] = {}
        """By clip, the number of the request that it was the answer to."""
        self._replies: dict[int, str | None] = {}
        """What the provider answered while the source was there: a clip, or `None` for no."""
        self._acknowledged: set[int] = set()
        """Requests whose unknown fate was acknowledged."""
        self._sequences: dict[str, _Sequence] = {}
        """Those that were in the book when it was last looked into."""

    # ------------------------------------------------------------------------ from the application

    def prepared(self, asked: Asked) -> None:
        """A request was prepared."""
        self._asked[asked.number] = asked

    def begin(self, asked: Asked) -> int:
        """A task submits it; returns the round that it takes part in."""
        if asked.has_left:
            asked.rounds, asked.has_left = asked.rounds + 1, False
        asked.waiting += 1
        return asked.rounds

    def end(self, asked: Asked) -> None:
        """A task has left, whatever it was told."""
        asked.waiting -= 1
        asked.has_left = True

    def answered(self, asked: Asked, accepted: Accepted) -> None:
        """The caller was told that a source took the clip."""
        number, clip = asked.number, accepted.clip
        assert asked.sent_to is not None, f"request {number} was answered and never sent"
        assert asked.sent_to == source_of(clip) == accepted.source.id, "another source answered"
        assert self.accepted.setdefault(clip, number) == number, f"{clip} answers two requests"
        self._told(asked, accepted)

    def refused(self, asked: Asked, round_: int, failure: ReactorError) -> None:
        """The caller was told that the request failed."""
        sent = asked.sent_to is not None
        match failure.outcome:
            case "not-submitted":
                # Told late, it was perhaps sent by somebody who asked after that.
                assert not sent or asked.rounds > round_, f"{asked.number} was sent: {failure!r}"
            case "replied" | "unknown":
                assert sent, f"request {asked.number} was not sent: {failure!r}"
                self._told(asked, Failure.of(failure))
            case _:
                assert_never(failure.outcome)
        if isinstance(failure, OwnerConflict):
            assert len(asked.named) + (asked.sequence is not None) > 1, "nothing conflicts"
            assert len({source_of(clip) for clip in asked.named}) > 1 or asked.sequence is not None

    def _told(self, asked: Asked, outcome: Accepted | Failure) -> None:
        if asked.outcome is None:
            asked.outcome = outcome
        assert asked.outcome == outcome, f"{asked.number}: {asked.outcome}, and later {outcome}"

    def acknowledged(self, sequence: SequenceState) -> None:
        """What is not known of a sequence was acknowledged."""
        self._acknowledged.update(map(_number, sequence.members))

    # --------------------------------------------------------------------------- from the provider

    def dispatch(self, number: int, source: str) -> None:
        """A request left for a source."""
        asked = self._asked[number]
        assert asked.sent_to is None, f"request {number} was sent twice"
        assert asked.waiting, f"request {number} was sent though nobody waits for it"
        assert all(source_of(clip) == source for clip in asked.named), f"{number} went astray"
        state = asked.submission.state
        assert isinstance(state, Submitting), state
        assert state.source.id == source, state
        asked.sent_to = source

    def placed(self, number: int, position: int | None, *, before: bool) -> None:
        """A source was asked to put it there."""
        if before:
            assert position is not None, f"{number}: it was to go before another"
        else:
            assert position == self._asked[number].position, f"{number}: {position}"

    def replied(self, number: int, clip: str | None) -> None:
        """The answer has come, while its source was there; `None` if it is no."""
        self._replies[number] = clip

    # ------------------------------------------------------------------------------- the sequences

    def look(self, book: SequenceBook) -> int:
        """Nothing that is over waits for anything, and nothing was forgotten that is not over.

        What a sequence was when it was forgotten it still is: nobody can reach it after that.

        Returns:
            How many were forgotten since the last look, but for those that were released.
        """
        forgotten = 0
        for name, before in self._sequences.items():
            if book._sequences.get(name) is not before:
                assert is_over(before.phase), f"{name} was forgotten: {before.phase}"
                forgotten += 1
        self._sequences = dict(book._sequences)
        for name, now in self._sequences.items():
            pending = sum(isinstance(each, MemberPending) for each in now.members.values())
            assert pending == now.pending, f"{name}: {now.pending} pending, and {pending} are"
            assert not (pending and is_over(now.phase)), f"{name} is {now.phase}: {now.members}"
        return forgotten

    def released(self, name: str) -> None:
        """The application has released a sequence."""
        self._sequences.pop(name, None)

    def compare(self, sequences: Sequences) -> None:
        """What the sequences say, and what was told of their members."""
        for state in sequences.snapshots():
            self._compare(state)

    def _compare(self, state: SequenceState) -> None:
        homes: set[str | None] = set()
        for name, said in state.members.items():
            asked = self._asked[_number(name)]
            assert asked.sequence is not None
            assert asked.sequence.sequence == state.name
            homes.add(asked.sent_to)
            if isinstance(said, MemberPending):
                assert asked.fate is None, f"{name} was settled and is pending"
                continue
            assert asked.fate in (None, said), f"{name}: {asked.fate}, and later {said}"
            asked.fate = said
            if asked.outcome is not None:
                assert _agrees(said, asked.outcome), f"{name}: {said}, and {asked.outcome}"
        assert len(homes) <= 1, f"{state.name} is at {homes}"

    # ---------------------------------------------------------------------------------- at the end

    def settle(self, handed_over: Iterable[str], sequences: Sequences | None) -> None:
        """Compare, when all is over."""
        known: set[int] = set()
        if sequences is not None:
            self.compare(sequences)
            for state in sequences.snapshots():
                known.update(map(_number, state.members))
                pending = [m for m in state.members.values() if isinstance(m, MemberPending)]
                assert not pending, f"{state} waits for what never comes"
        trusted = set(handed_over)
        for number, asked in self._asked.items():
            at = asked.submission.state
            if asked.sent_to is None:
                assert not isinstance(at, Completed), f"{number} has an outcome, unsent"
                continue
            assert isinstance(at, Completed), f"request {number} is {at} at the end"
            self._told(asked, at.outcome)
            self._judge(asked, at.outcome, trusted)
            if asked.sequence is None or _kind(at.outcome) != "unknown":
                continue
            assert number in known | self._acknowledged, f"the doubt of {number} is forgotten"

    def _judge(self, asked: Asked, outcome: Accepted | Failure, trusted: set[str]) -> None:
        if asked.number in self._replies:
            clip = self._replies[asked.number]
            if clip is None:
                assert _kind(outcome) == "replied", f"{asked.number} was refused: {outcome}"
            else:
                assert isinstance(outcome, Accepted), f"{asked.number} became {clip}: {outcome}"
                assert outcome.clip == clip
        if _kind(outcome) == "unknown":
            assert asked.sent_to not in trusted, f"{asked.sent_to} was trusted after {outcome}"


def _number(member: str) -> int:
    return int(member.partition("-")[2])


def _kind(outcome: Accepted | Failure) -> str | None:
    return "accepted" if isinstance(outcome, Accepted) else outcome.record.outcome


def _agrees(said: MemberFate, outcome: Accepted | Failure) -> bool:
    match said:
        case MemberAccepted(clip=clip):
            return isinstance(outcome, Accepted) and outcome.clip == clip
        case MemberRejected():
            return _kind(outcome) == "replied"
        case MemberIndeterminate():
            return _kind(outcome) == "unknown"
        case _:
            assert_never(said)
