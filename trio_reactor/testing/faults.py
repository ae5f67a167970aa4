"""Faults by plan: what goes wrong, where, and at which try.

A `Plan` is pure data, written by hand or drawn from a seed.  It names *places*, which are whatever
a fake calls them (`"open"`, `"reply"`, `"write"`), and says what becomes of the nth time something
happens there:

    Plan({"open": {1: Fails(), 3: Slow(2.0)}, "life": {2: Fails("lost", after=7.5)}})

`Faults` interprets a plan.  A fake asks it, in the shape that suits what it does:

- `await faults.meet("open")` where something can wait: it passes, is slow, never comes back or
  fails.  In a task beside a held thing, `await faults.meet("life")` is a loss at any moment;
- `with faults.around("write"):` around a change that is made in one step: it is refused, or the
  change is made and its answer lost, or the process dies before or after it;
- `Wire(faults, "reply", deliver, nursery).send(message)` for what is sent: on time, late, twice,
  out of order or never;
- `faults.at("anything")` gives the fault itself.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Generic, Literal, NoReturn, TypeAlias, TypeVar, final

import msgspec
import trio

from trio_reactor.errors import Lost, Refused, TimedOut
from trio_reactor.fence import Fence

__all__ = [
    "Crashed",
    "Crashes",
    "Fails",
    "Failure",
    "Fault",
    "Faults",
    "Jump",
    "Never",
    "Plan",
    "Slow",
    "Swapped",
    "Twice",
    "Wire",
]

T = TypeVar("T")

Failure: TypeAlias = Literal["refused", "lost", "timed-out", "defect"]
"""`Refused`, `Lost`, `TimedOut`, or a `RuntimeError` that nobody expects."""


class Fails(msgspec.Struct, frozen=True, tag=True):
    """It fails."""

    failure: Failure = "refused"
    after: float = 0.0
    """Seconds until it does."""
    done: bool = False
    """Whether its effect took place all the same, so that only the answer is lost."""


class Slow(msgspec.Struct, frozen=True, tag=True):
    """It succeeds, this many seconds late."""

    seconds: float


class Never(msgspec.Struct, frozen=True, tag=True):
    """It never comes back; a message never arrives."""


class Twice(msgspec.Struct, frozen=True, tag=True):
    """A message arrives twice."""


class Swapped(msgspec.Struct, frozen=True, tag=True):
    """A message arrives after the one that is sent next."""

    seconds: float = 1.0
    """How long it waits for that one at most."""


class Crashes(msgspec.Struct, frozen=True, tag=True):
    """The process dies there: this try and later ones raise `Crashed`, until `Faults.restart`."""

    done: bool = False
    """Whether the change took place before it died."""


Fault: TypeAlias = Fails | Slow | Never | Twice | Swapped | Crashes


class Jump(msgspec.Struct, frozen=True):
    """The wall clock is set, as clocks in life are."""

    at: float
    """Virtual seconds since the run began."""
    by: float
    """Seconds forward, or back if negative."""


class Plan(msgspec.Struct, frozen=True):
    """What goes wrong in a run.  Everything else goes well."""

    faults: Mapping[str, Mapping[int, Fault]] = {}
    """By place, by the number of the try there, from 1."""
    jumps: tuple[Jump, ...] = ()

    @classmethod
    def draw(
        cls,
        chance: random.Random,
        menu: Mapping[str, Sequence[Fault]],
        *,
        rate: float = 0.2,
        tries: int = 20,
        jump: Jump | None = None,
    ) -> Plan:
        """Draw a plan.

        Args:
            chance: What it is drawn from.
            menu: What can go wrong at each place.  Seconds in it are the most that is drawn.
            rate: The chance, from 0 to 1, that a try goes wrong.
            tries: How many tries at each place may go wrong; later ones go well.
            jump: How late and how far, in either direction, the wall clock jumps at most, if it
                does, with the same chance.
        """
        faults: dict[str, dict[int, Fault]] = {}
        for place, choices in menu.items():
            for number in range(1, tries + 1):
                if chance.random() < rate:
                    fault = _scaled(chance.choice(choices), chance)
                    faults.setdefault(place, {})[number] = fault
        jumps: tuple[Jump, ...] = ()
        if jump is not None and chance.random() < rate:
            at, by = chance.uniform(0, jump.at), chance.uniform(-jump.by, jump.by)
            jumps = (Jump(round(at, 3), round(by, 3)),)
        return cls(faults, jumps)


def _scaled(fault: Fault, chance: random.Random) -> Fault:
    """The fault with its seconds drawn from 0 up to what they are; whole milliseconds read best."""
    match fault:
        case Fails(failure, after, done):
            return Fails(failure, round(chance.uniform(0, after), 3), done)
        case Slow(seconds):
            return Slow(round(chance.uniform(0, seconds), 3))
        case Swapped(seconds):
            return Swapped(round(chance.uniform(0, seconds), 3))
        case Never() | Twice() | Crashes():
            return fault


class Crashed(Exception):
    """The process that is simulated has died; whatever it still does changes nothing."""


@final
class Faults:
    """A plan at work: counts the tries at each place and says what becomes of them.

    Args:
        plan: What goes wrong; nothing by default.
        struck: Called with the place, the number of the try and the fault whenever one strikes.
    """

    def __init__(
        self, plan: Plan | None = None, *, struck: Callable[[str, int, Fault], None] | None = None
    ) -> None:
        self.plan = Plan() if plan is None else plan
        self.tries: Counter[str] = Counter()
        """How often each place was passed so far."""
        self._struck = struck
        self._dead: set[str] = set()
        self._crashed = Fence("the simulated process")

    @property
    def crashed(self) -> Fence:
        """Up from a crash until `restart`, so that who plays the process can wait for its end."""
        return self._crashed

    def restart(self) -> None:
        """Bring back the places that died; the tries there go on counting."""
        self._dead.clear()
        self._crashed = Fence("the simulated process")

    def at(self, place: str) -> Fault | None:
        """Count a try at a place; returns what goes wrong with it, or `None` if nothing does.

        Raises:
            Crashed: If the process died at this place before.
        """
        if place in self._dead:
            raise Crashed(f"the process died at {place!r} before")
        self.tries[place] += 1
        number = self.tries[place]
        fault = self.plan.faults.get(place, {}).get(number)
        if fault is not None and self._struck is not None:
            self._struck(place, number, fault)
        return fault

    async def meet(self, place: str) -> None:
        """Pass a place where one can wait.  Always a checkpoint; may be cancelled.

        Raises:
            Refused: And `Lost`, `TimedOut` or `RuntimeError`, as the plan says.
            Crashed: If the process dies here or died here before.
            ValueError: If the plan has a fault here that only befalls messages.
        """
        fault = self.at(place)
        match fault:
            case None:
                await trio.lowlevel.checkpoint()
            case Fails(after=seconds):
                await trio.sleep(seconds)
                raise _failure(place, fault)
            case Slow(seconds):
                await trio.sleep(seconds)
            case Never():
                await trio.sleep_forever()
            case Crashes():
                await trio.lowlevel.checkpoint()
                self._crash(place)
            case Twice() | Swapped():
                raise ValueError(f"{fault} at {place!r}, which no message passes")

    @contextmanager
    def around(self, place: str) -> Generator[None]:
        """Make a change in one step, inside of the block; not, or not hear of it, as planned.

        Raises:
            Refused: And `Lost`, `TimedOut` or `RuntimeError`, as the plan says.
            Crashed: If the process dies here or died here before.
            ValueError: If the plan has a fault here that takes time or only befalls messages.
        """
        fault = self.at(place)
        match fault:
            case None:
                yield
            case Fails(after=0.0, done=done):
                if done:
                    yield
                raise _failure(place, fault)
            case Crashes(done):
                if done:
                    yield
                self._crash(place)
            case _:
                raise ValueError(f"{fault} at {place!r}, where nothing can wait")

    def _crash(self, place: str) -> NoReturn:
        self._dead.add(place)
        self._crashed.set(f"crashed at {place!r}")
        raise Crashed(f"the process died at {place!r}")


def _failure(place: str, fault: Fails) -> Exception:
    match fault.failure:
        case "refused":
            return Refused(f"{place}: refused as planned", outcome="replied", retryable=True)
        case "lost":
            return Lost(f"{place}: lost as planned", outcome="unknown")
        case "timed-out":
            return TimedOut(f"{place}: timed out as planned", outcome="unknown")
        case "defect":
            return RuntimeError(f"{place}: a defect as planned")


@final
class Wire(Generic[T]):
    """What is sent over it arrives as planned: at once, late, twice, out of order or never.

    Args:
        faults: The plan at work.
        place: What the messages pass.
        deliver: What takes a message that arrives, synchronously.
        nursery: Where those that are late wait; cancelling it loses them.
    """

    def __init__(
        self, faults: Faults, place: str, deliver: Callable[[T], None], nursery: trio.Nursery
    ) -> None:
        self._faults = faults
        self._place = place
        self._deliver = deliver
        self._nursery = nursery
        self._swapped: list[list[T]] = []

    def send(self, message: T) -> None:
        """Send a message; what arrives at once arrives before this returns.

        Raises:
            ValueError: If the plan has a fault here that does not befall messages.
        """
        fault = self._faults.at(self._place)
        match fault:
            case None:
                self._arrive(message)
            case Slow(seconds):
                self._nursery.start_soon(self._late, message, seconds)
            case Twice():
                self._arrive(message)
                self._arrive(message)
            case Swapped(seconds):
                waiting = [message]
                self._swapped.append(waiting)
                self._nursery.start_soon(self._unswapped, waiting, seconds)
            case Never():
                pass
            case Fails() | Crashes():
                raise ValueError(f"{fault} at {self._place!r}, which only messages pass")

    def _arrive(self, message: T) -> None:
        overtaken, self._swapped = self._swapped, []
        self._deliver(message)
        for waiting in overtaken:
            self._release(waiting)

    def _release(self, waiting: list[T]) -> None:
        if waiting:
            self._deliver(waiting.pop())

    async def _late(self, message: T, seconds: float) -> None:
        await trio.sleep(seconds)
        self._arrive(message)

    async def _unswapped(self, waiting: list[T], seconds: float) -> None:
        await trio.sleep(seconds)
        self._release(waiting)
