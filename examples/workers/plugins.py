"""The example's own plugins: thin files around modules that are installed anyway."""

from __future__ import annotations

import base64
import functools
import json
import os
import signal
import statistics
import zlib
from typing import TYPE_CHECKING, Any

from .serving import reply, serve

if TYPE_CHECKING:
    from trio_reactor.supervision.child import ChildSession

__all__ = [
    "fragile",
    "hashing",
    "packing",
    "parsing",
    "pondering",
    "squeezing",
    "summing_up",
]


def parsing(session: ChildSession) -> None:
    """`json`: a text in, what it says out, with its keys in order."""
    serve(session, lambda text: json.loads(json.dumps(json.loads(text), sort_keys=True)))


def squeezing(session: ChildSession) -> None:
    """`zlib`: a text in, its compressed bytes out, in base 64."""
    serve(session, lambda text: base64.b64encode(zlib.compress(text.encode(), 9)).decode())


def summing_up(session: ChildSession) -> None:
    """`statistics`: numbers in, their mean, median and standard deviation out."""
    functions = (statistics.fmean, statistics.median, statistics.pstdev)
    serve(session, lambda numbers: [function(numbers) for function in functions])


def packing(session: ChildSession) -> None:
    """`msgspec`: a value in, its MessagePack out, in base 64."""
    import msgspec  # noqa: PLC0415 - only this one has it

    serve(session, lambda value: base64.b64encode(msgspec.msgpack.encode(value)).decode())


async def hashing(session: ChildSession) -> None:
    """`hashlib`, in threads under Trio: an `async def` is run by it."""
    import hashlib  # noqa: PLC0415 - only this one has it

    import trio  # noqa: PLC0415 - the others do without

    def digest(text: str) -> str:
        return hashlib.scrypt(text.encode(), salt=b"workers", n=1024, r=8, p=1).hex()

    waiting = b""
    async for piece in session.stream:
        *lines, waiting = (waiting + piece).split(b"\n")
        for line in lines:
            told = await trio.to_thread.run_sync(functools.partial(reply, line, digest))
            await session.stream.send_all(told)


def fragile(session: ChildSession) -> None:
    """Answers, until it is asked for what it does not survive."""

    def answer(request: str) -> str:
        if request == "crash":
            print("the memory at address 0 is about to be read", flush=True)
            os.kill(os.getpid(), signal.SIGSEGV)
        return request[::-1]

    serve(session, answer)


def pondering(session: ChildSession) -> None:
    """Answers, until it is asked what it cannot stop thinking about."""

    def answer(request: Any) -> object:
        return thinking_for_ever() if request == "why" else request

    serve(session, answer)


def thinking_for_ever() -> object:
    """Never comes to a conclusion."""
    thoughts = 0
    while True:
        thoughts += 1
