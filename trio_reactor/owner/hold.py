"""Holding as a block: what is held lasts as long as the block, and the block no longer than it."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Generic, TypeVar, final

from trio.lowlevel import enable_ki_protection

from .attempt import Attempt, Factory
from .using import Using, settle

if TYPE_CHECKING:
    from .owner import Owner

__all__ = ["Hold"]

T = TypeVar("T")


@final
class Hold(Generic[T]):
    """A block that holds a thing.  Made by `Owner.hold`, entered once."""

    def __init__(
        self,
        owner: Owner,
        factory: Factory[T],
        name: str | None,
        expected: tuple[type[BaseException], ...],
        lifetime: float | None,
        on_lost: Callable[[Attempt[T]], None] | None,
    ) -> None:
        self._owner = owner
        self._factory: Factory[T] | None = factory
        self._name = name
        self._expected = expected
        self._lifetime = lifetime
        self._on_lost = on_lost
        self._attempt: Attempt[T] | None = None
        self._using: Using[T] | None = None

    @enable_ki_protection
    async def __aenter__(self) -> T:
        factory, self._factory = self._factory, None
        if factory is None:
            raise RuntimeError("a block that holds something is entered once")
        self._attempt = await self._owner.acquire(
            factory,
            name=self._name,
            expected=self._expected,
            lifetime=self._lifetime,
            on_lost=self._on_lost,
        )
        # No checkpoint since it was found held.
        self._using = Using(self._attempt)
        return self._using.__enter__()

    @enable_ki_protection
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        attempt, using = self._attempt, self._using
        assert attempt is not None  # noqa: S101 - entered
        assert using is not None  # noqa: S101 - entered
        raised = using.leave(error)
        attempt._ask("retired")
        # An error of the body's own goes first; then what went wrong here is for close to tell.
        interrupts = await attempt._join(receiving=raised is None)
        if raised is None:
            raised = attempt._gone(cut=True) if using.cut else attempt._claim()
        if interrupts:
            problems = [*([] if raised is None else [raised]), *interrupts]
            raised = problems[0] if len(problems) == 1 else interrupted(attempt.name, problems)
        try:
            return settle(error, raised)
        finally:
            del error, traceback, raised, interrupts


def interrupted(name: str, problems: list[BaseException]) -> BaseException:
    """What a block raises that was interrupted while it waited for its end."""
    return BaseExceptionGroup(f"{name}: interrupted while it left", problems)
