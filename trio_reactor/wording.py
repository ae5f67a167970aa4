"""How a thing that is not what it must be is told: by its kind, never by what it says."""

from __future__ import annotations

from typing import Final

__all__ = ["a_kind"]

_VOWELS: Final = tuple("aeiouAEIO")  # a capital U is most often said as a letter: a UUID


def a_kind(value: object) -> str:
    """The kind of a value with its article: `a str`, `an int`."""
    name = type(value).__name__
    return f"{'an' if name.startswith(_VOWELS) else 'a'} {name}"
