"""What went wrong with a file, told apart as far as a caller can do something about it."""

from __future__ import annotations

import errno
from typing import Literal, TypeAlias

import apsw

__all__ = ["Trouble", "trouble_of"]

Trouble: TypeAlias = Literal["busy", "damaged", "read-only", "full", "gone", "failed"]


def trouble_of(failure: apsw.Error | OSError) -> Trouble:
    """What a failure means."""
    number = failure.errno if isinstance(failure, OSError) else None
    if isinstance(failure, (apsw.BusyError, apsw.LockedError)):
        return "busy"
    if isinstance(failure, (apsw.NotADBError, apsw.CorruptError)):
        return "damaged"
    if isinstance(failure, (apsw.ReadOnlyError, apsw.PermissionsError, PermissionError)) or (
        number == errno.EROFS
    ):
        return "read-only"
    if isinstance(failure, apsw.FullError) or number in {errno.ENOSPC, errno.EDQUOT}:
        return "full"
    if isinstance(failure, FileNotFoundError):
        return "gone"
    return "failed"
