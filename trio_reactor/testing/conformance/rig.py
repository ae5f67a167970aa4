"""What whoever implements a protocol supplies: the implementation, and what can be done to it."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable
from typing import Any, ClassVar, Final, TypeVar, cast

__all__ = ["Rig", "optional", "optionals"]

_OPTIONAL: Final = "__conformance_optional__"

Method = TypeVar("Method", bound=Callable[..., Any])


def optional(method: Method) -> Method:
    """Mark a method of a suite's rig that not every rig can offer.

    Its body raises `NotImplementedError`.  A rig that overrides it offers it.
    """
    setattr(method, _OPTIONAL, True)
    return method


class Rig(ABC):
    """An implementation under test, fresh for each case.

    The rig of a suite that has capabilities declares `capabilities`, a class variable that is a set
    of their names: what an implementation is expected to be able to do beside what all must.
    """

    name: ClassVar[str]
    """What the implementation is called in messages."""

    patience: float = 10.0
    """Seconds after which something that has to happen is not awaited any longer.  On a virtual
    clock it costs nothing."""

    not_the_rigs: ClassVar[frozenset[str]] = frozenset()
    """The methods that run the implementation itself: what these raise is its own."""

    @classmethod
    def claims(cls) -> frozenset[str]:
        """Its capabilities."""
        # Each suite declares them with a type of its own, which names those that there are.
        return cast("frozenset[str]", getattr(cls, "capabilities", frozenset[str]()))

    @classmethod
    def offers(cls, need: str) -> bool:
        """Whether it has a capability, or overrides an optional method, of this name."""
        if need in cls.claims():
            return True
        declared = any(_is_optional(vars(kind).get(need)) for kind in cls.__mro__)
        return declared and not _is_optional(getattr(cls, need))


def optionals(kind: type[Rig]) -> frozenset[str]:
    """The names of the methods that rigs of this kind need not override."""
    return frozenset(name for name in dir(kind) if _is_optional(getattr(kind, name)))


def _is_optional(method: object) -> bool:
    return getattr(method, _OPTIONAL, False) is True
