"""Where a WebSocket server is."""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec

__all__ = ["Address"]


def _check_host(host: str) -> None:
    """See that a host can be looked up and named in a request."""
    try:
        host.encode("idna")
    except UnicodeError:
        raise ValueError("url: names a host that cannot be one") from None
    if not host.isascii():
        raise ValueError("url: names a host that is not ASCII; give its xn-- form")
    if not host.isprintable() or " " in host:
        raise ValueError("url: names a host that cannot be one")


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
        if not resource.isascii() or not resource.isprintable() or " " in resource:
            raise ValueError("url: its path or query holds what has to be percent-encoded")
        _check_host(parts.hostname)
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
