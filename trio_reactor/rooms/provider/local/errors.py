"""What can go wrong with an authority in a file."""

from __future__ import annotations

from trio_reactor.errors import Outcome, ReactorError

__all__ = ["AuthorityFailed", "AuthorityUnusable"]


class AuthorityUnusable(ReactorError):
    """The file is no authority, or is damaged, read-only or of another version.

    Args:
        message: What is wrong with it.
        path: Which file.
        detail: What the database said.
    """

    def __init__(self, message: str, *, path: str, detail: str | None = None) -> None:
        super().__init__(message, detail=detail)
        self.path = path


class AuthorityFailed(ReactorError):
    """The file could not be used just now: it is busy, full or gone.

    Args:
        message: What happened.
        path: Which file.
        outcome: What became of the operation.
        retryable: Whether trying again can help and cannot do harm.
        detail: What the database said.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str,
        outcome: Outcome = "not-submitted",
        retryable: bool = False,
        detail: str | None = None,
    ) -> None:
        super().__init__(message, outcome=outcome, retryable=retryable, detail=detail)
        self.path = path
