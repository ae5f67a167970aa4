"""Options are exact about what they are given, and stay what they are."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import pytest
from pydantic import BaseModel, ValidationError

import trio_reactor
from trio_reactor.options import Options


class Tea(Options):
    """Some options."""

    minutes: float = 3.5
    """Seconds would be too short."""


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"minuets": 3.0}, "minuets"),
        ({"minutes": "3"}, "minutes"),
        ({"minutes": float("inf")}, "minutes"),
        ({"minutes": float("nan")}, "minutes"),
        ({"minutes": None}, "minutes"),
    ],
)
def test_what_is_wrong_or_unknown_is_refused_by_name(given: dict[str, object], named: str) -> None:
    with pytest.raises(ValueError, match=rf"(?m)^{named}$"):
        Tea.model_validate(given)


def test_what_was_made_stays_what_it_is() -> None:
    tea = Tea(minutes=4)
    with pytest.raises(ValidationError, match="frozen"):
        tea.minutes = 5.0  # type: ignore[misc]
    assert tea.minutes == 4.0


def test_the_docstring_of_an_option_is_its_description() -> None:
    assert Tea.model_fields["minutes"].description == "Seconds would be too short."


def models(of: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for kind in of.__subclasses__():
        yield kind
        yield from models(kind)


def test_every_model_of_the_library_is_one_of_options() -> None:
    for module in pkgutil.walk_packages(trio_reactor.__path__, "trio_reactor."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    ours = {kind for kind in models(BaseModel) if kind.__module__.startswith("trio_reactor.")}
    assert len(ours) > 6
    assert [kind for kind in ours if not issubclass(kind, Options)] == []
