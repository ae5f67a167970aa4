"""Keys, handles, works, limits and what is forgotten: what they take, and what they refuse."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from supervision_values import handles, keys, limits, works

from trio_reactor.supervision.model.child import Child, Launch
from trio_reactor.supervision.model.ends import ExitStatus
from trio_reactor.supervision.model.keys import MAX_NAME, Handle, Key
from trio_reactor.supervision.model.work import (
    UNLIMITED,
    Command,
    Limits,
    PythonCode,
    Work,
    as_work,
    negotiate,
)

BAD_NAMES = ["x" * (MAX_NAME + 1), "a\nb", "a\0b", "\ud800", "\x1b[31m", "a\u2028b"]


@pytest.mark.parametrize("name", ["", *BAD_NAMES])
def test_an_identity_that_cannot_be_a_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="identity"):
        Key(name)


@pytest.mark.parametrize("name", BAD_NAMES)
def test_an_instance_that_cannot_be_a_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="instance"):
        Key("kernel", name)


def test_a_name_may_be_as_long_as_the_bound_and_in_any_script() -> None:
    assert str(Key("x" * MAX_NAME)) == "x" * MAX_NAME
    assert str(Key("ядро", "第七")) == "ядро/第七"


@given(keys, keys)
def test_keys_are_ordered_as_their_parts(one: Key, other: Key) -> None:
    parts = [(key.identity, key.instance) for key in (one, other)]
    assert (one < other) == (parts[0] < parts[1])


@given(handles, handles)
def test_a_handle_matches_itself_alone(one: Handle, other: Handle) -> None:
    assert one.matches(msgspec.structs.replace(one))
    assert one.matches(other) == (one == other)


@pytest.mark.parametrize("token", ["", "token ", "\ud800", "токен", "x" * 100_000])
def test_whatever_is_offered_as_a_token_is_compared(token: str) -> None:
    handle = Handle(Key("kernel"), 1, "token")
    forged = Handle(Key("kernel"), 1, token)
    assert not handle.matches(forged)
    assert not forged.matches(handle)
    assert forged.matches(msgspec.structs.replace(forged))


def test_what_is_secret_is_not_shown() -> None:
    handle = Handle(Key("kernel"), 1, "geheim")
    child = Child(address="somewhere", secret="geheim")
    launch = Launch("geheim", 12.5)
    for shown in (repr(handle), str(handle), repr(child), repr(launch), repr([handle, child])):
        assert "geheim" not in shown


@pytest.mark.parametrize(
    "specifier", ["", "worker", "worker:", ":main", "a b:main", "worker:main:more", "wor-ker:main"]
)
def test_a_specifier_that_names_no_callable_is_refused(specifier: str) -> None:
    with pytest.raises(ValueError, match=r"is not of the form package\.module:callable"):
        PythonCode(specifier)


def test_a_specifier_may_be_dotted_on_both_sides() -> None:
    assert as_work("package.module:Class.method") == PythonCode("package.module:Class.method")
    command = Command(("ls",))
    assert as_work(command) is command


@pytest.mark.parametrize(
    ("given_", "named"),
    [
        ({"argv": ()}, "needs a program"),
        ({"argv": ("",)}, "needs a program"),
        ({"argv": "ls -l"}, "argv must be several texts"),
        ({"argv": ("ls", "a\0b")}, "argv holds a NUL"),
        ({"environment": (("A=B", "c"),)}, "environment"),
        ({"environment": (("", "c"),)}, "environment"),
        ({"environment": (("A", "b\0c"),)}, "environment"),
        ({"environment": {"AB": "c"}}, "environment must be pairs"),
        ({"environment": (("A", "b", "c"),)}, "environment must be pairs"),
        ({"directory": ""}, "directory"),
        ({"directory": "a\0b"}, "directory"),
    ],
)
def test_a_command_that_cannot_be_run_is_refused(given_: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        Command(**{"argv": ("ls",), **given_})


@pytest.mark.parametrize(
    ("given_", "named"),
    [
        ({"path": "lib"}, "path must be several texts"),
        ({"path": ("a\0b",)}, "path holds a NUL"),
        ({"environment": (("A=B", "c"),)}, "environment"),
        ({"directory": ""}, "directory"),
    ],
)
def test_code_that_cannot_be_run_is_refused(given_: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        PythonCode("worker:main", **given_)


def test_a_work_given_as_lists_is_the_same_work() -> None:
    lists: Any = {"argv": ["ls", "-l"], "environment": [["A", "b"]]}
    assert Command(**lists) == Command(("ls", "-l"), (("A", "b"),))
    assert hash(Command(**lists)) == hash(Command(("ls", "-l"), (("A", "b"),)))


@given(works)
def test_a_work_can_be_told_in_words(work: Work) -> None:
    assert str(work) == (work.specifier if isinstance(work, PythonCode) else work.argv[0])


@pytest.mark.parametrize("name", UNLIMITED.__struct_fields__)
@pytest.mark.parametrize("bound", [0, -1, float("nan"), float("inf")])
def test_a_limit_that_is_none_is_refused(name: str, bound: float) -> None:
    with pytest.raises(ValueError, match=f"limit {name} must be positive and finite"):
        Limits(**{name: bound})


@pytest.mark.parametrize("name", ["memory", "open_files", "processes"])
@pytest.mark.parametrize("bound", [1.5, 1.0, True])
def test_what_is_counted_is_whole(name: str, bound: Any) -> None:
    with pytest.raises(ValueError, match=f"limit {name} must be a whole number"):
        Limits(**{name: bound})


@given(limits, limits)
def test_the_smaller_limit_counts(offered: Limits, asked: Limits) -> None:
    agreed = negotiate(offered, asked)
    for name in UNLIMITED.__struct_fields__:
        both = [getattr(each, name) for each in (offered, asked)]
        known = [bound for bound in both if bound is not None]
        assert getattr(agreed, name) == (min(known) if known else None)
    assert agreed == negotiate(asked, offered)
    assert negotiate(agreed, asked) == agreed
    assert negotiate(offered, UNLIMITED) == offered


def test_an_exit_is_told_in_words() -> None:
    assert str(ExitStatus(code=3)) == "status 3"
    assert str(ExitStatus(signal=9)) == "signal 9"
    assert str(ExitStatus()) == "an unknown status"
    assert ExitStatus(code=0).is_success
    assert not ExitStatus(code=3).is_success
    assert not ExitStatus(signal=9).is_success
    assert not ExitStatus().is_success
