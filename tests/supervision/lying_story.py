"""Executions that lie about the children of one key, and are honest about all others."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

from supervisor_story import Stage

from trio_reactor.supervision import Supervisor, SupervisorOptions, open_supervisor
from trio_reactor.supervision.execution.protocol import LaunchOrder
from trio_reactor.supervision.simulation import SimulatedExecution

Launch: TypeAlias = Callable[[LaunchOrder], AbstractAsyncContextManager[Any]]
"""What makes a child."""
Liars: TypeAlias = Callable[[Launch, LaunchOrder], AbstractAsyncContextManager[Any]]
"""What makes it instead, given the honest way."""
Lies: TypeAlias = Mapping[str, Callable[[Any], object]]
"""What a unit's attributes are instead, each made from the honest unit."""


class LyingUnit:
    """A unit of which some attributes are others."""

    def __init__(self, unit: Any, lies: Lies) -> None:
        self._unit, self._lies = unit, lies

    def __getattr__(self, name: str) -> Any:
        if name in self._lies:
            return self._lies[name](self._unit)
        return getattr(self._unit, name)


class LyingExecution:
    """Lies about the children of the key `liar`."""

    def __init__(self, execution: SimulatedExecution, launch: Liars | None, lies: Lies) -> None:
        self._execution, self._launch, self._lies = execution, launch, lies

    def __getattr__(self, name: str) -> Any:
        return getattr(self._execution, name)

    def launch(self, order: LaunchOrder, /) -> AbstractAsyncContextManager[Any]:
        if order.key.identity != "liar":
            return self._execution.launch(order)
        if self._launch is not None:
            return self._launch(self._execution.launch, order)
        return self._lying(order)

    @asynccontextmanager
    async def _lying(self, order: LaunchOrder) -> AsyncGenerator[Any]:
        async with self._execution.launch(order) as unit:
            yield LyingUnit(unit, self._lies)


@asynccontextmanager
async def lied_to(
    s: Stage, *, launch: Liars | None = None, lies: Lies | None = None, **options: object
) -> AsyncGenerator[Supervisor]:
    """A supervisor whose execution lies."""
    defaults: dict[str, object] = {"lease": 30.0, "grace": 1.0, "confirmation_timeout": 2.0}
    execution: Any = LyingExecution(SimulatedExecution(s.machine), launch, lies or {})
    chosen = SupervisorOptions.model_validate({**defaults, **options})
    async with open_supervisor(s.store, execution, world=s.world, options=chosen) as supervisor:
        yield supervisor
