"""What an execution runs, and within which limits."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Final, Literal, TypeAlias, TypeVar

import msgspec
from msgspec.structs import force_setattr

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


class PythonCode(msgspec.Struct, frozen=True, tag="python", forbid_unknown_fields=True):
    """A Python callable, run in a process of its own by the interpreter that this one runs on.

    The callable is called with one argument, the child's side of the session
    (`trio_reactor.supervision.child`); an async one is run by Trio.

    Raises:
        ValueError: If the specifier is not of the form `package.module:callable`, a variable is no
            pair of a name and a value, or a text holds a NUL.
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
        force_setattr(self, "path", _texts("path", self.path))
        force_setattr(self, "environment", _variables(self.environment))
        _check_directory(self.directory)

    def __str__(self) -> str:
        return self.specifier


class Command(msgspec.Struct, frozen=True, tag="command", forbid_unknown_fields=True):
    """An arbitrary program.

    Raises:
        ValueError: If there is no program, the arguments are one text, a variable is no pair of a
            name and a value, or a text holds a NUL.
    """

    argv: tuple[str, ...]
    """The program, looked for in `PATH`, and its arguments."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables beside those that this process has."""
    directory: str | None = None
    """Where it runs; by default where this process does."""

    def __post_init__(self) -> None:
        argv = _texts("argv", self.argv)
        if not argv or not argv[0]:
            raise ValueError("a command needs a program")
        force_setattr(self, "argv", argv)
        force_setattr(self, "environment", _variables(self.environment))
        _check_directory(self.directory)

    def __str__(self) -> str:
        return self.argv[0]


def _texts(what: str, given: Sequence[str]) -> tuple[str, ...]:
    """A sequence of texts, as what it is when it is read back."""
    if isinstance(given, str):
        # A text is a sequence of texts too, so it is the value that is wrong.
        raise ValueError(f"{what} must be several texts, not one: {given!r}")  # noqa: TRY004
    if any("\0" in text for text in given):
        raise ValueError(f"{what} holds a NUL")
    return tuple(given)


def _variables(given: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Variables of an environment, as what they are when they are read back."""
    variables: list[tuple[str, str]] = []
    for each in given:
        pair: Sequence[str] = each
        if isinstance(each, str) or len(pair) != 2:
            raise ValueError(f"environment must be pairs of a name and a value, not {each!r}")
        name, value = pair
        if not name or "=" in name or "\0" in name + value:
            raise ValueError(f"environment holds a variable that cannot be set: {name!r}")
        variables.append((name, value))
    return tuple(variables)


def _check_directory(given: str | None) -> None:
    if given is not None and (not given or "\0" in given):
        raise ValueError(f"directory cannot be one: {given!r}")


Work: TypeAlias = PythonCode | Command


def as_work(given: object) -> Work:
    """What is to run; a text is the specifier of a Python callable.

    Raises:
        TypeError: It is nothing that runs.
        ValueError: The text is no specifier.
    """
    if isinstance(given, str):
        return PythonCode(given)
    if not isinstance(given, PythonCode | Command):
        raise TypeError(
            f"what runs must be a PythonCode, a Command, or a text, not {type(given).__name__}"
        )
    return given


class CodeIdentity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was loaded, as its execution reports it."""

    name: str
    """The module and callable, or the program's path."""
    digest: str
    """Of the bytes that were loaded: `sha256:` and 64 hexadecimal digits."""
    version: str | None = None
    """What the module calls its version."""
    origin: str | None = None
    """The file it came from."""


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an execution may use, all its processes together; `None` is without limit.

    Raises:
        ValueError: If one of them is not positive and finite, or a count or bytes are not whole.
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
            if bound is not None and name != "cpu_time" and type(bound) is not int:
                raise ValueError(f"limit {name} must be a whole number, not {bound!r}")


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


class Enforced(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How each limit of an execution is enforced; `None` where none was set."""

    memory: Enforcement | None = None
    cpu_time: Enforcement | None = None
    open_files: Enforcement | None = None
    processes: Enforcement | None = None
