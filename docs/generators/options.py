"""Options: what each may be, what it is if it is not set, and what it means.

All of it is what pydantic checks by, taken from the model's own schema.
"""

from __future__ import annotations

from typing import Final, TypedDict, cast

from pydantic import BaseModel

from .names import NotDocumented, cell, code, table

__all__ = ["options", "options_of"]


class _Schema(TypedDict, total=False):
    """What is used of a JSON schema."""

    type: str
    description: str
    default: object
    enum: list[object]
    anyOf: list[_Schema]
    minimum: float
    exclusiveMinimum: float
    maximum: float
    exclusiveMaximum: float


_TYPES: Final = {
    "number": "float",
    "integer": "int",
    "boolean": "bool",
    "string": "str",
    "null": "None",
    "array": "tuple",
    "object": "dict",
}


def options_of(target: object) -> type[BaseModel]:
    """The model that a marker's target names.

    Raises:
        NotDocumented: If it is none.
    """
    if isinstance(target, type) and issubclass(target, BaseModel):
        return target
    raise NotDocumented(f"{target!r} is no model of options")


def options(model: type[BaseModel]) -> str:
    """A Markdown table of the options of a model, in the order in which they are written."""
    schema = model.model_json_schema()
    properties = cast("dict[str, _Schema]", schema["properties"])
    required = cast("list[str]", schema.get("required", []))
    rows = [
        (
            f"`{name}`",
            code(_type(each)),
            "must be given" if name in required else code(_number(each.get("default"))),
            _bounds(each),
            cell(each.get("description", "")),
        )
        for name, each in properties.items()
    ]
    return table(("option", "type", "default", "bounds", "meaning"), rows)


def _type(schema: _Schema) -> str:
    if "anyOf" in schema:
        return " | ".join(map(_type, schema["anyOf"]))
    if "enum" in schema:
        return " | ".join(map(repr, schema["enum"]))
    kind = schema.get("type", "")
    return _TYPES.get(kind, kind or "any")


def _bounds(schema: _Schema) -> str:
    if "anyOf" in schema:
        return ", ".join(filter(None, map(_bounds, schema["anyOf"])))
    told = [
        f"{sign} {_number(bound)}"
        for sign, bound in (
            ("≥", schema.get("minimum")),
            (">", schema.get("exclusiveMinimum")),
            ("≤", schema.get("maximum")),
            ("<", schema.get("exclusiveMaximum")),
        )
        if bound is not None
    ]
    return ", ".join(told)


def _number(value: object) -> str:
    """A value as one writes it, with its thousands apart."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        whole = int(value)
        return f"{whole:,}" if value == whole else f"{value:,}"
    return repr(value)
