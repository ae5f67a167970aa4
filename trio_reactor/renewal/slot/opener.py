"""What an opener has to be, told in words where it is something else.

What is passed to `open_renewal` is often nearly right: an `async def`, or a generator without its
decorator.  Such a mistake is named before anything is opened, where it can be seen; what only shows
when it is called is named then.
"""

from __future__ import annotations

import inspect
from contextlib import AbstractAsyncContextManager
from typing import cast

from trio_reactor.renewal.source import Predecessor, Source, SourceOpener
from trio_reactor.wording import a_kind

__all__ = ["check_opener", "opened_by"]

_RULE = "an opener is called with a Predecessor and returns an async context manager"


def check_opener(opener: object) -> None:
    """Raise unless this can be an opener, as far as can be seen without calling it.

    Raises:
        TypeError: What is wrong with it.
    """
    if not callable(opener):
        raise TypeError(f"{_RULE}; {a_kind(opener)} cannot be called")
    name = _name(opener)
    for called in (opener, getattr(opener, "__call__", None)):  # noqa: B004 - of an object, that
        if inspect.iscoroutinefunction(called):
            raise TypeError(
                f"{_RULE}; {name} is an async function: have it yield the source, and decorate it "
                "with contextlib.asynccontextmanager"
            )
        if inspect.isasyncgenfunction(called):
            raise TypeError(
                f"{_RULE}; {name} is an async generator: decorate it with "
                "contextlib.asynccontextmanager"
            )
    try:
        signature = inspect.signature(opener)
    except (ValueError, TypeError):
        return  # it cannot tell, and may be one all the same
    try:
        signature.bind(Predecessor())
    except TypeError as fault:
        raise TypeError(f"{_RULE}; {name} cannot be called so: {fault}") from None


def opened_by(
    opener: SourceOpener, predecessor: Predecessor
) -> AbstractAsyncContextManager[Source]:
    """What an opener returns, if it is what that must be.

    Raises:
        TypeError: It is not.
        BaseException: What calling it raised.
    """
    manager = cast("object", opener(predecessor))  # an adapter may return anything
    if isinstance(manager, AbstractAsyncContextManager):
        return cast("AbstractAsyncContextManager[Source]", manager)
    if inspect.iscoroutine(manager):
        manager.close()  # else it would be complained of as never awaited, beside this
    raise TypeError(f"{_RULE}; {_name(opener)} returned {a_kind(manager)}")


def _name(opener: object) -> str:
    name: object = getattr(opener, "__qualname__", None)
    return name if isinstance(name, str) else a_kind(opener)
