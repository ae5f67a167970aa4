"""The pure policy: what a chain does next, and everything that decides it.

Nothing here imports Trio, does I/O or reads a clock.  Read `phases` for the life of one source, a
table, and `decision` for the step of the chain; `handoff` knows the boundary, `lifespan` when a
successor is due, and `failures` how often it may go wrong.
"""

from .decision import (
    MAX_OWNED,
    Abandon,
    Activate,
    ChainFacts,
    Check,
    Decision,
    Discard,
    Expire,
    Fail,
    Finish,
    HandOver,
    Idle,
    Prepare,
    Reconnect,
    Replace,
    Role,
    SourceFacts,
    Tell,
    Wait,
    Yield,
    decide,
    route_of,
)

__all__ = [
    "MAX_OWNED",
    "Abandon",
    "Activate",
    "ChainFacts",
    "Check",
    "Decision",
    "Discard",
    "Expire",
    "Fail",
    "Finish",
    "HandOver",
    "Idle",
    "Prepare",
    "Reconnect",
    "Replace",
    "Role",
    "SourceFacts",
    "Tell",
    "Wait",
    "Yield",
    "decide",
    "route_of",
]
