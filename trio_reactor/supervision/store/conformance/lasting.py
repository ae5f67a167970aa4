"""What outlasts the block in which it was committed, and who has the journal."""

from __future__ import annotations

from typing import Final

import trio

from trio_reactor.errors import ReactorError, leaves
from trio_reactor.supervision.errors import RecordUnreadable
from trio_reactor.supervision.model.codec import encode
from trio_reactor.supervision.model.keys import Key
from trio_reactor.supervision.store.protocol import Change
from trio_reactor.testing.cancellation import cancel_at
from trio_reactor.testing.conformance import Part

from .trial import Trial

__all__ = ["LASTING"]

LASTING: Final = Part(Trial)

MAX_STEPS: Final = 100
"""At how many checkpoints of one call it is cancelled at most."""


class _Interrupted(Exception):
    """An error of whoever uses a store."""


@LASTING.case("what was acknowledged is there when it is opened again", "exclusive")
async def _kept(trial: Trial) -> None:
    async with trial.opened() as opened:
        a, b = opened.life("a"), opened.life("b")
        await opened.commit(a[0], a[4], a[5], b[0])
        await opened.commit(opened.life("a", 2)[0], b[1], forgets=(a[0].handle,))
    kept = (opened.life("a", 2)[0], b[1])
    for _ in range(2):
        async with trial.opened() as opened:
            await opened.holds(*kept, high_water={Key("a"): 2, Key("b"): 1}, when=" when reopened")
    async with trial.opened() as opened:
        await opened.stale(a[0], opened.life("a", 2)[0], a[5])
        await opened.commit(b[2], opened.life("a", 3)[0])
        await opened.holds(
            kept[0], b[2], opened.life("a", 3)[0], high_water={Key("a"): 3, Key("b"): 1}
        )


@LASTING.case("while one supervisor has it no other gets it; then the next one does", "exclusive")
async def _exclusive(trial: Trial) -> None:
    for _ in range(2):
        async with trial.opened():
            await trial.busy()
            await trial.busy()


@LASTING.case("who was turned away harms nothing", "exclusive")
async def _unharmed(trial: Trial) -> None:
    async with trial.opened() as opened:
        record = opened.life("a")[0]
        await trial.busy()
        await opened.commit(record)
        await opened.holds(record, high_water={Key("a"): 1})
    async with trial.opened() as opened:
        await opened.holds(record, high_water={Key("a"): 1}, when=" when reopened")


@LASTING.case("it is given up also by an error, which comes out, and by cancellation")
async def _left(trial: Trial) -> None:
    mine = _Interrupted("an error of whoever uses it")
    try:
        async with trial.opened():
            raise mine  # noqa: TRY301 - of whoever uses it
    except Exception as raised:
        if not any(leaf is mine for leaf in leaves(raised)):
            raise
    else:
        trial.fail("swallowed an error of whoever uses it")
    with trio.CancelScope() as scope:
        async with trial.opened():
            scope.cancel()
            await trio.sleep_forever()
    trial.require(scope.cancelled_caught, "swallowed a cancellation")
    async with trial.opened() as opened:
        await opened.load()


@LASTING.case("an opening that is cancelled, at whichever checkpoint, leaves it to the next one")
async def _opening_cancelled(trial: Trial) -> None:
    for step in range(MAX_STEPS):
        with cancel_at(step) as scope:
            async with trial.rig.store().open():
                pass
        async with trial.opened() as opened:
            await opened.load()
        if not scope.cancel_called:
            return


@LASTING.case("a group whose commit was cancelled is there as a whole, or not at all", "exclusive")
async def _commit_cancelled(trial: Trial) -> None:
    made = 0
    for step in range(MAX_STEPS):
        async with trial.opened() as opened:
            records = [opened.life(f"{step} {part}")[0] for part in "abc"]
            with cancel_at(step) as scope:
                await opened.journal.commit([Change(each, encode(each)) for each in records])
        async with trial.opened() as opened:
            there = len((await opened.load()).records) - made
            trial.require(there in (0, 3), f"held {there} of 3 changes after a cancellation")
            trial.require(
                scope.cancelled_caught or there == 3, "lost a commit that was not cancelled"
            )
            made += there
        if not scope.cancel_called:
            return


@LASTING.case("it is of no use once its block was left")
async def _closed(trial: Trial) -> None:
    async with trial.opened() as opened:
        record = opened.life("a")[0]
    for what, call in (
        ("loaded", opened.journal.load),
        ("committed", lambda: opened.journal.commit([Change(record, encode(record))])),
    ):
        try:
            await call()
        except ReactorError:
            continue
        except Exception as failure:
            raise trial.broken(f"raised {failure!r} after it was left") from failure
        trial.fail(f"{what} after it was left")


@LASTING.case("a damaged record is named, and left as it is", "exclusive", "damageable")
async def _damaged(trial: Trial) -> None:
    async with trial.opened() as opened:
        await opened.commit(opened.life("good")[0], opened.life("bad")[0])
    await trial.rig.damage(opened.life("bad")[0].handle)
    for _ in range(2):
        async with trial.opened() as opened:
            try:
                await opened.journal.load()
            except RecordUnreadable as failure:
                trial.require(
                    "bad" in failure.name and failure.name in str(failure),
                    f"said {failure!s} of a damaged record, and not which",
                )
            except Exception as failure:
                raise trial.broken(f"raised {failure!r} of a damaged record") from failure
            else:
                trial.fail("loaded a damaged record")
