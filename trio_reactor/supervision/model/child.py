"""What is known of a child before and while it runs, so that it can be found again."""

from __future__ import annotations

import msgspec

__all__ = ["Child", "Launch", "Orphan", "ProcessIdentity"]


class ProcessIdentity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which process: an id is given again to another, the four together are not."""

    pid: int
    start_time: int
    """When it was started, in the kernel's ticks since the machine was."""
    boot_id: str
    """Which start of the machine."""
    pid_namespace: int
    """In which namespace the id counts."""


class Launch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is recorded before a child exists."""

    nonce: str
    """What the child carries, so that it can be looked for."""
    by: float
    """When a child that is not registered ends itself, in seconds on the machine's clock."""
    boot_id: str = ""
    """Which start of the machine that clock counts from."""

    def __repr__(self) -> str:
        return f"<Launch by {self.by}>"


class Child(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A registered child."""

    process: ProcessIdentity | None = None
    """The process whose end is the execution's end, where it is one of this machine."""
    address: str = ""
    """Where it can be spoken to by whoever adopts it; empty if nowhere."""
    secret: str = ""
    """What both ends prove to know when it is adopted; never the session's token."""

    def __repr__(self) -> str:
        return f"<Child {self.process}>"


class Orphan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What recovery knows of an execution whose supervisor is gone."""

    launch: Launch
    child: Child | None
    """`None`: it was never registered, and may or may not exist."""
