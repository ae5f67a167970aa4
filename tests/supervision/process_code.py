"""Code that children run in tests: good, and as bad as it comes."""

from __future__ import annotations

import os
import signal
import sys
import time

__version__ = "4.2"


def echo(session):
    while request := session.receive():
        session.send(request.upper())


async def echo_async(session):
    async for request in session.stream:
        await session.stream.send_all(request.upper())


def tell(session):
    text = f"{session.identity} {session.instance} {session.generation} {session.argument}"
    session.send(text.encode())


def tell_deadline(session):
    while session.receive():
        session.send(repr(session.deadline()).encode())


def spin(session):
    """Holds the interpreter's lock from here on."""
    session.send(b"spinning")
    all(True for _ in iter(int, 1))


def sleep(session):
    session.send(f"{os.getpid()} {os.getppid()}".encode())
    time.sleep(1000)


async def sleep_async(session):
    import trio  # noqa: PLC0415 - the others do without

    await session.stream.send_all(b"sleeping")
    try:
        await trio.sleep_forever()
    finally:
        print("was asked to end")


async def return_async(session):
    pass


async def block_async(session):
    await session.stream.send_all(b"blocking")
    time.sleep(1000)  # noqa: ASYNC251 - that is what is bad about it


def ignore(session):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sleep(session)


def fail(session):
    raise ValueError("it was bad")


def leave(session):
    sys.exit(3)


def leave_at_once(session):
    os._exit(4)


def die(session):
    os.kill(os.getpid(), signal.SIGSEGV)


def last_words(session):
    session.send(b"x" * 100_000 + b"last words")


def close_everything(session):
    os.closerange(0, 4096)
    time.sleep(1000)


def close_channel(session):
    os.close(session.fileno())
    time.sleep(1000)


def chatter(session):
    """Writes as much as its argument says."""
    left = int(session.argument)
    piece = b"0123456789abcde\n" * 65536
    while left > 0:
        left -= os.write(1, piece[:left])
    os.write(2, b"the end")


def daemonize(session):
    """Leaves a grandchild with a session of its own, which has thrown its environment away."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(writer, str(os.getpid()).encode())
            os.close(writer)
            os.execve("/bin/sleep", ["sleep", "1000"], {})
        os._exit(0)
    os.wait()
    session.send(os.read(reader, 100))
    if session.argument == "stay":
        time.sleep(1000)


def fork_many(session):
    for _ in range(20):
        if os.fork() == 0:
            time.sleep(1000)
    session.send(b"forked")
    time.sleep(1000)


def kill_guard(session):
    """Ends its own guard, and leaves a daemon."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(writer, str(os.getpid()).encode())
            time.sleep(1000)
        os._exit(0)
    os.wait()
    session.send(os.read(reader, 100))
    session.receive(1)
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(1000)


def stop_guard(session):
    session.receive(1)
    os.kill(os.getppid(), signal.SIGSTOP)
    session.send(b"stopped")
    time.sleep(1000)


def beat(session):
    while True:
        session.alive()
        time.sleep(0.01)


def environment(session):
    session.send(
        f"{os.getcwd()}|{sys.path[0]}|{os.environ.get('ADDED')}|{'trio' in sys.modules}|"
        f"{'trio_reactor' in sys.modules}|{os.getpgid(0) == os.getpid()}|"
        f"{sorted(int(n) for n in os.listdir('/proc/self/fd'))}".encode()
    )


def eat_memory(session):
    kept = []
    try:
        while True:
            kept.append(bytearray(16 << 20))
    except MemoryError:
        held = len(kept)
        kept.clear()
        session.send(str(held).encode())


def open_many(session):
    opened = []
    try:
        while True:
            opened.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        held = len(opened)
        for fd in opened:
            os.close(fd)
        session.send(str(held).encode())


def burn(session):
    while True:
        pass


def write_on(session):
    while True:
        os.write(1, b"line\n" * 200)
        time.sleep(0.002)


def count_on(session):
    number = 0
    while True:
        number += 1
        os.write(1, b"%d\n" % number)
        time.sleep(0.001)


def beat_and_leave(session):
    session.send(b"beating")
    for _ in range(2000):
        session._signed = 0.0
        session.alive()
        time.sleep(0.0003)
    os._exit(5)


def become(session):
    os.execvp("sh", ["sh", "-c", "echo up; exec sleep 1000"])
