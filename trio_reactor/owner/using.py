"""Using as a block: it lasts no longer than the thing that it uses."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Generic, TypeVar, final

import trio
from trio.lowlevel import enable_ki_protection

if TYPE_CHECKING:
    from .attempt import Attempt

__all__ = ["Using", "out_of", "settle"]

T_co = TypeVar("T_co", covariant=True)


@final
class Using(Generic[T_co]):
    """A block that lasts no longer than the thing it uses.  Made by `Attempt.using`, entered once.

    Entering gives the thing.  If it goes while the block runs, the block is cancelled, and `Lost`,
    `Expired` or `Retired` comes out of it, as `trio.TooSlowError` does out of `trio.fail_after`.
    The failure that comes with a loss is its cause, if it is known by then.
    """

    __slots__ = ("_attempt", "_scope")

    def __init__(self, attempt: Attempt[T_co]) -> None:
        self._attempt = attempt
        self._scope = trio.CancelScope()

    @enable_ki_protection
    def __enter__(self) -> T_co:
        value = self._attempt.value
        self._scope.__enter__()
        users = self._attempt._users
        if users is None:
            users = self._attempt._users = {}
        users[self._scope] = None
        return value

    @enable_ki_protection
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        rest = self.leave(error)
        if rest is None and self.cut:
            rest = self._attempt._gone(cut=True)
        try:
            return settle(error, rest)
        finally:
            del error, rest, traceback

    def leave(self, error: BaseException | None) -> BaseException | None:
        """Leave the block with this error, raising nothing; returns what is left of it."""
        users = self._attempt._users
        if users is not None:
            users.pop(self._scope, None)
        return out_of(self._scope, error)

    @property
    def cut(self) -> bool:
        """Whether the block was cut short because the thing went."""
        return self._scope.cancelled_caught


def out_of(scope: trio.CancelScope, error: BaseException | None) -> BaseException | None:
    """Leave a scope with this error, raising nothing; returns what the scope leaves of it."""
    if error is None:
        scope.__exit__(None, None, None)
        return None
    try:
        swallowed = scope.__exit__(type(error), error, error.__traceback__)
    except BaseException as rest:  # noqa: BLE001 - what is left of a group; the caller raises it
        return rest
    return None if swallowed else error


def settle(error: BaseException | None, raised: BaseException | None) -> bool:
    """End an `__exit__` that got `error` and is to raise `raised`: the value to return, or raise.

    An original keeps its context: raised here, it would otherwise have the body's error hung on.
    """
    if raised is None:
        return error is not None
    if raised is error:
        return False
    context = raised.__context__
    try:
        raise raised
    finally:
        raised.__context__ = context
        del error, raised, context  # this frame is in its traceback now
