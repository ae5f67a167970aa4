"""The guard: the small process that a child is, and that ends what the child started.

It and the modules of this directory that it imports are run from their compiled texts, which its
supervisor hands it, by an interpreter that has imported nothing else; so it is of its supervisor's
version whatever has become of the files, and it starts as fast as the interpreter does.  It must
stay that way: only modules that are built into the interpreter, or as good as, are imported here,
and none of `trio_reactor` but those whose texts are handed over (`spawn.GuardText`).

It has one thread and sleeps in one `poll`.  What wakes it:

* its supervisor's messages, on `CONTROL`, and the end of that socket, which is its supervisor's;
* the deadline, on `TIMER`, a timer that the *supervisor* sets: the kernel is told a renewal, not
  the guard, so a guard that is busy misses none and a message that is late extends nothing;
* the end of a process below it, and signals, on a pipe of its own;
* what the code has to say (that it is loaded, that it is alive), on another;
* whoever wants to adopt it, on `LISTEN`.

It is a *subreaper*: whatever the code starts, daemons included, stays below it, and it ends only
when nothing is left.  Its own end is what confirms the end of all.  Whatever else goes wrong in it
ends what it guards, too.

The code is of the guard's user, so the kernel would let it look into the guard and take its
descriptors: the timer above all.  So the guard is not *dumpable*, which keeps off whoever has no
right to trace any process; the code's process is as any other.  And it never has the secret that an
adopter proves to know, not even in memory that it got from the guard: the guard is told after it
has forked.
"""

# ruff: noqa: S101, S302, SIM105 - it does without `contextlib`, and its supervisor's word is good

from __future__ import annotations

import gc
import marshal
import os
import select
import sys

from .ending import end_all
from .given import CHANNEL, CODE, LISTEN, MAX_MESSAGE, OUTPUT_KEPT, PAGE, TIMER
from .kernel import CHILD_SUBREAPER, DUMPABLE, PDEATHSIG, Below, block_all_but, close_others, prctl
from .reports import Reports
from .stacks import SIGNAL_STACK, take_stack
from .succession import Succession
from .voice import Voice

TYPE_CHECKING = False  # as `typing` has it, whose import would take as long as all the rest
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Callable
    from types import CodeType
    from typing import Any, Final, NoReturn
else:
    import _signal  # what `signal` is made from, without the enumerations that cost time

MAX_DEFECTS: Final = 16
"""How often it goes on ending what it guards when something went wrong in that."""
_HANDLED: Final = (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP)
_STOPPED_BY: Final = frozenset(int(number) for number in _HANDLED)


class Guard:
    """The one guard of this process."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.poll = select.poll()
        self.voice = Voice(self.poll, self.lose_supervisor)
        self.below = Below()
        self.order: dict[str, Any] = {}
        self.pid = 0
        """The code's process; 0 before it exists."""
        self.gate: int | None = None
        """What the code waits for before it begins."""
        self.reports: Reports | None = None
        self.succession: Succession | None = None
        """What there is for an adopter, once there can be one."""
        self.stack: int | None = None
        self.stack_written: int | None = None
        self.ending = False
        self.reporter = -1
        self.wake = self.waker = -1

    # What it is made of.

    def prepare(self) -> None:
        """Become a subreaper that nobody looks into, and have signals wake it."""
        prctl(CHILD_SUBREAPER, 1)
        prctl(DUMPABLE, 0)
        self.wake, self.waker = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(self.waker, False)
        _signal.set_wakeup_fd(self.waker, warn_on_full_buffer=False)
        for number in (_signal.SIGCHLD, *_HANDLED):
            _signal.signal(number, _note)
        block_all_but((_signal.SIGCHLD, *_HANDLED))
        assert self.voice.fd is not None
        os.set_blocking(self.voice.fd, False)
        os.set_blocking(TIMER, False)
        for fd in (self.voice.fd, TIMER, self.wake):
            self.poll.register(fd, select.POLLIN)

    def serve(self) -> bool:
        """Guard until all is to be ended.

        Returns:
            Whether this is the code's process now.
        """
        while not self.ending:
            for fd, happened in self.poll.poll():
                if fd == TIMER:
                    self.on_timer()
                elif fd == self.wake:
                    self.on_signals()
                elif fd == self.voice.fd:
                    if happened & select.POLLOUT:
                        self.voice.tell_rest()
                    if happened != select.POLLOUT and self.on_control():
                        return True
                elif self.reports is not None and fd == self.reports.fd:
                    self.on_report(self.reports)
                elif self.succession is not None:
                    self.on_succession(self.succession, fd)
        return False

    # What wakes it.

    def on_timer(self) -> None:
        """The deadline has passed, unless it was moved meanwhile."""
        try:
            os.read(TIMER, 8)
        except BlockingIOError:
            return  # renewed at the last moment
        self.ending = True

    def on_signals(self) -> None:
        """Something below it ended, or it is asked to end."""
        try:
            numbers = os.read(self.wake, 4096)
        except BlockingIOError:
            return
        if not _STOPPED_BY.isdisjoint(numbers):
            self.ending = True
        self.reap()

    def reap(self) -> None:
        """Collect what ended; the code's own end is the beginning of everybody's."""
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            if ended.si_pid == self.pid:
                # It is not collected before its group was signalled: until then its id is its own.
                self.ending = True
                return
            os.waitpid(ended.si_pid, 0)

    def on_control(self) -> bool:
        """Do what the supervisor says.

        Returns:
            Whether this is the code's process now.
        """
        if self.voice.fd is None:
            return False  # lost, as it was told the rest
        try:
            message = os.read(self.voice.fd, MAX_MESSAGE)
        except BlockingIOError:
            return False
        except OSError:
            message = b""
        if not message:
            self.lose_supervisor()
            return False
        match marshal.loads(message):
            case ("start", order):
                return self.start(order)
            case ("secret", secret):
                self.succession = Succession(
                    self.poll, secret.encode(), self.order["slot"], self.order["max_output"]
                )
            case ("taken",):
                if self.succession is not None:
                    self.succession.forget()
            case ("go",):
                if self.gate is not None:
                    os.close(self.gate)
                    self.gate = None
            case ("interrupt",):
                self.interrupt()
            case ("kill",):
                self.ending = True
            case ("stack",):
                self.voice.tell(b"stack", self.take_stack())
            case _:
                self.voice.tell(b"broken", b"the guard does not know what it was asked")
        return False

    def interrupt(self) -> None:
        """Ask the code's group to end; while its leader is not collected, the group is its own."""
        if not self.pid:
            self.ending = True
            return
        try:
            os.killpg(self.pid, _signal.SIGTERM)
        except (ProcessLookupError, PermissionError):
            pass  # it has another user's rights now: it is killed in time

    def lose_supervisor(self) -> None:
        """Its supervisor is gone: end, or live on alone, as it was told."""
        self.voice.hang_up()
        if self.succession is None or self.gate is not None:
            self.ending = True
        elif not self.ending:
            self.succession.begin()

    def on_report(self, reports: Reports) -> None:
        """The code's side says something."""
        if not reports.read():
            self.poll.unregister(reports.fd)
            os.close(reports.fd)
            self.reports = None

    def on_succession(self, succession: Succession, fd: int) -> None:
        """Something about who comes after its supervisor."""
        if fd == OUTPUT_KEPT:
            succession.read_output()
        elif fd == LISTEN:
            succession.greet()
        elif succession.knows(fd) and succession.hear(fd, has_supervisor=self.voice.fd is not None):
            self.voice.fd = fd

    # The code.

    def start(self, order: dict[str, Any]) -> bool:
        """Make the code's process.

        Returns:
            Whether this is that process.
        """
        if self.pid:
            return False
        self.order = order
        gc.freeze()  # what exists by now is shared with the code's process as long as none looks
        report, reporter = os.pipe()
        gate, gate_kept = os.pipe()
        self.stack, self.stack_written = os.pipe()
        os.set_blocking(self.stack, False)
        os.set_blocking(self.stack_written, False)
        _signal.pthread_sigmask(_signal.SIG_BLOCK, (_signal.SIGCHLD, *_HANDLED))
        try:
            pid = os.fork()
        except OSError as failure:
            _signal.pthread_sigmask(_signal.SIG_UNBLOCK, (_signal.SIGCHLD, *_HANDLED))
            self.voice.tell(b"broken", f"no process could be made: {failure}".encode())
            self.ending = True
            return False
        if pid == 0:
            self.become(reporter, gate)
            return True
        try:
            os.setpgid(pid, pid)
        except OSError:
            pass  # it did so itself, and is another program already
        self.pid = pid
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, (_signal.SIGCHLD, *_HANDLED))
        for fd in (reporter, gate, CHANNEL):
            os.close(fd)
        self.gate = gate_kept
        self.reports = Reports(report, self.voice)
        self.poll.register(report, select.POLLIN)
        self.voice.tell(b"code", str(pid).encode())
        if not order["gated"]:
            os.close(gate_kept)
            self.gate = None
        return False

    def become(self, reporter: int, gate: int) -> None:
        """Be the code's process: let go of all that is the guard's."""
        os.setpgid(0, 0)
        prctl(PDEATHSIG, _signal.SIGKILL)
        if os.getppid() != self.process:
            os._exit(137)
        _signal.set_wakeup_fd(-1)
        for number in (_signal.SIGCHLD, _signal.SIGTERM, _signal.SIGHUP):
            _signal.signal(number, _signal.SIG_DFL)
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
        page = os.open(f"/proc/self/fd/{PAGE}", os.O_RDONLY | os.O_CLOEXEC)
        os.dup2(page, PAGE, inheritable=False)
        stack = self.stack_written
        assert stack is not None
        kept = {CHANNEL, PAGE, reporter, gate, stack}
        close_others(kept)
        prctl(DUMPABLE, 1)  # it has nothing of the guard's any more
        self.reporter, self.gate = reporter, gate

    def run_code(self, text: CodeType) -> int:
        """In the code's process, once all else was left: wait for the limits, and run the code.

        Returns:
            The status to end with.
        """
        assert self.gate is not None
        assert self.stack_written is not None
        while os.read(self.gate, 1):
            pass
        os.close(self.gate)
        namespace = {"__name__": "trio_reactor_child", "__builtins__": __builtins__}
        exec(text, namespace)  # noqa: S102 - the text that the supervisor handed it
        run: Callable[..., int] = namespace["run"]  # type: ignore[assignment]
        return run(
            self.order,
            channel=CHANNEL,
            page=PAGE,
            report=self.reporter,
            stack=self.stack_written,
            stack_signal=SIGNAL_STACK,
        )

    def take_stack(self) -> bytes:
        """Where the code is, for a person."""
        if not self.pid or self.stack is None:
            return b"the code does not run yet"
        forked = str(self.order.get("specifier", "about to run")).encode()
        return take_stack(self.pid, self.stack, self.voice.fd, forked)

    # The end.

    def end(self) -> NoReturn:
        """End everything, see that it has ended, say how, and end."""
        status = end_all(self.below, self.pid, self.order.get("cgroup"), self.wake)
        if status is not None:
            self.voice.tell(b"exit", str(os.waitstatus_to_exitcode(status)).encode())
        self.voice.tell(b"gone")
        self.voice.say_farewell()
        if status is None:
            os.kill(os.getpid(), _signal.SIGKILL)  # as what it did not start would have ended
        os._exit(0)


def _note(_number: int, _frame: object) -> None:
    """The number is on the pipe; there is nothing to do here."""


def main(code: CodeType) -> None:
    """Guard, in the process that was started for it; or be the code's process, and end as it."""
    given = OUTPUT_KEPT if sys.argv[3] == "adopt" else CODE
    close_others(range(given + 1))
    guard = Guard()
    guard.prepare()
    for left in reversed(range(MAX_DEFECTS)):
        try:
            if guard.serve():
                break
            guard.end()
        except BaseException as failure:
            # Whatever it is, nothing may be left without a guard: what is below it is ended first.
            if os.getpid() != guard.process or not left:
                raise
            guard.ending = True
            guard.voice.tell(b"broken", f"the guard failed: {failure!r}".encode())
    sys.exit(guard.run_code(code))
