"""What holds for what another process finds again: what is recorded, adopted and terminated."""

from __future__ import annotations

from typing import Final, cast

import msgspec

from trio_reactor.renewal.allocation.records import MAX_ALLOCATION_BYTES, AllocationRecord
from trio_reactor.renewal.allocation.recovery import has_ended
from trio_reactor.renewal.errors import refusal
from trio_reactor.renewal.evidence import Cleanup
from trio_reactor.renewal.jsonvalue import Json, NotJson, copy_json
from trio_reactor.renewal.source import Playable, Predecessor, Receptive, Recordable, Source
from trio_reactor.testing.cancellation import cancel_at
from trio_reactor.testing.conformance import Part, RigFailed

from .ears import Ears
from .life import MAX_STEPS
from .trial import Trial

__all__ = ["RECORDABLE"]

RECORDABLE: Final = Part(Trial, "recordable")


def _recorded(trial: Trial, source: Source) -> Json:
    """What it says of its allocation, as it would be recorded."""
    try:
        said = cast("Recordable", source).allocation
        return copy_json(said, what="its allocation", max_bytes=MAX_ALLOCATION_BYTES)
    except NotJson as failure:
        raise trial.broken(f"says of its allocation what cannot be recorded: {failure}") from None


@RECORDABLE.case("what it says of its allocation can be recorded")
async def _recordable(trial: Trial) -> None:
    async with trial.opened(Predecessor(key="conformance-recorded")) as source:
        _recorded(trial, source)


@RECORDABLE.case("what it says of its allocation holds no secret")
async def _no_secret(trial: Trial) -> None:
    async with trial.opened(Predecessor(key="conformance-secret")) as source:
        said = msgspec.json.encode(_recorded(trial, source)).decode()
        for secret in trial.rig.secrets:
            # Which one is not said: a failure is printed, and kept.
            quoted = msgspec.json.encode(secret).decode()[1:-1]
            trial.require(quoted not in said, "records a secret")


@RECORDABLE.case("what has ended, or never was, is not adopted: OpenFailed, and nothing is left")
async def _not_there(trial: Trial) -> None:
    key = "conformance-ended"
    async with trial.opened(Predecessor(key=key)) as source:
        ended = AllocationRecord(key, "conformance", 0.0, source.id, _recorded(trial, source))
        await trial.close(source)
    await trial.until_allocated(0, "after it was closed")
    never = msgspec.structs.replace(ended, key="conformance-never", source="no-such-source")
    for record in (ended, never):
        failure = await _refused(trial, record)
        refused = refusal(failure)
        if refused is None:
            raise trial.broken(f"raised {failure!r} for what it cannot adopt") from failure
        trial.require_expected(failure, "when it was to adopt what is not there")
        await trial.until_allocated(0, "after it was to adopt what is not there")


async def _refused(trial: Trial, record: AllocationRecord) -> Exception:
    """What it raises when it is to adopt what it cannot."""
    adopted: str | None = None
    try:
        async with trial.opened(Predecessor(key=record.key, adopt=record)) as source:
            adopted = source.id
    except (AssertionError, RigFailed):
        raise
    except Exception as failure:  # noqa: BLE001 - which it is is the question
        return failure
    raise trial.broken(f"opened {adopted!r} when it was to adopt {record.source!r}, which is gone")


@RECORDABLE.case(
    "what was left behind is adopted as it was, and nothing is allocated beside it", "leave_behind"
)
async def _adopted(trial: Trial) -> None:
    record = await trial.rig.leave_behind()
    await trial.until_allocated(1, "after it was left behind")
    await trial.quiet()
    async with trial.opened(Predecessor(key=record.key, adopt=record)) as source:
        trial.require(source.id == record.source, f"adopted {record.source!r} as {source.id!r}")
        await trial.until_allocated(1, "after it adopted what was left behind")
        if record.ends_by is None:
            return
        # Some of its life is over, whatever the clocks of the two sides say.
        whole = record.ends_by - record.intended_at
        left = source.lifetime
        trial.require(
            left is not None and left < whole - trial.rig.quiet / 2,
            f"has a lifetime of {left} s although some of {whole:g} s were over",
        )


@RECORDABLE.case("what was adopted works, and closing it proves that it has ended", "leave_behind")
async def _works(trial: Trial) -> None:
    record = await trial.rig.leave_behind()
    async with trial.opened(Predecessor(key=record.key, adopt=record)) as source:
        if isinstance(source, Playable):
            ears = Ears()
            await source.attach(ears.events)
            await source.open_media(ears.media)
            await source.set_autoplay(True)
            await trial.over(ears, await trial.enqueue(source))
            trial.require(ears.pictures, "shows nothing after it was adopted")
        if isinstance(source, Receptive):
            with trial.soon("did not take input after it was adopted"):
                await source.send_input(b"a piece")
        with trial.soon("did not close what it had adopted"):
            cleanup = await source.close()
        trial.require(has_ended(record, cleanup), f"left of what it had adopted {cleanup}")
    await trial.until_allocated(0, "after what was adopted was closed")


@RECORDABLE.case(
    "an adoption that is cancelled leaves no more than there was, at whichever checkpoint",
    "leave_behind",
    "terminate",
)
async def _half_adopted(trial: Trial) -> None:
    for step in range(MAX_STEPS):
        record = await trial.rig.leave_behind()
        with cancel_at(step, tasks="all") as scope:
            try:
                async with trial.rig.opener(Predecessor(key=record.key, adopt=record)):
                    pass
            except Exception as failure:  # noqa: BLE001 - what may come of it, if it is expected
                trial.require_expected(failure, f"adopting, and cancelled at checkpoint {step}")
        # It may live on, or have ended: it is recorded, and whoever is next ends it.
        await _terminate(trial, record)
        await trial.until_allocated(0, f"after an adoption was cancelled at checkpoint {step}")
        if not scope.cancel_called:
            break
    await trial.quiet()  # what was on its way may arrive late
    await trial.until_allocated(0, "after the last of them")


@RECORDABLE.case(
    "what was left behind is terminated, which is proven, also when it is asked again",
    "leave_behind",
    "terminate",
)
async def _terminated(trial: Trial) -> None:
    record = await trial.rig.leave_behind()
    for time in ("first", "second"):
        cleanup = await _terminate(trial, record)
        trial.require(has_ended(record, cleanup), f"proved the {time} time only {cleanup}")
        await trial.until_allocated(0, f"after it was terminated for the {time} time")


@RECORDABLE.case(
    "what was left behind and is known by its key only is terminated, or not said to be",
    "leave_behind",
    "terminate",
)
async def _by_key(trial: Trial) -> None:
    record = await trial.rig.leave_behind()
    nameless = msgspec.structs.replace(record, source=None, allocation=None, ends_by=None)
    try:
        cleanup = await _terminate(trial, nameless)
    except AssertionError:
        raise
    except Exception as failure:  # noqa: BLE001 - which it is is the question
        trial.require_expected(failure, "when it was to terminate what it knows by its key")
        return
    if has_ended(nameless, cleanup):
        await trial.until_allocated(0, "although it was said to be terminated")


async def _terminate(trial: Trial, record: AllocationRecord) -> Cleanup:
    with trial.soon("did not terminate what was left behind"):
        cleanup = cast("object", await trial.rig.terminate(record))
    if not isinstance(cleanup, Cleanup):
        trial.fail(f"returned {cleanup!r} when it was to terminate")
    return cleanup
