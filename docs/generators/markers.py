"""Markers in a page: what they may ask for, and what they are replaced by.

    <!-- generated: KIND TARGET… NAME=VALUE…
    word: a meaning that only a person can give
    -->

| kind | targets | becomes |
|---|---|---|
| `diagram` | a transition table | a Mermaid diagram; `one=` and `any=` name classes of states |
| `transitions` | the same | the same as a table to read |
| `summary` | records, or collections of them | one table: each record, and what it says |
| `records` | the same | a section for each, with its fields; words: for fields without a meaning |
| `options` | a pydantic model | its options, defaults, bounds and meanings |
| `errors` | modules or packages | their errors; words: what a caller does |

A target is `package.module:name`, or `package.module`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, cast

import msgspec

from .errors import errors, errors_of
from .names import NotDocumented, named
from .options import options, options_of
from .records import records, records_of, summary
from .transitions import Machine, diagram, transitions

__all__ = ["KINDS", "Kind", "Marker", "filled", "markers"]

_COMMENT: Final = re.compile(r"^<!--\s*generated\b:?(.*?)-->[ \t]*$", re.DOTALL | re.MULTILINE)


class Marker(msgspec.Struct, frozen=True):
    """What is to stand in a place of a page."""

    kind: str
    targets: tuple[str, ...]
    options: dict[str, tuple[str, ...]]
    words: dict[str, str]

    @classmethod
    def parse(cls, text: str) -> Marker:
        """The marker that is written in a comment.

        Raises:
            NotDocumented: If it is written in another way.
        """
        first, *lines = text.strip().splitlines() or [""]
        kind, *parts = first.split() or [""]
        pairs = [part.split("=", 1) for part in parts if "=" in part]
        words: dict[str, str] = {}
        for line in filter(None, map(str.strip, lines)):
            word, colon, meaning = line.partition(":")
            if not colon or not meaning or word in words:
                raise NotDocumented(f"not a word and its meaning, once: {line!r}")
            words[word] = meaning.strip()
        return cls(
            kind,
            tuple(part for part in parts if "=" not in part),
            {name: tuple(value.split(",")) for name, value in pairs},
            words,
        )


def _machine(marker: Marker) -> Machine:
    (target,) = _targets(marker)
    if not isinstance(target, Mapping):
        raise NotDocumented(f"{marker.targets[0]} is no transition table")
    return cast("Machine", target)


def _targets(marker: Marker) -> list[object]:
    return [named(target) for target in marker.targets]


def _diagram(marker: Marker) -> str:
    one, any_ = marker.options.get("one", ()), marker.options.get("any", ())
    return f"```mermaid\n{diagram(_machine(marker), one=one, any_=any_)}\n```"


def _transitions(marker: Marker) -> str:
    one, any_ = marker.options.get("one", ()), marker.options.get("any", ())
    return transitions(_machine(marker), one=one, any_=any_)


def _summary(marker: Marker) -> str:
    return summary([each for target in _targets(marker) for each in records_of(target)])


def _records(marker: Marker) -> str:
    of = [each for target in _targets(marker) for each in records_of(target)]
    return records(of, marker.words)


def _options(marker: Marker) -> str:
    return "\n\n".join(options(options_of(target)) for target in _targets(marker))


def _errors(marker: Marker) -> str:
    of = [each for target in _targets(marker) for each in errors_of(target)]
    return errors(of, marker.words)


class Kind(msgspec.Struct, frozen=True):
    """What a marker may ask for: how it is made, and what the marker may say beside its targets."""

    generate: Callable[[Marker], str]
    options: frozenset[str] = frozenset()
    has_words: bool = False
    sole_target: bool = False


_TABLE: Final = frozenset({"one", "any"})

KINDS: Final[Mapping[str, Kind]] = {
    "diagram": Kind(_diagram, _TABLE, sole_target=True),
    "transitions": Kind(_transitions, _TABLE, sole_target=True),
    "summary": Kind(_summary),
    "records": Kind(_records, has_words=True),
    "options": Kind(_options),
    "errors": Kind(_errors, has_words=True),
}
"""What a marker may ask for; one more of them is one more line here."""


def markers(page: str) -> list[Marker]:
    """The markers of a page, in order.

    Raises:
        NotDocumented: If one is written in another way.
    """
    return [Marker.parse(found.group(1)) for found in _COMMENT.finditer(page)]


def filled(page: str) -> str:
    """A page with every marker replaced by what the code says.

    Raises:
        NotDocumented: If a marker asks for what is not there; nothing is left out in silence.
    """
    return _COMMENT.sub(lambda found: _generated(Marker.parse(found.group(1))), page)


def _generated(marker: Marker) -> str:
    kind = KINDS.get(marker.kind)
    if kind is None:
        raise NotDocumented(f"unknown marker {marker.kind!r}; there are {', '.join(KINDS)}")
    unknown = marker.options.keys() - kind.options
    if unknown:
        raise NotDocumented(f"a {marker.kind} marker has no option {', '.join(sorted(unknown))}")
    if marker.words and not kind.has_words:
        raise NotDocumented(f"a {marker.kind} marker takes no words")
    if not marker.targets:
        raise NotDocumented(f"a {marker.kind} marker names what it is about")
    if kind.sole_target and len(marker.targets) > 1:
        raise NotDocumented(f"a {marker.kind} marker names one table")
    return kind.generate(marker)
