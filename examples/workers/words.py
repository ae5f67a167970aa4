"""The plugin that is used unless `--plugin` names another: how often each word of a text occurs."""

from __future__ import annotations

import collections
import re
from typing import TYPE_CHECKING

from examples.workers.serving import serve

if TYPE_CHECKING:
    from trio_reactor.supervision.child import ChildSession

EXAMPLES: list[tuple[str, dict[str, int]]] = [
    ("", {}),
    ("so it goes", {"so": 1, "it": 1, "goes": 1}),
    ("The cat, the hat; THE end.", {"the": 3, "cat": 1, "hat": 1, "end": 1}),
]


def answer(text: str) -> dict[str, int]:
    """How often each word occurs."""
    return dict(collections.Counter(re.findall(r"\w+", text.lower())))


def main(session: ChildSession) -> None:
    """Serve it."""
    serve(session, answer, EXAMPLES)
