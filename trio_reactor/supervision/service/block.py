"""Opening a service: its block."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from math import isfinite
from typing import get_args

from trio_reactor.owner import OwnerOptions, open_owner
from trio_reactor.supervision.model.keys import Key
from trio_reactor.supervision.model.work import UNLIMITED, Limits, Work, as_work
from trio_reactor.supervision.options import MAX_DURATION
from trio_reactor.supervision.supervisor.supervisor import Supervisor

from .policy import Restart, RestartPolicy
from .service import Service, Settings

__all__ = ["open_service"]

_MARGIN = 5.0
"""Seconds that close has beyond what sessions may take to end, for the journal."""


@asynccontextmanager
async def open_service(
    supervisor: Supervisor,
    key: Key | str,
    work: Work | str,
    *,
    restart: Restart = "on-failure",
    policy: RestartPolicy | None = None,
    lease: float | None = None,
    limits: Limits = UNLIMITED,
    hang_timeout: float | None = None,
) -> AsyncGenerator[Service]:
    """Keep a key running: open, load and renew it, and again when its session ends by itself.

    The key is taken over from whoever has it.  A session that was disposed, superseded by another
    open of the key, or ended with its supervisor is not followed by another.  Too many restarts
    give up this key alone: the body is not cancelled, `Service.wait_ended` raises it, and if nobody
    was told there, leaving the block does.

    Leaving disposes the session and waits for its end, also when cancelled.

    Args:
        supervisor: Who has the sessions.
        key: What is kept running; a text is an identity.
        work: What runs; a text is the specifier of a Python callable.
        restart: What is restarted: `on-failure`, `always` or `never`.
        policy: How often, and after which pauses.
        lease: Seconds of each session's lease, renewed thrice while it lasts; by default that of
            the supervisor's options.
        limits: What an execution may use.
        hang_timeout: Seconds without a sign of life after which it is stopped; by default that of
            the supervisor's options.

    Raises:
        ValueError: An argument cannot be.
        RestartsExhausted: It was given up, and nobody was told.
        SupervisorPoisoned: Its supervisor cannot vouch for what it holds, and nobody was told.
        BaseException: What the block of an owner raises.
    """
    options = supervisor.options
    if restart not in get_args(Restart):
        raise ValueError(f"restart must be one of {get_args(Restart)}, not {restart!r}")
    settings = Settings(
        key=Key(key) if isinstance(key, str) else key,
        work=as_work(work),
        restart=restart,
        policy=policy or RestartPolicy(),
        lease=_seconds("lease", options.lease if lease is None else lease, options.max_lease),
        limits=limits,
        hang_timeout=None
        if hang_timeout is None
        else _seconds("hang_timeout", hang_timeout, MAX_DURATION),
    )
    # At most the end of the key's previous session, while it opens, and then that of its own.
    ending = 2 * (options.grace + 3 * options.confirmation_timeout) + _MARGIN
    budgets = OwnerOptions(cleanup_timeout=ending)
    name = f"service {settings.key}"
    async with open_owner(name, world=supervisor.world, options=budgets) as owner:
        service = Service(owner, supervisor, settings)
        owner.start_soon(service.run, name=name)
        try:
            yield service
        finally:
            failure = service.unreceived()
            if failure is not None:
                owner.fail(failure)


def _seconds(name: str, seconds: float, most: float) -> float:
    if not isfinite(seconds) or not 0 < seconds <= most:
        raise ValueError(f"{name} must be a number of seconds up to {most:g}, not {seconds}")
    return float(seconds)
