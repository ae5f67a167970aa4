"""What must hold throughout a run, and at its end.

An invariant is told every fact that is recorded, in order; it may look at the program's state
between any two batches; and it is asked once more at the end.  It answers `None` as long as it
holds, or what is wrong.

The ones here say, of facts, what applications like these usually promise:

| promise | invariant |
|---|---|
| each dispatch once | `Once("dispatched", by="clip")` |
| no two on air | `AtMost(1, "on-air", until="off-air", by="source")` |
| nothing outlives its owner | `Ended("opened", until="left", by="attempt", within="closed")` |
| nothing acknowledged is lost | `Ended("acknowledged", until="applied", by="edit")` |
| every fence is respected | `NothingAfter("revoked", "read", "written", by="room")` |
| acknowledged is stored | `Only("acknowledged", after="stored", by="edit")` |
| whatever can be told from state | `Always("the queue is bounded", lambda: len(queue) <= 96)` |

They are pure: given the same facts they give the same answers.  `Checks` puts them to use.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import final

from .trace import Fact, Plain, describe

__all__ = ["Always", "AtMost", "Checks", "Ended", "Invariant", "NothingAfter", "Once", "Only"]


class Invariant:
    """The base of every invariant: one that always holds.

    Args:
        name: What it promises, for the message of `InvariantViolated`.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def see(self, fact: Fact, /) -> str | None:
        """Hear of a fact, in the step that recorded it; returns what is wrong, if anything is."""
        del fact
        return None

    def look(self) -> str | None:
        """Look at the state between two batches, when no task is inside of a step."""
        return None

    def end(self) -> str | None:
        """Judge the whole, after the scenario returned."""
        return None


@final
class Always(Invariant):
    """A condition on the state holds between any two batches, and at the end.

    Args:
        name: What it promises.
        holds: Whether it does; side effects and awaiting are out of place here.
    """

    def __init__(self, name: str, holds: Callable[[], bool]) -> None:
        super().__init__(name)
        self._holds = holds

    def look(self) -> str | None:
        """Whether the condition does not hold."""
        return None if self._holds() else "it does not hold"

    def end(self) -> str | None:
        """Whether the condition does not hold."""
        return self.look()


@final
class Once(Invariant):
    """A thing happens at most once, or once for each value of a particular."""

    def __init__(self, what: str, *, by: str | None = None) -> None:
        super().__init__(f"{what!r} at most once{_per(by)}")
        self._what = what
        self._by = by
        self._seen: set[Plain] = set()

    def see(self, fact: Fact, /) -> str | None:
        """Whether the fact breaks the promise."""
        if fact.what != self._what:
            return None
        key = _key(fact, self._by)
        if key in self._seen:
            return f"it happened again{_of(key)}"
        self._seen.add(key)
        return None


@final
class AtMost(Invariant):
    """At no time has the thing begun, and not ended, more often than this.

    Args:
        limit: How often.
        what: The fact that begins one.
        until: The fact that ends one; ending what has not begun is no violation.
        by: The particular that tells them apart.
    """

    def __init__(self, limit: int, what: str, *, until: str, by: str) -> None:
        super().__init__(f"at most {limit} between {what!r} and {until!r}")
        self._limit = limit
        self._what = what
        self._until = until
        self._by = by
        self._going: dict[Plain, None] = {}

    def see(self, fact: Fact, /) -> str | None:
        """Whether the fact breaks the promise."""
        if fact.what == self._what:
            self._going[_key(fact, self._by)] = None
            if len(self._going) > self._limit:
                return f"there are {len(self._going)}: {', '.join(map(str, self._going))}"
        elif fact.what == self._until:
            self._going.pop(_key(fact, self._by), None)
        return None


@final
class Ended(Invariant):
    """Whatever begins also ends, before the run does.

    Args:
        what: The fact that begins one.
        until: The fact that ends one.
        by: The particular that tells them apart.
        within: A fact by which all must have ended and after which none may begin.
    """

    def __init__(self, what: str, *, until: str, by: str, within: str | None = None) -> None:
        name = f"{what!r} is followed by {until!r}{_per(by)}"
        super().__init__(name if within is None else f"{name}, before {within!r}")
        self._what = what
        self._until = until
        self._by = by
        self._within = within
        self._over = False
        self._going: dict[Plain, None] = {}

    def see(self, fact: Fact, /) -> str | None:
        """Whether the fact breaks the promise."""
        if fact.what == self._what:
            key = _key(fact, self._by)
            self._going[key] = None
            if self._over:
                return f"{key} began after {self._within!r}"
        elif fact.what == self._until:
            self._going.pop(_key(fact, self._by), None)
        elif fact.what == self._within:
            self._over = True
            return self.end()
        return None

    def end(self) -> str | None:
        """Whether any is still going on."""
        if not self._going:
            return None
        return f"not of {', '.join(map(str, self._going))}"


@final
class NothingAfter(Invariant):
    """After one thing others never happen, or never for the same value of a particular."""

    def __init__(self, fence: str, *what: str, by: str | None = None) -> None:
        super().__init__(f"no {' or '.join(map(repr, what))} after {fence!r}{_per(by)}")
        self._fence = fence
        self._what = frozenset(what)
        self._by = by
        self._fenced: set[Plain] = set()

    def see(self, fact: Fact, /) -> str | None:
        """Whether the fact breaks the promise."""
        if fact.what == self._fence:
            self._fenced.add(_key(fact, self._by))
        elif fact.what in self._what:
            key = _key(fact, self._by)
            if key in self._fenced:
                return f"{fact.what!r} happened after it{_of(key)}"
        return None


@final
class Only(Invariant):
    """A thing happens only after another, or only for the same value of a particular."""

    def __init__(self, what: str, *, after: str, by: str | None = None) -> None:
        super().__init__(f"{what!r} only after {after!r}{_per(by)}")
        self._what = what
        self._after = after
        self._by = by
        self._allowed: set[Plain] = set()

    def see(self, fact: Fact, /) -> str | None:
        """Whether the fact breaks the promise."""
        if fact.what == self._after:
            self._allowed.add(_key(fact, self._by))
        elif fact.what == self._what:
            key = _key(fact, self._by)
            if key not in self._allowed:
                return f"it happened without{_of(key)}"
        return None


def _key(fact: Fact, by: str | None) -> Plain:
    if by is None:
        return None
    if by not in fact.about:
        raise LookupError(f"the fact {fact.what!r} was recorded without {by!r}")
    return fact.about[by]


def _per(by: str | None) -> str:
    return "" if by is None else f" for each {by}"


def _of(key: Plain) -> str:
    return "" if key is None else f": {key}"


@final
class Checks:
    """The invariants of a run.

    Args:
        violated: Called with the name of an invariant, what is wrong, and what it raised if it did.
    """

    def __init__(self, violated: Callable[[str, str, Exception | None], None]) -> None:
        self._violated = violated
        self._all: list[Invariant] = []
        self._looking: list[Invariant] = []

    def add(self, *invariants: Invariant) -> None:
        """Check these from now on."""
        self._all.extend(invariants)
        # Most of them only listen, and there are many more batches than facts.
        self._looking.extend(each for each in invariants if type(each).look is not Invariant.look)

    def see(self, fact: Fact) -> None:
        """Tell them a fact."""
        for invariant in self._all:
            self._judge(invariant, partial(invariant.see, fact))

    def look(self) -> None:
        """Let those that can look at the state."""
        for invariant in self._looking:
            self._judge(invariant, invariant.look)

    def end(self) -> None:
        """Ask them once more, at the end."""
        for invariant in self._all:
            self._judge(invariant, invariant.end)

    def _judge(self, invariant: Invariant, judge: Callable[[], str | None]) -> None:
        try:
            wrong = judge()
        except Exception as failure:  # noqa: BLE001 - Trio's loop would not survive it; a violation
            self._violated(invariant.name, describe(failure), failure)
        else:
            if wrong is not None:
                self._violated(invariant.name, wrong, None)
