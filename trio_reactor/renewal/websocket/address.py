"""Where a WebSocket server is."""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec

__all__ = ["Address"]


class Address(msgspec.Struct, frozen=True):
    """A `ws:` or `wss:` URL, taken apart and checked."""

    host: str
    port: int
    resource: str
    """The path and the query."""
    tls: bool

    @classmethod
    def parse(cls, url: str) -> Address:
        """The address of a URL.

        Raises:
            ValueError: If it is not a WebSocket's, or holds what belongs elsewhere.
        """
        parts = urlsplit(url)
        if parts.scheme not in {"ws", "wss"}:
            raise ValueError(f"url: begins with ws:// or wss://, not {parts.scheme!r}")
        if not parts.hostname:
            raise ValueError("url: names no host")
        if parts.username is not None or parts.password is not None:
            raise ValueError("url: holds a user name or a password; a token is given apart")
        if parts.fragment:
            raise ValueError("url: holds a fragment")
        tls = parts.scheme == "wss"
        port = parts.port if parts.port is not None else (443 if tls else 80)
        resource = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return cls(parts.hostname, port, resource, tls)

    @property
    def host_header(self) -> str:
        """What a request names as its host."""
        host = self._bracketed
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"

    @property
    def _bracketed(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host

    def __str__(self) -> str:
        """As it is named in messages: without the query, which may hold a secret."""
        path = self.resource.partition("?")[0]
        return f"{'wss' if self.tls else 'ws'}://{self._bracketed}:{self.port}{path}"
