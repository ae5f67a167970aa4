"""What the host runs, and what it asks; each answer is checked by other means than it was made."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from trio_reactor.supervision import Key, PythonCode

__all__ = [
    "BUILT_IN",
    "FRAGILE",
    "PARSING",
    "PONDERING",
    "SUMMING_UP",
    "Plugin",
    "Question",
    "equals",
    "of_file",
]


class Question(msgspec.Struct, frozen=True):
    """A request, and whether an answer to it is right."""

    request: object
    is_right: Callable[[object], bool]


class Plugin(msgspec.Struct, frozen=True):
    """Code, the key it runs under, and what it is asked."""

    key: Key
    work: PythonCode
    questions: tuple[Question, ...] = ()
    """Empty: it says itself what it is to be asked."""
    file: str | None = None
    """The user's file that it is, if it is one."""

    def __str__(self) -> str:
        return f"plugin {self.file}" if self.file is not None else str(self.key)


_TEXTS: Final = ("", "so it goes", "ab" * 5_000)
_NUMBERS: Final = ([1.0], [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0])
_VALUES: Final[tuple[object, ...]] = ({"b": [1, 2.5, None], "a": {"d": True, "c": "é"}}, [], "text")


def _unpacked(answer: object) -> bytes:
    return base64.b64decode(answer, validate=True) if isinstance(answer, str) else b"\xff"


def _inflates_to(text: str) -> Callable[[object], bool]:
    return lambda answer: zlib.decompress(_unpacked(answer)) == text.encode()


def _unpacks_to(value: object) -> Callable[[object], bool]:
    return lambda answer: bool(msgspec.msgpack.decode(_unpacked(answer)) == value)


def _sums(numbers: list[float]) -> Callable[[object], bool]:
    mean = sum(numbers) / len(numbers)
    ordered = sorted(numbers)
    half = len(ordered) // 2
    median = (ordered[half] + ordered[-half - 1]) / 2
    deviation = math.sqrt(sum((number - mean) ** 2 for number in numbers) / len(numbers))
    right = [mean, median, deviation]
    return lambda answer: (
        isinstance(answer, list)
        and all(map(math.isclose, msgspec.convert(answer, list[float]), right))
    )


def _digest(text: str) -> str:
    return hashlib.scrypt(text.encode(), salt=b"workers", n=1024, r=8, p=1).hex()


def _own(name: str, callable_: str, *questions: Question) -> Plugin:
    return Plugin(Key(name), PythonCode(f"examples.workers.plugins:{callable_}"), questions)


def equals(right: object) -> Callable[[object], bool]:
    """Whether an answer is this."""
    return lambda answer: bool(answer == right)


PARSING: Final = _own(
    "json",
    "parsing",
    *(Question(json.dumps(value), equals(value)) for value in _VALUES),
)
SUMMING_UP: Final = _own(
    "statistics", "summing_up", *(Question(numbers, _sums(numbers)) for numbers in _NUMBERS)
)
BUILT_IN: Final = (
    PARSING,
    SUMMING_UP,
    _own("zlib", "squeezing", *(Question(text, _inflates_to(text)) for text in _TEXTS)),
    _own("msgspec", "packing", *(Question(value, _unpacks_to(value)) for value in _VALUES)),
    _own("hashlib", "hashing", *(Question(text, equals(_digest(text))) for text in _TEXTS)),
)
"""Those that are kept running."""

FRAGILE: Final = _own("fragile", "fragile", Question("abc", equals("cba")))
PONDERING: Final = _own("pondering", "pondering", Question(42, equals(42)))


def of_file(file: Path, number: int) -> Plugin:
    """The plugin that a user's file is.

    Args:
        file: An absolute path.
        number: Which of the files it is, since two may be called the same.

    Raises:
        ValueError: Its name is none that a module can have.
    """
    if file.suffix != ".py" or not file.stem.isidentifier():
        raise ValueError("its name is not that of a Python module, such as words.py")
    return Plugin(
        Key(file.stem, f"file {number}"),
        PythonCode(f"{file.stem}:main", path=(str(file.parent),)),
        file=str(file),
    )
