"""SQLite files that one process owns: made, recognized, and used in one thread at a time.

Read `file` for how a file is opened and refused, `ownership` for how one process keeps the others
out, `turns` for how blocking work leaves Trio's thread, and `trouble` for what went wrong.
"""

from .database import Database, Row, Rows, Value
from .file import FileKind, Unfit, connect, take
from .ownership import Owned, owned
from .trouble import Trouble, trouble_of
from .turns import Turns
from .witness import FileWitness

__all__ = [
    "Database",
    "FileKind",
    "FileWitness",
    "Owned",
    "Row",
    "Rows",
    "Trouble",
    "Turns",
    "Unfit",
    "Value",
    "connect",
    "owned",
    "take",
    "trouble_of",
]
