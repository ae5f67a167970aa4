"""Sessions' lives, as records that differ from one another in every field."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from trio_reactor.events import FailureRecord
from trio_reactor.supervision.model.child import Child, Launch, ProcessIdentity
from trio_reactor.supervision.model.codec import MAX_RECORD_BYTES, encode
from trio_reactor.supervision.model.ends import ExitStatus, Killed, Stop
from trio_reactor.supervision.model.keys import Handle, Key
from trio_reactor.supervision.model.records import (
    Loaded,
    Loading,
    Open,
    Phase,
    SessionRecord,
    Stopped,
    Stopping,
)
from trio_reactor.supervision.model.work import CodeIdentity, Command, Enforced, Limits

__all__ = ["largest", "life"]


def life(key: Key, generation: int, host: str) -> Sequence[SessionRecord]:
    """The records of a session from `Open` to `Stopped`: open, two of loading, loaded, and on."""
    token = hashlib.sha256(f"{key!r} {generation}".encode()).hexdigest()[:32]
    work = Command(("serve", key.identity), environment=(("SAID", '"; DROP TABLE record; --'),))
    launch = Launch(f"nonce-{token}", by=12.25 + generation, boot_id="boot")
    child = Child(ProcessIdentity(4242, 7 * generation, "boot", 1), "@somewhere", "secret")
    enforced = Enforced(memory="cgroup", processes="none")
    loaded = Loaded(
        work, launch, child, enforced, CodeIdentity("serve", f"sha256:{token}{token}", "1.0")
    )
    failure = FailureRecord.of(OSError("it said „no“ \U0001f6d1"))
    stop = Stop("unresponsive", failure=failure, stack="  File …, line 1\n\tsleep()")
    phases: tuple[Phase, ...] = (
        Open(),
        Loading(work, launch),
        Loading(work, launch, child, enforced),
        loaded,
        Stopping(stop, loaded),
        Stopped(stop, Killed(ExitStatus(signal=9), (failure,)), work, loaded.code),
    )
    opened = SessionRecord(
        Handle(key, generation, token),
        f"request-{token}",
        30.5,
        Limits(memory=2**33, cpu_time=0.1),
        1_700_000_000.000_001,
        Open(),
        host,
    )
    return tuple(msgspec.structs.replace(opened, phase=phase) for phase in phases)


def largest(record: SessionRecord) -> SessionRecord:
    """A record that is stopping, and has as many bytes as one may have."""

    def stopping(stack: str) -> SessionRecord:
        return msgspec.structs.replace(
            record, phase=Stopping(Stop("unresponsive", stack=stack), Open())
        )

    return stopping("x" * (MAX_RECORD_BYTES - len(encode(stopping("")))))
