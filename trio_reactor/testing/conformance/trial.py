"""A case under way: waits for facts, and says what is wrong, and whose failure it is."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Generator
from typing import Any, Final, Generic, NoReturn, TypeVar, cast, final

import trio

from .rig import Rig

__all__ = ["Nonconforming", "RigFailed", "Trial"]

_LOOK_AGAIN: Final = 0.005
"""Seconds between two looks at what does not say when it changes."""

R_co = TypeVar("R_co", bound=Rig, covariant=True)


@final
class Nonconforming(AssertionError):
    """An implementation does not keep a rule.

    Args:
        subject: Which: the name of its rig, and its own if it has one.
        did: What it did.
        required: The rule.
    """

    def __init__(self, subject: str, did: str, required: str) -> None:
        super().__init__(f"{subject} {did}; required: {required}")
        self.subject = subject
        self.did = did
        self.required = required


@final
class RigFailed(Exception):
    """The rig, or what runs beside it, failed by itself: nothing is said about what is under test.

    What it raised, with its traceback, is the cause.

    Args:
        rig: The name of the rig.
        doing: What it was to do.
    """

    def __init__(self, rig: str, doing: str) -> None:
        super().__init__(f"the rig of {rig} failed {doing}; nothing is said about {rig}")
        self.rig = rig
        self.doing = doing


class Trial(Generic[R_co]):
    """What the body of a case works with; a suite adds what all its cases do.

    Args:
        rig: What is tested.
        required: The rule that is tested.
    """

    def __init__(self, rig: R_co, required: str) -> None:
        self._rig = cast("R_co", _Guarded(rig))
        self.required = required

    @property
    def rig(self) -> R_co:
        """The rig.  What a method or a property of it raises comes out as a `RigFailed`.

        Not so what is raised by what they return, which is the implementation or a part of it, and
        the methods in `Rig.not_the_rigs`.
        """
        return self._rig

    @property
    def subject(self) -> str:
        """What the implementation is called in messages."""
        return self._rig.name

    def broken(self, did: str) -> Nonconforming:
        """The failure that says what the implementation did."""
        return Nonconforming(self.subject, did, self.required)

    def fail(self, did: str) -> NoReturn:
        """Raise what says what the implementation did."""
        raise self.broken(did)

    def require(self, holds: object, did: str) -> None:
        """Raise what says what the implementation did, unless this holds."""
        if not holds:
            self.fail(did)

    @contextlib.contextmanager
    def soon(self, did_not: str, within: float | None = None) -> Generator[None]:
        """A block that has to be over within the rig's patience, or within these seconds."""
        seconds = self._rig.patience if within is None else within
        with trio.move_on_after(seconds) as budget:
            yield
        if budget.cancelled_caught:
            self.fail(f"{did_not} within {seconds:g} s")

    async def comes_true(self, fact: Callable[[], object], within: float | None = None) -> bool:
        """Look again and again at a fact that nobody tells, until it holds or patience is over.

        Args:
            fact: What is looked at.
            within: Seconds after which it is not awaited any longer, instead of the rig's patience.

        Returns:
            Whether it holds at last.
        """
        with trio.move_on_after(self._rig.patience if within is None else within):
            while not fact():  # noqa: ASYNC110 - what is looked at sets no event
                await trio.sleep(_LOOK_AGAIN)
        return bool(fact())


@final
class _Guarded:
    """A rig whose own failures are told apart: they come out as `RigFailed`."""

    def __init__(self, rig: Rig) -> None:
        self._guarded = rig

    def __getattr__(self, name: str) -> object:
        rig = self._guarded
        with _blaming(rig, name):
            found = getattr(rig, name)
        # What a property returns belongs to the implementation, even if it is a method of the rig.
        is_method = any(inspect.isfunction(vars(kind).get(name)) for kind in type(rig).__mro__)
        if not is_method or name in rig.not_the_rigs:
            return found

        def call(*args: object, **kwargs: object) -> object:
            with _blaming(rig, name):
                result = cast("Callable[..., object]", found)(*args, **kwargs)
            return _awaited(rig, name, result) if inspect.isawaitable(result) else result

        return call


async def _awaited(rig: Rig, name: str, result: Any) -> object:  # an `Awaitable` of any kind
    with _blaming(rig, name):
        return await result


@contextlib.contextmanager
def _blaming(rig: Rig, name: str) -> Generator[None]:
    try:
        yield
    except Exception as failure:
        raise RigFailed(rig.name, f"in `{name}`") from failure
