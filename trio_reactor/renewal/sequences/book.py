"""Sequences: requests that belong together and must all be played by one source.

A sequence is bound to a source no later than its first request leaves, and never moves.  Each of
its members is settled once: accepted, rejected, or indeterminate where its fate is not known.  What
a sequence is:

`Open`
    It takes members, and its source hands nothing over.
`Sealing`
    It takes no more, and is sealed once the last pending member is settled.
`Sealed`
    It is over in order: nothing of it is unresolved.
`Ended`
    Its source is gone.  It was not sealed, but every member was settled before.
`Indeterminate`
    The fate of a member is not known.  Somebody has to look at it and acknowledge that.
`Acknowledged`
    Somebody has.

`advance` is the life of one as a table of what can happen to it, and `SequenceBook` keeps the
sequences of one renewal within a bound.  What is unresolved (open, sealing or indeterminate) is
never forgotten to make room: a new sequence is refused instead.  What is over is forgotten when it
is released, or oldest first when room is needed; its name is free from then on.

Pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias, assert_never, final, get_args

import msgspec

from trio_reactor.renewal.errors import (
    MemberKnown,
    OwnerConflict,
    QueueFull,
    SequenceOver,
    SequenceUnknown,
    SequenceUnresolved,
)

__all__ = [
    "MAX_MEMBERS",
    "MAX_SEQUENCES",
    "OCCURRENCES",
    "PHASES",
    "Acknowledged",
    "Ended",
    "Indeterminate",
    "MemberAccepted",
    "MemberFate",
    "MemberIndeterminate",
    "MemberPending",
    "MemberRejected",
    "MemberState",
    "Occurrence",
    "Open",
    "Sealed",
    "Sealing",
    "SequenceBook",
    "SequencePhase",
    "SequenceState",
    "advance",
    "is_over",
]

MAX_SEQUENCES: Final = 256
"""How many sequences are known at a time, unless told otherwise."""

MAX_MEMBERS: Final = 256
"""How many members one sequence may have, unless told otherwise."""


# ---------------------------------------------------------------------------------------- members


class MemberPending(msgspec.Struct, frozen=True, tag=True):
    """It was sent, and is not answered yet."""


class MemberAccepted(msgspec.Struct, frozen=True, tag=True):
    """The source took it."""

    clip: str


class MemberRejected(msgspec.Struct, frozen=True, tag=True):
    """The source said no; nothing came of it."""

    reason: str
    """The library's words."""


class MemberIndeterminate(msgspec.Struct, frozen=True, tag=True):
    """It was sent, and it is not known what became of it."""

    reason: str
    """The library's words."""


MemberFate: TypeAlias = MemberAccepted | MemberRejected | MemberIndeterminate
MemberState: TypeAlias = MemberPending | MemberFate


# -------------------------------------------------------------------------------- the life of one


class Open(msgspec.Struct, frozen=True, tag=True):
    """It takes members."""


class Sealing(msgspec.Struct, frozen=True, tag=True):
    """It takes no more members, and some are pending."""


class Sealed(msgspec.Struct, frozen=True, tag=True):
    """It is over, and every member was accepted or rejected."""


class Ended(msgspec.Struct, frozen=True, tag=True):
    """Its source is gone; every member was accepted or rejected before."""


class Indeterminate(msgspec.Struct, frozen=True, tag=True):
    """The fate of a member is not known, and nobody has acknowledged that."""


class Acknowledged(msgspec.Struct, frozen=True, tag=True):
    """The fate of a member is not known, and somebody has acknowledged that."""


SequencePhase: TypeAlias = Open | Sealing | Sealed | Ended | Indeterminate | Acknowledged

PHASES: Final[tuple[SequencePhase, ...]] = (
    Open(),
    Sealing(),
    Sealed(),
    Ended(),
    Indeterminate(),
    Acknowledged(),
)
"""Every phase there is."""

Occurrence = Literal["seal", "settled", "doubted", "retired", "acknowledged"]
"""What can happen to a sequence.

`seal`: it is to take no more members.  `settled`: a member was accepted or rejected.  `doubted`: a
member's fate is not known.  `retired`: its source is gone, and what was pending is doubted.
`acknowledged`: somebody has looked at what is not known.
"""

OCCURRENCES: Final[tuple[Occurrence, ...]] = get_args(Occurrence)


def advance(phase: SequencePhase, occurrence: Occurrence, *, pending: int) -> SequencePhase:
    """The phase after an occurrence; the same object if it changes nothing there.

    Args:
        phase: The one before.
        occurrence: What happened.
        pending: How many members are pending after a `settled`, and at a `retired` before it.
    """
    match phase:
        case Open() | Sealing():
            match occurrence:
                case "seal":
                    return Sealing() if pending else Sealed()
                case "settled":
                    return Sealed() if isinstance(phase, Sealing) and not pending else phase
                case "doubted":
                    return Indeterminate()
                case "retired":
                    return Indeterminate() if pending else Ended()
                case "acknowledged":
                    return phase
                case _:
                    assert_never(occurrence)
        case Indeterminate():
            done = occurrence == "acknowledged" and not pending
            return Acknowledged() if done else phase
        case Sealed() | Ended() | Acknowledged():
            return phase
        case _:
            assert_never(phase)


def is_over(phase: SequencePhase) -> bool:
    """Whether nothing of it is unresolved: it can be released."""
    match phase:
        case Sealed() | Ended() | Acknowledged():
            return True
        case Open() | Sealing() | Indeterminate():
            return False
        case _:
            assert_never(phase)


class SequenceState(msgspec.Struct, frozen=True):
    """A sequence as it stands."""

    name: str
    owner: int
    """The number of its source in the chain."""
    phase: SequencePhase
    members: dict[str, MemberState]
    """Its members in the order in which they were sent, by their names."""

    @property
    def pending(self) -> int:
        """How many members are not settled yet."""
        return self.count(MemberPending)

    @property
    def over(self) -> bool:
        """Whether nothing of it is unresolved."""
        return is_over(self.phase)

    def count(self, kind: type[MemberState]) -> int:
        """How many members are of this kind."""
        return sum(isinstance(member, kind) for member in self.members.values())


# --------------------------------------------------------------------------------------- the book


@final
class _Sequence:
    """What is kept of one."""

    __slots__ = ("members", "owner", "pending", "phase")

    def __init__(self, owner: int) -> None:
        self.owner = owner
        self.phase: SequencePhase = Open()
        self.members: dict[str, MemberState] = {}
        self.pending = 0


@final
class SequenceBook:
    """The sequences of one renewal, by their names.

    Args:
        max_sequences: How many are known at a time.
        max_members: How many members one may have.
    """

    def __init__(
        self, *, max_sequences: int = MAX_SEQUENCES, max_members: int = MAX_MEMBERS
    ) -> None:
        self._max_sequences = max_sequences
        self._max_members = max_members
        self._sequences: dict[str, _Sequence] = {}
        self._over: dict[str, None] = {}
        """Those that are over, in the order in which they came to that."""
        self._held: Counter[int] = Counter()
        """How many are open or sealing, by their owner."""

    def __len__(self) -> int:
        return len(self._sequences)

    def __contains__(self, name: object) -> bool:
        return name in self._sequences

    def __iter__(self) -> Iterator[str]:
        """Their names, in the order in which they were bound."""
        return iter(tuple(self._sequences))

    def owner(self, name: str) -> int | None:
        """To which source a sequence is bound; `None` if there is none of this name."""
        known = self._sequences.get(name)
        return None if known is None else known.owner

    def phase(self, name: str) -> SequencePhase | None:
        """How far a sequence is; `None` if there is none of this name."""
        known = self._sequences.get(name)
        return None if known is None else known.phase

    def get(self, name: str) -> SequenceState | None:
        """A sequence as it stands; `None` if there is none of this name."""
        known = self._sequences.get(name)
        if known is None:
            return None
        return SequenceState(name, known.owner, known.phase, dict(known.members))

    def holds(self, owner: int) -> bool:
        """Whether a sequence is open or sealing on this source."""
        return owner in self._held

    def check(self, name: str, member: str, owner: int) -> None:
        """Raise unless this member can begin on this source now.

        Raises:
            OwnerConflict: The sequence is bound to another.
            SequenceOver: It takes no more members.
            MemberKnown: It has one of this name.
            QueueFull: It has as many as it may, or there is no room for another sequence.
        """
        known = self._sequences.get(name)
        if known is None:
            if len(self._sequences) >= self._max_sequences and not self._over:
                raise QueueFull(f"{self._max_sequences} sequences are unresolved", retryable=True)
            return
        if known.owner != owner:
            raise OwnerConflict("the sequence is bound to another source")
        if not isinstance(known.phase, Open):
            raise SequenceOver("the sequence takes no more members")
        if member in known.members:
            raise MemberKnown("the sequence has a member of this name")
        if len(known.members) >= self._max_members:
            raise QueueFull(f"the sequence has {self._max_members} members")

    def begin(self, name: str, member: str, owner: int) -> None:
        """A member is sent: bind its sequence, if it is the first, and have the member pending.

        Raises:
            ReactorError: It cannot begin; see `check`.  Nothing was changed.
        """
        self.check(name, member, owner)
        known = self._sequences.get(name)
        if known is None:
            if len(self._sequences) >= self._max_sequences:
                self._forget(next(iter(self._over)))
            known = self._sequences[name] = _Sequence(owner)
            self._held[owner] += 1
        known.members[member] = MemberPending()
        known.pending += 1

    def settle(self, name: str, member: str, fate: MemberFate, *, final: bool = False) -> bool:
        """What became of a member; returns whether that changes anything.

        A member is settled once: what comes later, or of one that is not known any more, changes
        nothing.

        Args:
            name: The sequence's name.
            member: The member's.
            fate: What became of it.
            final: Whether the sequence takes no more members after this one, also if it was
                rejected.
        """
        known = self._sequences.get(name)
        if known is None or not isinstance(known.members.get(member), MemberPending):
            return False
        known.members[member] = fate
        known.pending -= 1
        if isinstance(fate, MemberIndeterminate):
            self._advance(name, known, "doubted")
        else:
            self._advance(name, known, "seal" if final else "settled")
        return True

    def seal(self, name: str) -> SequencePhase:
        """Take no more members; returns how far it is then.

        Raises:
            SequenceUnknown: There is none of this name.
        """
        known = self._known(name)
        self._advance(name, known, "seal")
        return known.phase

    def retire(self, owner: int, reason: str) -> tuple[str, ...]:
        """A source is gone: end its sequences; returns those that were not over before.

        Args:
            owner: The source.
            reason: Why the fate of what is pending is not known, in the library's words.
        """
        ended: list[str] = []
        for name, known in self._sequences.items():
            if known.owner != owner:
                continue
            if not is_over(known.phase):
                ended.append(name)
            doubted = known.pending
            if doubted:
                unknown = MemberIndeterminate(reason)
                for member, state in known.members.items():
                    if isinstance(state, MemberPending):
                        known.members[member] = unknown
                known.pending = 0
            self._advance(name, known, "retired", pending=doubted)
        return tuple(ended)

    def acknowledge(self, name: str) -> None:
        """Somebody has looked at what is not known.  Does nothing where it was done before.

        Raises:
            SequenceUnknown: There is none of this name.
            SequenceUnresolved: Nothing of it is indeterminate, or a member is still pending.
        """
        known = self._known(name)
        if isinstance(known.phase, Acknowledged):
            return
        if not self._advance(name, known, "acknowledged"):
            raise SequenceUnresolved(
                "a member of the sequence is pending"
                if known.pending
                else "nothing of the sequence is indeterminate"
            )

    def release(self, name: str) -> None:
        """Forget a sequence that is over; its name is free from then on.

        Raises:
            SequenceUnknown: There is none of this name.
            SequenceUnresolved: It is not over, or what is not known of it was not acknowledged.
        """
        known = self._known(name)
        if not is_over(known.phase):
            raise SequenceUnresolved(
                "the sequence was not acknowledged"
                if isinstance(known.phase, Indeterminate)
                else "the sequence is not over"
            )
        self._forget(name)

    def _known(self, name: str) -> _Sequence:
        known = self._sequences.get(name)
        if known is None:
            raise SequenceUnknown("there is no such sequence", detail=name)
        return known

    def _forget(self, name: str) -> None:
        del self._sequences[name]
        del self._over[name]

    def _advance(
        self, name: str, known: _Sequence, occurrence: Occurrence, *, pending: int | None = None
    ) -> bool:
        before = known.phase
        count = known.pending if pending is None else pending
        known.phase = advance(before, occurrence, pending=count)
        if known.phase is before or known.phase == before:
            return False
        if isinstance(before, Open | Sealing) and not isinstance(known.phase, Open | Sealing):
            self._held[known.owner] -= 1
            if not self._held[known.owner]:
                del self._held[known.owner]
        if is_over(known.phase):
            self._over[name] = None
        return True
