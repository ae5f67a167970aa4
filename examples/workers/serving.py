"""The plugin's side: requests in, answers out, one line of JSON each.

A plugin is a file with a `main` that hands its function to `serve`::

    from examples.workers.serving import serve

    def answer(request):
        return request.upper()

    EXAMPLES = [("hello", "HELLO")]

    def main(session):
        serve(session, answer, EXAMPLES)

The host asks what the examples say and sees that the answers are those.  This imports nothing of
the library, so that a child starts fast.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trio_reactor.supervision.child import ChildSession

__all__ = ["MAX_LINE", "reply", "serve"]

MAX_LINE = 1_048_576
"""Bytes of the longest request and the longest answer."""


def serve(
    session: ChildSession,
    answer: Callable[[Any], object],
    examples: Sequence[Sequence[object]] = (),
) -> None:
    """Answer until nobody asks any more.

    What the function raises is told to whoever asked, and the next request is served.

    Args:
        session: What `main` was given.
        answer: From a request to its answer; both are what JSON can say.
        examples: Pairs of a request and its right answer.

    Raises:
        ValueError: The host sent a line that is too long or is not a request.
    """
    with session.socket() as connection, connection.makefile("rb") as lines:
        while line := lines.readline(MAX_LINE + 1):
            session.send(reply(line, answer, examples))


def reply(
    line: bytes, answer: Callable[[Any], object], examples: Sequence[Sequence[object]] = ()
) -> bytes:
    """The line that answers one; see `serve`."""
    if len(line) > MAX_LINE:
        raise ValueError(f"a request is longer than {MAX_LINE} bytes")
    request = json.loads(line)
    said: dict[str, object] = {"id": request["id"]}
    try:
        said["answer"] = (
            list(examples) if request["method"] == "examples" else answer(request["of"])
        )
        encoded = json.dumps(said)
    except Exception as failure:  # noqa: BLE001 - told, whole, to whoever asked
        encoded = json.dumps({"id": request["id"], "error": f"{type(failure).__name__}: {failure}"})
    return encoded.encode() + b"\n"
