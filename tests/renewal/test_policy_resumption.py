"""What a successor is offered, as a value: every trace of what can become of it."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from trio_reactor.renewal.options import RenewalOptions
from trio_reactor.renewal.policy.decision import decide
from trio_reactor.renewal.policy.facts import ChainFacts, SourceFacts
from trio_reactor.renewal.policy.phases import OnAir
from trio_reactor.renewal.policy.resumption import MAX_REFUSED, Handle, Offers
from trio_reactor.renewal.policy.steps import Prepare, Wait

LEFT = (None, Handle(1, "a"), Handle(1, "b"), Handle(2, "a"))
ENDS = ("opened", "resumption-refused", "failed", "permanent")


def test_over_every_trace_a_refused_handle_is_never_offered_again_and_one_fresh_open_follows() -> (
    None
):
    steps = list(itertools.product(LEFT, ENDS))
    for trace in itertools.product(steps, repeat=3):
        offers = Offers()
        refused: set[Handle] = set()
        for left, end in trace:
            fresh = offers.fresh
            offered = offers.offer(left)
            assert offered in (None, left)
            assert offered is None or (not fresh and offered not in refused), trace
            if left is not None and not fresh and left not in refused:
                assert offered == left, trace
            offers = offers.opening()
            assert not offers.fresh
            if end == "opened":
                continue
            after = offers.failed(
                offered, refused=end == "resumption-refused", permanent=end == "permanent"
            )
            assert (after is not None) == (offered is not None and end == "resumption-refused")
            if after is not None:
                assert after.fresh
                assert offered is not None
                refused = {each for each in refused if each.source == offered.source} | {offered}
                assert set(after.refused) == refused
                offers = after


def test_a_refusal_that_is_permanent_counts_also_where_it_speaks_of_the_resumption() -> None:
    offered = Handle(1, "a")
    assert Offers().failed(offered, refused=True, permanent=True) is None
    assert Offers().failed(None, refused=True, permanent=False) is None


def test_a_source_whose_handles_are_refused_again_and_again_leaves_none_any_more() -> None:
    offers = Offers()
    for number in range(MAX_REFUSED):
        handle = offers.offer(Handle(1, str(number)))
        after = offers.opening().failed(handle, refused=True, permanent=False)
        assert after is not None
        offers = after.opening()
    assert offers.offer(Handle(1, "one more")) is None
    assert offers.offer(Handle(2, "one more")) == Handle(2, "one more")
    assert len(offers.refused) == MAX_REFUSED


@pytest.mark.parametrize(
    "current", [None, SourceFacts(OnAir(), expires_at=160.0, prepare_at=90.0)], ids=["none", "due"]
)
def test_the_fresh_open_waits_for_no_pause(current: SourceFacts | None) -> None:
    facts = ChainFacts(now=100.0, current=current, vacancy="plan", retry_at=104.0)
    assert decide(facts, RenewalOptions()) == Wait(104.0)
    fresh = msgspec.structs.replace(facts, fresh=True)
    assert decide(fresh, RenewalOptions()) == Prepare("plan")
