"""Each case of the conformance suite can fail: it finds the source that breaks just its rule."""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from conformance_rigs import SimulationRig

from trio_reactor.errors import Lost, Refused
from trio_reactor.renewal import AllocationRecord, Cleanup, ClipRequest, OpenFailed
from trio_reactor.renewal.conformance import CASES, Case, Nonconforming, Rig, run_all
from trio_reactor.renewal.simulation import ReconnectableSource
from trio_reactor.renewal.source import (
    Clip,
    ClipEnded,
    ClipUpdated,
    Commit,
    EventSink,
    GoingAway,
    Media,
    MediaLosses,
    MediaSink,
    Predecessor,
    Source,
    SourceEvent,
    SourceOpener,
    SourceState,
    VideoFrame,
)
from trio_reactor.testing.conformance.rig import optionals


class Good:
    """A source that does everything as a good one does."""

    def __init__(self, rig: MutantRig, inner: ReconnectableSource) -> None:
        self.rig = rig
        self.inner = inner
        self.announced: list[GoingAway] = []
        inner.on_going_away.append(self.announced.append)

    @property
    def id(self) -> Any:
        return self.inner.id

    @property
    def lifetime(self) -> Any:
        return self.inner.lifetime

    @property
    def exclusive(self) -> Any:
        return self.inner.exclusive

    @property
    def resumption(self) -> Any:
        return self.inner.resumption

    def wait_lost(self) -> Awaitable[None]:
        return self.inner.wait_lost()

    def announce_to(self, tell: Callable[[GoingAway], None], /) -> Any:
        for notice in self.announced:
            tell(notice)
        self.inner.on_going_away.append(tell)

    async def close(self) -> Any:
        return await self.inner.close()

    async def attach(self, sink: EventSink, /) -> SourceState:
        return await self.inner.attach(sink)

    async def enqueue(
        self, request: ClipRequest, /, *, position: int | None = None, commit: Commit
    ) -> str:
        return await self.inner.enqueue(request, position=position, commit=commit)

    async def remove(self, clip: str, /) -> None:
        await self.inner.remove(clip)

    async def move(self, clip: str, /, position: int) -> None:
        await self.inner.move(clip, position)

    async def set_autoplay(self, enabled: bool, /) -> None:
        await self.inner.set_autoplay(enabled)

    async def pause_and_stop(self) -> None:
        await self.inner.pause_and_stop()

    async def set_canvas(self, width: int, height: int, /) -> None:
        await self.inner.set_canvas(width, height)

    @property
    def allocation(self) -> Any:
        return self.inner.allocation

    async def send_input(self, data: bytes, /) -> None:
        await self.inner.send_input(data)

    async def open_media(self, sink: MediaSink, /) -> Media:
        return await self.inner.open_media(sink)

    async def reconnect(self) -> None:
        await self.inner.reconnect()


class MutantRig(SimulationRig):
    name = "the mutant"
    capabilities = SimulationRig.capabilities | {"announcing"}
    secrets = ("sesame",)
    source: type[Good] = Good

    def __init__(self) -> None:
        super().__init__()
        self.left_behind = 0
        self.silent = False

    def allocated(self) -> int:
        return super().allocated() + self.left_behind

    async def announce_end(self, source: Source, seconds: float, /) -> None:
        self._live(source).go_away(seconds)

    async def fall_silent(self) -> None:
        self.silent = True
        await super().fall_silent()

    async def dawdle(self) -> None:
        """Do not hear that one is cancelled."""
        if self.silent:
            with trio.CancelScope(shield=True):
                await trio.sleep(3)

    @property
    def opener(self) -> SourceOpener:
        return self.open

    @asynccontextmanager
    async def open(self, predecessor: Predecessor) -> AsyncGenerator[Source]:
        async with self.provider(predecessor) as inner:
            assert isinstance(inner, ReconnectableSource)
            yield self.source(self, inner)


# --------------------------------------------------------------------------- whoever opens wrongly


class Plain:
    """A source that can do nothing beside living and being closed."""

    def __init__(self, inner: Source) -> None:
        self.id = inner.id
        self.lifetime = inner.lifetime
        self.close = inner.close


class Bare(MutantRig):
    @asynccontextmanager
    async def open(self, predecessor: Predecessor) -> AsyncGenerator[Source]:
        async with super().open(predecessor) as source:
            yield Plain(source)


class Unheeding(MutantRig):
    @asynccontextmanager
    async def open(self, predecessor: Predecessor) -> AsyncGenerator[Source]:
        if predecessor.context is not None:
            raise OpenFailed("what is this?")
        async with super().open(predecessor) as source:
            yield source


class Resuming(MutantRig):
    @asynccontextmanager
    async def open(self, predecessor: Predecessor) -> AsyncGenerator[Source]:
        if predecessor.resumption is not None:
            raise OpenFailed("this cannot be resumed")
        async with super().open(predecessor) as source:
            yield source


class Leaving(MutantRig):
    """Leaves something behind if it was not closed."""

    @asynccontextmanager
    async def open(self, predecessor: Predecessor) -> AsyncGenerator[Source]:
        async with super().open(predecessor) as source:
            yield source
            assert isinstance(source, Good)
            self.left_behind += source.inner.closes == 0


class Swallowing(MutantRig):
    @asynccontextmanager
    async def open(self, predecessor: Predecessor) -> AsyncGenerator[Source]:
        async with super().open(predecessor) as source:
            with contextlib.suppress(Exception):
                yield source


class Cut(MutantRig):
    """Leaves something behind where it is cancelled."""

    @asynccontextmanager
    async def open(self, predecessor: Predecessor) -> AsyncGenerator[Source]:
        async with super().open(predecessor) as source:
            try:
                yield source
            except BaseException:
                self.left_behind += 1
                raise


class Hasty(MutantRig):
    """Forgets what it has allocated if it is cancelled right after."""

    @asynccontextmanager
    async def open(self, predecessor: Predecessor) -> AsyncGenerator[Source]:
        self.left_behind += 1
        await trio.lowlevel.checkpoint()
        self.left_behind -= 1
        async with super().open(predecessor) as source:
            yield source


class Baffled(MutantRig):
    @asynccontextmanager
    async def open(self, predecessor: Predecessor) -> AsyncGenerator[Source]:
        if self.provider.refusing is not None:
            raise TypeError("what is this?")
        async with super().open(predecessor) as source:
            yield source


class Deaf(MutantRig):
    @asynccontextmanager
    async def open(self, predecessor: Predecessor) -> AsyncGenerator[Source]:
        await self.dawdle()
        async with super().open(predecessor) as source:
            yield source


# ------------------------------------------------------------------------- sources that are wrong


class Shifty(Good):
    @property
    def id(self) -> str:
        return f"{self.inner.id} at {trio.current_time()}"


class Endless(Good):
    @property
    def lifetime(self) -> float:
        return math.nan


class Counting(Good):
    """Says how long it has left to live."""

    @property
    def lifetime(self) -> float:
        return 60.0 - trio.current_time()


class Anonymous(Good):
    @property
    def id(self) -> str:
        return "me"


class Nameless(Good):
    async def close(self) -> Cleanup:
        await self.inner.close()
        return Cleanup.of(None, allocation="owned", termination="confirmed", connection="closed")


class Boasting(Good):
    """Says that it is closed, and is not."""

    async def close(self) -> Cleanup:
        await trio.lowlevel.checkpoint()
        return Cleanup.of(self.id, allocation="owned", termination="confirmed", connection="closed")


class Fickle(Good):
    closes = 0

    async def close(self) -> Cleanup:
        self.closes += 1
        found = f"{self.id} {self.closes}"
        await self.inner.close()
        return Cleanup.of(found, allocation="owned", termination="confirmed", connection="closed")


class SlowToClose(Good):
    async def close(self) -> Cleanup:
        await self.rig.dawdle()
        return await self.inner.close()


class Half(Good):
    """Counts as closed as soon as it is asked to close, and is not if it is cancelled then."""

    asked = False

    async def close(self) -> Any:
        if self.asked:
            return Cleanup.of(
                self.id, allocation="owned", termination="confirmed", connection="closed"
            )
        self.asked = True
        self.rig.left_behind += 1
        await trio.lowlevel.checkpoint()
        self.rig.left_behind -= 1
        return await self.inner.close()


class Coy(Good):
    @property
    def exclusive(self) -> str:
        return "perhaps"


class Claiming(Good):
    @property
    def exclusive(self) -> bool:
        return True


class Forgetful(Good):
    @property
    def resumption(self) -> str | None:
        if not self.inner.alive:
            raise Lost("it is gone")
        return self.inner.resumption


class Nervous(Good):
    async def wait_lost(self) -> None:
        await trio.lowlevel.checkpoint()


class Telling(Good):
    """Tells one of its end, and nobody else."""

    asked = 0

    async def wait_lost(self) -> None:
        self.asked += 1
        if self.asked > 1:
            await trio.sleep_forever()
        await self.inner.wait_lost()


class Tightlipped(Good):
    """Keeps to itself what it hears of its end, but for what it has heard already."""

    def announce_to(self, tell: Callable[[GoingAway], None], /) -> None:
        for notice in self.announced:
            tell(notice)


class Gloomy(Good):
    """Announces an end that is none."""

    def announce_to(self, tell: Callable[[GoingAway], None], /) -> None:
        super().announce_to(tell)
        if not self.announced:
            tell(GoingAway(20.0))


class Dated(Good):
    """Announces when it ends, and not in how many seconds."""

    def announce_to(self, tell: Callable[[GoingAway], None], /) -> None:
        super().announce_to(lambda notice: tell(GoingAway(1_790_000_000.0 + notice.expires_in)))


class Unprepared(Good):
    """Forgets what it heard of its end before somebody listened."""

    def announce_to(self, tell: Callable[[GoingAway], None], /) -> None:
        self.inner.on_going_away.append(tell)


class Dead(Good):
    async def close(self) -> Cleanup | None:
        return None if not self.inner.alive else await self.inner.close()


class Eager(Good):
    async def attach(self, sink: EventSink, /) -> SourceState:
        await self.inner.set_autoplay(True)
        return SourceState((await self.inner.attach(sink)).clips)


class Ear:
    """Passes events on; what it does beside that is the mutation."""

    def __init__(self, *sinks: Any) -> None:
        self.sinks = sinks

    def event(self, event: SourceEvent, /) -> None:
        for sink in self.sinks:
            sink.event(event)

    def video(self, frame: VideoFrame, /) -> None:
        for sink in self.sinks:
            sink.video(frame)

    def audio(self, frame: Any, /) -> None:
        for sink in self.sinks:
            sink.audio(frame)

    def lost(self, cause: Exception | None, /) -> None:
        for sink in self.sinks:
            sink.lost(cause)


class Reviving(Good):
    """Goes on to tell of a clip that is over."""

    async def attach(self, sink: EventSink, /) -> SourceState:
        class Reviver(Ear):
            def event(self, event: SourceEvent, /) -> None:
                super().event(event)
                if isinstance(event, ClipEnded):
                    super().event(ClipUpdated(Clip(event.clip, "ready")))

        return await self.inner.attach(Reviver(sink))


class Secretive(Good):
    """Has only what waits in its state, so it seems idle while it plays its last clip."""

    async def attach(self, sink: EventSink, /) -> SourceState:
        state = await self.inner.attach(sink)
        return SourceState(
            tuple(clip for clip in state.clips if clip.phase != "playing"), state.autoplay
        )


class Gapped(Good):
    async def attach(self, sink: EventSink, /) -> SourceState:
        state = await self.inner.attach(Ear())
        await trio.sleep(0.6)
        await self.inner.attach(sink)
        return state


class Spreading(Good):
    """Tells every sink that it was ever given."""

    def __init__(self, rig: MutantRig, inner: ReconnectableSource) -> None:
        super().__init__(rig, inner)
        self.sinks: list[EventSink] = []

    async def attach(self, sink: EventSink, /) -> SourceState:
        self.sinks.append(sink)
        return await self.inner.attach(Ear(*self.sinks))


class Mumbling(Good):
    async def enqueue(self, request: ClipRequest, /, **how: Any) -> str:
        await self.inner.enqueue(request, **how)
        return ""


class Muddled(Good):
    """Gives the last answer to everyone who waits for one."""

    answer = ""

    async def enqueue(self, request: ClipRequest, /, **how: Any) -> str:
        self.answer = await self.inner.enqueue(request, **how)
        await trio.sleep(0.05)
        return self.answer


class Stuttering(Good):
    async def enqueue(self, request: ClipRequest, /, *, commit: Commit, **how: Any) -> str:
        commit()
        return await self.inner.enqueue(request, commit=commit, **how)


class Rash(Good):
    """Sends first, and asks whether it may after that."""

    async def enqueue(self, request: ClipRequest, /, *, commit: Commit, **how: Any) -> str:
        clip = await self.inner.enqueue(request, commit=lambda: None, **how)
        commit()
        return clip


class Queueing(Good):
    async def enqueue(self, request: ClipRequest, /, *, commit: Commit, **how: Any) -> str:
        return await self.inner.enqueue(request, commit=commit)


class Rigid(Good):
    async def move(self, clip: str, /, position: int) -> None:
        await trio.lowlevel.checkpoint()


class Keeping(Good):
    async def remove(self, clip: str, /) -> None:
        await trio.lowlevel.checkpoint()


class Stubborn(Good):
    async def set_autoplay(self, enabled: bool, /) -> None:
        await trio.lowlevel.checkpoint()


class Restless(Good):
    """Ends what plays, and goes on with what follows."""

    async def pause_and_stop(self) -> None:
        await self.inner.pause_and_stop()
        await self.inner.set_autoplay(True)


class Pedantic(Good):
    async def set_canvas(self, width: int, height: int, /) -> None:
        if width < 1:
            raise ValueError("a picture has a width")
        await self.inner.set_canvas(width, height)


class Careless(Good):
    async def remove(self, clip: str, /) -> None:
        raise KeyError(clip)


class Hanging(Good):
    async def pause_and_stop(self) -> None:
        await self.rig.dawdle()
        await self.inner.pause_and_stop()


class Doubling(Good):
    async def open_media(self, sink: MediaSink, /) -> Media:
        return await self.inner.open_media(Ear(sink, sink))


class Echoing(Good):
    async def open_media(self, sink: MediaSink, /) -> Media:
        class Echo(Ear):
            def audio(self, frame: Any, /) -> None:
                super().audio(frame)
                super().audio(frame)

        return await self.inner.open_media(Echo(sink))


class Reel:
    """A media generation that does as another; what it does beside that is the mutation."""

    def __init__(self, inner: Media) -> None:
        self.inner = inner

    @property
    def generation(self) -> int:
        return self.inner.generation

    def losses(self) -> MediaLosses:
        return self.inner.losses()

    async def aclose(self) -> None:
        await self.inner.aclose()


class Flat(Good):
    class Reel(Reel):
        @property
        def generation(self) -> int:
            return 1

    async def open_media(self, sink: MediaSink, /) -> Media:
        return self.Reel(await self.inner.open_media(sink))


class Unending(Good):
    class Reel(Reel):
        async def aclose(self) -> None:
            await trio.lowlevel.checkpoint()

    async def open_media(self, sink: MediaSink, /) -> Media:
        return self.Reel(await self.inner.open_media(sink))


class Overreaching(Good):
    """Ends whatever generation there is."""

    newest: Media | None = None

    async def open_media(self, sink: MediaSink, /) -> Media:
        source = self
        self.newest = await self.inner.open_media(sink)

        class Greedy(Reel):
            async def aclose(self) -> None:
                assert source.newest is not None
                await source.newest.aclose()

        return Greedy(self.newest)


class Recovering(Good):
    """Has lost less than before."""

    class Reel(Reel):
        lost = 3

        def losses(self) -> MediaLosses:
            self.lost -= 1
            return MediaLosses(self.lost)

    async def open_media(self, sink: MediaSink, /) -> Media:
        return self.Reel(await self.inner.open_media(sink))


class Unmoved(Good):
    """Cannot tell what an old generation lost once there is no connection."""

    async def open_media(self, sink: MediaSink, /) -> Media:
        source, connection = self.inner, self.inner._connection

        class Gone(Reel):
            def losses(self) -> MediaLosses:
                if source._connection is not connection:
                    raise Lost("that was on another connection")
                return super().losses()

        return Gone(await source.open_media(sink))


class Lamenting(Good):
    async def attach(self, sink: EventSink, /) -> SourceState:
        class Twice(Ear):
            def lost(self, cause: Exception | None, /) -> None:
                super().lost(cause)
                super().lost(cause)

        return await self.inner.attach(Twice(sink))


class Hopeful(Good):
    """Says of a lost answer that nothing was sent."""

    async def enqueue(self, request: ClipRequest, /, **how: Any) -> str:
        try:
            return await self.inner.enqueue(request, **how)
        except Lost as lost:
            raise Lost("it was lost") from lost


class Premature(Good):
    """Commits before it knows that there is a connection."""

    async def enqueue(self, request: ClipRequest, /, *, commit: Commit, **how: Any) -> str:
        commit()
        return await self.inner.enqueue(request, commit=lambda: None, **how)


class Renamed(Good):
    times = 0

    @property
    def id(self) -> str:
        return f"{self.inner.id}, {self.times}"

    async def reconnect(self) -> None:
        self.times += 1
        await self.inner.reconnect()


class Undead(Good):
    async def reconnect(self) -> None:
        await trio.lowlevel.checkpoint()


class Unspeakable(Good):
    @property
    def allocation(self) -> object:
        return {"at": object()}


class Indiscreet(Good):
    @property
    def allocation(self) -> object:
        return {"url": "https://service/?token=sesame"}


class Replacing(MutantRig):
    """Opens another where it was to adopt what has ended."""

    @asynccontextmanager
    async def open(self, predecessor: Predecessor) -> AsyncGenerator[Source]:
        adopt = predecessor.adopt
        if adopt is not None and adopt.source not in self.provider.allocated:
            predecessor = Predecessor(key=predecessor.key)
        async with super().open(predecessor) as source:
            yield source


class Spending(MutantRig):
    """Allocates beside what it was to adopt."""

    @asynccontextmanager
    async def open(self, predecessor: Predecessor) -> AsyncGenerator[Source]:
        if predecessor.adopt is not None and predecessor.adopt.source in self.provider.allocated:
            self.left_behind += 1
        async with super().open(predecessor) as source:
            yield source


class Disowning(Good):
    """Says that what it has adopted was somebody else's, and lives on."""

    async def close(self) -> Cleanup:
        cleanup = await self.inner.close()
        if self.inner.predecessor.adopt is None:
            return cleanup
        return Cleanup.of(
            self.id, allocation="attached", termination="not-needed", connection="closed"
        )


class Halting(MutantRig):
    """Forgets what it has allocated if its adoption is cancelled right after."""

    @asynccontextmanager
    async def open(self, predecessor: Predecessor) -> AsyncGenerator[Source]:
        if predecessor.adopt is not None:
            self.left_behind += 1
            await trio.lowlevel.checkpoint()
            self.left_behind -= 1
        async with super().open(predecessor) as source:
            yield source


class Forgiving(MutantRig):
    """Fails at what has ended already."""

    async def terminate(self, record: AllocationRecord, /) -> Cleanup:
        if record.key in self.provider.terminated:
            raise Lost("there is no such session")
        return await super().terminate(record)


class Bluffing(MutantRig):
    """Takes what it does not find for over, and cannot find anything by its key."""

    async def terminate(self, record: AllocationRecord, /) -> Cleanup:
        if record.source is not None:
            return await super().terminate(record)
        await trio.lowlevel.checkpoint()
        return Cleanup.of(
            None, allocation="none", termination="not-needed", connection="never-opened"
        )


class Lisping(Good):
    """Gives up at an end of line."""

    async def send_input(self, data: bytes, /) -> None:
        await self.inner.send_input(data.partition(b"\n")[0])


class Offended(Good):
    """Takes no more input once a piece was refused."""

    refused = False

    async def send_input(self, data: bytes, /) -> None:
        if self.refused:
            raise Refused("once is enough", outcome="replied")
        try:
            await self.inner.send_input(data)
        except Refused:
            self.refused = True
            raise


class Insistent(Good):
    """Sends a piece that was refused once more."""

    async def send_input(self, data: bytes, /) -> None:
        try:
            await self.inner.send_input(data)
        except Refused:
            await self.inner.send_input(data)
            raise


class Patient(Good):
    """Goes on taking input, whatever becomes of it."""

    async def send_input(self, data: bytes, /) -> None:
        with contextlib.suppress(Lost):
            await self.inner.send_input(data)


class Puzzled(Good):
    """Stumbles over what it has closed itself."""

    async def send_input(self, data: bytes, /) -> None:
        if not self.inner.alive:
            raise AttributeError("'NoneType' object has no attribute 'send'")
        await self.inner.send_input(data)


class Obstinate(Good):
    async def send_input(self, data: bytes, /) -> None:
        await self.rig.dawdle()
        await self.inner.send_input(data)


class SlowToReconnect(Good):
    async def reconnect(self) -> None:
        await self.rig.dawdle()
        await self.inner.reconnect()


MUTANTS: dict[str, type[MutantRig | Good]] = {
    "it has exactly the capabilities that are expected of it": Bare,
    "its identity is a string of 1 to 1,024 characters, and stays the same": Shifty,
    "its lifetime is None or a finite number of seconds, more than 0": Endless,
    "its lifetime is counted from when it was opened, and stays the same": Counting,
    "two that live have distinct identities": Anonymous,
    "it opens after a plan, after a loss, and with context": Unheeding,
    "closing it gives evidence that is complete, names it, and can be recorded": Nameless,
    "closing it ends it on the other side": Boasting,
    "closing it twice gives the same evidence": Fickle,
    "closing it from two tasks at once gives both the same evidence": Fickle,
    "a close that is cancelled, at whichever checkpoint, is made good by leaving": Half,
    "leaving it without closing it ends it on the other side": Leaving,
    "leaving it by an error ends it, and the error comes out": Swallowing,
    "leaving it by cancellation ends it": Cut,
    "an opening that is cancelled leaves nothing behind, at whichever checkpoint": Hasty,
    "an opening that is refused raises what is expected, and leaves nothing": Baffled,
    "an opening that is not answered leaves promptly when it is cancelled": Deaf,
    "a close that is not answered leaves promptly when it is cancelled": SlowToClose,
    "whether it is exclusive is True or False, and stays the same": Coy,
    "a second one is refused while one lives, and opens after that was closed": Claiming,
    "what it leaves to its successor can be read at any time; a string, or None": Forgetful,
    "its successor opens with what it left, or refuses only that": Resuming,
    "what it says of its allocation can be recorded": Unspeakable,
    "what it says of its allocation holds no secret": Indiscreet,
    "what has ended, or never was, is not adopted: OpenFailed, and nothing is left": Replacing,
    "what was left behind is adopted as it was, and nothing is allocated beside it": Spending,
    "what was adopted works, and closing it proves that it has ended": Disowning,
    "an adoption that is cancelled leaves no more than there was, at whichever checkpoint": Halting,
    "what was left behind is terminated, which is proven, also when it is asked again": Forgiving,
    "what was left behind and is known by its key only is terminated, or not said to be": Bluffing,
    "as long as it is left alone it does not end, and who stops waiting ends nothing": Nervous,
    "its own end is told to everyone who waits for it, or comes later": Telling,
    "after its own end it is closed as ever, and leaves evidence": Dead,
    "an end that the other side announces is told, and no other": Tightlipped,
    "an end that was announced before somebody listened is told at once": Unprepared,
    "a new one has no clips, and does not play what is ready until it is told to": Eager,
    "what it tells of a clip comes in order: it waits, it starts, it is over": Reviving,
    "a clip that is on air is in the state, and playing": Secretive,
    "attaching gives the state and every event after it, without a gap": Gapped,
    "a second attach takes the events over from the first": Spreading,
    "a request is answered with the identity of a clip that the state has": Mumbling,
    "two requests side by side give two clips": Muddled,
    "the commit of a request is called once": Stuttering,
    "a request whose commit raises is not sent, and what was raised comes out": Rash,
    "a request that is cancelled before its commit is not sent": Rash,
    "the position of a request is passed on as it is, or the request is refused": Queueing,
    "a clip that was moved has its new position, or moving is refused": Rigid,
    "a clip that was removed is told to be over and is not in the state, or is refused": Keeping,
    "whether it plays by itself is as it was set": Stubborn,
    "pausing ends what plays and holds what is queued": Restless,
    "the size of the picture is set, or refused": Pedantic,
    "what makes no sense is refused, and changes nothing": Careless,
    "what is not answered leaves promptly when it is cancelled": Hanging,
    "every picture of a clip comes once and in order, or is counted as lost": Doubling,
    "the sound of a clip comes once and in order": Echoing,
    "a second generation has a higher number and takes the frames over from the first": Flat,
    "ending a generation twice ends it once, and nothing is put into its sink any more": Unending,
    "ending an old generation changes nothing of the new one": Overreaching,
    "what was lost only grows": Recovering,
    "nothing is put into any sink after it was closed, nor after it was left": Boasting,
    "a connection that is lost is told to both sinks, once": Lamenting,
    "a request whose answer is lost raises Lost, with the outcome unknown": Hopeful,
    "what is asked while there is no connection is not submitted": Premature,
    "after a reconnect the new sinks are told everything, and the old ones nothing": Spreading,
    "a reconnect brings a higher generation, and what the old one lost can be told until its "
    "end": Unmoved,
    "a reconnect keeps its identity, and its clips": Renamed,
    "one that was closed does not reconnect": Undead,
    "a reconnect that is not answered leaves promptly": SlowToReconnect,
    "what it is given is heard by the other side, once and in order": Lisping,
    "a piece of input that is refused raises Refused, and the next is heard": Offended,
    "input for a connection that is lost raises Lost": Patient,
    "input for one that was closed raises what is expected": Puzzled,
    "input that is not answered leaves promptly when it is cancelled": Obstinate,
}


# ------------------------------------------------------------------- more ways to break some rules


class Grumbling(Good):
    """Refuses a position, and queues at the end all the same."""

    async def enqueue(
        self, request: ClipRequest, /, *, position: int | None = None, commit: Commit
    ) -> str:
        clip = await self.inner.enqueue(request, commit=commit)
        if position is not None:
            raise Refused("this provider has no positions", outcome="replied")
        return clip


class Shrugging(MutantRig):
    """Does not say of what it cannot adopt that it did not open."""

    @asynccontextmanager
    async def open(self, predecessor: Predecessor) -> AsyncGenerator[Source]:
        adopt = predecessor.adopt
        if adopt is not None and adopt.source not in self.provider.allocated:
            raise Lost("there is no such session")
        async with super().open(predecessor) as source:
            yield source


class Rejuvenated(Good):
    """Says that what it has adopted has its whole life before it."""

    @property
    def lifetime(self) -> float:
        return 60.0


class Rechristened(Good):
    @property
    def id(self) -> str:
        return f"a new {self.inner.id}"


class Limp(Good):
    """Shows nothing once it is adopted."""

    async def open_media(self, sink: MediaSink, /) -> Media:
        adopted = self.inner.predecessor.adopt is not None
        return await self.inner.open_media(Ear() if adopted else sink)


class Empty(MutantRig):
    async def terminate(self, record: AllocationRecord, /) -> Any:
        await super().terminate(record)


class Idle(MutantRig):
    """Says that it has ended what it leaves alone."""

    async def terminate(self, record: AllocationRecord, /) -> Cleanup:
        await trio.lowlevel.checkpoint()
        return Cleanup.of(
            record.source, allocation="owned", termination="confirmed", connection="closed"
        )


class Repeating(Good):
    """Sends a piece once more when it can."""

    async def send_input(self, data: bytes, /) -> None:
        await self.inner.send_input(data)
        if data == b"five":
            await self.inner.send_input(data)


def rig_of(mutant: type[MutantRig | Good]) -> MutantRig:
    if issubclass(mutant, MutantRig):
        return mutant()

    rig = MutantRig()
    rig.source = mutant
    return rig


def test_there_is_a_mutant_for_every_case() -> None:
    assert list(MUTANTS) == [case.sentence for case in CASES]


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_a_mutant_is_found_by_the_case_that_names_its_rule(
    autojump_clock: object, case: Case
) -> None:
    rig = rig_of(MUTANTS[case.sentence])
    with pytest.raises(Nonconforming) as caught:
        await case.run(rig)
    assert caught.value.required == case.sentence
    assert caught.value.subject.startswith("the mutant")
    assert case.sentence in str(caught.value)


OTHERS: list[tuple[str, type[MutantRig | Good]]] = [
    ("an end that the other side announces is told, and no other", Gloomy),
    ("an end that the other side announces is told, and no other", Dated),
    ("the position of a request is passed on as it is, or the request is refused", Grumbling),
    ("what has ended, or never was, is not adopted: OpenFailed, and nothing is left", Shrugging),
    ("what was left behind is adopted as it was, and nothing is allocated beside it", Rejuvenated),
    ("what was left behind is adopted as it was, and nothing is allocated beside it", Rechristened),
    ("what was adopted works, and closing it proves that it has ended", Limp),
    ("what was left behind is terminated, which is proven, also when it is asked again", Empty),
    ("what was left behind is terminated, which is proven, also when it is asked again", Idle),
    ("what it is given is heard by the other side, once and in order", Repeating),
    ("a piece of input that is refused raises Refused, and the next is heard", Insistent),
    ("input for one that was closed raises what is expected", Patient),
]


@pytest.mark.parametrize(("sentence", "mutant"), OTHERS)
async def test_a_case_finds_every_way_to_break_its_rule(
    autojump_clock: object, sentence: str, mutant: type[MutantRig | Good]
) -> None:
    (case,) = [case for case in CASES if case.sentence == sentence]
    with pytest.raises(Nonconforming) as caught:
        await case.run(rig_of(mutant))
    assert caught.value.required == sentence


class Unplaced(Good):
    """Has no positions, and says so."""

    async def enqueue(
        self, request: ClipRequest, /, *, position: int | None = None, commit: Commit
    ) -> str:
        if position is not None:
            await trio.lowlevel.checkpoint()
            raise Refused("this provider has no positions", outcome="replied")
        return await self.inner.enqueue(request, commit=commit)


async def test_a_provider_that_refuses_positions_conforms(autojump_clock: object) -> None:
    @asynccontextmanager
    async def environment() -> AsyncGenerator[MutantRig]:
        yield rig_of(Unplaced)

    assert len(await run_all(MutantRig, environment)) == len(CASES)


async def test_what_is_wrapped_and_not_mutated_conforms(autojump_clock: object) -> None:
    @asynccontextmanager
    async def environment() -> AsyncGenerator[MutantRig]:
        yield MutantRig()

    told: list[str] = []
    hold = await run_all(MutantRig, environment, told.append)
    assert len(hold) == len(CASES)
    assert told == [f"holds: {sentence}" for sentence in hold]


async def test_all_that_is_broken_is_told_at_once(autojump_clock: object) -> None:
    @asynccontextmanager
    async def environment() -> AsyncGenerator[MutantRig]:
        async with trio.open_nursery():
            yield rig_of(Fickle)

    told: list[str] = []
    with pytest.raises(ExceptionGroup, match="the mutant does not conform") as caught:
        await run_all(MutantRig, environment, told.append)
    assert len(told) == len(CASES)
    assert "does not hold: closing it twice gives the same evidence" in told
    broken = {getattr(each, "required", None) for each in caught.value.exceptions}
    assert "closing it twice gives the same evidence" in broken
    assert "its lifetime is None or a finite number of seconds, more than 0" not in broken


def test_a_case_that_needs_what_a_rig_cannot_cause_does_not_apply() -> None:
    class Modest(SimulationRig):
        capabilities = frozenset({"mortal"})
        fall_silent = Rig.fall_silent

    applying = [case for case in CASES if case.applies_to(Modest)]
    assert not any(case.needs - {"mortal"} - optionals(Rig) for case in applying)
    assert not any("fall_silent" in case.needs for case in applying)
    assert any("end" in case.needs for case in applying)
