"""What an application is given can be named: it is all in one place."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

import trio_reactor
import trio_reactor.renewal as public
from trio_reactor import errors
from trio_reactor.renewal import (
    AllocationRecord,
    Allocations,
    Borrow,
    Cleanup,
    MediaReceiver,
    Predecessor,
    Renewal,
    RenewalReport,
    SequenceMember,
    Sequences,
    Submission,
    events,
)
from trio_reactor.renewal.engine import submission
from trio_reactor.renewal.sequences import book

PACKAGE = "trio_reactor.renewal"


def classes(hint: Any) -> Iterator[type]:
    """The classes of the package that a hint is made of."""
    for inner in typing.get_args(hint):
        yield from classes(inner)
    kind = typing.get_origin(hint) or hint
    if isinstance(kind, type) and kind.__module__.startswith(PACKAGE):
        yield kind


def hints(function: Callable[..., Any]) -> Iterator[type]:
    """Those that a function takes or gives."""
    for hint in typing.get_type_hints(function).values():
        yield from classes(hint)


def met(kind: type) -> Iterator[type]:
    """Those that who has one of these meets: in its methods, and in its fields."""
    for name, member in inspect.getmembers_static(kind):
        if name.startswith("_"):
            continue
        if isinstance(member, property) and member.fget is not None:
            yield from hints(member.fget)
        elif isinstance(member, classmethod | staticmethod):
            yield from hints(member.__func__)
        elif inspect.isfunction(member):
            yield from hints(member)
    if issubclass(kind, msgspec.Struct):
        for hint in typing.get_type_hints(kind).values():
            yield from classes(hint)


def reachable(kind: type) -> set[type]:
    found, left = {kind}, [kind]
    while left:
        new = set(met(left.pop())) - found
        found |= new
        left += new
    return found


@pytest.mark.parametrize(
    "kind",
    [
        AllocationRecord,
        Allocations,
        Borrow,
        Cleanup,
        MediaReceiver,
        Predecessor,
        Renewal,
        RenewalReport,
        SequenceMember,
        Sequences,
        Submission,
    ],
)
def test_whatever_who_has_one_of_these_meets_can_be_imported_from_the_package(kind: type) -> None:
    there = {each for each in vars(public).values() if isinstance(each, type)}
    missing = {each.__qualname__ for each in reachable(kind) - there}
    assert not missing


def test_no_name_stands_for_another_thing_elsewhere() -> None:
    modules = (trio_reactor, errors, events, book, submission)
    for name in public.__all__:
        for module in modules:
            other = getattr(module, name, None)
            assert other is None or other is getattr(public, name), (name, module.__name__)
