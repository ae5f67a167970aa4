"""One owner, and everything that can happen to it at once, in an order that is given.

There is an attempt that is opening, with the task that acquires it and one that joins it; a thing
that a task holds in a block; another that retires badly; and a worker.  What then happens is said
as an `Order` of the actions in `ACTIONS`; `play` lets it happen and checks what must hold.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import trio
from owner_story import Adapter, Thing, caught, leaves_of, opened

from trio_reactor.errors import Closed, Failed, Lost, ReactorError, Retired
from trio_reactor.owner import Attempt, open_owner
from trio_reactor.testing import Order, Simulation

__all__ = ["ACTIONS", "Play"]

ACTIONS: Final = (
    "cancel-caller",
    "cancel-joiner",
    "open",
    "refuse",
    "close",
    "cancel-outside",
    "die",
    "crash",
    "retire",
)

ENDS: Final = ("close", "cancel-outside", "crash")
"""What makes the owner stop, and in the end close."""

CALLER: Final[Mapping[str, str]] = {
    "cancel-caller": "cancelled",
    "open": "value",
    "refuse": "refusal",
    **dict.fromkeys(ENDS, "Closed"),
}
JOINER: Final[Mapping[str, str]] = {
    "cancel-joiner": "cancelled",
    "cancel-caller": "Retired",
    "open": "value",
    "refuse": "Failed",
    **dict.fromkeys(ENDS, "Closed"),
}
HOLDER: Final[Mapping[str, str]] = {"die": "Lost", **dict.fromkeys(ENDS, "Retired")}


class Play:
    """One performance.

    Args:
        order: What happens.
        defects: Whether the thing that dies and the one that retires do so by a defect.
    """

    def __init__(self, order: Order, *, defects: bool) -> None:
        self.order = order
        kind: type[Exception] = Adapter if defects else OSError
        self.refusal = ConnectionRefusedError("refusal")
        self.death = kind("death")
        self.complaint = kind("complaint")
        self.crash = Adapter("crash")
        self.expected: list[BaseException] = [self.refusal]
        if not defects:
            self.expected += [self.death, self.complaint]
        self.happened: list[BaseException] = []
        """The failures that were raised, by whoever they belong to."""
        self.told: dict[str, object] = {}
        """What each task got."""
        self.wrong: list[str] = []
        self.body = "returned"
        self.caller, self.joiner, self.outside = (trio.CancelScope() for _ in range(3))
        self.go, self.strike = trio.Event(), trio.Event()
        self.opens: bool | None = None
        self.things: list[Thing] = []
        self.over = False
        self.late: set[str] = set()
        """Who got it when close was over, and may have been told by it."""

    def __repr__(self) -> str:
        return f"Play(Order.parse('{self.order}'), defects={self.death not in self.expected})"

    async def __call__(self, sim: Simulation) -> None:
        """Let it happen, then check."""
        async with trio.open_nursery() as tasks:
            release = trio.Event()
            with caught() as leaving, self.outside:
                async with open_owner(world=sim.world) as self.owner:
                    await self._set_up(tasks)
                    # What happens comes from outside, and goes on when the body is over.
                    tasks.start_soon(self._happen, tasks, release)
                    try:
                        await release.wait()
                    except trio.Cancelled:
                        self.body = "cancelled"
                        raise
            self.over = True
        self._check(leaving)

    # ------------------------------------------------------------------------------- what there is

    async def _set_up(self, tasks: trio.Nursery) -> None:
        owner = self.owner
        self.dying = self._thing("dying")
        self.retiring = await owner.acquire(
            opened(self._thing("retiring", complains=self.complaint))
        )
        tasks.start_soon(self._tell, "holder", trio.CancelScope(), self._hold)
        owner.start_soon(self._work)
        tasks.start_soon(self._tell, "caller", self.caller, self._acquire)
        await trio.testing.wait_all_tasks_blocked()
        self.opening = next(each for each in owner._ledger.attempts if each.name == "opening")
        tasks.start_soon(self._tell, "joiner", self.joiner, self.opening.wait_opened)
        await trio.testing.wait_all_tasks_blocked()

    def _thing(self, name: str, **how: object) -> Thing:
        play = self

        class Watched(Thing):
            async def __aenter__(self) -> Thing:
                if name == "opening":
                    await play.go.wait()
                    if not play.opens:
                        play.happened.append(play.refusal)
                        raise play.refusal
                return await super().__aenter__()

            async def __aexit__(self, *error: object) -> bool | None:
                if play.over:
                    play.wrong.append(f"{name} outlived the block")
                if name == "retiring":
                    play.happened.append(play.complaint)
                return await super().__aexit__(*error)  # type: ignore[arg-type]

        thing = Watched(name=name, **how)  # type: ignore[arg-type]
        self.things.append(thing)
        return thing

    async def _acquire(self) -> Attempt[Thing]:
        def factory() -> Thing:
            if self.owner.stopping.is_set:
                self.wrong.append("acquired although stopping")
            return self._thing("opening")

        attempt = await self.owner.acquire(factory, name="opening")
        if not attempt.held:
            self.wrong.append("handed over although it was not held")
        return attempt

    async def _hold(self) -> None:
        async with self.owner.hold(opened(self.dying), name="dying"):
            await trio.sleep_forever()

    async def _work(self) -> None:
        await self.strike.wait()
        self.happened.append(self.crash)
        raise self.crash

    async def _tell(
        self, who: str, scope: trio.CancelScope, fn: Callable[[], Awaitable[object]]
    ) -> None:
        with scope:
            try:
                self._note(who, await fn())
            except trio.Cancelled:
                self._note(who, "cancelled")
                raise
            except BaseException as error:  # noqa: BLE001 - it is what was told
                self._note(who, error)

    def _note(self, who: str, what: object) -> None:
        if who in self.told:
            self.wrong.append(f"{who} was told twice")
        self.told[who] = what
        if self.owner.report is not None:
            self.late.add(who)

    # ------------------------------------------------------------------------------- what happens

    async def _happen(self, tasks: trio.Nursery, release: trio.Event) -> None:
        await self.order.play(
            {
                "cancel-caller": self.caller.cancel,
                "cancel-joiner": self.joiner.cancel,
                "open": lambda: self._go(opens=True),
                "refuse": lambda: self._go(opens=False),
                "close": lambda: self._tell("closer", trio.CancelScope(), self.owner.close),
                "cancel-outside": self.outside.cancel,
                "die": self._die,
                "crash": self.strike.set,
                "retire": lambda: self._tell("retirer", trio.CancelScope(), self._retire),
            },
            tasks,
        )
        release.set()

    def _go(self, *, opens: bool) -> None:
        if self.opens is None:
            self.opens = opens
            self.go.set()

    def _die(self) -> None:
        if self.dying.is_open:

            async def die() -> None:
                # Whoever is cancelled before it runs does not die.
                self.happened.append(self.death)
                raise self.death

            self.dying._nursery.start_soon(die)

    async def _retire(self) -> None:
        await self.owner.retire(self.retiring)

    # ------------------------------------------------------------------------------ what must hold

    def _check(self, leaving: caught) -> None:
        assert self.wrong == []
        owner = self.owner
        statistics = owner.statistics()
        left = (statistics.opening, statistics.held, statistics.leaving, statistics.workers)
        assert left == (0, 0, 0, 0)
        assert owner.closing.is_set
        assert owner.stopping.is_set
        assert owner.report is not None
        for thing in self.things:
            assert not thing.is_open
            assert thing.exits == sum(note.endswith(" open") for note in thing.notes)
            if thing.exits:
                assert thing.entered_by is thing.left_by
        self._check_told()
        self._check_raised(leaving)

    def _check_told(self) -> None:
        """Each task got exactly one thing, and one that the order allows."""
        assert {"caller", "joiner", "holder"} <= set(self.told)
        for who, table in (("caller", CALLER), ("joiner", JOINER), ("holder", HOLDER)):
            what = self.told[who]
            allowed = self._allowed(table, "Retired" if who == "holder" else "Closed")
            assert self._name(what) in allowed, f"{who} got {what!r}, not one of {allowed}"

    def _allowed(self, table: Mapping[str, str], otherwise: str) -> set[str]:
        """What the first block allows that decides; in the end the body returns."""
        for block in self.order.blocks:
            decisive = {table[name] for name in block if name in table}
            if decisive:
                return decisive
        return {otherwise}

    def _name(self, what: object) -> str:
        if isinstance(what, str):
            return what
        if what is self.refusal:
            return "refusal"
        if isinstance(what, BaseException):
            return type(what).__name__
        return "value"

    def _check_raised(self, leaving: caught) -> None:
        """No failure is lost, and none told twice."""
        owner = self.owner
        terminal = owner.failure
        assert terminal in (None, self.crash)
        if terminal is None and self.crash in self.happened:
            assert owner.report is not None
            assert "Adapter" in [failure.type for failure in owner.report.failures]
        raised = leaving.leaves
        assert len(raised) == len({id(leaf) for leaf in raised})
        assert not any(isinstance(leaf, trio.Cancelled) for leaf in raised)
        originals: list[BaseException] = []
        causes: dict[bool, list[BaseException]] = {True: [], False: []}
        for who, what in self.told.items():
            if not isinstance(what, BaseException) or who == "closer":
                continue
            if isinstance(what, ReactorError):
                assert isinstance(what, Closed | Retired | Lost | Failed)
                causes[who in self.late] += leaves_of(what.__cause__)
            else:
                originals += leaves_of(what)
        for failure in self.happened:
            assert originals.count(failure) <= 1
            theirs = failure in originals or failure in causes[False]
            if failure not in self.expected:
                assert failure in raised, f"{failure!r} was not told by close"
            elif theirs:
                assert failure not in raised, f"{failure!r} was told twice"
            else:
                assert failure in [*raised, *causes[True]], f"{failure!r} was lost"
        assert set(raised) <= set(self.happened)
        if terminal is not None:
            assert raised[0] is terminal
            if len(raised) == 1:
                assert leaving.error is terminal, repr(leaving.error)
        else:
            assert leaving.error is None or isinstance(leaving.error, BaseExceptionGroup)
        told_by_close = [leaf for leaf in raised if leaf is not terminal]
        assert owner.report is not None
        assert len(owner.report.failures) == len(told_by_close)
