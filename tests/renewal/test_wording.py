"""What is said of a thing that is not what it must be."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from trio_reactor.renewal.source import AudioFrame
from trio_reactor.wording import a_kind


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("text", "a str"),
        (5, "an int"),
        (object(), "an object"),
        (None, "a NoneType"),
        (AudioFrame(b"", 0, 1, 48_000, "s16", 0.0), "an AudioFrame"),
        (uuid.uuid4(), "a UUID"),
        (type("", (), {})(), "a "),
    ],
)
def test_a_thing_is_told_by_its_kind_with_the_article_of_that(value: Any, said: str) -> None:
    assert a_kind(value) == said
