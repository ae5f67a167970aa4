"""What may happen in the story of a randomized renewal: one function for each kind of act.

Some are the application's, which asks for things beside what it does otherwise and bears whatever
comes of it; the others befall the sources.  What a renewal can newly do, or what can newly befall
it, is one more of them.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeAlias

import trio

from trio_reactor.renewal.errors import SequenceUnresolved, SessionRecovering
from trio_reactor.renewal.sequences.book import (
    Indeterminate,
    MemberPending,
    Open,
    Sealing,
)

if TYPE_CHECKING:
    from .renewal_world import World

__all__ = ["ACTS", "Act", "Defect"]


class Defect(Exception):
    """A bug of an adapter's."""


SEQUENCES: Final = ("s1", "s2", "s3", "s4")
"""What sequences are called."""

Act: TypeAlias = "Callable[[World], Awaitable[None]]"


async def _enqueue(world: World) -> None:
    world.later(world.request)


async def _enqueue_first(world: World) -> None:
    world.later(lambda: world.request(0))


async def _remove(world: World) -> None:
    clip, renewal = world.a_clip(), world.renewal
    if clip is not None and renewal is not None:
        world.later(lambda: renewal.remove(clip))


async def _move(world: World) -> None:
    clip, renewal = world.a_clip(), world.renewal
    if clip is not None and renewal is not None:
        world.later(lambda: renewal.move(clip, 0))


async def _pause(world: World) -> None:
    """Stop what plays, and go on some time later."""
    renewal = world.renewal
    assert renewal is not None
    world.later(renewal.pause_and_stop)
    await trio.sleep(world.chance.uniform(0.0, 0.5))
    world.later(lambda: renewal.set_autoplay(True))


async def _autoplay(world: World) -> None:
    renewal = world.renewal
    assert renewal is not None
    enabled = world.chance.random() < 0.7
    world.later(lambda: renewal.set_autoplay(enabled))


async def _canvas(world: World) -> None:
    renewal, account = world.renewal, world.account
    assert renewal is not None

    async def ask() -> None:
        size = (world.chance.randint(1, 100), 10)
        account.canvas.append(size)
        wish = len(account.canvas) - 1
        with contextlib.suppress(SessionRecovering):  # it is kept then
            await renewal.set_canvas(*size)
        account.kept = max(account.kept, wish)

    world.later(ask)


async def _submit_twice(world: World) -> None:
    """Two tasks submit one request."""
    asked = world.prepare()
    world.later(lambda: world.submit(asked))
    world.later(lambda: world.submit(asked))


async def _prepare(world: World) -> None:
    world.asked.append(world.prepare())


async def _submit(world: World) -> None:
    """Submit what was prepared earlier, perhaps once more."""
    if world.asked:
        asked = world.chance.choice(world.asked)
        world.later(lambda: world.submit(asked))


async def _routed(world: World) -> None:
    """Ask for a clip that has to go where others are; they may be apart."""
    names = [world.any_clip() if world.chance.random() < 0.6 else None for _ in range(3)]
    sequence = world.chance.choice((None, None, "s1"))
    asked = world.prepare(
        continue_from=names[0], before=names[1], same_session_as=names[2], sequence=sequence
    )
    world.asked.append(asked)
    world.later(lambda: world.submit(asked))


async def _sequence(world: World) -> None:
    """Ask for some that belong together; the last may end their sequence."""
    name, final = world.chance.choice(SEQUENCES), world.chance.random() < 0.5
    count = world.chance.randint(1, 3)
    for number in range(1, count + 1):
        asked = world.prepare(sequence=name, final=final and number == count)
        world.asked.append(asked)
        world.later(functools.partial(world.submit, asked))


async def _sequences(world: World) -> None:
    """One that stays open, one that is over, and one more, for which there may be no room."""
    names = world.chance.sample(SEQUENCES, 3)
    for name, final in zip(names, (False, True, False), strict=True):
        asked = world.prepare(sequence=name, final=final)
        world.later(functools.partial(world.submit, asked))
        await trio.sleep(0.2)  # in which it is mostly answered


async def _seal(world: World) -> None:
    renewal, name = world.renewal, world.chance.choice(SEQUENCES)
    assert renewal is not None

    async def seal() -> None:
        before = renewal.sequences.get(name)
        if before is not None and before.pending:
            world.simulation.record("sealed while some was pending")
        state = await renewal.sequences.seal(name)
        assert not isinstance(state.phase, Open | Sealing), state
        assert not any(isinstance(each, MemberPending) for each in state.members.values())

    if world.chance.random() < 0.5:
        asked = world.prepare(sequence=name)
        world.asked.append(asked)
        world.later(lambda: world.submit(asked))
        await trio.sleep(world.chance.choice((0.0, 0.005, 0.05)))  # before it is answered
    world.later(seal)


async def _release(world: World) -> None:
    """Look at the sequences, acknowledge what is not known, and forget what is over."""
    renewal, requests = world.renewal, world.account.requests
    assert renewal is not None
    sequences = renewal.sequences
    requests.compare(sequences)
    world.look_at_sequences()
    for state in sequences.snapshots():
        with contextlib.suppress(SequenceUnresolved):
            sequences.acknowledge(state.name)
            requests.acknowledged(state)
        if world.chance.random() < 0.7:
            continue  # what is over makes room by itself
        before = sequences.get(state.name)
        assert before is not None
        try:
            sequences.release(state.name)
        except SequenceUnresolved:
            assert isinstance(before.phase, Open | Sealing | Indeterminate), before
        else:
            assert not isinstance(before.phase, Open | Sealing | Indeterminate), before
            requests.released(state.name)


async def _borrow(world: World) -> None:
    world.later(world.borrow)


async def _renew(world: World) -> None:
    world.later(world.renew)


async def _input(world: World) -> None:
    for _ in range(world.chance.randint(1, 6)):
        world.later(world.send_input)


async def _look_away(world: World) -> None:
    world.looking.cancel()


async def _stop_renewal(world: World) -> None:
    assert world.renewal is not None
    world.later(world.renewal.stop_renewal)


async def _close(world: World) -> None:
    assert world.renewal is not None
    world.later(world.renewal.close)


async def _cancel(world: World) -> None:
    world.outside.cancel()


async def _die(world: World) -> None:
    source = world.a_source()
    if source is not None:
        source.die(OSError("gone") if world.chance.random() < 0.5 else None)


async def _crash(world: World) -> None:
    source = world.a_source()
    if source is not None:
        source.crash(OSError("gone"))


async def _defect(world: World) -> None:
    """A source has a bug, and it shows now."""
    source = world.a_source()
    if source is None:
        return

    async def raise_it() -> None:
        await trio.lowlevel.checkpoint()
        defect = Defect(f"in {source.id}")
        world.defects.append(defect)
        raise defect

    source._nursery.start_soon(raise_it)


async def _end_media(world: World) -> None:
    source = world.a_source()
    if source is not None:
        source.end_media(OSError("torn") if world.chance.random() < 0.5 else None)


async def _lose_connection(world: World) -> None:
    source = world.a_source()
    if source is not None:
        source.lose_connection(OSError("cable"))


async def _go_away(world: World) -> None:
    source = world.a_source()
    if source is not None:
        source.go_away(world.chance.choice((0.0, 0.3, 1.5)))


async def _drop(world: World) -> None:
    source = world.a_source()
    if source is not None:
        source.drop(world.chance.randint(1, 4))


async def _forget(world: World) -> None:
    source = world.a_source()
    if source is not None and source.clips:
        source.forget(source.clips[-1].id)


ACTS: Final[dict[str, tuple[int, Act]]] = {
    "enqueue": (14, _enqueue),
    "enqueue first": (6, _enqueue_first),
    "submit twice": (4, _submit_twice),
    "prepare": (3, _prepare),
    "submit": (8, _submit),
    "routed": (8, _routed),
    "sequence": (10, _sequence),
    "sequences": (10, _sequences),
    "seal": (8, _seal),
    "release": (4, _release),
    "borrow": (10, _borrow),
    "renew": (4, _renew),
    "input": (10, _input),
    "remove": (6, _remove),
    "move": (6, _move),
    "pause": (4, _pause),
    "autoplay": (3, _autoplay),
    "canvas": (8, _canvas),
    "look away": (6, _look_away),
    "stop renewal": (2, _stop_renewal),
    "close": (1, _close),
    "cancel": (1, _cancel),
    "die": (5, _die),
    "crash": (3, _crash),
    "defect": (1, _defect),
    "end media": (6, _end_media),
    "lose connection": (6, _lose_connection),
    "go away": (6, _go_away),
    "drop": (7, _drop),
    "forget": (4, _forget),
}
"""What may happen in the story, by name: how often beside the others, and what it is."""
