"""A witness outside of a file: it sees that every write went into the file the next one opens.

A file that was removed or replaced while it is open takes every write, and keeps none.
"""

from __future__ import annotations

import os
from typing import final

__all__ = ["FileWitness"]


@final
class FileWitness:
    """Looks at which files lie at the paths of a database.

    Args:
        path: Of the database, which is open.

    Raises:
        OSError: It is not there.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._files = {path: _identity(path)}

    def check(self) -> None:
        """See that they are the ones that were there when each was first looked at.

        Raises:
            OSError: One is gone, or another one.
        """
        for path in (self._path, f"{self._path}-wal"):
            found = _identity(path)
            if self._files.setdefault(path, found) != found:
                raise FileNotFoundError(f"{path} was replaced while it was in use")


def _identity(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return (found.st_dev, found.st_ino)
