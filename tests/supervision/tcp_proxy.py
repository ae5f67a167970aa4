"""A TCP proxy in a thread of its own, whose connections can be cut, stalled and delayed.

It is a thread, so that what is tested may block, be stopped, or run in another process.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


class Proxy:
    """Passes bytes on between whoever connects to `port` and the target.

    Attributes:
        port: Where it listens, on 127.0.0.1.
        delay: Seconds that each piece waits on its way, in either direction.
        accepts: Whether new connections are taken; others are closed at once.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.delay = 0.0
        self.accepts = True
        self.carried = 0
        self._flows = threading.Event()
        self._flows.set()
        self._lock = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._reply_hook: Callable[[bytes], bool] | None = None
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def stall(self) -> None:
        """Pass nothing on from now on, and say nothing of it."""
        self._flows.clear()

    def resume(self) -> None:
        """Pass on what was held back, and what comes."""
        self._flows.set()

    def cut(self) -> None:
        """Cut all connections there are, with whatever is on its way."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def cut_at_reply(self, holds: Callable[[bytes], bool]) -> None:
        """Cut everything instead of passing the next reply on of which that is true, once."""
        self._reply_hook = holds

    def close(self) -> None:
        """Cut everything, and listen no more."""
        self._closed = True
        self._flows.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if not self.accepts:
                client.close()
                continue
            try:
                server = socket.create_connection(self._target)
            except OSError:
                client.close()
                continue
            with self._lock:
                self._pairs.append((client, server))
            for source, sink, replies in ((client, server, False), (server, client, True)):
                threading.Thread(
                    target=self._carry, args=(source, sink, replies), daemon=True
                ).start()

    def _carry(self, source: socket.socket, sink: socket.socket, replies: bool) -> None:
        try:
            while piece := source.recv(65_536):
                self._flows.wait()
                if self.delay:
                    time.sleep(self.delay)
                hook = self._reply_hook
                if replies and hook is not None and hook(piece):
                    self._reply_hook = None
                    self.cut()
                    return
                sink.sendall(piece)
                self.carried += 1
        except OSError:
            return
        finally:
            for end in (source, sink):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
            # Both directions come here; closing twice does nothing.
            source.close()


@contextmanager
def open_proxy(host: str = "127.0.0.1", port: int = 5432) -> Iterator[Proxy]:
    """A proxy to a server, for a block."""
    proxy = Proxy(host, port)
    try:
        yield proxy
    finally:
        proxy.close()
