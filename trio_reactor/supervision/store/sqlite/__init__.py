"""A store in a file: SQLite, exclusively owned, and durable before a commit returns."""

from __future__ import annotations

from .store import SqliteJournal, SqliteStore

__all__ = ["SqliteJournal", "SqliteStore"]
