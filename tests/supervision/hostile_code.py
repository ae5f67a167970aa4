"""Code that turns against its guard, as far as a user's own rights go."""

from __future__ import annotations

import ctypes
import os
import signal
import stat
import time

PAGE = 6
"""Where it finds its deadline, as its descriptor."""


def _attempt(what):
    try:
        what()
    except OSError as failure:
        return type(failure).__name__
    return "done"


def edit_page(session):
    """Opens the page of deadlines again, to write to it and to shorten it."""
    path = f"/proc/self/fd/{PAGE}"
    far = (2**61).to_bytes(8, "little") * 2

    def write():
        fd = os.open(path, os.O_RDWR)
        os.pwrite(fd, far, session._at)

    def map_it():
        import mmap  # noqa: PLC0415 - only here

        mapped = mmap.mmap(os.open(path, os.O_RDWR), 4096)
        mapped[session._at : session._at + 16] = far

    tried = [
        _attempt(write),
        _attempt(map_it),
        _attempt(lambda: os.truncate(path, 0)),
        _attempt(lambda: os.truncate(path, 1 << 24)),
    ]
    session.send(f"{' '.join(tried)} {session.remaining() < 1000}".encode())
    session.receive()


def look_into_guard(session):
    """Tries to take what its guard holds: by tracing it, by its files, by its memory."""
    library = ctypes.CDLL(None, use_errno=True)
    guard = os.getppid()

    def steal():
        if library.syscall(438, os.pidfd_open(guard), 5, 0) < 0:  # pidfd_getfd: its timer
            raise OSError(ctypes.get_errno(), "refused")

    def trace():
        if library.ptrace(16, guard, 0, 0) < 0:  # PTRACE_ATTACH
            raise OSError(ctypes.get_errno(), "refused")
        os.waitpid(guard, 0x40000000)
        library.ptrace(17, guard, 0, 0)

    tried = [
        _attempt(steal),
        _attempt(trace),
        _attempt(lambda: os.readlink(f"/proc/{guard}/fd/5")),
        _attempt(lambda: os.open(f"/proc/{guard}/mem", os.O_RDWR)),
        _attempt(lambda: os.readlink("/proc/self/fd/0")),
    ]
    session.send(" ".join(tried).encode())
    session.receive()


def trickle(session):
    """Answers to the question where it is, and never stops."""
    pipes = [
        fd
        for fd in map(int, os.listdir("/proc/self/fd"))
        if fd > 2 and fd != session._report and _is_pipe(fd)
    ]

    def answer(_number, _frame):
        while True:
            for fd in pipes:
                os.write(fd, b".")
            time.sleep(0.02)

    signal.signal(signal.SIGRTMAX, answer)
    session.send(b"ready")
    while True:
        time.sleep(1000)


def _is_pipe(fd):
    try:
        return stat.S_ISFIFO(os.fstat(fd).st_mode)
    except OSError:
        return False


def pester_guard(session):
    """Sends its guard what it was not made for."""
    for number in signal.valid_signals() - {
        signal.SIGKILL,
        signal.SIGSTOP,
        signal.SIGCONT,
        signal.SIGTERM,
        signal.SIGINT,
        signal.SIGHUP,
        # What the kernel means by them is a fault of the process, which ends it.
        signal.SIGSEGV,
        signal.SIGBUS,
        signal.SIGILL,
        signal.SIGFPE,
    }:
        os.kill(os.getppid(), number)
    session.send(b"pestered")
    while request := session.receive():
        session.send(request.upper())


def say_tiny(session):
    """Says that it is alive a byte at a time, then a great deal at once, then nonsense."""
    for byte in b"\0\0\0\5alive" * 50:
        os.write(session._report, bytes([byte]))
    os.set_blocking(session._report, True)
    os.write(session._report, b"\0\0\0\5alive" * 100_000)
    os.write(session._report, b"\0\0\0\7loaded\0\0\0\0\7failed\0")
    session.send(b"said")
    os.write(session._report, b"\xff\xff\xff\xff")
    while request := session.receive():
        session.send(request.upper())


def hop(session):
    """Never stands still: each process lives until the next one of its line exists."""
    ready, told = os.pipe()
    for _ in range(4):
        if os.fork() == 0:
            os.setsid()
            os.write(told, b"!")
            until = time.monotonic() + 20
            while time.monotonic() < until:  # so that a test that fails does not go on
                if os.fork():
                    os._exit(0)
            os._exit(0)
    for _ in range(4):
        os.read(ready, 1)
    session.send(b"hopping")
    time.sleep(1000)


def forget_everything(session):
    """A daemon that nothing can be known by but what is above it, which it ends with its guard."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(writer, str(os.getpid()).encode())
            os.close(writer)
            os.execve("/bin/sleep", ["sleep", "30"], {})
        os._exit(0)
    os.wait()
    session.send(os.read(reader, 100))
    session.receive(1)
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(1000)
