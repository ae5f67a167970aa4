"""Options are refused by name before anything is opened."""

from __future__ import annotations

import math

import pytest
from pydantic import ValidationError

from trio_reactor.renewal.options import RenewalOptions

NUMBERS = [
    "lead",
    "jitter",
    "handoff_grace",
    "open_timeout",
    "reconnect_timeout",
    "reply_timeout",
    "check_timeout",
    "cleanup_timeout",
    "accounting_timeout",
    "first_pause",
    "max_pause",
    "pause_jitter",
    "max_failures",
    "stable_after",
    "max_frames",
    "max_samples",
    "max_bytes",
    "max_input_bytes",
    "max_queue",
    "max_sequences",
    "max_members",
    "max_clips",
    "max_context_bytes",
    "max_sessions",
    "retained_successful_cleanups",
    "max_unresolved_cleanups",
]


def test_the_defaults_are_those_that_are_promised() -> None:
    options = RenewalOptions()
    assert options.handoff_grace == 0.25
    assert (options.max_frames, options.max_samples) == (96, 192_000)
    assert options.max_bytes >= 96 * 1920 * 1080 * 3
    assert options.max_unresolved_cleanups == 16
    assert options.retained_successful_cleanups == 64
    assert (options.max_queue, options.max_sequences, options.max_members) == (256, 256, 256)


def test_every_option_says_what_it_means() -> None:
    assert set(NUMBERS) | {"retention"} == set(RenewalOptions.model_fields)
    for name, field in RenewalOptions.model_fields.items():
        assert field.description, name


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [-1, math.nan, math.inf, "5", True])
def test_a_wrong_option_is_refused_by_its_name(name: str, value: object) -> None:
    with pytest.raises(ValidationError, match=f"(?m)^{name}$"):
        RenewalOptions.model_validate({name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("handoff_grace", 5.1),
        ("jitter", 1.1),
        ("max_frames", 0),
        ("max_failures", 0),
        ("reconnect_timeout", 0),
        ("max_sessions", 4097),
        ("max_sessions", 0),
        ("retained_successful_cleanups", 4097),
        ("max_unresolved_cleanups", 1),
        ("max_unresolved_cleanups", 4097),
        ("retention", "some"),
        ("unknown", 1),
    ],
)
def test_what_is_beyond_its_bound_or_unknown_is_named(name: str, value: object) -> None:
    with pytest.raises(ValidationError, match=f"(?m)^{name}"):
        RenewalOptions.model_validate({name: value})


def test_pauses_must_be_able_to_grow() -> None:
    with pytest.raises(ValidationError, match="first_pause must not be longer than max_pause"):
        RenewalOptions(first_pause=10, max_pause=5)


def test_no_lead_and_no_grace_are_allowed() -> None:
    options = RenewalOptions(lead=0, handoff_grace=0, stable_after=0)
    assert options.lead == 0


def test_options_cannot_be_changed_and_come_back_from_json() -> None:
    options = RenewalOptions(lead=12, retention="complete")
    with pytest.raises(ValidationError):
        options.lead = 5  # type: ignore[misc]
    assert RenewalOptions.model_validate_json(options.model_dump_json()) == options


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        (RenewalOptions(), None),
        (RenewalOptions(max_sessions=10), 10),
        (RenewalOptions(retention="complete"), 64),
        (RenewalOptions(retention="complete", max_sessions=4096), 4096),
    ],
)
def test_only_complete_retention_caps_the_sessions_by_itself(
    options: RenewalOptions, limit: int | None
) -> None:
    assert options.session_limit == limit
