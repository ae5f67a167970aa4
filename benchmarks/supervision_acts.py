"""What may happen in the story of a randomized supervisor: one function for each kind of act.

Some are the application's, which asks for things beside what it does otherwise and bears whatever
comes of it; the others befall the children, or the supervisor itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
import trio

from trio_reactor.errors import ReactorError
from trio_reactor.supervision.model.keys import Handle

if TYPE_CHECKING:
    from .supervision_life import Life

__all__ = ["ACTS", "Act"]

Act: TypeAlias = "Callable[[Life], Awaitable[None]]"

KEYS: Final = ("a", "b", "c")


def _some(life: Life) -> Handle | None:
    """A session that may be there, mostly one of the newest."""
    handles = list(life.world.ledger.handles.values())
    if not handles:
        return None
    return life.chance.choice(handles[-3:] if life.chance.random() < 0.8 else handles)


async def _open(life: Life) -> None:
    key = life.chance.choice(KEYS)
    life.later(lambda: life.open(key, life.world.request(), life.world.high(key)))


async def _open_and_load(life: Life) -> None:
    key, work = life.chance.choice(KEYS), life.work()

    async def both() -> None:
        record = await life.open(key, life.world.request(), life.world.high(key))
        await life.load(record.handle, work)

    life.later(both)


async def _open_twice(life: Life) -> None:
    """The same request, from two tasks at once."""
    key, request = life.chance.choice(KEYS), life.world.request()
    expected = life.world.high(key)
    life.later(lambda: life.open(key, request, expected))
    life.later(lambda: life.open(key, request, expected))


async def _open_at_once(life: Life) -> None:
    """Every key, and one generation after another."""
    for key in KEYS:
        expected = life.world.high(key)
        life.later(lambda key=key, e=expected: life.open(key, life.world.request(), e))  # type: ignore[misc]
        life.later(lambda key=key, e=expected: life.open(key, life.world.request(), e + 1))  # type: ignore[misc]


async def _open_wrong(life: Life) -> None:
    key = life.chance.choice(KEYS)
    expected = life.world.high(key) + life.chance.choice((-1, 1, 2))
    life.later(lambda: life.open(key, life.world.request(), max(expected, 0)))


async def _open_again(life: Life) -> None:
    """A request that was made before, perhaps of an earlier supervisor."""
    if life.world.acknowledged:
        record = life.chance.choice(life.world.acknowledged)
        life.later(lambda: life.reopen(record))


async def _load(life: Life) -> None:
    handle, work = _some(life), life.work()
    if handle is not None:
        life.later(lambda: life.load(handle, work))


async def _load_twice(life: Life) -> None:
    handle, work = _some(life), life.work()
    if handle is not None:
        other = work if life.chance.random() < 0.7 else life.work()
        life.later(lambda: life.load(handle, work))
        life.later(lambda: life.load(handle, other))


async def _renew(life: Life) -> None:
    handle = _some(life)
    if handle is not None:
        life.later(lambda: life.renew(handle))


async def _keep(life: Life) -> None:
    """Renew one for a while, as its holder would."""
    handle = _some(life)
    if handle is None:
        return

    async def keep() -> None:
        for _ in range(6):
            await life.renew(handle)
            await trio.sleep(0.9)

    life.later(keep)


async def _dispose(life: Life) -> None:
    handle = _some(life)
    if handle is not None:
        life.later(lambda: life.dispose(handle))


async def _dispose_and_load(life: Life) -> None:
    """Both at once, so that a stop cuts a load short."""
    handle, work = _some(life), life.work()
    if handle is None:
        return

    async def soon() -> None:
        await trio.sleep(life.chance.choice((0.0, 0.02, 0.06, 0.1)))
        await life.dispose(handle)

    life.later(lambda: life.load(handle, work))
    life.later(soon)


async def _wait_stopped(life: Life) -> None:
    handle = _some(life)
    if handle is not None:
        life.later(lambda: life.wait_stopped(handle))


async def _look(life: Life) -> None:
    handle = _some(life)
    if handle is not None:
        life.look_at(handle)
        life.later(lambda: life.high_water(handle.key))


async def _stack(life: Life) -> None:
    handle = _some(life)
    if handle is not None:
        life.later(lambda: life.supervisor.stack(handle))


async def _forge(life: Life) -> None:
    """A handle whose token was guessed, or that is of another generation."""
    handle = _some(life)
    if handle is not None:
        if life.chance.random() < 0.5:
            forged = msgspec.structs.replace(handle, token="0" * 32)
        else:
            forged = msgspec.structs.replace(handle, generation=handle.generation + 1)
        life.later(lambda: life.forged(forged))


async def _drain(life: Life) -> None:
    life.later(life.drain)


async def _end_child(life: Life) -> None:
    """A child ends by itself."""
    children = list(life.world.machine.children.values())
    if children:
        life.chance.choice(children).interrupt()


async def _kill_child(life: Life) -> None:
    """Somebody else kills a child."""
    children = list(life.world.machine.children.values())
    if children:
        life.chance.choice(children).kill()


async def _crash(life: Life) -> None:
    """The supervisor dies, as if by SIGKILL."""
    life.crash()
    await trio.sleep_forever()


async def _crash_running(life: Life) -> None:
    """It dies while code surely runs, which the next may adopt."""
    key = life.chance.choice(KEYS)
    with contextlib.suppress(ReactorError), trio.move_on_after(2.0):
        record = await life.open(key, life.world.request(), life.world.high(key))
        await life.load(
            record.handle, life.chance.choice(("worker:main", "worker:main", life.work()))
        )
        await trio.sleep(life.chance.choice((0.0, 0.1, 0.6)))
    await _crash(life)


async def _hold(life: Life) -> None:
    """The disk stands still for a moment."""
    life.store.hold()


async def _pause(life: Life) -> None:
    await trio.sleep(life.chance.uniform(0.0, 4.0))


ACTS: Final[dict[str, tuple[float, Act]]] = {
    "open": (4, _open),
    "open and load": (6, _open_and_load),
    "open twice": (1, _open_twice),
    "open at once": (0.6, _open_at_once),
    "open wrong": (0.6, _open_wrong),
    "open again": (1, _open_again),
    "load": (4, _load),
    "load twice": (2, _load_twice),
    "renew": (2, _renew),
    "keep": (2, _keep),
    "dispose": (2, _dispose),
    "dispose and load": (1.5, _dispose_and_load),
    "wait stopped": (1, _wait_stopped),
    "look": (1, _look),
    "stack": (0.3, _stack),
    "forge": (0.3, _forge),
    "drain": (0.25, _drain),
    "end child": (0.4, _end_child),
    "kill child": (0.4, _kill_child),
    "crash": (1, _crash),
    "crash running": (1.5, _crash_running),
    "hold": (0.6, _hold),
    "pause": (1, _pause),
}
"""Each with how often it is drawn."""
