"""An authority in a file: one SQLite database that processes of one machine share.

`ledger` is what is in the file, `doorbell` is how one process wakes the others, `authority` is what
an operator does, and `provider` connects as a member.
"""

from .authority import LocalAuthority
from .errors import AuthorityFailed, AuthorityUnusable
from .options import LocalOptions
from .provider import LocalLink, LocalProvider

__all__ = [
    "AuthorityFailed",
    "AuthorityUnusable",
    "LocalAuthority",
    "LocalLink",
    "LocalOptions",
    "LocalProvider",
]
