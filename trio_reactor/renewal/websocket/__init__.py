"""Sources that are sessions of a server, each held over a WebSocket.

`websocket_source` opens them, and `websocket_terminate` ends what a dead process left; `wire` is
what both sides say, and `handshake` opens WebSockets that always end, for either side.  Needs the
extra `websocket`.
"""

from __future__ import annotations

from .source import WebSocketOptions, WebSocketSource, websocket_source, websocket_terminate

__all__ = ["WebSocketOptions", "WebSocketSource", "websocket_source", "websocket_terminate"]
