"""Events and other records, with what each says and what each of its fields means.

Meanings come from the docstrings.  A field that has none takes the word of the page, which may give
one for all fields of a name; else that of an earlier record for a field of the same name and type;
else that of its type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

import griffe
import msgspec

from .names import NotDocumented, cell, code, described, first_paragraph, table, typed

__all__ = ["Field", "fields", "records", "records_of", "summary"]


class Field(msgspec.Struct, frozen=True):
    """One field of a record."""

    name: str
    type: str
    """As the source writes it."""
    shown: str
    """The type for a cell of a table."""
    default: str | None
    """As it is written; `None` if it must be given."""
    meaning: str
    type_meaning: str
    """What its type means, where one of ours is named in it."""


def records_of(target: object) -> list[type[msgspec.Struct]]:
    """The records that a marker's target names: one class, or a collection of them.

    Raises:
        NotDocumented: If it is neither.
    """
    if isinstance(target, type):
        if issubclass(target, msgspec.Struct):
            return [target]
    elif isinstance(target, (tuple, list)):
        found = [records_of(each) for each in cast("tuple[object, ...]", target)]
        return [record for each in found for record in each]
    raise NotDocumented(f"{target!r} is no record")


def fields(record: type[msgspec.Struct]) -> list[Field]:
    """The fields of a record, in their order."""
    return [_field(record, each) for each in msgspec.structs.fields(record)]


def _field(record: type[msgspec.Struct], field: msgspec.structs.FieldInfo) -> Field:
    source = _attribute(record, field.name)
    annotation = None if source is None else source.annotation
    return Field(
        name=field.name,
        type=str(annotation),
        shown=typed(annotation),
        default=_default(field),
        meaning="" if source is None else _said(source),
        type_meaning=_of_type(annotation),
    )


def _attribute(record: type[msgspec.Struct], name: str) -> griffe.Attribute | None:
    """Where a field is written: in its class, or in one that it inherits from."""
    for cls in record.__mro__:
        written = described(f"{cls.__module__}.{cls.__qualname__}")
        member = None if written is None else written.members.get(name)
        if isinstance(member, griffe.Attribute):
            return member
    return None


def _default(field: msgspec.structs.FieldInfo) -> str | None:
    if field.required:
        return None
    if field.default is not msgspec.NODEFAULT:
        return repr(field.default)
    return f"{getattr(field.default_factory, '__name__', 'made')}()"


def _said(source: griffe.Object) -> str:
    return "" if source.docstring is None else first_paragraph(source.docstring.value)


def _of_type(annotation: str | griffe.Expr | None) -> str:
    if annotation is None or isinstance(annotation, str):
        return ""
    names = (part for part in annotation.iterate(flat=True) if isinstance(part, griffe.ExprName))
    found = [described(name.canonical_path) for name in names]
    ours = [each for each in found if each is not None]
    return _said(ours[0]) if len(ours) == 1 else ""


def summary(of: list[type[msgspec.Struct]]) -> str:
    """The records in one table, each with its first sentence and a link to its section."""
    rows = [
        (f"[{record.__name__}](#{record.__name__.lower()})", cell(_meaning(record)))
        for record in of
    ]
    return table(("name", "meaning"), rows)


def records(of: list[type[msgspec.Struct]], words: Mapping[str, str] | None = None) -> str:
    """A section for each record: what it says in full, and its fields.

    Args:
        of: The records, in the order in which they are to stand.
        words: Meanings for fields that have none of their own, by the field's name.

    Raises:
        NotDocumented: If there are words for a field that is not there.
    """
    words = dict(words or {})
    earlier: dict[tuple[str, str], str] = {}
    sections: list[str] = []
    for record in of:
        rows: list[tuple[str, str, str, str]] = []
        for field in fields(record):
            meaning = field.meaning
            if meaning:
                earlier.setdefault((field.name, field.type), meaning)
            elif field.name in words:
                meaning = words[field.name]
            else:
                meaning = earlier.get((field.name, field.type), field.type_meaning)
            default = "" if field.default is None else code(field.default)
            rows.append((f"`{field.name}`", field.shown, default, cell(meaning)))
        sections += [f"### {record.__name__}", *_paragraphs(record)]
        if rows:
            sections.append(table(("field", "type", "default", "meaning"), rows))
    gone = sorted(words.keys() - {name for record in of for name in record.__struct_fields__})
    if gone:
        raise NotDocumented(f"words for a field that is not there: {', '.join(gone)}")
    return "\n\n".join(sections)


def _meaning(record: type[msgspec.Struct]) -> str:
    written = described(f"{record.__module__}.{record.__qualname__}")
    return "" if written is None else _said(written)


def _paragraphs(record: type[msgspec.Struct]) -> Iterator[str]:
    """What its docstring says, without the sections that are for who makes one."""
    written = described(f"{record.__module__}.{record.__qualname__}")
    if written is None or written.docstring is None:
        return
    for section in written.docstring.parse("google"):
        if isinstance(section, griffe.DocstringSectionText):
            yield section.value.strip()
