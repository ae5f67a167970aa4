"""The evidence of an end: what can be said, what that proves, and what is told of the rest."""

from __future__ import annotations

import itertools
import logging
from typing import Any, get_args

import msgspec
import pytest
import trio
from chain_stage import Stage, tokens

from trio_reactor.errors import Overflow
from trio_reactor.renewal import Cleanup, RenewalOptions
from trio_reactor.renewal.chain.ledger import CleanupLedger
from trio_reactor.renewal.evidence import Allocation, Connection, Termination

SAYABLE: list[dict[str, Any]] = [
    {"allocation": allocation, "termination": termination, "connection": connection}
    for allocation, termination, connection in itertools.product(
        get_args(Allocation), get_args(Termination), get_args(Connection)
    )
    if (allocation, termination) != ("none", "confirmed")
]
EXPIRES: dict[str, Any] = {
    "allocation": "owned",
    "termination": "not-needed",
    "connection": "closed",
}
"""What the author of a token may say of one that just expires."""


@pytest.mark.parametrize("evidence", SAYABLE, ids=lambda each: " ".join(each.values()))
def test_what_is_missing_is_told_of_exactly_what_is_not_complete(evidence: dict[str, Any]) -> None:
    cleanup = Cleanup.of("it", **evidence)
    ended = evidence["termination"] == "confirmed" or (
        evidence["termination"] == "not-needed" and evidence["allocation"] != "owned"
    )
    assert cleanup.complete == (ended and evidence["connection"] != "failed")
    assert (cleanup.missing is None) == cleanup.complete
    assert msgspec.json.decode(msgspec.json.encode(cleanup), type=Cleanup) == cleanup


@pytest.mark.parametrize(
    ("field", "typo"),
    [
        ("allocation", "owend"),
        ("termination", "confirm"),
        ("connection", "close"),
        ("allocation", None),
        ("termination", ["confirmed"]),
    ],
)
def test_a_word_that_there_is_not_is_refused_by_the_name_of_its_field(
    field: str, typo: object
) -> None:
    evidence: dict[str, Any] = {
        "allocation": "owned",
        "termination": "confirmed",
        "connection": "closed",
    } | {field: typo}
    with pytest.raises(ValueError, match=f"^{field}=") as caught:
        Cleanup.of("it", **evidence)
    assert repr(typo) in str(caught.value)
    for word in get_args({"allocation": Allocation, "termination": Termination}.get(field)):
        assert repr(word) in str(caught.value)


def test_the_end_of_nothing_cannot_be_confirmed() -> None:
    with pytest.raises(ValueError, match="contradicts allocation='none'"):
        Cleanup.of("it", allocation="none", termination="confirmed", connection="closed")


def test_a_record_that_contradicts_itself_cannot_be_decoded() -> None:
    encoded = (
        b'{"source": null, "allocation": "none", "termination": "confirmed", '
        b'"connection": "closed", "complete": true}'
    )
    with pytest.raises(msgspec.ValidationError, match="allocation='none'"):
        msgspec.json.decode(encoded, type=Cleanup)


def test_what_just_expires_allocates_nothing() -> None:
    assert Cleanup.of(
        "it", allocation="none", termination="not-needed", connection="closed"
    ).complete
    missing = Cleanup.of("it", **EXPIRES).missing
    assert missing is not None
    assert "allocation='none'" in missing


def test_the_first_that_is_not_complete_is_logged_with_what_is_missing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ledger = CleanupLedger(RenewalOptions(), "the tokens")
    ledger.record(
        ledger.reserve(),
        Cleanup.of("1", allocation="owned", termination="confirmed", connection="closed"),
    )
    assert caplog.records == []
    for _ in range(3):
        ledger.record(ledger.reserve(), Cleanup.of("a secret", **EXPIRES))
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("trio_reactor.renewal", logging.WARNING)
    said = record.getMessage()
    assert said.startswith("the tokens: the clean-up of source 2 (allocation='owned', termination=")
    assert str(Cleanup.of(None, **EXPIRES).missing) in said
    assert "a secret" not in said


def test_that_there_is_no_room_names_the_newest_and_what_is_missing() -> None:
    ledger = CleanupLedger(RenewalOptions(max_unresolved_cleanups=3))
    for _ in range(2):
        ledger.record(ledger.reserve(), Cleanup.of("it", **EXPIRES))
    ledger.reserve()
    with pytest.raises(Overflow) as caught:
        ledger.reserve()
    assert caught.value.message == (
        "max_unresolved_cleanups=3 leaves no room for another source: 2 clean-ups are not proven "
        "complete, 1 is still to come; the newest is of source 2 (allocation='owned', "
        f"termination='not-needed', connection='closed'): {Cleanup.of('it', **EXPIRES).missing}"
    )


async def test_tokens_that_only_expire_end_in_what_says_how_to_report_them(
    autojump_clock: object,
) -> None:
    class Careless:
        lifetime = 60.0

        def __init__(self, number: int) -> None:
            self.id = f"token-{number}"

        async def close(self) -> Cleanup:
            await trio.lowlevel.checkpoint()
            return Cleanup.of(self.id, **EXPIRES)

    stage = Stage(renewal={"max_unresolved_cleanups": 4})
    with pytest.raises(Overflow, match=r"source 3 \(allocation='owned'.*is allocation='none'"):
        async with stage.open(tokens(*map(Careless, range(9)))):  # type: ignore[arg-type]
            await trio.sleep_forever()
