"""What a failure of PostgreSQL means for whoever called."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import psycopg

from trio_reactor.errors import Outcome
from trio_reactor.supervision.errors import StoreError, StoreFailed, StoreUnusable

__all__ = ["Weather", "as_store_error", "weather_of"]

Weather: TypeAlias = Literal["lost", "undone", "unusable", "failed"]
"""The connection was `lost`, and with it perhaps a reply; the transaction was `undone` and can be
tried again; what is there is `unusable`; or it `failed` in a way that trying again does not
change."""

_LOST: Final = frozenset(
    {
        "25006",  # read-only: this server is not, or no longer, the primary
        "57P01",  # the back end was terminated
        "57P02",  # the server crashed
        "57P03",  # the server is starting or stopping
        "57P05",  # the session was idle for too long
    }
)
_UNDONE: Final = frozenset(
    {
        "40001",  # serialization failure
        "40P01",  # deadlock
        "55P03",  # a lock could not be had in time
        "57014",  # the statement took too long
    }
)


def weather_of(failure: psycopg.Error) -> Weather:
    """What kind of failure it is, by its SQLSTATE."""
    state = failure.sqlstate
    if state is None:
        # No server said it: the connection was cut, or could not be made.
        lost = isinstance(failure, psycopg.OperationalError | psycopg.InterfaceError)
        return "lost" if lost else "failed"
    if state in _LOST or state.startswith("08"):
        return "lost"
    if state in _UNDONE or state.startswith("53"):
        return "undone"
    if state[:2] in {"28", "3D", "3F", "42"}:
        return "unusable"
    return "failed"


def as_store_error(failure: psycopg.Error, store: str, *, outcome: Outcome) -> StoreError:
    """The failure in the words of stores."""
    name, detail = type(failure).__name__, str(failure)
    if weather_of(failure) == "unusable":
        return StoreUnusable(
            f"{store}: this is not a journal that can be used: {name}",
            store=store,
            outcome="replied",
            detail=detail,
        )
    return StoreFailed(
        f"{store}: the journal could not be used: {name}",
        store=store,
        outcome=outcome,
        detail=detail,
    )
