"""What follows when a service's session has ended.  Pure: from facts to a decision.

| ended | `on-failure` | `always` | `never` |
|---|---|---|---|
| disposed, superseded, shutdown, fenced, taken over | done | done | done |
| exited with status 0 | done | again | done |
| anything else, not opened included | again | again | done |

Again, unless `max_restarts` have been within `window`: then it is given up.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from trio_reactor.supervision.model.ends import StopReason

from .policy import Restart, RestartPolicy

__all__ = ["Again", "Decision", "Done", "Ending", "GiveUp", "History", "Why", "decide"]

Why: TypeAlias = StopReason | Literal["not-opened"]
"""What a session ended with, or that there was none: it could not be opened."""

_OTHERS: Final[frozenset[Why]] = frozenset(
    {"disposed", "superseded", "shutdown", "fenced", "taken-over"}
)
"""Somebody decided that it should end; a restart would be against that."""


class Ending(msgspec.Struct, frozen=True):
    """How one session ended."""

    why: Why
    success: bool = False
    """Whether its code ended with status 0."""
    ran_for: float = 0.0
    """Seconds that its code ran."""


class History(msgspec.Struct, frozen=True):
    """What came before."""

    restarts: tuple[float, ...] = ()
    """When it was restarted, within the window, in seconds on one clock."""
    streak: int = 0
    """Restarts in a row without a good while between them."""


class Again(msgspec.Struct, frozen=True):
    """There is to be another session."""

    pause: float
    """Seconds from now."""
    history: History


class GiveUp(msgspec.Struct, frozen=True):
    """It ended too often."""

    restarts: int
    """Restarts within the window."""


class Done(msgspec.Struct, frozen=True):
    """It has ended as it should."""


Decision: TypeAlias = Again | GiveUp | Done


def decide(
    restart: Restart,
    policy: RestartPolicy,
    history: History,
    ending: Ending,
    *,
    now: float,
    chance: float,
) -> Decision:
    """What follows.

    Args:
        restart: When it is restarted.
        policy: How.
        history: What came before.
        ending: How the session ended.
        now: Seconds, on the clock of the history.
        chance: From 0 to 1: how much of the jitter is added.
    """
    if ending.why in _OTHERS or restart == "never":
        return Done()
    if ending.why == "exited" and ending.success and restart == "on-failure":
        return Done()
    recent = tuple(at for at in history.restarts if now - at < policy.window)
    if len(recent) >= policy.max_restarts:
        return GiveUp(len(recent))
    streak = 0 if ending.ran_for >= policy.steady else history.streak
    pause = _grown(policy, streak) * (1 + policy.jitter * chance)
    return Again(pause, History((*recent, now), streak + 1))


def _grown(policy: RestartPolicy, streak: int) -> float:
    try:
        return min(policy.pause * policy.factor**streak, policy.max_pause)
    except OverflowError:
        return policy.max_pause
