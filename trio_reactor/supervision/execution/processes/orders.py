"""What a guard is told: messages of plain values, that its side reads without this library."""

from __future__ import annotations

import marshal
from typing import Final

from trio_reactor.supervision.execution.protocol import LaunchOrder
from trio_reactor.supervision.model.work import PythonCode

from .spawn import module_path

__all__ = ["MAX_DETAIL", "MAX_ORDER", "message", "start"]

MAX_ORDER: Final = 262_144
"""Bytes of a message, as many as a guard reads; most kernels take fewer at once."""
MAX_DETAIL: Final = 16_384
"""Characters of a traceback, the last ones."""

Plain = str | int | bool | None | list[str] | list[tuple[str, str]]


def message(*parts: str | dict[str, Plain]) -> bytes:
    """A message, from its word on.

    Raises:
        ValueError: It is longer than a guard reads.
    """
    encoded = marshal.dumps(parts)
    if len(encoded) > MAX_ORDER:
        raise ValueError(f"it has {len(encoded)} bytes, and a guard reads {MAX_ORDER}")
    return encoded


def start(
    order: LaunchOrder, *, slot: int, is_gated: bool, cgroup: str | None, max_output: int
) -> bytes:
    """The message that has a guard make the code's process.

    Raises:
        ValueError: It is longer than a guard reads.
    """
    work = order.work
    told: dict[str, Plain] = {
        "nonce": order.launch.nonce,
        "identity": order.key.identity,
        "instance": order.key.instance,
        "generation": order.generation,
        "slot": slot,
        "gated": is_gated,
        "cgroup": cgroup,
        "max_output": max_output,
        "max_detail": MAX_DETAIL,
        "directory": work.directory,
    }
    if isinstance(work, PythonCode):
        told |= {
            "kind": "python",
            "specifier": work.specifier,
            "path": list(work.path),
            "also": module_path(),
            "argument": work.argument,
        }
    else:
        told |= {
            "kind": "command",
            "argv": list(work.argv),
            "environment": list(work.environment),
        }
    return message("start", told)
