"""What an execution runs, and within which limits."""

from __future__ import annotations

from math import isfinite
from typing import Final, Literal, TypeAlias, TypeVar

import msgspec

__all__ = [
    "UNLIMITED",
    "CodeIdentity",
    "Command",
    "Enforced",
    "Enforcement",
    "Limits",
    "PythonCode",
    "Work",
    "as_work",
    "negotiate",
]


N = TypeVar("N", int, float)


class PythonCode(msgspec.Struct, frozen=True, tag="python"):
    """A Python callable, run in a process of its own by the interpreter that this one runs on.

    The callable is called with one argument, the child's side of the session
    (`trio_reactor.supervision.child`); an async one is run by Trio.

    Raises:
        ValueError: If the specifier is not of the form `package.module:callable`.
    """

    specifier: str
    """`package.module:callable`; the part after the colon may be dotted."""
    path: tuple[str, ...] = ()
    """Directories in which modules are looked for first."""
    argument: str | None = None
    """Text that the callable is told, such as JSON."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables beside those that this process has."""
    directory: str | None = None
    """Where it runs; by default where this process does."""

    def __post_init__(self) -> None:
        module, colon, name = self.specifier.partition(":")
        parts = [*module.split("."), *name.split(".")]
        if not colon or not all(part.isidentifier() for part in parts):
            raise ValueError(f"{self.specifier!r} is not of the form package.module:callable")

    def __str__(self) -> str:
        return self.specifier


class Command(msgspec.Struct, frozen=True, tag="command"):
    """An arbitrary program.

    Raises:
        ValueError: If there is no program, or a part holds a NUL.
    """

    argv: tuple[str, ...]
    """The program, looked for in `PATH`, and its arguments."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables beside those that this process has."""
    directory: str | None = None
    """Where it runs; by default where this process does."""

    def __post_init__(self) -> None:
        if not self.argv or not self.argv[0]:
            raise ValueError("a command needs a program")
        if any("\0" in part for part in self.argv):
            raise ValueError("an argument of a command holds a NUL")

    def __str__(self) -> str:
        return self.argv[0]


Work: TypeAlias = PythonCode | Command


def as_work(work: Work | str) -> Work:
    """What is to run; a text is the specifier of a Python callable."""
    return PythonCode(work) if isinstance(work, str) else work


class CodeIdentity(msgspec.Struct, frozen=True):
    """What was loaded, as its execution reports it."""

    name: str
    """The module and callable, or the program's path."""
    digest: str
    """Of the bytes that were loaded: `sha256:` and 64 hexadecimal digits."""
    version: str | None = None
    """What the module calls its version."""
    origin: str | None = None
    """The file it came from."""


class Limits(msgspec.Struct, frozen=True):
    """What an execution may use, all its processes together; `None` is without limit.

    Raises:
        ValueError: If one of them is not positive and finite.
    """

    memory: int | None = None
    """Bytes."""
    cpu_time: float | None = None
    """Seconds."""
    open_files: int | None = None
    """Of each process."""
    processes: int | None = None
    """At one time."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            bound: float | None = getattr(self, name)
            if bound is not None and not (isfinite(bound) and bound > 0):
                raise ValueError(f"limit {name} must be positive and finite, not {bound}")


UNLIMITED: Final = Limits()


def negotiate(offered: Limits, asked: Limits) -> Limits:
    """The smaller of each two limits."""
    return Limits(
        memory=_smaller(offered.memory, asked.memory),
        cpu_time=_smaller(offered.cpu_time, asked.cpu_time),
        open_files=_smaller(offered.open_files, asked.open_files),
        processes=_smaller(offered.processes, asked.processes),
    )


def _smaller(offered: N | None, asked: N | None) -> N | None:
    if offered is None or asked is None:
        return asked if offered is None else offered
    return min(offered, asked)


Enforcement = Literal["cgroup", "rlimit", "none"]
"""How a limit holds: for all processes together (`cgroup`), for each one by itself (`rlimit`), or
not at all."""


class Enforced(msgspec.Struct, frozen=True):
    """How each limit of an execution is enforced; `None` where none was set."""

    memory: Enforcement | None = None
    cpu_time: Enforcement | None = None
    open_files: Enforcement | None = None
    processes: Enforcement | None = None
