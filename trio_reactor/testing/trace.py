"""What happened in a run, in order, as far back as a bound allows.

A trace is made of `Fact`s, which hold plain data only: whatever is recorded is turned into text,
numbers, lists and dictionaries at once, so that a fact cannot change later, keeps nothing alive and
reads the same in every process.
"""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Iterator
from typing import Final, TypeAlias, cast, final

import msgspec
import trio

from trio_reactor.errors import ReactorError, leaves
from trio_reactor.wording import a_kind

__all__ = ["Fact", "Plain", "Trace", "describe", "plain"]

Plain: TypeAlias = "str | int | float | bool | list[Plain] | dict[str, Plain] | None"
"""What a fact may hold."""

_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_LONGEST: Final = 200
_encoder: Final = msgspec.json.Encoder(order="deterministic")


class Fact(msgspec.Struct, frozen=True):
    """One thing that happened."""

    number: int
    """Its place in the run, from 1."""
    clock: float
    """Virtual seconds since the run began."""
    task: str
    """The task that recorded it; empty for what happened between the steps of tasks."""
    what: str
    """What happened, as a short name."""
    about: dict[str, Plain]
    """The particulars."""

    def __str__(self) -> str:
        particulars = "  ".join(f"{name}={value}" for name, value in self.about.items())
        line = f"{self.number:>6}  {self.clock:>10.3f}  {self.task:<16}  {self.what}"
        return f"{line}  {particulars}" if particulars else line


@final
class Trace:
    """The facts of a run in the order in which they happened.

    Args:
        max_facts: How many are kept, at least 1; older ones are dropped, though they still count
            and still are part of the `fingerprint`.
    """

    def __init__(self, *, max_facts: int = 10_000) -> None:
        if max_facts < 1:
            raise ValueError(f"a trace keeps at least 1 fact, not {max_facts}")
        self.counts: Counter[str] = Counter()
        """How often each thing happened."""
        self._facts: deque[Fact] = deque()
        self._max_facts = max_facts
        self._total = 0
        self._dropped = hashlib.blake2b(digest_size=16)

    def __len__(self) -> int:
        """How many facts are kept."""
        return len(self._facts)

    def __iter__(self) -> Iterator[Fact]:
        """The facts that are kept, oldest first."""
        return iter(tuple(self._facts))

    @property
    def total(self) -> int:
        """How many facts there were."""
        return self._total

    def add(self, clock: float, task: str, what: str, about: dict[str, Plain]) -> Fact:
        """Add a fact; `Simulation.record` does, with the time, the task and plain particulars."""
        self._total += 1
        self.counts[what] += 1
        fact = Fact(self._total, clock, task, what, about)
        if len(self._facts) == self._max_facts:
            self._dropped.update(_line(self._facts.popleft()))
        self._facts.append(fact)
        return fact

    def of(self, *what: str) -> list[Fact]:
        """The facts of these kinds that are kept, oldest first."""
        return [fact for fact in self._facts if fact.what in what]

    def tail(self, length: int) -> tuple[Fact, ...]:
        """The newest facts, oldest first."""
        kept = len(self._facts)
        return tuple(self._facts)[max(0, kept - length) :]

    def encode(self) -> bytes:
        """The facts that are kept as lines of JSON; equal for equal runs, to the byte."""
        return b"".join(_line(fact) for fact in self._facts)

    def fingerprint(self) -> str:
        """A digest of every fact there was, also of those no longer kept."""
        digest = self._dropped.copy()
        for fact in self._facts:
            digest.update(_line(fact))
        return digest.hexdigest()


def _line(fact: Fact) -> bytes:
    return _encoder.encode(fact) + b"\n"


def plain(value: object) -> Plain:
    """Plain data that says the same.

    Structs, enums, dates and the like become what they are in JSON, sets are sorted, an exception
    becomes `describe` of it.

    Raises:
        TypeError: If there is nothing to say but an address.
    """
    if type(value) in _SCALARS:
        return cast("Plain", value)
    made: object = msgspec.to_builtins(value, order="deterministic", enc_hook=_hook, str_keys=True)
    return cast("Plain", made)


def _hook(value: object) -> str:
    if isinstance(value, BaseException):
        return describe(value)
    raise TypeError(f"{a_kind(value)} cannot be recorded: it is not plain data")


def describe(failure: BaseException) -> str:
    """An exception in one line, bounded; a group as its leaves.

    Of `trio.Cancelled`, and of any exception whose text holds an address, only the type is named,
    as texts like that differ from run to run.
    """
    if isinstance(failure, BaseExceptionGroup):
        name = type(cast("BaseException", failure)).__name__
        group = cast("BaseExceptionGroup[BaseException]", failure)
        return f"{name}[{', '.join(describe(leaf) for leaf in leaves(group))}]"[: 4 * _LONGEST]
    text = failure.message if isinstance(failure, ReactorError) else str(failure)
    if not text or " at 0x" in text or isinstance(failure, trio.Cancelled):
        return type(failure).__name__
    return f"{type(failure).__name__}: {text[:_LONGEST]}"
