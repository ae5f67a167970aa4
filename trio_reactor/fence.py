"""Fences and generations: what keeps a late result from bringing back what is gone.

The rule they serve: *every result that arrives after an await passes a fence before it changes
anything.*  Three shapes of the one idea:

- a `Fence` is a one-way latch with a reason: once set it never falls;
- a `Generations` counter hands out tokens that die, all at once and for ever, when it moves on;
- a `FencedMapping` does the same by key: a write under a dead token changes nothing and says so, a
  read finds nothing, and admitting a key again starts a new generation that the old one's tokens
  never reach.

Nothing here awaits but `Fence.wait`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar, final

import trio

from .errors import Closed

__all__ = ["Fence", "FencedMapping", "Generations", "KeyToken", "Token"]

K = TypeVar("K")
V = TypeVar("V")


@final
class Fence:
    """A one-way latch with a reason.

    Args:
        name: What it fences, for messages.
    """

    __slots__ = ("_event", "_name", "_reason")

    def __init__(self, name: str = "fence") -> None:
        self._name = name
        self._reason: str | None = None
        self._event: trio.Event | None = None

    def __repr__(self) -> str:
        return f"<Fence {self._name}: {'down' if self._reason is None else self._reason}>"

    @property
    def is_set(self) -> bool:
        """Whether it is up."""
        return self._reason is not None

    @property
    def reason(self) -> str | None:
        """Why it went up, or `None` while it is down."""
        return self._reason

    def set(self, reason: str) -> bool:
        """Raise it and wake who waits; the first reason stays.  Returns whether it was down."""
        if not self.mark(reason):
            return False
        self.announce()
        return True

    def mark(self, reason: str) -> bool:
        """Raise it without waking anybody yet, where only flags may be set; `announce` follows."""
        if self._reason is not None:
            return False
        self._reason = reason
        return True

    def announce(self) -> None:
        """Wake everybody who waits for it."""
        if self._event is not None and self._reason is not None:
            self._event.set()

    def check(self) -> None:
        """Raise `Closed` with the reason if it is up."""
        if self._reason is not None:
            raise Closed(f"{self._name}: {self._reason}")

    async def wait(self) -> str:
        """Sleep until it is up; returns the reason.  Always a checkpoint; may be cancelled."""
        if self._reason is not None:
            await trio.lowlevel.checkpoint()
            return self._reason
        if self._event is None:
            self._event = trio.Event()
        await self._event.wait()
        assert self._reason is not None  # noqa: S101 - announce comes after mark
        return self._reason


@final
class Token:
    """A right to act that lives as long as its generation is the current one."""

    __slots__ = ("_generations", "number")

    def __init__(self, generations: Generations, number: int) -> None:
        self._generations = generations
        self.number = number

    def __repr__(self) -> str:
        return f"<Token {self.number}: {'live' if self.live else 'dead'}>"

    @property
    def live(self) -> bool:
        """Whether the generation is still the current one."""
        return self._generations.number == self.number

    def check(self) -> None:
        """Raise `Closed` if the generation has moved on."""
        if not self.live:
            raise Closed(f"{self._generations.name}: generation {self.number} is over")


@final
class Generations:
    """A counter whose tokens die when it moves on.

    Args:
        name: What is counted, for messages.
        number: The first generation.
    """

    __slots__ = ("_number", "name")

    def __init__(self, name: str = "generation", number: int = 0) -> None:
        self.name = name
        self._number = number

    @property
    def number(self) -> int:
        """The current generation; it only rises."""
        return self._number

    def token(self) -> Token:
        """A token of the current generation."""
        return Token(self, self._number)

    def advance(self) -> Token:
        """End the current generation, and every token of it; returns one of the next."""
        self._number += 1
        return self.token()


@final
class KeyToken(Generic[K]):
    """A right to read and write one key that lives until the key is fenced."""

    __slots__ = ("_current", "generation", "key")

    def __init__(self, current: Mapping[K, KeyToken[K]], key: K, generation: int) -> None:
        self._current = current
        self.key = key
        self.generation = generation

    def __repr__(self) -> str:
        state = "live" if self.live else "dead"
        return f"<KeyToken {self.key!r} generation {self.generation}: {state}>"

    @property
    def live(self) -> bool:
        """Whether the key has not been fenced since this token was given."""
        return self._current.get(self.key) is self

    def check(self) -> None:
        """Raise `Closed` if the key was fenced since."""
        if not self.live:
            raise Closed(f"generation {self.generation} of this key is over")


@final
class FencedMapping(Generic[K, V]):
    """A mapping whose entries are reached by token, and lost for good when their key is fenced.

    A key's generations only rise, also across fencing and readmission, so that one which was asked
    about before a fence is answered as fenced even if the key has been admitted again since.
    """

    def __init__(self) -> None:
        self._tokens: dict[K, KeyToken[K]] = {}
        self._values: dict[K, V] = {}
        self._generation = 0

    def __len__(self) -> int:
        return len(self._tokens)

    def __contains__(self, key: object) -> bool:
        """Whether the key is admitted now."""
        return key in self._tokens

    def __iter__(self) -> Iterator[KeyToken[K]]:
        """The live tokens, in the order their keys were admitted."""
        return iter(tuple(self._tokens.values()))

    def admit(self, key: K) -> KeyToken[K]:
        """Start a generation of the key, or give the live one's token if it is admitted already."""
        token = self._tokens.get(key)
        if token is None:
            self._generation += 1
            token = self._tokens[key] = KeyToken(self._tokens, key, self._generation)
        return token

    def token(self, key: K) -> KeyToken[K] | None:
        """The live token of the key, or `None` if it is not admitted."""
        return self._tokens.get(key)

    def fence(self, key: K) -> V | None:
        """End the key's generation in one step; returns the value it had, if any."""
        self._tokens.pop(key, None)
        return self._values.pop(key, None)

    def write(self, token: KeyToken[K], value: V) -> bool:
        """Set the key's value; returns whether the token was live, and changes nothing if not."""
        if self._tokens.get(token.key) is not token:
            return False
        self._values[token.key] = value
        return True

    def read(self, token: KeyToken[K]) -> V | None:
        """The key's value, or `None` if it has none or the token is dead."""
        if self._tokens.get(token.key) is not token:
            return None
        return self._values.get(token.key)
