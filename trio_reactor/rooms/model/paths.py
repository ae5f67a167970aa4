"""The paths of documents: one spelling each, and none that leaves its room on any platform.

A path is relative, separated by `/`, and spelled in Unicode's composed form.  It must be one that
every file system can keep under its room's directory: so nothing absolute, no `.` or `..`, no drive
letter or alternate stream (`:`), no character or name that Windows reserves, no part that ends in a
dot or a space, and no part longer than file systems take.  Two paths that a file system might take
for one, because they differ in case or in how a letter is composed, *collide* (`folded`); a room
holds at most one of them.
"""

from __future__ import annotations

import unicodedata
from typing import Final

__all__ = ["MAX_PART_BYTES", "MAX_PATH_BYTES", "beneath", "check_path", "check_root", "folded"]

MAX_PATH_BYTES: Final = 1_024
"""The most bytes of a path in UTF-8."""

MAX_PART_BYTES: Final = 255
"""The most bytes of one of its parts in UTF-8."""

_SEPARATING: Final = frozenset('\\:*?"<>|')
_DEVICES: Final = frozenset(
    ["con", "prn", "aux", "nul", "conin$", "conout$", "clock$"]
    + [f"{port}{number}" for port in ("com", "lpt") for number in "0123456789¹²³"]
)
_SHOWN: Final = 80


def check_path(path: object) -> str:
    """The path in its one spelling.

    Raises:
        TypeError: It is no text.
        ValueError: It is not a path of a document; the message says why.
    """
    if not isinstance(path, str):
        raise TypeError(f"a path must be a text, not {path!r}")
    if not path:
        raise ValueError("a path must not be empty")
    if len(path) > MAX_PATH_BYTES:
        raise ValueError(f"{_shown(path)}: a path of {len(path)} characters is too long")
    if path.isascii():
        # Nearly every path: already in its one spelling.
        normal = path
    else:
        normal = unicodedata.normalize("NFC", path)
        try:
            size = len(normal.encode())
        except UnicodeEncodeError:
            raise ValueError(f"{_shown(path)}: this path cannot be encoded") from None
        if size > MAX_PATH_BYTES:
            raise ValueError(f"{_shown(path)}: a path of {size} bytes is too long")
    for part in normal.split("/"):
        flaw = _flaw(part)
        if flaw is not None:
            raise ValueError(f"{_shown(path)}: {flaw}")
    return normal


def check_root(root: object) -> str:
    """A directory's path in its one spelling; the empty one is the whole room.

    Raises:
        TypeError, ValueError: As of `check_path`.
    """
    return "" if root == "" else check_path(root)


def beneath(root: str, path: str) -> bool:
    """Whether a path lies under a directory, or is it; all do under the empty one."""
    return not root or path == root or path.startswith(f"{root}/")


def folded(path: str) -> str:
    """What is equal for two paths exactly if some file system might take them for one."""
    if path.isascii():
        return path.lower()
    once = unicodedata.normalize("NFKC", unicodedata.normalize("NFKD", path).casefold())
    return unicodedata.normalize("NFKC", once.casefold())


def _flaw(part: str) -> str | None:
    """What is wrong with a part of a path."""
    if not part:
        return "a path is relative and has no empty part"
    if part in {".", ".."}:
        return "a path has no part that is '.' or '..'"
    if len(part.encode()) > MAX_PART_BYTES:
        return f"a part of a path has at most {MAX_PART_BYTES} bytes"
    if part[-1] in ". ":
        return "no part of a path ends in a dot or a space"
    if part[0] == " ":
        return "no part of a path begins with a space"
    if not part.isprintable():
        return "a path holds only characters that can be printed"
    if not _SEPARATING.isdisjoint(part):
        return "a path holds no character that separates paths, drives or streams elsewhere"
    # Some file systems read wide letters as plain ones, so those name the same.
    plain = part if part.isascii() else unicodedata.normalize("NFKC", part)
    if plain in {".", ".."}:
        return "a path has no part that is read as '.' or '..' elsewhere"
    stem = plain.split(".", 1)[0].rstrip(" ").casefold()
    if stem in _DEVICES:
        return "no part of a path is the name of a device"
    if plain.casefold() == ".git" or plain[:4].casefold() == "git~":
        # The second is what some file systems call the first.
        return "no part of a path is '.git'"
    return None


def _shown(path: str) -> str:
    whole = ascii(path)
    return whole if len(whole) <= _SHOWN else f"{whole[:_SHOWN]}…"
