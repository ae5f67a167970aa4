"""The child's side: the guard that every child is, and what the code it runs is given.

Code that wants to name the type of its one argument imports it for the type checker alone, so that
the child need not import this library::

    if TYPE_CHECKING:
        from trio_reactor.supervision.child import ChildSession

    def work(session: "ChildSession") -> None:
        while request := session.receive():
            session.send(answer(request))

    async def work_async(session: "ChildSession") -> None:
        async for request in session.stream:
            await session.stream.send_all(await answer(request))
"""

from __future__ import annotations

from .code import ChildSession

__all__ = ["ChildSession"]
