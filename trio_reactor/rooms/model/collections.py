"""Typed collections: the documents beneath a directory, read as values of a pydantic model.

A document that is not one is kept and shown, with what is wrong with it.  Nothing of that is
stored, so a model that has changed applies to whatever is held at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError

from .entries import Document
from .held import Seen
from .paths import beneath, check_root

__all__ = ["Collection", "Item", "Problem"]

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a document."""

    where: str
    """Which field, by its path in the value; empty: the whole."""
    what: str
    """What is wrong, without the value."""


@dataclass(frozen=True, slots=True)
class Item(Generic[M]):
    """A document of a collection."""

    seen: Seen
    value: M | None
    """What it means; `None`: it is invalid."""
    problems: tuple[Problem, ...] = ()
    """Why it is invalid."""


@dataclass(frozen=True, slots=True)
class Collection(Generic[M]):
    """The documents beneath a directory, as values of a model.

    Args:
        root: The directory.
        model: What each document has to be.
        parse: Makes of a text what the model validates; JSON by default.  It may raise
            `ValueError`.
        merge: Makes one text of (base, mine, theirs) when an edit meets another one; `None`, also
            as its result: both are kept, for a person to choose.
        suffix: Only documents whose path ends in this belong to it.

    Raises:
        ValueError, TypeError: The root cannot be a directory's path.
    """

    root: str
    model: type[M]
    parse: Callable[[str], object] = json.loads
    merge: Callable[[str, str, str], str | None] | None = None
    suffix: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", check_root(self.root))

    def covers(self, path: str) -> bool:
        """Whether what is at a path belongs to it."""
        return beneath(self.root, path) and path.endswith(self.suffix)

    def takes(self, seen: Seen) -> bool:
        """Whether an entry is a document of it."""
        return isinstance(seen.entry, Document) and self.covers(seen.entry.path)

    def item(self, seen: Seen) -> Item[M]:
        """A document as a value, or with what is wrong with it."""
        entry = seen.entry
        if not isinstance(entry, Document):
            return Item(seen, None, (Problem("", "this is not a text"),))
        try:
            parsed = self.parse(entry.text)
        except ValueError as flaw:
            return Item(seen, None, (Problem("", f"it cannot be read: {type(flaw).__name__}"),))
        try:
            return Item(seen, self.model.model_validate(parsed))
        except ValidationError as flaws:
            return Item(
                seen,
                None,
                tuple(
                    Problem(".".join(str(part) for part in flaw["loc"]), flaw["msg"])
                    for flaw in flaws.errors(include_input=False, include_url=False)
                ),
            )
