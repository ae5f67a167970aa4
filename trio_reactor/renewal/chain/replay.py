"""What is told again to a source that has nothing to resume from."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, final

from trio_reactor.renewal.errors import ContextBroken
from trio_reactor.renewal.jsonvalue import Json, NotJson, copy_json

__all__ = ["Context", "Replay"]

Context: TypeAlias = Callable[[], Json]
"""Tells, at once, what a source has to know to go on where the one before it was."""


@final
class Replay:
    """The application's context, asked for at the last moment.

    Args:
        context: Tells it; `None` if there is nothing to be told again.
        max_bytes: How large it may be, as JSON.
    """

    def __init__(self, context: Context | None, max_bytes: int) -> None:
        self._context = context
        self._max_bytes = max_bytes

    def told(self) -> Json:
        """A deep copy of what is to be told now.

        Raises:
            ContextBroken: It is not JSON, or too large.
            Exception: What the application's function raised.
        """
        if self._context is None:
            return None
        try:
            return copy_json(self._context(), what="context", max_bytes=self._max_bytes)
        except NotJson as wrong:
            raise ContextBroken(str(wrong)) from None
