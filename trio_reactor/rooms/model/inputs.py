"""The inputs of an action, checked before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Final

from trio_reactor.rooms.errors import ActionRefused

from .terms import Action, Input

__all__ = ["checked_inputs"]

_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "text": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


def checked_inputs(
    action: Action, given: Mapping[str, str | int | float | bool]
) -> dict[str, str | int | float | bool]:
    """The inputs, if they are what the action takes.

    Raises:
        ActionRefused: One is missing, unknown, or not what it has to be; it is named.
    """
    wanted = {each.name: each for each in action.inputs}
    for name in given:
        if name not in wanted:
            raise ActionRefused(action.name, f"{name!r} is no input of it")
    for name, each in wanted.items():
        if name not in given:
            if each.required:
                raise ActionRefused(action.name, f"{name!r} is missing")
            continue
        flaw = _flaw(each, given[name])
        if flaw is not None:
            raise ActionRefused(action.name, f"{name!r} {flaw}")
    return dict(given)


def _flaw(wanted: Input, value: object) -> str | None:
    kinds = _KINDS[wanted.kind]
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        return f"must be a {wanted.kind}, not {type(value).__name__}"
    if isinstance(value, float) and not isfinite(value):
        return "must be a finite number"
    if isinstance(value, str):
        if len(value) > wanted.max_length:
            return f"has {len(value)} characters; {wanted.max_length} are allowed"
        if wanted.choices and value not in wanted.choices:
            return f"must be one of {', '.join(wanted.choices)}"
    return None
