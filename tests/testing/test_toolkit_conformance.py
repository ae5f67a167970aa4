"""What every conformance suite does: which cases apply, whose failure it is, what is reported."""

from __future__ import annotations

import re
import textwrap
from abc import abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import pytest
import trio
from trio.testing import MockClock

from trio_reactor.testing import conformance
from trio_reactor.testing.conformance import (
    Failed,
    Nonconforming,
    NotApplicable,
    Part,
    Passed,
    RigFailed,
    Suite,
    Untested,
    optional,
)


class Queue:
    """A queue that keeps what it must."""

    def __init__(self) -> None:
        self.kept: list[bytes] = []

    async def put(self, item: bytes) -> None:
        await trio.lowlevel.checkpoint()
        self.kept.append(item)

    async def get(self) -> bytes:
        if not self.kept:
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        return self.kept.pop(0)


class Rig(conformance.Rig):
    capabilities: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def queue(self) -> Queue: ...

    @property
    def putting(self) -> Callable[[bytes], Awaitable[None]]:
        return self.queue().put

    @optional
    async def crash(self) -> None:
        raise NotImplementedError


Trial = conformance.Trial[Rig]
PART = Part(Trial)


@PART.case("it begins empty", decisive=True)
async def _empty(trial: Trial) -> None:
    trial.require(not trial.rig.queue().kept, "began with something")


@PART.case("what is put first comes first")
async def _fifo(trial: Trial) -> None:
    await trial.rig.putting(b"1")
    await trial.rig.putting(b"2")
    with trial.soon("did not give what was put"):
        found = await trial.rig.queue().get()
    trial.require(found == b"1", f"gave {found!r} first")


@PART.case("what was acknowledged is there after a crash", "crash")
async def _durable(trial: Trial) -> None:
    await trial.rig.queue().put(b"1")
    await trial.rig.crash()
    await trial.comes_true(lambda: trial.rig.queue().kept == [b"1"])
    trial.require(trial.rig.queue().kept, "lost what it had acknowledged")


@PART.case("it refuses what is too much", "bounded")
async def _bounded(trial: Trial) -> None:
    await trio.lowlevel.checkpoint()
    trial.fail("is not bounded")


SUITE = Suite(Rig, PART, capabilities=["bounded"])
EMPTY, FIFO, DURABLE, BOUNDED = SUITE.cases


class QueueRig(Rig):
    name = "the queue"
    kind: ClassVar[type[Queue]] = Queue

    def __init__(self) -> None:
        self.made = self.kind()

    def queue(self) -> Queue:
        return self.made


class CrashingRig(QueueRig):
    async def crash(self) -> None:
        await trio.lowlevel.checkpoint()


def fresh(kind: type[QueueRig]) -> Any:
    @asynccontextmanager
    async def environment() -> AsyncGenerator[QueueRig]:
        await trio.lowlevel.checkpoint()
        yield kind()

    return environment


def with_queue(queue: type[Queue]) -> type[QueueRig]:
    class Some(QueueRig):
        kind = queue

    return Some


# ---------------------------------------------------------------------------------- which apply


def test_a_case_applies_where_the_rig_offers_all_that_it_needs() -> None:
    class BoundedRig(CrashingRig):
        capabilities = frozenset({"bounded"})

    assert SUITE.cases_for(QueueRig) == (EMPTY, FIFO)
    assert SUITE.cases_for(CrashingRig) == (EMPTY, FIFO, DURABLE)
    assert SUITE.cases_for(BoundedRig) == SUITE.cases
    assert DURABLE.lacks(QueueRig) == ("crash",)


def test_an_optional_method_that_is_taken_back_is_not_offered() -> None:
    class TakenBack(CrashingRig):
        crash = Rig.crash

    assert not TakenBack.offers("crash")


def test_an_attribute_of_a_rig_is_no_capability() -> None:
    class Confusing(QueueRig):
        bounded = True

    assert not Confusing.offers("bounded")
    assert not Confusing.offers("queue")


def test_a_capability_that_there_is_not_is_refused_by_name() -> None:
    class Typo(QueueRig):
        capabilities = frozenset({"bouncing"})

    with pytest.raises(ValueError, match=r"^Typo\.capabilities names 'bouncing'; .* 'bounded'$"):
        SUITE.cases_for(Typo)


async def test_a_report_refuses_it_before_anything_is_run() -> None:
    class Typo(QueueRig):
        capabilities = frozenset({"bouncing"})

    with pytest.raises(ValueError, match="bouncing"):
        await SUITE.report(Typo, fresh(Typo))


def test_a_case_that_needs_what_no_rig_can_offer_is_refused() -> None:
    part = Part(Trial)

    @part.case("it floats", "floating")
    async def _floats(trial: Trial) -> None: ...

    with pytest.raises(ValueError, match="'it floats' needs 'floating'; there are 'bound"):
        Suite(Rig, part, capabilities=["bounded"])


def test_a_sentence_that_is_said_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="two cases say 'it begins empty'"):
        Suite(Rig, PART, PART, capabilities=["bounded"])


def test_a_capability_with_the_name_of_a_method_is_refused() -> None:
    with pytest.raises(ValueError, match="'crash' is an attribute of the rig too"):
        Suite(Rig, PART, capabilities=["bounded", "crash"])


def test_what_a_part_needs_all_its_cases_do() -> None:
    part = Part(Trial, "bounded")

    @part.case("it does so after a crash", "crash")
    async def _also(trial: Trial) -> None: ...

    assert part.cases[0].needs == {"bounded", "crash"}


# ------------------------------------------------------------------------------ whose failure it is


async def test_what_keeps_the_rules_passes(autojump_clock: MockClock) -> None:
    for case in SUITE.cases_for(CrashingRig):
        await case.run(CrashingRig())


async def test_what_breaks_a_rule_is_told_with_the_rule(autojump_clock: MockClock) -> None:
    class Stack(Queue):
        async def get(self) -> bytes:
            await trio.lowlevel.checkpoint()
            return self.kept.pop()

    with pytest.raises(Nonconforming) as caught:
        await FIFO.run(with_queue(Stack)())
    assert str(caught.value) == f"the queue gave b'2' first; required: {FIFO}"
    assert (caught.value.subject, caught.value.did) == ("the queue", "gave b'2' first")
    assert caught.value.required == FIFO.sentence


async def test_what_the_implementation_raises_is_its_own(autojump_clock: MockClock) -> None:
    class Raises(Queue):
        async def put(self, item: bytes) -> None:
            raise KeyError(item)

    with pytest.raises(Nonconforming, match="the queue raised KeyError") as caught:
        await FIFO.run(with_queue(Raises)())
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize("method", ["queue", "crash", "putting"])
async def test_what_the_rig_raises_is_not(autojump_clock: MockClock, method: str) -> None:
    def queue(self: Rig) -> Queue:
        raise OSError("no disk")

    async def crash(self: Rig) -> None:
        await trio.lowlevel.checkpoint()
        raise OSError("no disk")

    replaced = {"queue": queue, "crash": crash, "putting": property(queue)}[method]
    kind = type("Broken", (CrashingRig,), {method: replaced})
    case = {"queue": EMPTY, "crash": DURABLE, "putting": FIFO}[method]
    with pytest.raises(RigFailed, match=f"^the rig of the queue failed in `{method}`; ") as caught:
        await case.run(kind())
    assert isinstance(caught.value.__cause__, OSError)


async def test_a_method_that_runs_the_implementation_is_not_the_rigs(
    autojump_clock: MockClock,
) -> None:
    class Its(CrashingRig):
        not_the_rigs = frozenset({"crash"})

        async def crash(self) -> None:
            await trio.lowlevel.checkpoint()
            raise KeyError("of the queue")

    with pytest.raises(Nonconforming, match="raised KeyError"):
        await DURABLE.run(Its())


async def test_the_rig_is_to_blame_before_what_suffers_from_it(autojump_clock: MockClock) -> None:
    part = Part(Trial)

    @part.case("both at a time", "crash")
    async def _both(trial: Trial) -> None:
        async def broken() -> None:
            trial.fail("was broken")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(broken)
            nursery.start_soon(trial.rig.crash)

    class Broken(CrashingRig):
        async def crash(self) -> None:
            raise OSError("no disk")

    with pytest.raises(RigFailed):
        await part.cases[0].run(Broken())


async def test_a_case_that_does_not_come_to_an_end_is_ended(autojump_clock: MockClock) -> None:
    part = Part(Trial)

    @part.case("it ends", patiences=3.0)
    async def _never(trial: Trial) -> None:
        await trio.sleep_forever()

    before = trio.current_time()
    with pytest.raises(Nonconforming, match="did not come to an end within 30 s"):
        await part.cases[0].run(QueueRig())
    assert trio.current_time() - before == pytest.approx(30.0)


async def test_a_cancellation_from_outside_is_no_failure(autojump_clock: MockClock) -> None:
    part = Part(Trial)

    @part.case("it ends")
    async def _never(trial: Trial) -> None:
        await trio.sleep_forever()

    with trio.move_on_after(1.0) as scope:
        await part.cases[0].run(QueueRig())
    assert scope.cancelled_caught


async def test_what_has_to_happen_soon_and_does_not_is_told(autojump_clock: MockClock) -> None:
    class Deaf(Queue):
        async def get(self) -> bytes:
            await trio.sleep_forever()
            return b""

    with pytest.raises(Nonconforming, match="did not give what was put within 10 s"):
        await FIFO.run(with_queue(Deaf)())


async def test_a_fact_that_nobody_tells_is_looked_at_until_it_holds_or_patience_is_over(
    autojump_clock: MockClock,
) -> None:
    trial = Trial(QueueRig(), "any")
    since = trio.current_time()
    assert await trial.comes_true(lambda: trio.current_time() >= since + 2)
    assert trio.current_time() == pytest.approx(since + 2, abs=0.1)
    assert not await trial.comes_true(lambda: False, within=1.0)
    assert trio.current_time() == pytest.approx(since + 3, abs=0.1)


# ------------------------------------------------------------------------------- what is reported


async def test_a_report_has_an_outcome_for_every_case(autojump_clock: MockClock) -> None:
    class Lazy(Queue):
        async def put(self, item: bytes) -> None:
            await trio.lowlevel.checkpoint()

    class Rigged(CrashingRig):
        kind = Lazy

    told: list[str] = []
    report = await SUITE.report(Rigged, fresh(Rigged), told.append)
    assert list(report.outcomes) == [case.sentence for case in SUITE.cases]
    first, second, third, fourth = report.outcomes.values()
    assert first == Passed()
    assert isinstance(second, Failed)
    assert isinstance(third, Failed)
    assert fourth == NotApplicable("it needs 'bounded'")
    assert report.holding == (EMPTY.sentence,)
    assert told == [f"holds: {EMPTY}", f"does not hold: {FIFO}", f"does not hold: {DURABLE}"]
    assert str(report).splitlines() == [
        f"holds: {EMPTY}",
        f"does not hold: {FIFO}",
        f"  the queue did not give what was put within 10 s; required: {FIFO}",
        f"does not hold: {DURABLE}",
        f"  the queue lost what it had acknowledged; required: {DURABLE}",
        f"does not apply: {BOUNDED} (it needs 'bounded')",
    ]
    with pytest.raises(ExceptionGroup, match=r"^the queue does not conform") as caught:
        report.raise_broken()
    assert caught.value.exceptions == (*second.failures, *third.failures)


async def test_where_a_decisive_case_does_not_hold_the_rest_is_not_tested(
    autojump_clock: MockClock,
) -> None:
    class Full(Queue):
        def __init__(self) -> None:
            super().__init__()
            self.kept.append(b"0")

    kind = with_queue(Full)
    report = await SUITE.report(kind, fresh(kind))
    _, second, third, _ = report.outcomes.values()
    assert second == Untested("it does not hold that it begins empty")
    assert third == NotApplicable("it needs 'crash'")


async def test_where_the_surroundings_of_a_rig_fail_the_rest_is_not_tested(
    autojump_clock: MockClock,
) -> None:
    class Uncrashed(CrashingRig):
        pass

    @asynccontextmanager
    async def environment() -> AsyncGenerator[QueueRig]:
        yield Uncrashed()
        raise OSError("no way out")

    report = await SUITE.report(Uncrashed, environment)
    first, second, third, fourth = report.outcomes.values()
    assert isinstance(first, Untested)
    assert second == third == Untested("the rig failed before")
    assert fourth == NotApplicable("it needs 'bounded'")
    with pytest.raises(RigFailed, match="around the case 'it begins empty'") as caught:
        report.raise_broken()
    assert isinstance(caught.value.__cause__, OSError)


async def test_all_at_once_gives_what_holds_or_raises_what_does_not(
    autojump_clock: MockClock,
) -> None:
    assert await SUITE.run_all(QueueRig, fresh(QueueRig)) == (EMPTY.sentence, FIFO.sentence)

    class Boasting(QueueRig):
        capabilities = frozenset({"bounded"})

    with pytest.raises(ExceptionGroup, match=r"^the queue does not conform") as caught:
        await SUITE.run_all(Boasting, fresh(Boasting))
    (broken,) = caught.value.exceptions
    assert isinstance(broken, Nonconforming)
    assert broken.required == BOUNDED.sentence


# -------------------------------------------------------------------------------- the example


async def test_the_example_of_the_package_is_a_suite(autojump_clock: MockClock) -> None:
    assert conformance.__doc__ is not None
    block = re.search(r"\n\n((?: {4}.*\n|\n)+)", conformance.__doc__)
    assert block is not None
    one = Queue()
    names: dict[str, Any] = {"__name__": "example", "Queue": Queue}
    exec(compile(textwrap.dedent(block[1]), "example.py", "exec"), names)

    class Mine(names["Rig"]):  # type: ignore[misc]
        name = "mine"

        def queue(self) -> Queue:
            return one

        async def crash(self) -> None:
            one.kept.clear()
            await trio.lowlevel.checkpoint()

    first, second = names["SUITE"].cases_for(Mine)
    await first.run(Mine())
    with pytest.raises(Nonconforming, match="mine did not give what was put within 10 s"):
        await second.run(Mine())
