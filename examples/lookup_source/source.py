# --8<-- [start:imports]
"""The adapter: a session of the service that looks words up, as a source of a renewal."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import trio

from trio_reactor.errors import Lost, Overflow, Refused
from trio_reactor.renewal import Cleanup, OpenFailed, Predecessor, SourceOpener
from trio_reactor.renewal.source import GoingAway

from .client import SECONDS, LookupClient, connect

__all__ = ["LookupSource", "lookup_source"]
# --8<-- [end:imports]


# --8<-- [start:opener]
def lookup_source(host: str, port: int, *, goodbye: float = 1.0) -> SourceOpener[LookupSource]:
    """What opens sessions of the service.

    Args:
        host: Where it is.
        port: Where it is.
        goodbye: Seconds that saying goodbye may take.
    """

    @asynccontextmanager
    async def open_source(predecessor: Predecessor, /) -> AsyncGenerator[LookupSource]:
        if predecessor.adopt is not None:
            raise OpenFailed("a session ends with its connection: there is nothing to adopt")
        began = trio.current_time()
        async with connect(host, port) as client:
            match await ask(client, "open"):
                case ["hello", session, seconds] if SECONDS.fullmatch(seconds):
                    # Counted from before the server did: so it is not over before we think so.
                    left = float(seconds) - (trio.current_time() - began)
                    source = LookupSource(client, session, left, goodbye)
                case ["no", *why]:
                    raise OpenFailed("the service gives no session", detail=" ".join(why))
                case _:
                    raise OpenFailed("this is not the service")
            try:
                yield source
            finally:
                with trio.CancelScope(shield=True):
                    await source.close()

    return open_source


# --8<-- [end:opener]


# --8<-- [start:ask]
async def ask(client: LookupClient, *words: str) -> list[str]:
    """The words of the answer; what the client raises becomes what a renewal understands."""
    try:
        return await client.ask(*words)
    except ValueError as wrong:
        raise Refused("what is looked up is one word, and not too long") from wrong
    except trio.WouldBlock as full:
        raise Overflow("too many questions wait for their answers", retryable=True) from full
    except trio.ClosedResourceError as ended:
        raise Lost("the session has ended") from ended
    except trio.BrokenResourceError as ended:
        raise Lost("the session ended meanwhile", outcome="unknown") from ended


# --8<-- [end:ask]


# --8<-- [start:source]
class LookupSource:
    """One session; implements `Mortal` and `Announcing`, and is borrowed to look words up."""

    def __init__(self, client: LookupClient, session: str, left: float, goodbye: float) -> None:
        self.id, self.lifetime = session, left
        self._client, self._goodbye = client, goodbye
        self._closed = False
        self._cleanup: Cleanup | None = None

    async def find(self, word: str) -> str | None:
        """The meaning of a word; `None` if there is none.

        Cancelled before the question has left, nothing leaves; after that its answer is dropped.

        Raises:
            Refused: This is no word.
            Overflow: Too many questions wait for their answers.
            Lost: The session has ended; with the outcome unknown if the question had left.
        """
        match await ask(self._client, "find", word):
            case ["is", *meaning]:
                return " ".join(meaning)
            case ["not"]:
                return None
            case _:
                raise Lost("the answer cannot be read", outcome="replied")

    # --8<-- [end:source]

    # --8<-- [start:announce]
    def announce_to(self, tell: Callable[[GoingAway], None]) -> None:
        """Tell of an end that the server announces; at once, if it has done so already."""
        self._client.on_ending = lambda seconds: tell(GoingAway(seconds))
        if self._client.ends_at is not None:
            tell(GoingAway(self._client.ends_at - trio.current_time()))

    # --8<-- [end:announce]

    # --8<-- [start:end]
    async def wait_lost(self) -> None:
        """Return when it has ended; raise why if it ended by itself."""
        await self._client.ended.wait()
        if not self._closed:
            raise Lost("the session ended by itself") from self._client.cause

    async def close(self) -> Cleanup:
        """Say goodbye and hang up; everyone gets the same evidence."""
        self._closed = True
        if self._cleanup is None:
            with trio.move_on_after(self._goodbye):
                await self._client.say_goodbye()
            await self._client.aclose()
            # Nothing can be heard any more: so whoever comes here at the same time says the same.
            self._cleanup = Cleanup.of(
                self.id,
                allocation="owned",
                termination="confirmed" if self._client.said_goodbye else "unconfirmed",
                connection="closed",
            )
        return self._cleanup


# --8<-- [end:end]
