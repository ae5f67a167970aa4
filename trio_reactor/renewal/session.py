"""The handle of a renewal: one logical session, whichever source it comes from."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Generic, TypeVar, final, overload

from trio_reactor.channel import Publisher, Subscription
from trio_reactor.errors import Failed
from trio_reactor.events import Event
from trio_reactor.owner import Owner

from .access.borrowing import Borrow, Borrowing
from .access.demand import Demand
from .access.upstream import Bytes, Upstream
from .chain.chain import Chain
from .engine.commands import Commands
from .engine.engine import Engine
from .engine.submission import Accepted, SequenceMember, Submission
from .events import SourceRef
from .media.output import Pressure
from .media.receiver import MediaReceiver
from .sequences.view import Sequences
from .source import (
    AudioFrame,
    ClipRequest,
    S_co,
    VideoFrame,
)
from .state import RenewalState, state_of
from .statistics import BorrowStatistics, InputStatistics, RenewalStatistics
from .summary import RenewalReport

__all__ = ["Renewal"]

A = TypeVar("A", bound=Event)
B = TypeVar("B", bound=Event)
C = TypeVar("C", bound=Event)


@final
class Renewal(Generic[S_co]):
    """One unbroken logical session out of sources of one kind.  Made by `open_renewal`."""

    def __init__(self, owner: Owner, chain: Chain, publisher: Publisher) -> None:
        self._owner = owner
        self._chain = chain
        self._borrowing = Borrowing(owner, chain)
        self._demand = Demand(owner, chain, self._borrowing)
        self._upstream: Upstream | None = None
        """Made for the first piece of input: most have none."""
        self._engine = Engine(owner, chain)
        self._commands = Commands(owner, chain, self._engine)
        self._sequences = Sequences(chain.sequences)
        self.events = publisher
        """Everything it has to say, in order."""

    # ------------------------------------------------------------------------------------ reading

    @property
    def name(self) -> str:
        """What it is called in messages and events."""
        return self._owner.name

    @property
    def video(self) -> MediaReceiver[VideoFrame]:
        """The pictures of the session, across all its sources; one reader at a time.

        Raises:
            Refused: The source on air plays no clips, and so gives none: nothing would ever come.
        """
        self._engine.check_plays()
        return self._chain.output.video

    @property
    def audio(self) -> MediaReceiver[AudioFrame]:
        """The sound of the session, across all its sources; one reader at a time.

        Raises:
            Refused: The source on air plays no clips, and so gives none: nothing would ever come.
        """
        self._engine.check_plays()
        return self._chain.output.audio

    def pressure(self) -> Pressure:
        """What is queued for the readers, and what the sources lost; exact.

        Raises:
            LossesUnknown: What was lost cannot be told.
        """
        return self._chain.output.pressure()

    def statistics(self) -> RenewalStatistics:
        """What the outputs, the borrowers and the input come to.  Readable at any time."""
        output, borrowing = self._chain.output.statistics(), self._borrowing
        return RenewalStatistics(
            output.video,
            output.audio,
            BorrowStatistics(borrowing.lent, borrowing.waiting),
            InputStatistics() if self._upstream is None else self._upstream.statistics(),
        )

    @property
    def state(self) -> RenewalState:
        """Where it stands now; readable after close.

        Raises:
            Failed: It has failed; afresh for every caller, from the original.
        """
        if self._owner.failure is not None and not self._owner.closing.is_set:
            raise Failed(f"{self.name} has failed") from self._owner.failure
        return state_of(self._owner, self._chain)

    @overload
    def observe(
        self, *, capacity: int = ...
    ) -> AbstractContextManager[tuple[RenewalState, Subscription[Event]]]: ...
    @overload
    def observe(
        self, a: type[A], /, *, capacity: int = ...
    ) -> AbstractContextManager[tuple[RenewalState, Subscription[A]]]: ...
    @overload
    def observe(
        self, a: type[A], b: type[B], /, *, capacity: int = ...
    ) -> AbstractContextManager[tuple[RenewalState, Subscription[A | B]]]: ...
    @overload
    def observe(
        self, a: type[A], b: type[B], c: type[C], /, *, capacity: int = ...
    ) -> AbstractContextManager[tuple[RenewalState, Subscription[A | B | C]]]: ...
    @overload
    def observe(
        self, *types: type[Event], capacity: int = ...
    ) -> AbstractContextManager[tuple[RenewalState, Subscription[Event]]]: ...
    def observe(
        self, *types: type[Event], capacity: int = 256
    ) -> AbstractContextManager[tuple[RenewalState, Subscription[Event]]]:
        """The present state and every later event of it, with no gap between them.

        Args:
            *types: The events to be given; all if none is named.
            capacity: How many events of the channel a reader may fall behind.
        """
        return self.events.observe(lambda: self.state, *types, capacity=capacity)

    # ------------------------------------------------------------------------------------ borrowing

    def borrow(self) -> Borrow[S_co]:
        """A block that uses the source on air: `async with renewal.borrow() as source`.

        If there is no whole source now, entering waits for the next that is.  A switch does not
        disturb the block: the old source stays until it ends, for as long as its life allows.  If
        the source goes, the block is cancelled and the error comes out of it, as `TooSlowError`
        comes out of `trio.fail_after`.  Leaving does nothing to the source.

        Entering can always be cancelled, and leaves nothing behind then; it yields to other tasks
        only if it has to wait.  Leaving is no checkpoint.  A block can be inside of another.

        Raises:
            SessionRetired: The last source is gone.
            Closed, Failed: The handle is closed, or has failed.
            Lost: Out of the block: the source was lost, or something of it was.
            Expired: Out of the block: its life is over.  If no successor could be opened, why is
                its cause.
            Retired: Out of the block: the renewal has closed, and `cleanup_timeout` was over.
        """
        return Borrow(self._borrowing)

    # ------------------------------------------------------------------------------------- upstream

    async def send_input(self, data: Bytes) -> None:
        """Have a piece of input sent to the source on air, in order, and at most once.

        It returns once the piece is accepted, not once it is sent: input is live, and whoever makes
        it must not wait for a source that changes.  While there is no whole source, what was
        accepted is held for the next, within `max_input_bytes`.  A switch lets the piece under way
        finish.  A piece that was under way when its source was lost is never sent again: an
        `InputLost` says so, and `statistics` counts it.  At close what is held is still sent to the
        source on air, within `cleanup_timeout`.  An empty piece is nothing, and is not sent.

        A piece is taken as it is at the call: its buffer can be used again at once.

        Always a checkpoint; cancelled there, nothing was accepted.

        Raises:
            TypeError: It is not bytes.
            InputOverflow: It does not fit, or too many pieces are held; nothing of it is sent.
            Refused: The source on air is not `Receptive`.
            SessionRetired: The last source is gone.
            Closed, Failed: The handle is closed, or has failed.
        """
        if self._upstream is None:
            self._upstream = Upstream(self._owner, self._chain, self._borrowing)
        await self._upstream.send(data)

    # ----------------------------------------------------------------------------------- commanding

    @property
    def sequences(self) -> Sequences:
        """The sequences of requests that must all be played by one source."""
        return self._sequences

    def prepare(
        self,
        request: ClipRequest,
        *,
        position: int | None = None,
        before: str | None = None,
        same_session_as: str | None = None,
        sequence: SequenceMember | None = None,
    ) -> Submission:
        """Take down a request as it is now, to be submitted later.

        Nothing is sent, bound or reserved by that, and its source is chosen when it is submitted.
        What it names has to be at one source then; what names nothing goes to the prepared source
        if there is one, else to the one on air.

        Args:
            request: What is to be played, in the provider's terms; copied.
            position: Where in the source's queue; at its end by default.
            before: A waiting clip that it is to be played right before.
            same_session_as: A clip whose source is to take it.
            sequence: As what it belongs to a sequence, all of which one source plays.

        Raises:
            ValueError: The payload is not JSON, too deep or too large; a name or the position is
                none; or both a position and a clip to go before are given.  The message says what.
        """
        return self._engine.prepare(
            request,
            position=position,
            before=before,
            same_session_as=same_session_as,
            sequence=sequence,
        )

    async def enqueue(
        self,
        request: ClipRequest,
        *,
        position: int | None = None,
        before: str | None = None,
        same_session_as: str | None = None,
        sequence: SequenceMember | None = None,
    ) -> Accepted:
        """Have a clip played: `prepare` and `submit` in one.

        If it is cancelled before the request is sent, nothing is sent.  After that the request goes
        on without its caller, and what comes of it is told by events.  If it is not known what
        became of it, its source is replaced, and it is never sent again.  That holds for every
        command; each is answered within `reply_timeout`, or its outcome is unknown.

        Args:
            request: What is to be played, in the provider's terms.
            position: Where in the source's queue; at its end by default.
            before: A waiting clip that it is to be played right before.
            same_session_as: A clip whose source is to take it.
            sequence: As what it belongs to a sequence, all of which one source plays.

        Raises:
            ValueError: What it is given makes no sense; see `prepare`.
            ReactorError: What became of it otherwise; see `Submission.submit`.
        """
        submission = self.prepare(
            request,
            position=position,
            before=before,
            same_session_as=same_session_as,
            sequence=sequence,
        )
        return await submission.submit()

    async def set_autoplay(self, enabled: bool) -> None:
        """Whether what is ready is played without being asked for; on until it is set.

        It is kept, and applied to every later source when it goes on air, unless the provider
        refuses it: then what was wanted before is.  Cancelling only leaves: it is kept, and told.

        Raises:
            ValueError: It is neither `True` nor `False`.
            Refused: The source on air plays no clips, and it is not kept; or the provider said no.
            SessionRecovering: It is kept, and no source could be told now.
            SessionRetired: The last source is gone.
            QueueFull: It is kept, and told later; too many commands are pending.
            ReactorError: What telling it came to; see `pause_and_stop`.
            Closed, Failed: The handle is closed, or has failed.
        """
        await self._commands.set_autoplay(enabled)

    async def pause_and_stop(self) -> None:
        """End what is playing on the source on air, and hold what is queued there.

        Cancelled before it is sent, nothing is sent; after that it goes on without its caller.

        Raises:
            SessionRecovering: No source is on air.
            SessionRetired: The last source is gone.
            QueueFull: Too many commands are pending.
            Refused: The provider said no, or the source on air plays no clips.
            RouteChanged: The source takes no commands any more; nothing was sent.
            Lost, TimedOut: The source was lost, or did not answer within `reply_timeout`.  If the
                `outcome` is unknown, the source is replaced.
            Closed, Failed: The handle is closed, or has failed.
        """
        await self._commands.pause_and_stop()

    async def remove(self, clip: str) -> None:
        """Take a clip out of the queue of the source that has it.

        Cancelled before it is sent, nothing is sent; after that it goes on without its caller.

        Raises:
            ValueError: It is no name of a clip.
            ClipUnknown, ClipNotQueued: No source has it, or it is over.
            ContractBroken: Two sources have a clip of this name.
            SessionRetired: Its source is gone.
            SessionRecovering: Its source takes no commands now.
            ReactorError: As for `pause_and_stop`.
        """
        await self._commands.remove(clip)

    async def move(self, clip: str, position: int) -> None:
        """Give a clip another position in the queue of the source that has it.

        Cancelled before it is sent, nothing is sent; after that it goes on without its caller.

        Raises:
            ValueError: It is no name of a clip, or no position.
            ReactorError: As for `remove`.
        """
        await self._commands.move(clip, position)

    async def set_canvas(self, width: int, height: int) -> None:
        """Set the size of the picture, in pixels; returns once the source on air has taken it.

        It is kept, and applied to every later source before it goes on air, unless the provider
        refuses it: then what was wanted before is.  A prepared source is told after the one on air,
        and is replaced if it refuses.  Cancelling only leaves: it is kept, and told.

        Raises:
            ValueError: A side is no whole number of pixels, 1 at least.
            Refused: The source on air plays no clips, and it is not kept; or the provider said no.
            SessionRecovering: It is kept, and no source could be told now.
            SessionRetired: The last source is gone.
            QueueFull: It is kept, and told later; too many commands are pending.
            ReactorError: As for `pause_and_stop`.
        """
        await self._commands.set_canvas(width, height)

    async def renew(self, reason: str) -> SourceRef:
        """Have a successor take over at the next boundary; returns once it is on air.

        What takes over was opened after this was asked for, and so with what was set until then, a
        new credential say.  Requests for which nothing has begun to open are one.  If a successor
        opens already, it takes over as it was to, and one more follows it.  Cancelling only leaves:
        the successor comes.

        Args:
            reason: Why, in the application's words, for `RenewalWanted`.

        Raises:
            ValueError: The reason is not Unicode text of at most 1024 characters.
            NotRenewing: Renewal was stopped.
            RuntimeError: Called inside a block that borrows, and that source would have to leave
                before there is room for what is asked for.
            Closed, Failed: The handle is closed, or has failed.
        """
        return await self._demand.renew(reason)

    async def stop_renewal(self) -> None:
        """Prepare no successors any more; the source on air stays to its end, then the output ends.

        A preparation under way is cancelled and joined.  Cancelling only leaves.

        Raises:
            Closed, Failed: The handle is closed, or has failed.
        """
        self._owner.check()
        await self._chain.stop_renewing()

    # -------------------------------------------------------------------------------------- closing

    async def close(self) -> RenewalReport:
        """Close it: every source is retired, once, and nothing is acquired any more.

        However many tasks ask, it runs once; a task that is cancelled here leaves, and it goes on.

        Returns:
            What became of every source.

        Raises:
            RuntimeError: Called from inside one of its own tasks, or inside a block that borrows.
            BaseExceptionGroup: What went wrong that nobody has received.
        """
        self._borrowing.check_outside()
        await self._owner.close()
        return self._chain.ledger.report()

    @property
    def report(self) -> RenewalReport | None:
        """What became of every source; `None` until it is closed."""
        return None if self._owner.report is None else self._chain.ledger.report()
