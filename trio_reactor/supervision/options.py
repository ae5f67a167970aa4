"""What can be set about a supervisor, with units and bounds."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field, model_validator

from trio_reactor.options import Options

from .execution.protocol import OrphanPolicy
from .model.work import UNLIMITED, Limits

__all__ = ["MAX_DURATION", "SupervisorOptions"]

MAX_DURATION = 31_536_000.0
"""A year, in seconds: what is longer is a mistake of unit."""

_Positive = Annotated[float, Field(gt=0, le=MAX_DURATION)]
_Count = Annotated[int, Field(ge=1)]


class SupervisorOptions(Options):
    """The options of `open_supervisor`; all of them are checked before anything is opened.

    Raises:
        pydantic.ValidationError: A `ValueError` that names each option that is wrong or unknown.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    lease: _Positive = 30.0
    """Seconds from its opening, or its last renewal, that a session lives unless it asks for
    another lease."""

    max_lease: _Positive = 3600.0
    """The longest lease, in seconds, that a session may ask for."""

    grace: Annotated[float, Field(ge=0, le=MAX_DURATION)] = 5.0
    """Seconds that an execution has to end when it is asked to, before it is killed."""

    confirmation_timeout: _Positive = 5.0
    """Seconds within which the end of a killed execution must be observed."""

    start_timeout: _Positive = 30.0
    """Seconds that a load may wait for its turn among `max_starting`, and then that a child may
    take to exist and to be registered; one that is not by then ends itself."""

    load_timeout: _Positive = 60.0
    """Seconds that the code may take to load."""

    hang_timeout: _Positive | None = None
    """Seconds without a sign of life after which a loaded execution is stopped, unless its load
    says otherwise; `None`: it may be silent."""

    recovery_timeout: _Positive = 60.0
    """Seconds that all that an earlier supervisor left behind may take to be ended at the start,
    `grace` and `confirmation_timeout` bounding each."""

    margin: Annotated[float, Field(ge=0, le=MAX_DURATION)] | None = None
    """Seconds beyond its lease that a host which shares the journal is waited for before its keys
    are taken: at least what two machines' clocks may differ in a lease, and a child may take to end
    at its deadline.  `None`: a tenth of that lease, and at least one second."""

    orphaned: OrphanPolicy = "kill"
    """What becomes of children whose supervisor is gone: they end at once (`kill`), or live to
    their deadline and are taken over by the next supervisor (`adopt`)."""

    limits: Limits = UNLIMITED
    """What an execution may use at most; a session may ask for less."""

    max_sessions: _Count = 10_000
    """Sessions at one time that are not stopped."""

    max_starting: _Count = 64
    """Executions that may be starting at one time, those of loads that were given up included until
    they have ended; others wait."""

    max_stopped: _Count = 1_024
    """Stopped sessions whose records are kept; the oldest beyond that are forgotten."""

    max_transitions: _Count = 65_536
    """Transitions that may wait for the journal; those that stop and end sessions, at most two of
    each, are taken beyond it too."""

    max_detail: _Count = 8_192
    """Characters of a stack that are recorded, and of what failing code said; of that, never more
    than `events.MAX_DETAIL`."""

    @model_validator(mode="after")
    def _lease_is_allowed(self) -> SupervisorOptions:
        if self.lease > self.max_lease:
            raise ValueError(f"lease ({self.lease}) is longer than max_lease ({self.max_lease})")
        return self
