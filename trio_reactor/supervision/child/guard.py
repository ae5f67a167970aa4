"""The guard: the small process that a child is, and that ends what the child started.

It is run from its compiled text, which its supervisor hands it, by an interpreter that has imported
nothing else; so it is of its supervisor's version whatever has become of the files, and it starts
as fast as the interpreter does.  It must stay that way: only modules that are built into the
interpreter, or as good as, are imported here, and none of `trio_reactor`.

It has one thread and sleeps in one `poll`.  What wakes it:

* its supervisor's messages, on `CONTROL`, and the end of that socket, which is its supervisor's;
* the deadline, on `TIMER`, a timer that the *supervisor* sets: the kernel is told a renewal, not
  the guard, so a guard that is busy misses none and a message that is late extends nothing;
* the end of a process below it, and signals, on a pipe of its own;
* what the code has to say (that it is loaded, that it is alive), on another;
* whoever wants to adopt it, on `LISTEN`.

It is a *subreaper*: whatever the code starts, daemons included, stays below it, and it ends only
when nothing is left.  Its own end is what confirms the end of all.
"""

# ruff: noqa: S101, S302, SIM105 - it does without `contextlib`, and its supervisor's word is good

from __future__ import annotations

import _ctypes
import gc
import marshal
import os
import select
import sys

TYPE_CHECKING = False  # as `typing` has it, whose import would take as long as all the rest
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Callable, Container
    from types import CodeType
    from typing import Any, Final, NoReturn
else:
    import _signal  # what `signal` is made from, without the enumerations that cost time

# What it is started with, under these numbers.
CONTROL: Final = 3
"""Where the supervisor speaks: a socket that keeps messages apart."""
CHANNEL: Final = 4
"""The code's end of the channel."""
TIMER: Final = 5
"""The deadline."""
PAGE: Final = 6
"""Where the deadline can be read."""
CODE: Final = 7
"""The compiled text of this module and of the code's side."""
LISTEN: Final = 8
"""Where an adopter comes to; this and what follows only where adoption is allowed."""
CHANNEL_KEPT: Final = 9
"""The application's end of the channel, so that the code sees no end of it meanwhile."""
OUTPUT_KEPT: Final = 10
"""Where the code's output is read, so that the code does not block on it meanwhile."""

SIGNAL_STACK: Final = 64
"""What has the interpreter write down where its threads are: the last real-time signal."""

MAX_MESSAGE: Final = 262_144
MAX_FRAME: Final = 65_536
MAX_TAIL: Final = 131_072
"""Bytes of output that are handed to an adopter, the last; one message must hold them."""
MAX_STACK: Final = 65_536
MAX_UNSENT: Final = 16
"""Messages that wait for a supervisor that takes none at the moment."""
FAREWELL_MS: Final = 1_000
"""Milliseconds that a slow supervisor is given to take the last of them."""
STACK_QUIET: Final = 0.05
"""Seconds without another byte after which a stack is all there."""
STACK_PATIENCE: Final = 1.0
"""Seconds that a process is given to write its stack."""
_RECHECK_MS: Final = 20
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_HANDLED: Final = (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP)
_STOPPED_BY: Final = frozenset(int(number) for number in _HANDLED)


def prctl(option: int, value: int) -> None:
    """Ask the kernel for something about this process."""
    program: Any = None  # the running program itself, which the stubs do not know of
    address = _ctypes.dlsym(_ctypes.dlopen(program, 0), "prctl")
    if _ctypes.call_function(address, (option, value, 0, 0, 0)) != 0:
        raise OSError(f"prctl({option}) failed")


def wait_readable(fd: int, seconds: float) -> bool:
    """Whether there is something to read within that time."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def without_own_frames(stack: bytes) -> bytes:
    """A stack without the frames that called the code, with which each thread's may end."""
    here = without_own_frames.__code__.co_filename
    own = tuple(
        b'  File "%s", ' % os.fsencode(name)
        for name in (here, os.path.join(os.path.dirname(here), "code.py"), "<string>")
    )
    kept: list[bytes] = []
    ending = True
    for line in reversed(stack.splitlines()):
        ending = not line or (ending and line.startswith(own))
        if not line or not ending:
            kept.append(line)
    return b"\n".join(reversed(kept))


def close_others(kept: Container[int]) -> None:
    """Close every descriptor but those, and the first three."""
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        if fd >= CONTROL and fd not in kept:
            try:
                os.close(fd)
            except OSError:
                pass  # that of the listing itself


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal, without which it would die of it."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            caught = file.read().partition(b"SigCgt:")[2].split(None, 1)[0]
    except (OSError, IndexError):
        return False  # it ended meanwhile
    return bool(int(caught, 16) >> (number - 1) & 1)


def children_of(pid: int) -> list[int]:
    """The processes directly below one, as far as the kernel can tell at the moment."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as listing:
            return [int(word) for word in listing.read().split()]
    except FileNotFoundError:
        pass
    found: list[int] = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as listing:
                    fields = listing.read().rpartition(b")")[2].split()
            except OSError:
                continue  # it ended meanwhile
            if int(fields[1]) == pid:
                found.append(int(entry))
    return found


class Guard:
    """The one guard of this process."""

    def __init__(self) -> None:
        self.poll = select.poll()
        self.order: dict[str, Any] = {}
        self.pid = 0
        """The code's process; 0 before it exists."""
        self.status: int | None = None
        """How that ended, as `waitpid` says; `None` while it lives."""
        self.control: int | None = CONTROL
        """`None` while it has no supervisor."""
        self.gate: int | None = None
        """What the code waits for before it begins."""
        self.report: int | None = None
        self.report_buffer = b""
        self.said: bytes | None = None
        """What the program said before it became another: to be told if it does."""
        self.is_settled = False
        """Whether it was told that the code is loaded or is not."""
        self.stack: int | None = None
        self.stack_written: int | None = None
        self.tail = bytearray()
        self.written = 0
        self.ending = False
        self.candidate: int | None = None
        """Who wants to adopt it, and has to prove themselves first."""
        self.challenge = b""
        self.unsent: list[bytes] = []
        """What the supervisor could not take yet."""
        self.reporter = -1
        self.wake = self.waker = -1

    # What it is made of.

    def prepare(self) -> None:
        """Become a subreaper, and have signals wake it."""
        prctl(_PR_SET_CHILD_SUBREAPER, 1)
        self.wake, self.waker = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(self.waker, False)
        _signal.set_wakeup_fd(self.waker, warn_on_full_buffer=False)
        for number in (_signal.SIGCHLD, *_HANDLED):
            _signal.signal(number, _note)
        os.set_blocking(CONTROL, False)
        os.set_blocking(TIMER, False)
        for fd in (CONTROL, TIMER, self.wake):
            self.poll.register(fd, select.POLLIN)

    def serve(self) -> None:
        """Guard until nothing is left to be guarded; returns in the code's process alone."""
        while not self.ending:
            for fd, happened in self.poll.poll():
                if fd == self.control and happened & select.POLLOUT:
                    self.send_rest()
                    if happened == select.POLLOUT:
                        continue
                if fd == TIMER:
                    self.on_timer()
                elif fd == self.wake:
                    self.on_signals()
                elif fd == self.report:
                    self.on_report()
                elif fd == self.control:
                    if self.on_control():
                        return
                elif fd == self.candidate:
                    self.on_candidate()
                elif fd == OUTPUT_KEPT and self.control is None:
                    self.on_output()
                elif fd == LISTEN:
                    self.on_adopter()
        self.end()

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
        assert self.control is not None
        try:
            message = os.read(self.control, MAX_MESSAGE)
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
            case ("go",):
                if self.gate is not None:
                    os.close(self.gate)
                    self.gate = None
            case ("interrupt",):
                self.interrupt()
            case ("kill",):
                self.ending = True
            case ("stack",):
                self.tell(b"stack", self.take_stack())
            case _:
                self.tell(b"broken", b"the guard does not know what it was asked")
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
        if self.control is not None:
            self.poll.unregister(self.control)
            os.close(self.control)
            self.control = None
            self.unsent.clear()
        if self.order.get("orphaned") != "adopt" or not self.pid or self.gate is not None:
            self.ending = True
            return
        self.poll.register(OUTPUT_KEPT, select.POLLIN)

    def on_report(self) -> None:
        """The code's side says something: pass it on."""
        assert self.report is not None
        piece = os.read(self.report, MAX_FRAME)
        self.report_buffer += piece
        alive = False
        while len(self.report_buffer) >= 4:
            size = int.from_bytes(self.report_buffer[:4], "big")
            if size > MAX_FRAME:
                piece = self.report_buffer = b""  # not what our side writes: it is not heard
                break
            if len(self.report_buffer) < 4 + size:
                break
            said = self.report_buffer[4 : 4 + size]
            self.report_buffer = self.report_buffer[4 + size :]
            kind = said.partition(b"\0")[0]
            if kind == b"alive":
                alive = True
            elif kind == b"program":
                self.said = b"loaded" + said[7:]
            elif kind in (b"loaded", b"failed") and not self.is_settled:
                self.is_settled = True
                self.said = None
                self.tell_whole(said)
        if alive:
            self.tell(b"alive")
        if not piece:
            self.poll.unregister(self.report)
            os.close(self.report)
            self.report = None
            if self.said is not None and not self.is_settled:
                # It closed on becoming another program; its failure would have been told first.
                self.is_settled = True
                self.tell_whole(self.said)

    def on_output(self) -> None:
        """Keep the last of what the code writes while nobody else reads it."""
        piece = os.read(OUTPUT_KEPT, 65_536)
        if not piece:
            self.poll.unregister(OUTPUT_KEPT)
            return
        self.written += len(piece)
        self.tail += piece
        keep = self.order["max_output"]
        if len(self.tail) > 2 * keep:
            del self.tail[: len(self.tail) - keep]

    # Adoption.

    def on_adopter(self) -> None:
        """Somebody wants to take it over: ask them to prove that they know the secret.

        Whoever comes later is asked instead, so one that never answers holds up nobody.
        """
        import _socket  # noqa: PLC0415 - a guard that is never adopted does without

        listener: Any = _socket.socket(fileno=LISTEN)
        try:
            fd, _ = listener._accept()
        except OSError:
            return  # they are gone again
        finally:
            listener.detach()
        self.drop_candidate()
        self.candidate = fd
        self.challenge = os.urandom(16).hex().encode()
        os.set_blocking(fd, False)
        self.poll.register(fd, select.POLLIN)
        self.say_to_candidate(b"hello\0" + self.challenge)

    def on_candidate(self) -> None:
        """They answered; hand over what a supervisor holds, if it is the right answer."""
        import _socket  # noqa: PLC0415
        import hmac  # noqa: PLC0415
        from array import array  # noqa: PLC0415

        assert self.candidate is not None
        secret: bytes = self.order["secret"].encode()
        try:
            kind, theirs, proof = os.read(self.candidate, 4096).split(b"\0")
        except (OSError, ValueError):
            self.drop_candidate()
            return
        expected = hmac.digest(secret, b"adopter" + self.challenge + theirs, "sha256").hex()
        if kind != b"prove" or not hmac.compare_digest(proof, expected.encode()):
            self.drop_candidate()
            return
        if self.control is not None:
            self.say_to_candidate(b"busy")
            self.drop_candidate()
            return
        ours = hmac.digest(secret, b"guard" + theirs + self.challenge, "sha256").hex()
        kept = bytes(self.tail[-min(self.order["max_output"], MAX_TAIL) :])
        facts = (ours, str(self.order["slot"]), str(self.written - len(kept)))
        fds = array("i", (CHANNEL_KEPT, OUTPUT_KEPT, TIMER, PAGE))
        fd = self.candidate
        connection = _socket.socket(fileno=fd)
        try:
            connection.sendmsg(
                [b"\0".join((b"welcome", *(fact.encode() for fact in facts), kept))],
                [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fds)],
            )
        except OSError:
            self.drop_candidate()
            return
        finally:
            connection.detach()
        self.candidate = None
        self.control = fd
        self.tail.clear()
        self.written = 0
        try:
            self.poll.unregister(OUTPUT_KEPT)
        except KeyError:
            pass  # all that could write to it have closed it

    def say_to_candidate(self, message: bytes) -> None:
        """Send them something; who does not take it has lost."""
        assert self.candidate is not None
        try:
            os.write(self.candidate, message)
        except OSError:
            self.drop_candidate()

    def drop_candidate(self) -> None:
        """They did not prove themselves."""
        if self.candidate is not None:
            self.poll.unregister(self.candidate)
            os.close(self.candidate)
            self.candidate = None

    # What it says.

    def tell(self, kind: bytes, *parts: bytes) -> None:
        """Tell the supervisor something, made up from its parts."""
        self.tell_whole(b"\0".join((kind, *(part.replace(b"\0", b"?") for part in parts))))

    def tell_whole(self, message: bytes) -> None:
        """Tell the supervisor something, later if it takes none now; signs of life do not wait."""
        if self.control is None:
            return
        if not self.unsent:
            try:
                os.write(self.control, message)
            except BlockingIOError:
                pass
            except OSError:
                self.lose_supervisor()
                return
            else:
                return
        if message != b"alive" and len(self.unsent) < MAX_UNSENT:
            self.unsent.append(message)
            self.poll.modify(self.control, select.POLLIN | select.POLLOUT)

    def send_rest(self) -> None:
        """Tell the supervisor what it could not take before, as far as it takes it now."""
        while self.unsent and self.control is not None:
            try:
                os.write(self.control, self.unsent[0])
            except BlockingIOError:
                return
            except OSError:
                self.lose_supervisor()
                return
            del self.unsent[0]
        if self.control is not None:
            self.poll.modify(self.control, select.POLLIN)

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
        os.set_blocking(self.stack_written, False)
        if order["orphaned"] == "adopt":
            os.set_blocking(LISTEN, False)
            self.poll.register(LISTEN, select.POLLIN)
        mask = _signal.pthread_sigmask(_signal.SIG_BLOCK, (_signal.SIGCHLD, *_HANDLED))
        try:
            pid = os.fork()
        except OSError as failure:
            _signal.pthread_sigmask(_signal.SIG_SETMASK, mask)
            self.tell(b"broken", f"no process could be made: {failure}".encode())
            self.ending = True
            return False
        if pid == 0:
            self.become(reporter, gate, mask)
            return True
        try:
            os.setpgid(pid, pid)
        except OSError:
            pass  # it did so itself, and is another program already
        self.pid = pid
        _signal.pthread_sigmask(_signal.SIG_SETMASK, mask)
        for fd in (reporter, gate, CHANNEL):
            os.close(fd)
        self.gate = gate_kept
        self.report = report
        self.poll.register(report, select.POLLIN)
        self.tell(b"code", str(pid).encode())
        if not order["gated"]:
            os.close(gate_kept)
            self.gate = None
        return False

    def become(self, reporter: int, gate: int, mask: Any) -> None:
        """Be the code's process: let go of all that is the guard's."""
        guard = os.getppid()
        os.setpgid(0, 0)
        prctl(_PR_SET_PDEATHSIG, _signal.SIGKILL)
        if os.getppid() != guard:
            os._exit(137)
        _signal.set_wakeup_fd(-1)
        for number in (_signal.SIGCHLD, _signal.SIGTERM, _signal.SIGHUP):
            _signal.signal(number, _signal.SIG_DFL)
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, mask)
        page = os.open(f"/proc/self/fd/{PAGE}", os.O_RDONLY | os.O_CLOEXEC)
        os.dup2(page, PAGE, inheritable=False)
        stack = self.stack_written
        assert stack is not None
        kept = {CHANNEL, PAGE, reporter, gate, stack}
        close_others(kept)
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
        """Where the code is: by its interpreter if it can tell, and by the kernel in any case."""
        if not self.pid:
            return b"the code does not run yet"
        told = b""
        if self.stack is not None and catches(self.pid, SIGNAL_STACK):
            os.kill(self.pid, SIGNAL_STACK)
            patience = STACK_PATIENCE
            while len(told) < MAX_STACK and wait_readable(self.stack, patience):
                told += os.read(self.stack, MAX_STACK - len(told))
                patience = STACK_QUIET
        return (without_own_frames(told) + b"\n\n" + self.kernel_view()).strip()

    def kernel_view(self) -> bytes:
        """What the kernel says of the code's process and of those right below it."""
        lines = [b"as the kernel sees it:"]
        with open("/proc/self/cmdline", "rb") as file:
            own = file.read(256)
        forked = str(self.order.get("specifier", "about to run")).encode()
        for pid in (self.pid, *children_of(self.pid)):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    command = file.read(256)
                # What was only forked has this process's arguments, which tell nothing of it.
                command = forked if command == own else command.replace(b"\0", b" ")
                with open(f"/proc/{pid}/stat", "rb") as file:
                    state = file.read().rpartition(b")")[2].split()[0]
                with open(f"/proc/{pid}/wchan", "rb") as file:
                    place = file.read(64)
            except OSError:
                continue  # it ended meanwhile
            lines.append(b"  %d state %s in %s: %s" % (pid, state, place or b"0", command))
            if len(lines) > 64:
                break
        return b"\n".join(lines)

    # The end.

    def end(self) -> NoReturn:
        """End everything, see that it has ended, say how, and end."""
        cgroup = self.order.get("cgroup")
        if cgroup:
            try:
                kill = os.open(f"{cgroup}/cgroup.kill", os.O_WRONLY)
                os.write(kill, b"1")
                os.close(kill)
            except OSError:
                pass  # then one by one, below
        if self.pid:
            try:
                os.killpg(self.pid, _signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass  # its members are ended one by one
        wait = select.poll()
        wait.register(self.wake, select.POLLIN)
        while True:
            for pid in children_of(os.getpid()):
                try:
                    os.kill(pid, _signal.SIGKILL)
                except (ProcessLookupError, PermissionError):
                    pass
            try:
                ended, status = os.waitpid(-1, os.WNOHANG)
                while ended:
                    if ended == self.pid:
                        self.status = status
                    ended, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if wait.poll(_RECHECK_MS):
                try:
                    os.read(self.wake, 4096)
                except BlockingIOError:
                    pass
        if cgroup:
            try:
                os.rmdir(cgroup)
            except OSError:
                pass  # the supervisor sees to it
        if self.status is not None:
            self.tell(b"exit", str(os.waitstatus_to_exitcode(self.status)).encode())
        self.tell(b"gone")
        if self.unsent and self.control is not None:
            # Nothing but this process is left by now, so it can wait for a supervisor that is slow.
            writable = select.poll()
            writable.register(self.control, select.POLLOUT)
            for _ in range(MAX_UNSENT):
                if not self.unsent or not writable.poll(FAREWELL_MS):
                    break
                self.send_rest()
        if self.status is None:
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
    guard.serve()
    sys.exit(guard.run_code(code))
