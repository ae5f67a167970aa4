"""How a guard is made: one interpreter, with what it needs and nothing else of this process's."""

from __future__ import annotations

import fcntl
import importlib.util
import marshal
import os
import signal
import socket
import sys
import weakref
from collections.abc import Sequence
from importlib.abc import InspectLoader
from pathlib import Path
from types import CodeType
from typing import Final, cast

import msgspec

import trio_reactor.supervision.child as child_side
from trio_reactor.supervision.errors import ExecutionFailed

from .carriers import NONCE_VARIABLE

__all__ = ["Ends", "GuardText", "interpreter_flags", "spawn"]

FIRST_FD: Final = 3
_TEXTS: Final = (
    "given",
    "kernel",
    "stacks",
    "voice",
    "reports",
    "succession",
    "ending",
    "guard",
)
"""The guard's modules, each after those that it imports."""
_BOOT: Final = "import marshal,posix;b,t,c=marshal.loads(posix.pread(7,1<<24,0));exec(b)"
_MODULES: Final = """\
import sys
p, m, M = "trio_reactor_guard", sys.modules, type(sys)
m[p] = M(p)
for n, x in t:
    m[p + "." + n] = k = M(p + "." + n)
    k.__package__ = p
    exec(x, k.__dict__)
k.main(c)
"""
"""Makes modules of the texts, which find one another as those of a package, and nothing else.  It
is compiled here, since the guard would take longer for it than for running it."""
_DEFAULTED: Final = (
    signal.SIGPIPE,
    signal.SIGXFSZ,
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGCHLD,
)


class Ends(msgspec.Struct, frozen=True):
    """This process's ends of what connects it with a guard."""

    control: socket.socket
    channel: socket.socket
    output: int
    timer: int

    def close(self) -> None:
        """Close all of them."""
        self.control.close()
        self.channel.close()
        os.close(self.output)
        os.close(self.timer)


class GuardText:
    """The compiled text of the guard and the code's side, in memory that children inherit.

    It is read once, so guards are of this process's version whatever becomes of the files.

    Raises:
        ExecutionFailed: It cannot be found.
        OSError: There are no more descriptors.
    """

    def __init__(self) -> None:
        texts = tuple((name, _code_of(name)) for name in _TEXTS)
        boot = compile(_MODULES, "<string>", "exec")
        view = memoryview(marshal.dumps((boot, texts, _code_of("code"))))
        self.fd = os.memfd_create("trio-reactor-guard", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        weakref.finalize(self, os.close, self.fd)
        while view:
            view = view[os.write(self.fd, view) :]
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, seals)


def _code_of(name: str) -> CodeType:
    package = child_side.__name__
    spec = importlib.util.find_spec(f"{package}.{name}")
    code: CodeType | None = None
    if spec is not None and spec.loader is not None and hasattr(spec.loader, "get_code"):
        code = cast("InspectLoader", spec.loader).get_code(spec.name)
    if code is None:
        raise ExecutionFailed(f"the text of {package}.{name} cannot be found")
    return code


def interpreter_flags() -> list[str]:
    """What this interpreter was told that matters to where modules are looked for, and to code."""
    flags = sys.flags
    told = ["-P"]
    if flags.isolated:
        told.append("-I")
    elif flags.ignore_environment:
        told.append("-E")
    if flags.no_user_site and not flags.isolated:
        told.append("-s")
    if flags.optimize:
        told.append("-" + "O" * flags.optimize)
    if flags.dont_write_bytecode:
        told.append("-B")
    return told


def module_path() -> list[str]:
    """Where this process looks for modules, as absolute directories."""
    return [str(Path(entry or ".").absolute()) for entry in sys.path]


def spawn(
    nonce: str,
    by: float,
    orphaned: str,
    environment: Sequence[tuple[str, str]],
    given: Sequence[int],
) -> int:
    """Start a guard.

    Args:
        nonce: What it and all below it carry.
        by: When it ends itself unless it is renewed; for a person who reads its arguments, since
            the timer that it is given is set to it.
        orphaned: What it does when its supervisor is gone, which tells what it is given.
        environment: Variables beside this process's.
        given: Its descriptors, from its third on; before them come nothing, its output and its
            output.

    Returns:
        Its process id.

    Raises:
        ExecutionFailed: There is no interpreter, or no process can be made.
    """
    if not sys.executable:
        raise ExecutionFailed("it is not known where this interpreter's program is")
    argv = [sys.executable, *interpreter_flags(), "-c", _BOOT, nonce, f"{by:.3f}", orphaned]
    variables = {**os.environ, **dict(environment), NONCE_VARIABLE: nonce}
    output, *others = given
    high: list[int] = []
    try:
        for fd in (output, *others):
            high.append(_above(fd, FIRST_FD + len(others)))  # noqa: PERF401 - closed if one fails
        actions: list[tuple[int, int, int] | tuple[int, int, str, int, int]] = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, high[0], 1),
            (os.POSIX_SPAWN_DUP2, high[0], 2),
        ]
        for number, fd in enumerate(high[1:], FIRST_FD):
            actions.append((os.POSIX_SPAWN_DUP2, fd, number))
        return os.posix_spawn(
            sys.executable,
            argv,
            variables,
            file_actions=actions,
            setsid=True,
            setsigmask=(),
            setsigdef=_DEFAULTED,
        )
    except (OSError, ValueError, NotImplementedError) as failure:
        raise ExecutionFailed(f"no child could be made: {failure}") from failure
    finally:
        for fd, original in zip(high, given, strict=False):
            if fd != original:
                os.close(fd)


def _above(fd: int, floor: int) -> int:
    """That descriptor, or a copy of it whose number is none of those that the guard is to have."""
    return fd if fd >= floor else fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, floor)
