"""A journal in PostgreSQL, which supervisors on several machines share.  Needs `psycopg`."""

from .journal import PostgresJournal
from .store import PostgresOptions, PostgresStore

__all__ = ["PostgresJournal", "PostgresOptions", "PostgresStore"]
