"""Finding what a marker names, and writing it into a cell of a Markdown table."""

from __future__ import annotations

import functools
import html
import importlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import griffe

__all__ = [
    "ROOT",
    "NotDocumented",
    "cell",
    "code",
    "described",
    "first_paragraph",
    "named",
    "table",
    "typed",
]

ROOT: Final = Path(__file__).resolve().parents[2]
"""Where the code lies that the pages are about."""


class NotDocumented(Exception):
    """A page asks for something that is not there."""


def named(target: str) -> object:
    """The object that `package.module:name` names, or the module where no name is given.

    Raises:
        NotDocumented: If there is none.
    """
    module, _, name = target.partition(":")
    try:
        found: object = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise NotDocumented(f"there is no module {module}") from error
    if not name:
        return found
    try:
        return getattr(found, name)
    except AttributeError as error:
        raise NotDocumented(f"{module} has no {name}") from error


@functools.cache
def _package(name: str) -> griffe.Object:
    loaded = griffe.load(name, search_paths=[ROOT], try_relative_path=False)
    assert isinstance(loaded, griffe.Object)  # noqa: S101 - a package is no alias
    return loaded


def described(path: str) -> griffe.Object | None:
    """What the source says of an object, by its full path; `None` for what is not of this tree."""
    package, _, rest = path.partition(".")
    if not (ROOT / package).is_dir():
        return None
    try:
        found = _package(package)[rest] if rest else _package(package)
    except KeyError:
        return None
    if isinstance(found, griffe.Alias):
        found = found.final_target
    return found if isinstance(found, griffe.Object) else None


def first_paragraph(text: str) -> str:
    """The first paragraph of a docstring, in one line."""
    paragraph, _, _ = text.strip().partition("\n\n")
    return " ".join(paragraph.split())


def typed(annotation: str | griffe.Expr | None) -> str:
    """A type for a cell of a table, each of our own names in it a link to where it is described.

    A name that no page describes stays plain.
    """
    if annotation is None:
        return ""
    parts = [annotation] if isinstance(annotation, str) else annotation.iterate(flat=True)
    return f"<code>{''.join(map(_part, parts))}</code>"


def _part(part: str | griffe.Expr) -> str:
    if not isinstance(part, griffe.ExprName):
        return _plain(str(part))
    path = part.canonical_path
    if described(path) is None:
        return _plain(part.name)
    return f'<autoref identifier="{html.escape(path)}" optional>{_plain(part.name)}</autoref>'


def code(text: str) -> str:
    """Words as code, for a cell of a table."""
    return f"<code>{_plain(text)}</code>"


def _plain(text: str) -> str:
    return html.escape(text, quote=False).replace("|", "&#124;")


def cell(text: str) -> str:
    """Markdown on one line, with nothing in it that ends a cell."""
    return " ".join(text.split()).replace("|", "\\|")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table of cells."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
