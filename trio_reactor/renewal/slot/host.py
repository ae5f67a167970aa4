"""What a slot needs of the chain it belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from trio_reactor.renewal.allocation.allocations import Allocations
from trio_reactor.renewal.events import LossReason
from trio_reactor.renewal.media.output import MediaOutput
from trio_reactor.renewal.options import RenewalOptions
from trio_reactor.renewal.source import SourceEvent
from trio_reactor.world import World

from .clips import Unfinished
from .settings import Wanted

if TYPE_CHECKING:
    from .slot import Slot

__all__ = ["Pending", "SlotHearing", "SlotHost"]


class Pending(Protocol):
    """A command that was given to a slot's source and is not answered yet."""

    def give_up(self) -> None:
        """End it, because its source has: no answer will come."""
        ...


class SlotHearing(Protocol):
    """Who hears what a slot has to tell.  Everything is synchronous."""

    def opened(self, slot: Slot) -> None:
        """The slot is open and set up."""
        ...

    def lost(self, slot: Slot, why: LossReason, cause: BaseException | None) -> None:
        """Something of a slot that lives was lost."""
        ...

    def told(self, slot: Slot, event: SourceEvent) -> None:
        """The slot has taken an event of its source."""
        ...

    def forgot(self, slot: Slot, lost: Unfinished) -> None:
        """The slot's source does not know one of its clips any more."""
        ...

    def leaving(self, slot: Slot) -> None:
        """The slot begins to close its source, whether it was asked to by its chain or not."""
        ...

    def failed(self, slot: Slot, defect: Exception) -> None:
        """The slot's adapter has a defect, which is terminal."""
        ...


class SlotHost(Wanted, Protocol):
    """What a slot needs of the chain it belongs to.  Everything is synchronous."""

    @property
    def hearing(self) -> SlotHearing:
        """Who hears what it has to tell."""
        ...

    @property
    def on_air(self) -> Slot | None:
        """The slot that feeds the output now."""
        ...

    @property
    def name(self) -> str:
        """What the renewal is called."""
        ...

    @property
    def allocations(self) -> Allocations | None:
        """Where allocations are recorded; `None` if they are not."""
        ...

    @property
    def world(self) -> World:
        """Its clock and its chance."""
        ...

    @property
    def options(self) -> RenewalOptions:
        """Its budgets."""
        ...

    @property
    def has_check(self) -> bool:
        """Whether a source is to be checked before it goes on air."""
        ...

    @property
    def output(self) -> MediaOutput:
        """Where frames go."""
        ...

    @property
    def close_deadline(self) -> float:
        """When everything has to have left, on the clock."""
        ...

    def is_taken(self, identity: str) -> bool:
        """Whether a live source has this identity."""
        ...

    def changed(self) -> None:
        """Look again at what decides."""
        ...
