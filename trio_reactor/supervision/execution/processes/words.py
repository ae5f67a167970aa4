"""What a guard says to its supervisor, and what that means; nothing it says is trusted to be right.

A message is a word and its parts, kept apart by zeros.
"""

from __future__ import annotations

from typing import Final

import msgspec

from trio_reactor.supervision.model.work import CodeIdentity

__all__ = [
    "Alive",
    "Broken",
    "CodeMade",
    "CodeRefused",
    "CodeRuns",
    "Ended",
    "Gone",
    "Nonsense",
    "StackTold",
    "Word",
    "heard",
]

_MAX_NAME: Final = 1_024
_MAX_PATH: Final = 4_096
_MAX_DIGITS: Final = 10
"""More than any process id or exit status has."""
_MAX_QUOTED: Final = 80


class Alive(msgspec.Struct, frozen=True):
    """The code gave a sign of life."""


class CodeMade(msgspec.Struct, frozen=True):
    """The code's process exists, and waits if it was told to."""

    pid: int


class CodeRuns(msgspec.Struct, frozen=True):
    """The code is loaded."""

    code: CodeIdentity


class CodeRefused(msgspec.Struct, frozen=True):
    """The code could not be loaded."""

    detail: str


class Broken(msgspec.Struct, frozen=True):
    """The guard cannot do what it has to."""

    detail: str


class Ended(msgspec.Struct, frozen=True):
    """The code's process has ended."""

    status: int
    """As `os.waitstatus_to_exitcode` gives it."""


class Gone(msgspec.Struct, frozen=True):
    """Nothing that the guard has guarded is left."""


class StackTold(msgspec.Struct, frozen=True):
    """Where the code is."""

    text: str


class Nonsense(msgspec.Struct, frozen=True):
    """What nobody understands."""

    quoted: str


Word = Alive | CodeMade | CodeRuns | CodeRefused | Broken | Ended | Gone | StackTold | Nonsense


def heard(message: bytes) -> Word:
    """What a message means."""
    kind, *parts = message.decode("utf-8", "replace").split("\0")
    match kind, parts:
        case "alive", []:
            return Alive()
        case "code", [pid] if (number := _number(pid)) is not None and number > 0:
            return CodeMade(number)
        case "loaded", [name, digest, version, origin]:
            return CodeRuns(
                CodeIdentity(
                    name[:_MAX_NAME],
                    digest[:_MAX_NAME],
                    version[:_MAX_NAME] or None,
                    origin[:_MAX_PATH] or None,
                )
            )
        case "failed", [detail]:
            return CodeRefused(detail)
        case "broken", [detail]:
            return Broken(detail)
        case "exit", [status] if (number := _number(status)) is not None:
            return Ended(number)
        case "gone", []:
            return Gone()
        case "stack", [text]:
            return StackTold(text)
        case _:
            return Nonsense(kind[:_MAX_QUOTED])


def _number(text: str) -> int | None:
    """What was told as a number, if it is one that can be meant."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_DIGITS):
        return None
    return int(text)
