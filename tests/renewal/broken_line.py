"""A line between two ends of TCP that can be cut, fall silent, and be taken down."""

from __future__ import annotations

import trio

__all__ = ["Line"]


class Line:
    """Carries every connection that it takes to a server.

    Args:
        port: The server's, on this machine.
    """

    def __init__(self, port: int) -> None:
        self._server = port
        self._carrying: set[trio.CancelScope] = set()
        self.silent = False
        """Whether what comes is taken and carried no further, in both directions."""
        self.down = False
        """Whether new connections are ended as soon as they are there."""

    async def serve(self, *, task_status: trio.TaskStatus[int]) -> None:
        """Carry until cancelled; tells its own port."""
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port: int = listeners[0].socket.getsockname()[1]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, self._carry, listeners)
            task_status.started(port)

    def cut(self) -> None:
        """End every connection, in the middle of whatever it carries."""
        for scope in tuple(self._carrying):
            scope.cancel()

    async def _carry(self, client: trio.SocketStream) -> None:
        if self.down:
            await trio.aclose_forcefully(client)
            return
        server = await trio.open_tcp_stream("127.0.0.1", self._server)
        with trio.CancelScope() as scope:
            self._carrying.add(scope)
            try:
                async with client, server, trio.open_nursery() as nursery:
                    nursery.start_soon(self._pass_on, client, server, nursery)
                    nursery.start_soon(self._pass_on, server, client, nursery)
            finally:
                self._carrying.discard(scope)

    async def _pass_on(
        self, source: trio.SocketStream, sink: trio.SocketStream, nursery: trio.Nursery
    ) -> None:
        try:
            while heard := await source.receive_some():
                if not self.silent:
                    await sink.send_all(heard)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        nursery.cancel_scope.cancel()
