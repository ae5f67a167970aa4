"""What may happen in the story of a randomized renewal: one function for each kind of act.

Some are the application's, which asks for things beside what it does otherwise and bears whatever
comes of it; the others befall the sources.  What a renewal can newly do, or what can newly befall
it, is one more of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeAlias

import trio

from trio_reactor.renewal.errors import SessionRecovering

if TYPE_CHECKING:
    from .renewal_world import World

__all__ = ["ACTS", "Act", "Defect"]


class Defect(Exception):
    """A bug of an adapter's."""


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
