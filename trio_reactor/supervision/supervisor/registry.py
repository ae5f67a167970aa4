"""All the sessions that are known, by token, by key and by request."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import final

import trio

from trio_reactor.supervision.errors import StaleSession
from trio_reactor.supervision.model.keys import Handle, Key
from trio_reactor.supervision.model.records import Stopped

from .session import Session

__all__ = ["Registry"]


@final
class Registry:
    """The sessions, and each key's highest generation, which is never forgotten.

    Args:
        max_stopped: How many stopped sessions are kept.
    """

    def __init__(self, *, max_stopped: int) -> None:
        self._max_stopped = max_stopped
        self._by_token: dict[str, Session] = {}
        self._by_key: dict[Key, dict[str, Session]] = {}
        self._high: dict[Key, int] = {}
        self._stopped: dict[str, Session] = {}
        self._leaving: set[str] = set()
        self._arriving: dict[str, Session] = {}
        self._idle: trio.Event | None = None

    def __iter__(self) -> Iterator[Session]:
        return iter(tuple(self._by_token.values()))

    @property
    def running(self) -> int:
        """How many are not stopped."""
        return len(self._by_token) - len(self._stopped)

    @property
    def stopped(self) -> int:
        """How many that are stopped are kept."""
        return len(self._stopped)

    async def wait_idle(self) -> None:
        """Sleep until every session is stopped; always a checkpoint."""
        await trio.lowlevel.checkpoint()
        while self.running:
            self._idle = trio.Event()
            await self._idle.wait()

    def high_water(self, key: Key) -> int:
        """The highest generation that the key ever had; 0: none."""
        return self._high.get(key, 0)

    def raise_high_water(self, key: Key, generation: int) -> None:
        """The key has had this generation."""
        self._high[key] = max(generation, self._high.get(key, 0))

    def add(self, session: Session) -> None:
        """Make a session known."""
        handle = session.record.handle
        self._by_token[handle.token] = session
        self._by_key.setdefault(handle.key, {})[session.record.request] = session
        self.raise_high_water(handle.key, handle.generation)
        if isinstance(session.record.phase, Stopped):
            self._stopped[handle.token] = session

    def find(self, handle: Handle) -> Session:
        """The session of a handle.

        Raises:
            StaleSession: There is none: the handle is unknown, forged, old, or forgotten.
        """
        # The dictionary finds it by the hash of the token, which is keyed for each process; then
        # the whole is compared in constant time.
        session = self._by_token.get(handle.token)
        if session is None or not session.record.handle.matches(handle):
            raise StaleSession(f"there is no session {handle}")
        return session

    def of_key(self, key: Key) -> tuple[Session, ...]:
        """The sessions of a key, oldest first."""
        return tuple(self._by_key.get(key, {}).values())

    def by_request(self, key: Key, request: str) -> Session | None:
        """The session that a request opened, if it is known."""
        return self._by_key.get(key, {}).get(request)

    # --------------------------------------------------------------------------------- forgetting

    def evict(self, session: Session) -> tuple[Handle, ...]:
        """Which stopped sessions are to be forgotten when this one stops: the oldest ones.

        Once the journal has taken that, `has_stopped` and `forget` follow; otherwise `keep`.
        """
        # Those whose records are before this one's on their way into the journal count as stopped.
        there = len(self._stopped) + len(self._arriving) - len(self._leaving)
        staying = (
            each.record.handle
            for each in chain(self._stopped.values(), self._arriving.values())
            if each.record.handle.token not in self._leaving
        )
        chosen = tuple(islice(staying, max(there + 1 - self._max_stopped, 0)))
        self._leaving.update(handle.token for handle in chosen)
        self._arriving[session.record.handle.token] = session
        return chosen

    def forget(self, handles: tuple[Handle, ...]) -> None:
        """The journal has forgotten these."""
        for handle in handles:
            self._leaving.discard(handle.token)
            # One of which the journal could not take that it has stopped is gone from it as well.
            self._stopped.pop(handle.token, None)
            session = self._by_token.pop(handle.token)
            requests = self._by_key[handle.key]
            del requests[session.record.request]
            if not requests:
                del self._by_key[handle.key]
        self._look_whether_idle()

    def keep(self, session: Session, handles: tuple[Handle, ...]) -> None:
        """The journal could take neither the one that stopped nor that these are forgotten."""
        self._arriving.pop(session.record.handle.token, None)
        self._leaving.difference_update(handle.token for handle in handles)

    def has_stopped(self, session: Session) -> None:
        """The journal has taken that a session has stopped."""
        self._arriving.pop(session.record.handle.token, None)
        self._stopped[session.record.handle.token] = session
        self._look_whether_idle()

    def _look_whether_idle(self) -> None:
        if self._idle is not None and not self.running:
            self._idle.set()
            self._idle = None
