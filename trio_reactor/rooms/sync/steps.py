"""What is to be done next about a room: one step, from the facts as they are.

Each room is carried by one task at a time, which asks for a step, does it, and asks again, until
there is nothing to be done.  So whatever happens meanwhile, an announcement, an edit, an answer, a
loss, only has to change the facts.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

__all__ = ["Phase", "RoomFacts", "Step", "Waiting", "next_step"]

Phase: TypeAlias = Literal["discovering", "holding", "carrying", "replacing", "talking", "open"]
"""How far the opening of a connection is: what there is, and what of it has expired, is asked for;
rooms are carried; those that are owed are replaced; conversations are caught up with; it is
open."""

Waiting: TypeAlias = Literal["nothing", "queued", "submitted", "accepted"]
"""How far the first edit of a room is that has not come back."""

Step: TypeAlias = Literal["rest", "bootstrap", "refresh", "submit", "converse"]


class RoomFacts(msgspec.Struct, frozen=True):
    """What there is to be known of a room that is not lost."""

    phase: Phase
    followed: bool = True
    """Whether it is listed and asked for."""
    refused: bool = False
    """Whether the authority refuses it for the time being, or gives what cannot be."""
    held: int | None = None
    known: int = 0
    """The newest version that was heard of."""
    renewed: bool = False
    """Whether what is held is of another selection or another history, or cannot be trusted."""
    expired: bool = False
    """Whether the version that is held is beyond the horizon, as the stream said when it opened."""
    owed: bool = False
    """Whether it is beyond the horizon, as a refresh said."""
    unconfirmed: bool = False
    """Whether nobody has said, since the connection was opened, that what is held is current."""
    waiting: Waiting = "nothing"
    writable: bool = True
    """Whether edits may be sent now."""
    talk: bool = False
    """Whether there is something to be said or heard."""


def next_step(facts: RoomFacts) -> Step:
    """What is to be done next about a room."""
    if facts.phase == "discovering" or not facts.followed or facts.refused:
        return "rest"
    if facts.held is None or facts.renewed or facts.expired:
        return "bootstrap"
    if facts.owed:
        # While a connection opens this is done once, when the others have been carried.
        return "rest" if facts.phase in {"holding", "carrying"} else "bootstrap"
    if facts.held < facts.known or facts.waiting == "accepted":
        return "refresh"
    if facts.unconfirmed and facts.phase != "holding":
        return "refresh"
    if facts.waiting in {"queued", "submitted"} and facts.writable:
        return "submit"
    if facts.talk and facts.phase in {"talking", "open"}:
        return "converse"
    return "rest"
