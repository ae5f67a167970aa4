"""What makes a source that was opened, or reconnected, a whole one.

It is asked what it says of itself, once; then each of its connections is begun in the same way: its
events, what was set, its media.  What it tells meanwhile is taken already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from trio_reactor.errors import EXPECTED
from trio_reactor.renewal.events import SourceRef
from trio_reactor.renewal.policy.lifespan import Lifespan, lifetime_fault, plan
from trio_reactor.renewal.source import (
    Announcing,
    Exclusive,
    OpenFailed,
    Playable,
    Receptive,
    Reconnectable,
    Resumable,
    Source,
    SourceState,
)
from trio_reactor.wording import a_kind

from .leaving import account
from .settings import Applied
from .sinks import SlotEvents, SlotFrames, SlotNotices
from .validity import MAX_IDENTITY, generation_fault, is_identity, state_fault

if TYPE_CHECKING:
    from .slot import Slot

__all__ = ["accept", "connect", "reconnect"]


def accept(slot: Slot, source: Source) -> Lifespan:
    """Take what a source says of itself, if it is what a source must be."""
    identity = cast("object", source.id)  # an adapter may say anything
    if not is_identity(identity):
        raise OpenFailed(
            f"source {slot.incarnation} has no identity of 1 to {MAX_IDENTITY} characters"
        )
    if slot.host.is_taken(identity):
        raise OpenFailed(f"source {slot.incarnation} has the identity of one that is alive")
    adopting = slot.recording.adopting
    if adopting is not None and identity != adopting.source:
        raise OpenFailed(f"source {slot.incarnation} is not the one that was to be adopted")
    lifetime = source.lifetime
    fault = lifetime_fault(lifetime, slot.host.options.lead)
    if fault is not None:
        raise OpenFailed(f"source {slot.incarnation}: {fault}")
    slot.source, slot.identity = source, identity
    slot.ref = SourceRef(slot.incarnation, identity)
    # A plain one: a float of somebody else's cannot be encoded, nor can a long integer.
    slot.lifetime = None if lifetime is None else float(lifetime)
    # Once: before Python 3.12 `isinstance` evaluates every property that a protocol names.
    exclusive = cast("object", isinstance(source, Exclusive) and source.exclusive)
    if not isinstance(exclusive, bool):
        raise OpenFailed(
            f"source {slot.incarnation} says {a_kind(exclusive)}, not whether it is exclusive"
        )
    slot.exclusive = exclusive
    slot.playable = source if isinstance(source, Playable) else None
    slot.reconnectable = source if isinstance(source, Reconnectable) else None
    slot.receptive = source if isinstance(source, Receptive) else None
    slot.resumable = _resumable(source)
    world = slot.host.world
    slot.lifespan = plan(world.clock(), slot.lifetime, slot.host.options, world.random)
    if isinstance(source, Announcing):
        # May shorten at once what was just planned.
        given = cast("object", source.announce_to(SlotNotices(slot, slot.notices.token())))
        if given is not None:
            raise slot.contract_broken(f"gave {a_kind(given)} when asked to announce its end")
    return slot.lifespan


async def connect(slot: Slot, source: Playable) -> None:
    """Begin a generation of events and one of media.  What was known and is gone is lost."""
    events, frames = slot.events.advance(), slot.frames.advance()
    slot.broken = None
    sink = SlotEvents(slot, events)
    try:
        state = await source.attach(sink)
        if events.live:
            _refresh(slot, state)
    finally:
        sink.release()
    applied = slot.applied = Applied(source, slot.host, lambda: slot.host.on_air is slot)
    await applied.tell_canvas()
    media = await source.open_media(SlotFrames(slot, frames))
    if not hasattr(media, "aclose"):
        raise slot.contract_broken(f"gave {a_kind(media)} for its media")
    slot.unclosed.append(media)  # also one that is not what it must be
    generation = media.generation
    fault = generation_fault(generation, slot.generation)
    if fault is not None:
        raise slot.contract_broken(fault)
    if frames.live:
        slot.media, slot.generation = media, generation
        # It feeds the output already, also if it is not set up in the end.  And before those
        # that are over are asked to end: what they lost is not to be told by what has ended.
        if slot.host.on_air is slot:
            slot.host.output.losses.activate(media, from_start=True)
        await account(slot, keep=media)
    # What was set since is told before it counts as set up: nothing is awaited after this.
    await applied.tell()
    slot.check_whole()


async def reconnect(slot: Slot) -> None:
    """Make the connection again, and begin new generations of events and media.

    Raises:
        BaseException: What the source raised.  Whether it is trusted after that is for the
            caller to say.
    """
    source = slot.reconnectable
    assert source is not None  # noqa: S101 - else it is replaced
    slot.events.advance()
    slot.frames.advance()
    slot.broken = None
    await source.reconnect()
    if slot.live and slot.playable is not None:
        await connect(slot, slot.playable)


def _refresh(slot: Slot, state: SourceState) -> None:
    fault = state_fault(state)
    if fault is not None:
        raise slot.contract_broken(fault)
    if len(state.clips) > slot.host.options.max_clips:
        raise slot.too_many_clips()
    for lost in slot.book.refresh(state, slot.host.world.clock()):
        slot.host.hearing.forgot(slot, lost)


def _resumable(source: Source) -> Resumable | None:
    try:
        return source if isinstance(source, Resumable) else None
    except EXPECTED:
        # To ask has read the property: there is one, and it cannot tell just now.
        return cast("Resumable", source)
