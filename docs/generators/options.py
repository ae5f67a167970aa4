"""Options: what each may be, what it is if it is not set, and what it means.

All of it is what pydantic checks by, taken from the model's own schema.
"""

from __future__ import annotations

from typing import Final, TypedDict, cast, final

import msgspec
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

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


class _Schemas(GenerateJsonSchema):
    """The schema of a model, whose options may be instances of classes that are none of pydantic's.

    Such an option is told by the name of its class, which stands for its type.
    """

    def is_instance_schema(self, schema: core_schema.IsInstanceSchema) -> JsonSchemaValue:
        return {"type": schema["cls"].__name__}

    def encode_default(self, dft: object) -> object:
        return _struct(dft) if isinstance(dft, msgspec.Struct) else super().encode_default(dft)


@final
class _Struct(str):
    """A record in words, where other defaults are values."""

    __slots__ = ()


def _struct(value: msgspec.Struct) -> _Struct:
    """A record by what is set in it."""
    given = [
        f"{field.name}={_number(getattr(value, field.name))}"
        for field in msgspec.structs.fields(value)
        if field.required or getattr(value, field.name) != field.default
    ]
    return _Struct(f"{type(value).__name__}({', '.join(given)})")


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
    schema = model.model_json_schema(schema_generator=_Schemas)
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
    return str(value) if isinstance(value, _Struct) else repr(value)
