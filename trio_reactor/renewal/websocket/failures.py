"""What comes out of a nursery that only had one failure."""

from __future__ import annotations

import contextlib
from collections.abc import Generator

import trio

__all__ = ["one_failure"]


@contextlib.contextmanager
def one_failure() -> Generator[None]:
    """Let a nursery's only failure out as itself, not in a group.

    A cancellation from outside that came beside it is dropped for it, as it is wherever an
    exception replaces a `Cancelled`; the next checkpoint raises it again.
    """
    try:
        yield
    except BaseExceptionGroup as group:
        failures = group.split(trio.Cancelled)[1] or group
        if len(failures.exceptions) != 1:
            raise
        only = failures.exceptions[0]
        context = only.__context__
        try:
            raise only
        finally:
            only.__context__ = context  # the group, which holds it, would make a cycle
            del only, context, failures
