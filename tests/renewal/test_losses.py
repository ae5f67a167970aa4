"""The losses of the logical output, over all the sources that fed it."""

from __future__ import annotations

import pytest

from trio_reactor.errors import Lost
from trio_reactor.renewal.media.losses import LossesUnknown, LossLedger
from trio_reactor.renewal.source import MediaLosses


class Generation:
    """A media generation that says it lost what it is told to say."""

    def __init__(self, frames: int = 0, samples: int = 0) -> None:
        self.says: MediaLosses | BaseException = MediaLosses(frames, samples)
        self.asked = 0

    generation = 1

    def losses(self) -> MediaLosses:
        self.asked += 1
        if isinstance(self.says, BaseException):
            raise self.says
        return self.says

    async def aclose(self) -> None:
        raise AssertionError("the ledger closes nothing")


def test_a_source_counts_only_while_it_feeds_the_output() -> None:
    ledger = LossLedger()
    first, second = Generation(frames=2), Generation(frames=100, samples=50)
    ledger.activate(first, from_start=True)
    assert ledger.total() == MediaLosses(2, 0)
    first.says = MediaLosses(5, 10)
    assert ledger.end_feed() == MediaLosses(5, 10)
    first.says = MediaLosses(1000, 1000)  # what it loses from here on is not the output's
    ledger.activate(second)
    assert ledger.total() == MediaLosses(5, 10)
    second.says = MediaLosses(101, 53)
    assert ledger.total() == MediaLosses(6, 13)


def test_a_retired_generation_counts_once() -> None:
    ledger = LossLedger()
    media = Generation()
    ledger.activate(media, from_start=True)
    media.says = MediaLosses(3, 0)
    for _ in range(3):
        ledger.retire(media)
    assert ledger.total() == MediaLosses(3, 0)
    assert media.asked == 1
    ledger.retire(Generation(frames=7))
    ledger.retire(None)
    assert ledger.total() == MediaLosses(3, 0)


def test_a_new_generation_of_the_source_on_air_counts_from_its_start() -> None:
    ledger = LossLedger()
    before, after = Generation(frames=4), Generation(frames=1)
    ledger.activate(before)
    before.says = MediaLosses(6, 0)
    ledger.activate(after, from_start=True)
    ledger.activate(after)  # it is the one that counts already
    assert ledger.total() == MediaLosses(3, 0)
    assert ledger.end_feed() == MediaLosses(3, 0), "both of its generations"
    assert ledger.end_feed() == MediaLosses(0, 0)


def test_a_total_that_cannot_be_read_now_fails_and_can_be_read_later() -> None:
    ledger = LossLedger()
    media = Generation()
    ledger.activate(media, from_start=True)
    media.says = Lost("gone")
    with pytest.raises(LossesUnknown) as caught:
        ledger.total()
    assert isinstance(caught.value.__cause__, Lost)
    media.says = MediaLosses(1, 1)
    assert ledger.total() == MediaLosses(1, 1)


@pytest.mark.parametrize("moment", ["activation", "retirement", "backwards"])
def test_what_a_former_source_never_told_is_unknown_for_good(moment: str) -> None:
    ledger = LossLedger()
    media = Generation(frames=5)
    if moment == "activation":
        media.says = OSError("no")
    ledger.activate(media)
    media.says = {
        "activation": MediaLosses(5, 0),
        "retirement": OSError("no"),
        "backwards": MediaLosses(4, 0),
    }[moment]
    assert ledger.end_feed() is None
    ledger.activate(Generation())
    for _ in range(2):
        with pytest.raises(LossesUnknown):
            ledger.total()
    assert ledger.end_feed() == MediaLosses(0, 0), "the next source's own is known"


def test_a_defect_of_the_adapter_is_raised_and_its_losses_are_unknown() -> None:
    ledger = LossLedger()
    media = Generation()
    ledger.activate(media, from_start=True)
    media.says = TypeError("a bug")
    with pytest.raises(TypeError):
        ledger.retire(media)
    with pytest.raises(LossesUnknown):
        ledger.total()
