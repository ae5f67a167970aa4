"""As much of a database as is used here; apsw's own annotations are not complete before 3.12."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeAlias

__all__ = ["Database", "Row", "Rows", "Value"]

Value: TypeAlias = int | float | str | bytes | None
Row: TypeAlias = tuple[Value, ...]


class Rows(Protocol):
    """What a statement gives."""

    @property
    def get(self) -> Value:
        """The only value of the only row; `None` if there is none."""
        ...

    def __iter__(self) -> Iterator[Row]: ...

    def fetchone(self) -> Row | None:
        """The next row; `None` if there is none."""
        ...

    def fetchall(self) -> list[Row]:
        """The rows that are left."""
        ...


class Database(Protocol):
    """As much of `apsw.Connection` as is used here."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction has begun and not ended."""
        ...

    def execute(self, statements: str, bindings: Sequence[Value] = (), /) -> Rows:
        """Run statements, the first up to its first row."""
        ...

    def executemany(self, statements: str, bindings: Iterable[Sequence[Value]], /) -> Rows:
        """Run a statement for each of the bindings."""
        ...

    def changes(self) -> int:
        """How many rows the last statement changed."""
        ...

    def last_insert_rowid(self) -> int:
        """The row that was inserted last."""
        ...

    def readonly(self, name: str, /) -> bool:
        """Whether a database cannot be written."""
        ...

    def config(self, option: int, value: int, /) -> int:
        """Set an option of the connection."""
        ...

    def close(self) -> None:
        """Close it; what was not committed is undone."""
        ...
