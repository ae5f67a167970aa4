"""The register of sequences: what the engine and the chain tell it, and who waits for an end."""

from __future__ import annotations

from typing import Protocol, final

import trio

from trio_reactor.renewal.options import RenewalOptions

from .book import (
    MemberFate,
    Open,
    Sealed,
    Sealing,
    SequenceBook,
    SequencePhase,
    SequenceState,
)

__all__ = ["SequenceHost", "SequenceRegister"]


class SequenceHost(Protocol):
    """Who hears of sequences.  Everything is synchronous."""

    def sequence_sealed(self, sequence: SequenceState) -> None:
        """A sequence was sealed."""
        ...

    def changed(self) -> None:
        """Something that decides has changed."""
        ...


@final
class _Waiting:
    """Who waits for one sequence, and what they are given."""

    def __init__(self) -> None:
        self.over = trio.Event()
        self.state: SequenceState | None = None


@final
class SequenceRegister:
    """The sequences of a renewal.

    All of it can be asked for and done after the renewal was closed, too.

    Args:
        host: Hears of them.
        options: Their bounds.
    """

    def __init__(self, host: SequenceHost, options: RenewalOptions) -> None:
        self._host = host
        self._book = SequenceBook(
            max_sequences=options.max_sequences, max_members=options.max_members
        )
        self._waiting: dict[str, _Waiting] = {}
        """By sequence, for those who wait for it to be sealed or to end."""

    def get(self, name: str) -> SequenceState | None:
        """The sequence of this name as it stands; `None` if there is none."""
        return self._book.get(name)

    def snapshots(self) -> tuple[SequenceState, ...]:
        """All of them as they stand, in the order in which they were bound."""
        return tuple(map(self._state, self._book))

    async def seal(self, name: str) -> SequenceState:
        """Have a sequence take no more members, and wait until none of it is pending.

        It takes no more from the call on.  Cancelling only leaves.  Always a checkpoint.

        Returns:
            The sequence: `Sealed`, or as its source's end left it.

        Raises:
            SequenceUnknown: There is none of this name.
        """
        before = self._book.phase(name)
        after = self._book.seal(name)
        self._told(name, before, after)
        if not isinstance(after, Sealing):
            state = self._state(name)
            await trio.lowlevel.checkpoint()
            return state
        waiting = self._waiting.setdefault(name, _Waiting())
        await waiting.over.wait()
        assert waiting.state is not None  # noqa: S101 - set in the step before
        return waiting.state

    def acknowledge(self, name: str) -> None:
        """Say that somebody has looked at what is not known of a sequence; it can be released then.

        Raises:
            SequenceUnknown: There is none of this name.
            SequenceUnresolved: Nothing of it is indeterminate, or a member is still pending.
        """
        self._book.acknowledge(name)

    def release(self, name: str) -> None:
        """Forget a sequence that is over; its name is free from then on.

        Raises:
            SequenceUnknown: There is none of this name.
            SequenceUnresolved: It is not over, or what is not known of it was not acknowledged.
        """
        self._book.release(name)

    # ------------------------------------------------------------- what its members come to

    def owner(self, name: str) -> int | None:
        """The source that a sequence is bound to, by its number; `None` if it is bound to none."""
        return self._book.owner(name)

    def holds(self, owner: int) -> bool:
        """Whether a sequence that is not over keeps a source from handing over."""
        return self._book.holds(owner)

    def check(self, name: str, member: str, owner: int) -> None:
        """Raise unless this can become a member now; see `SequenceBook.check`."""
        self._book.check(name, member, owner)

    def begin(self, name: str, member: str, owner: int) -> None:
        """Make it a member, which is pending; see `SequenceBook.begin`."""
        self._book.begin(name, member, owner)

    def settle(self, name: str, member: str, fate: MemberFate, *, owner: int, final: bool) -> None:
        """Take what became of a member, once."""
        if self._book.owner(name) != owner:
            return  # what it belonged to has been released, and the name was given anew
        before = self._book.phase(name)
        if self._book.settle(name, member, fate, final=final):
            self._told(name, before, self._book.phase(name))

    def retire(self, owner: int, reason: str) -> tuple[SequenceState, ...]:
        """End the sequences of a source that is gone; returns those that were not over before."""
        ended = self._book.retire(owner, reason)
        for name in ended:
            self._wake(name)
        return tuple(map(self._state, ended))

    def _told(self, name: str, before: SequencePhase | None, after: SequencePhase | None) -> None:
        if before == after:
            return
        if isinstance(after, Sealed):
            self._host.sequence_sealed(self._state(name))
        if not isinstance(after, Open | Sealing):
            self._wake(name)
        self._host.changed()

    def _state(self, name: str) -> SequenceState:
        state = self._book.get(name)
        assert state is not None  # noqa: S101 - the caller has seen it in this step
        return state

    def _wake(self, name: str) -> None:
        waiting = self._waiting.pop(name, None)
        if waiting is not None:
            # As it was then: it may be released before who waits runs.
            waiting.state = self._state(name)
            waiting.over.set()
