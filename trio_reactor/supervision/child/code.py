"""The code's side: how what a session runs is loaded and called, and what it is given.

A Python callable is called with one `ChildSession`.  A plain function is just called; if what it
returns is a coroutine, as that of an `async def` is, Trio runs it.  When the callable returns, the
child ends with status 0; when it raises, with 1 and its traceback on the standard error, as a
script does.

A program is not called with anything.  It finds in its environment `TRIO_REACTOR_KEY`,
`TRIO_REACTOR_INSTANCE` and `TRIO_REACTOR_GENERATION`, its fencing token, and in
`TRIO_REACTOR_CHANNEL` the number of the descriptor that is its end of the channel.

This is executed in the process that runs the code, from its compiled text, and not imported.  It
imports next to nothing, and nothing of `trio_reactor`.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False  # as `typing` has it, whose import would take as long as all the rest
if TYPE_CHECKING:
    import signal as _signal
    import socket
    from collections.abc import Callable, Coroutine
    from types import ModuleType, TracebackType
    from typing import Any, Final, final

    import trio
else:
    import _signal  # what `signal` is made from, without the enumerations that cost time

    def final(thing: Any) -> Any:
        """What only a type checker reads."""
        return thing


MAX_FRAME: Final = 65_536
_SIGN_EVERY: Final = 0.02
"""Seconds between two signs of life that are sent; more would tell nobody more."""


@final
class ChildSession:
    """What the code of a session has of it: its fencing token, its deadline, and a channel.

    It is made by the library and given to the callable.  One thread at a time uses the channel's
    each direction.
    """

    def __init__(self, order: dict[str, Any], *, channel: int, page: int, report: int) -> None:
        self.identity: str = order["identity"]
        """What runs, as the key says."""
        self.instance: str = order["instance"]
        """Which of several of it."""
        self.generation: int = order["generation"]
        """With the key, the fencing token: give it to whatever is written to, and have it refuse a
        smaller one."""
        self.argument: str | None = order["argument"]
        """What the load said to tell the callable."""
        self._channel = channel
        self._page = page
        self._at = order["slot"]
        self._report = report
        self._signed = 0.0
        self._stream: trio.SocketStream | None = None

    def deadline(self) -> float:
        """When this process is ended unless the session is renewed, as last told.

        Seconds on the machine's clock, as `time.clock_gettime(time.CLOCK_BOOTTIME)` gives them.
        """
        while True:
            told = os.pread(self._page, 16, self._at)
            if told[:8] == told[8:]:  # else it was being written
                return int.from_bytes(told[:8], "little") / 1e9

    def remaining(self) -> float:
        """Seconds until the deadline as last told; negative once it has passed."""
        return self.deadline() - time.clock_gettime(time.CLOCK_BOOTTIME)

    def alive(self) -> None:
        """Give a sign of life.  Never waits; cheap enough to be called in a loop."""
        now = time.monotonic()
        if now - self._signed >= _SIGN_EVERY:
            self._signed = now
            try:
                os.write(self._report, b"\0\0\0\5alive")
            except BlockingIOError:
                pass  # there are signs enough on their way
            except BrokenPipeError:
                pass  # the guard ends us at this moment

    def fileno(self) -> int:
        """The descriptor of the channel's end, a connected socket that blocks."""
        return self._channel

    def receive(self, max_bytes: int = 65_536) -> bytes:
        """Wait for bytes from the application; empty once it sends no more."""
        return os.read(self._channel, max_bytes)

    def send(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of it to the application, waiting until the kernel has taken it.

        Raises:
            OSError: The application's end is closed.
        """
        view = memoryview(data)
        while view:
            view = view[os.write(self._channel, view) :]

    def socket(self) -> socket.socket:
        """The channel's end as a socket of the standard library, for whoever wants that."""
        import socket  # noqa: PLC0415 - most code does without

        return socket.socket(fileno=os.dup(self._channel))

    @property
    def stream(self) -> trio.SocketStream:
        """The channel's end as a Trio stream; for async code, which does not use the others then.

        From its first use on, `receive` and `send` no longer wait.
        """
        if self._stream is None:
            import trio  # noqa: PLC0415 - only code that runs on Trio has it

            self._stream = trio.SocketStream(trio.socket.from_stdlib_socket(self.socket()))
        return self._stream


class _Report:
    """Tells the guard what became of the loading."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __call__(self, kind: str, *parts: str | None) -> None:
        texts = [(part or "").replace("\0", "?") for part in parts]
        said = "\0".join([kind, *texts]).encode("utf-8", "backslashreplace")[: MAX_FRAME - 4]
        frame = len(said).to_bytes(4, "big") + said
        while frame:
            frame = frame[os.write(self._fd, frame) :]


def run(
    order: dict[str, Any], *, channel: int, page: int, report: int, stack: int, stack_signal: int
) -> int:
    """Load what the order says and run it.

    Returns:
        The status to end with.
    """
    tell = _Report(report)
    try:
        if order["directory"] is not None:
            os.chdir(order["directory"])
    except OSError as failure:
        tell("failed", f"the directory to run in cannot be used: {failure}")
        return 1
    if order["kind"] == "command":
        return _become_program(order, channel, tell)
    return _call(order, channel, page, report, stack, stack_signal, tell)


def _call(
    order: dict[str, Any],
    channel: int,
    page: int,
    report: int,
    stack: int,
    stack_signal: int,
    tell: _Report,
) -> int:
    import faulthandler  # noqa: PLC0415 - built in, and programs do without

    faulthandler.register(stack_signal, file=stack, all_threads=True)
    os.set_inheritable(channel, False)
    output: Any = sys.stdout
    if output is not None:
        output.reconfigure(line_buffering=True)  # what a killed process wrote is not lost
    specifier: str = order["specifier"]
    sys.argv[:] = [specifier]
    known = set(sys.path)
    sys.path[:0] = order["path"]
    sys.path += [entry for entry in order["also"] if entry not in known]
    try:
        module, target = _load(specifier)
    except BaseException as failure:  # noqa: BLE001 - also `SystemExit`: told, and the process ends
        tell("failed", _tail_of(_traceback(failure), order["max_detail"]))
        return 1
    tell("loaded", specifier, *_identity(module))
    os.set_blocking(report, False)
    session = ChildSession(order, channel=channel, page=page, report=report)
    try:
        returned: Any = target(session)
        if hasattr(returned, "cr_frame"):
            return _run_async(returned)
    except Exception as failure:  # noqa: BLE001 - told as the interpreter does, without our frames
        frames = _without_own(failure, 1)
        sys.excepthook(type(failure), failure.with_traceback(frames), frames)
        return 1
    return 0


def _load(specifier: str) -> tuple[ModuleType, Callable[[ChildSession], object]]:
    name, _, path = specifier.partition(":")
    __import__(name)
    module = sys.modules[name]
    target: Any = module
    for part in path.split("."):
        target = getattr(target, part)
    if not callable(target):
        raise TypeError(f"{specifier} is not callable: it is {type(target).__name__}")
    return module, target


def _run_async(coroutine: Coroutine[Any, Any, object]) -> int:
    """Have Trio run it; when the process is asked to end, it is cancelled."""
    import trio  # noqa: PLC0415 - only code that runs on Trio has it

    asked = False

    async def main() -> None:
        scope = trio.CancelScope()
        token = trio.lowlevel.current_trio_token()

        def ask(_number: int, _frame: object) -> None:
            nonlocal asked
            asked = True
            token.run_sync_soon(scope.cancel, idempotent=True)

        # No task receives the signal: a nursery would wrap what the coroutine raises in a group,
        # and a system task would outlive a coroutine that returns at once.
        _signal.signal(_signal.SIGTERM, ask)
        try:
            with scope:
                await coroutine
        finally:
            _signal.signal(_signal.SIGTERM, _signal.SIG_DFL)

    trio.run(main)
    return 128 + int(_signal.SIGTERM) if asked else 0


def _become_program(order: dict[str, Any], channel: int, tell: _Report) -> int:
    argv: list[str] = order["argv"]
    environment = dict(os.environ)
    environment.update(order["environment"])
    environment["TRIO_REACTOR_KEY"] = order["identity"]
    environment["TRIO_REACTOR_INSTANCE"] = order["instance"]
    environment["TRIO_REACTOR_GENERATION"] = str(order["generation"])
    environment["TRIO_REACTOR_CHANNEL"] = str(channel)
    environment["TRIO_REACTOR_LAUNCH"] = order["nonce"]
    path = _find(argv[0], environment.get("PATH", os.defpath))
    try:
        with open(path, "rb") as file:
            digest = _digest_of(file)
    except OSError as failure:
        tell("failed", f"{argv[0]}: {failure.strerror}")
        return 1
    tell("program", path, digest, None, path)
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
        _signal.signal(number, _signal.SIG_DFL)  # the interpreter ignores them, programs do not
    os.set_inheritable(channel, True)
    try:
        os.execve(path, argv, environment)  # noqa: S606 - that is what it is for
    except OSError as failure:
        tell("failed", f"{argv[0]}: {failure.strerror}")
    return 1


def _find(program: str, search: str) -> str:
    """The file that a program's name means."""
    if "/" not in program:
        for directory in search.split(":"):
            path = f"{directory or '.'}/{program}"
            if os.access(path, os.X_OK) and not os.path.isdir(path):
                return path
    return program


def _identity(module: ModuleType) -> tuple[str, str | None, str | None]:
    """The digest, version and origin of a module."""
    version = getattr(module, "__version__", None)
    spec = module.__spec__
    origin = spec.origin if spec is not None else None
    told = version if isinstance(version, str) else None
    if origin is not None and spec is not None and spec.has_location:
        loader: Any = spec.loader
        try:
            return _digest(loader.get_data(origin)), told, origin
        except OSError:
            pass  # it is gone since, or was never a file: the interpreter stands for it
    with open("/proc/self/exe", "rb") as file:
        return _digest_of(file), told, origin


def _hasher() -> Any:
    # As cheap as it gets: from Python 3.12 on, before, and always there but slow to import.
    for name in ("_sha2", "_sha256", "hashlib"):
        try:
            module: Any = __import__(name)
        except ImportError:
            continue
        return module.sha256()
    raise ImportError("this interpreter has no sha256")


def _digest(data: bytes) -> str:
    hasher = _hasher()
    hasher.update(data)
    return f"sha256:{hasher.hexdigest()}"


def _digest_of(file: Any) -> str:
    hasher = _hasher()
    while piece := file.read(1_048_576):
        hasher.update(piece)
    return f"sha256:{hasher.hexdigest()}"


def _traceback(failure: BaseException) -> str:
    import traceback  # noqa: PLC0415 - only for what fails

    failure.__traceback__ = _without_own(failure, 2)
    return "".join(traceback.format_exception(failure))


def _without_own(failure: BaseException, own: int) -> TracebackType | None:
    """Its traceback without the frames of this module that it begins with."""
    frames = failure.__traceback__
    while own and frames is not None:
        frames = frames.tb_next
        own -= 1
    return frames


def _tail_of(text: str, size: int) -> str:
    return text if len(text) <= size else f"... {text[4 - size :]}"
